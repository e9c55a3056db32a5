//! Is everything there, and is it what was written?

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use crate::access::client::{Presence, Purpose};
use crate::access::examine::Examiner;
use crate::access::reach::{Reach, is_whole};
use crate::access::reader::{self, BlockReader};
use crate::access::removal::{Removal, Removals};
use crate::access::repository::{READ_ATTEMPTS_MAX, Repository};
use crate::error::{Error, Result};
use crate::format::entry::{self, Entry, Piece};
use crate::format::key;
use crate::format::pack::PackContents;
use crate::format::snapshot::Snapshot;
use crate::operations::salvage::salvage;
use tabane_index::{Index, IndexSegment};
use tabane_storage::Id;
use tabane_storage::sync::{both, lock};
use tabane_storage::{Listed, Name, ObjectKind};

/// What is checked.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Which packs are read, of those that the snapshots need.
    pub read_data: ReadData,
    /// Which snapshots; all if there are none. With some, packs that these do not need are not
    /// looked at, unless the index names them and they are not there.
    pub snapshots: Vec<Id>,
}

tabane_storage::setters!(CheckOptions {
    set => read_data: ReadData,
    each snapshot => snapshots: Id,
});

/// Which packs are read and compared with their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReadData {
    /// None: only the structure is checked.
    #[default]
    Nothing,
    /// All.
    All,
    /// The `number`-th of `of` parts, from 1; each pack is in one part, whatever else there is.
    Part {
        /// Which part.
        number: u32,
        /// How many there are.
        of: u32,
    },
    /// As many as this share of all, chosen at random.
    Percent(f64),
    /// As many as have this many bytes together, chosen at random.
    Bytes(u64),
}

/// What was looked at, and how many problems there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Keys that can be read: as many passwords open the repository.
    pub keys: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Objects of the index.
    pub index_objects: u64,
    /// Packs that the index names.
    pub packs: u64,
    /// Blocks that the index names.
    pub blocks: u64,
    /// Packs that were read.
    pub read_packs: u64,
    /// Bytes that were read of them.
    pub read_bytes: u64,
    /// Packs that no index names.
    pub unreferenced_packs: u64,
    /// Things that are wrong.
    pub problems: u64,
}

struct Run {
    repository: Repository,
    problems: AtomicU64,
    /// Blocks that were read and found to be damaged.
    bad_blocks: Mutex<HashSet<Id>>,
}

impl Run {
    fn error(&self, error: &Error) {
        self.problem(&error.to_string());
    }

    /// Fails if the check was cancelled.
    fn go_on(&self) -> Result<()> {
        if self.repository.progress().is_cancelled() {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    fn problem(&self, what: &dyn std::fmt::Display) {
        self.problems.fetch_add(1, Ordering::Relaxed);
        self.repository.progress().problem(&what.to_string());
    }
}

impl Repository {
    /// Checks whether everything is there, and is what was written.
    ///
    /// Problems are reported one by one and counted; they are no error.
    ///
    /// # Errors
    /// When the storage cannot be listed.
    pub fn check(&self, options: CheckOptions) -> Result<CheckReport> {
        let run = Arc::new(Run {
            // What is kept on this machine says nothing about the storage.
            repository: self.without_local_copies(),
            problems: AtomicU64::new(0),
            bad_blocks: Mutex::default(),
        });
        let mut report = CheckReport::default();
        let (keys, (_presence, objects)) = both(
            self.is_far(),
            || check_keys(&run),
            || {
                // So that no prune takes packs away meanwhile. A repository that cannot be written
                // to cannot be pruned from here, and can be checked.
                let presence = Presence::announce(self, Purpose::Restore);
                (presence, read_objects(&run, &options.snapshots))
            },
        );
        report.keys = keys?;
        let Objects {
            removals,
            announced,
            mut snapshots,
            contents,
            packs,
        } = objects?.count(&run, &mut report);
        snapshots.sort_by_key(|(id, snapshot)| (snapshot.time, *id));
        let (packs, index) = check_packs(&run, &contents, packs, &removals, &mut report)?;
        report.packs = contents.len() as u64;
        report.blocks = index.len();
        let packs = if options.snapshots.is_empty() || options.read_data == ReadData::Nothing {
            packs
        } else {
            needed(&run, &index, &snapshots, &contents, packs)
        };
        let chosen = choose(options.read_data, packs);
        report.read_packs = chosen.len() as u64;
        report.read_bytes = read_packs(&run, chosen, &contents);
        run.go_on()?;
        // In the end, so that the files that damaged blocks belong to can be named.
        check_snapshots(&run, &index, snapshots, &announced)?;
        report.problems = run.problems.load(Ordering::Relaxed);
        if report.unreferenced_packs > 0 {
            let why = match report.problems {
                0 => "an interrupted backup left them, or one is running; no snapshot needs them",
                _ => "what is missing may be in them",
            };
            let count = report.unreferenced_packs;
            run.repository.progress().note(&format!(
                "{count} pack(s) are in no index that could be read: {why}"
            ));
        }
        Ok(report)
    }
}

fn check_keys(run: &Run) -> Result<u64> {
    let repository = &run.repository;
    let is_far = repository.is_far();
    let (faults, (is_migrated, keys)) = both(
        is_far,
        || repository.faults_of_config_and_keys(),
        || {
            let list = || key::list(repository.storage());
            both(is_far, || repository.is_migrated_in_part(), list)
        },
    );
    for fault in faults? {
        run.problem(&fault);
    }
    if is_migrated? {
        let progress = repository.progress();
        progress.note("a migration of this repository was interrupted: migrate it again");
    }
    Ok(keys?.keys.len() as u64)
}

type Contents = Arc<HashMap<Id, PackContents>>;

/// What is read of a repository but for its packs.
struct Objects {
    removals: Removals,
    announced: Vec<Snapshot>,
    snapshots: Vec<(Id, Snapshot)>,
    contents: Contents,
    packs: Vec<(Id, u64)>,
}

/// As [`Objects`], with what is damaged.
struct Read {
    removals: BTreeMap<Id, Result<Removal>>,
    announced: BTreeMap<Id, Result<Snapshot>>,
    snapshots: BTreeMap<Id, Result<Option<Snapshot>>>,
    index: BTreeMap<Id, Result<IndexSegment>>,
    packs: Vec<Listed>,
}

/// Lists and reads all objects but packs; of snapshots, those that are `chosen`, all if there are
/// none.
fn read_objects(run: &Run, chosen: &[Id]) -> Result<Read> {
    let repository = &run.repository;
    let is_far = repository.is_far();
    for _ in 0..READ_ATTEMPTS_MAX {
        // Snapshots before the index: so the index knows all that they need, even if a backup ends
        // meanwhile.
        let [removals, pending, snapshots, index, packs] = repository.list_in_order([
            ObjectKind::Removal,
            ObjectKind::Pending,
            ObjectKind::Snapshot,
            ObjectKind::Index,
            ObjectKind::Pack,
        ])?;
        let read_pending = |id| repository.load_snapshot_from(ObjectKind::Pending, id);
        let read_snapshot = |id| {
            let is_chosen = chosen.is_empty() || chosen.contains(&id);
            is_chosen.then(|| repository.load_snapshot(id)).transpose()
        };
        let (of_snapshots, of_packs) = both(
            is_far,
            || {
                both(
                    is_far,
                    || repository.read_each_listed(&pending, read_pending),
                    || repository.read_each_listed(&snapshots, read_snapshot),
                )
            },
            || {
                both(
                    is_far,
                    || repository.read_each_listed(&removals, |id| repository.read_removal(id)),
                    || repository.read_each_listed(&index, |id| repository.read_index_segment(id)),
                )
            },
        );
        let read = (of_snapshots.0?, of_snapshots.1?, of_packs.0?, of_packs.1?);
        if let (Some(announced), Some(snapshots), Some(removals), Some(index)) = read {
            return Ok(Read {
                removals,
                announced,
                snapshots,
                index,
                packs,
            });
        }
    }
    Err(Error::RemovedMeanwhile)
}

impl Read {
    /// Counts and reports.
    fn count(self, run: &Run, report: &mut CheckReport) -> Objects {
        let mut removals = BTreeMap::new();
        for (id, removal) in self.removals {
            match removal {
                Ok(removal) => drop(removals.insert(id, removal)),
                Err(error) => run.error(&error),
            }
        }
        let mut snapshots = Vec::new();
        for (id, snapshot) in self.snapshots {
            let Some(snapshot) = snapshot.transpose() else {
                continue;
            };
            report.snapshots += 1;
            match snapshot {
                Ok(snapshot) => snapshots.push((id, snapshot)),
                Err(error) => run.error(&error),
            }
        }
        let mut contents = HashMap::new();
        for segment in self.index.into_values() {
            report.index_objects += 1;
            match segment {
                Ok(segment) => contents.extend(segment),
                Err(error) => run.error(&error),
            }
        }
        let packs = self.packs.into_iter();
        Objects {
            removals: Removals(removals),
            announced: self.announced.into_values().flatten().collect(),
            snapshots,
            contents: Arc::new(contents),
            packs: packs.map(|pack| (pack.id, pack.len)).collect(),
        }
    }
}

/// Compares the packs that are there with those that the index names; returns those in both with
/// their lengths, and the index of their blocks.
fn check_packs(
    run: &Run,
    contents: &HashMap<Id, PackContents>,
    listed: Vec<(Id, u64)>,
    removals: &Removals,
    report: &mut CheckReport,
) -> Result<(Vec<(Id, u64)>, Index)> {
    let condemned = removals.condemned();
    let there: HashMap<Id, u64> = listed.iter().copied().collect();
    let (mut index, mut lost) = (Index::default(), Vec::new());
    for (id, pack) in contents {
        let expected = pack.object_len();
        match there.get(id) {
            // A prune was about to take it out of the index too.
            None if condemned.contains(id) => {}
            None => lost.push((id, "it is missing".to_owned())),
            Some(&len) if !run.repository.storage().is_listed_as(len, expected) => {
                lost.push((id, format!("it has {len} bytes and should have {expected}")));
            }
            Some(_) => {
                if let Err(error) = index.add(*id, pack) {
                    run.error(&error.into());
                }
            }
        }
    }
    if !lost.is_empty() {
        run.repository.forget_cached();
    }
    for (id, why) in lost {
        let name = Name::new(ObjectKind::Pack, *id);
        let mut blocks = contents[id]
            .segments
            .iter()
            .flat_map(|segment| &segment.blocks);
        if blocks.all(|(block, _)| index.find(block).is_ok_and(|place| place.is_some())) {
            run.repository.progress().note(&format!(
                "{name}: {why}, but everything in it is stored elsewhere"
            ))
        } else {
            run.problem(&format_args!("{name}: {why}"))
        }
    }
    let unreferenced = listed
        .iter()
        .filter(|(id, _)| !contents.contains_key(id))
        .count();
    if unreferenced > 0 {
        report.unreferenced_packs = unreferenced as u64;
    }
    let known = listed
        .into_iter()
        .filter(|(id, _)| contents.contains_key(id));
    Ok((known.collect(), index))
}

/// Those of `packs` in which a snapshot has a block. What cannot be read is reported later.
fn needed(
    run: &Run,
    index: &Index,
    snapshots: &[(Id, Snapshot)],
    contents: &Contents,
    mut packs: Vec<(Id, u64)>,
) -> Vec<(Id, u64)> {
    let mut reader = BlockReader::of_trees(&run.repository);
    let mut reach = Reach::default();
    for (_, snapshot) in snapshots {
        let _ = reach.add(&mut reader, index, &snapshot.root);
    }
    packs.retain(|(id, _)| {
        let segments = contents[id].segments.iter();
        let mut blocks = segments.flat_map(|segment| &segment.blocks);
        blocks.any(|(block, _)| reach.blocks().contains(block))
    });
    packs
}

/// Reads every directory of every snapshot once, and looks up every block.
fn check_snapshots(
    run: &Run,
    index: &Index,
    snapshots: Vec<(Id, Snapshot)>,
    announced: &[Snapshot],
) -> Result<()> {
    let mut reader = BlockReader::of_trees(&run.repository);
    let mut seen = Seen::default();
    for (id, snapshot) in snapshots {
        let what = format!("snapshot {}", id.short());
        if announced.contains(&snapshot)
            && let Ok(false) = is_whole(&mut reader, index, &snapshot.root)
        {
            let why =
                "whoever made it was stopped before it was confirmed; the next prune removes it";
            run.repository
                .progress()
                .note(&format!("{what} was never finished: {why}"));
            continue;
        }
        check_tree(run, index, &mut reader, &mut seen, snapshot.root, &what)?;
    }
    Ok(())
}

/// What was gone through already, and found.
#[derive(Default)]
struct Seen {
    /// Contents of directories. Those of the same content are the same directory, whatever they are
    /// called.
    directories: HashSet<Vec<Piece>>,
    /// Paths of files with the blocks that are not as they should be.
    bad_files: HashSet<(String, Vec<Id>)>,
}

fn check_tree(
    run: &Run,
    index: &Index,
    reader: &mut BlockReader,
    seen: &mut Seen,
    root: Vec<Piece>,
    what: &str,
) -> Result<()> {
    let mut directories = vec![(String::new(), root)];
    let mut said_before = 0;
    while let Some((path, content)) = directories.pop() {
        run.go_on()?;
        if !seen.directories.insert(content.clone()) {
            continue;
        }
        let entries = match reader.read_directory(index, &content) {
            Ok(entries) => entries,
            Err(error) => {
                run.problem(&format_args!("{what}{path}: {error}"));
                continue;
            }
        };
        for entry in entries {
            let path = format!("{path}/{}", entry.name.escape_ascii());
            if let Some(content) = entry.directory() {
                directories.push((path, content.to_vec()));
                continue;
            }
            let bad = bad_blocks(run, index, &entry);
            let Some((block, why)) = bad.first() else {
                continue;
            };
            let more = match bad.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more of its blocks"),
            };
            let text = format!("{what}{path}: block {block} {why}{more}");
            let blocks = bad.iter().map(|(block, _)| *block).collect();
            if seen.bad_files.insert((path, blocks)) {
                run.problem(&text)
            } else {
                said_before += 1
            }
        }
    }
    if said_before > 0 {
        run.problem(&format_args!(
            "{what}: {said_before} file(s) miss the same as in a snapshot above"
        ));
    }
    Ok(())
}

/// The blocks of a file that are not as they should be, and why not.
fn bad_blocks(run: &Run, index: &Index, entry: &Entry) -> Vec<(Id, String)> {
    let read_badly = lock(&run.bad_blocks);
    let why = |block: &Id, len| match index.find(block) {
        Ok(None) => Some("is missing".to_owned()),
        Ok(Some(location)) if location.len != len => Some("has another length".to_owned()),
        Ok(Some(_)) if read_badly.contains(block) => Some("is damaged".to_owned()),
        Ok(Some(_)) => None,
        Err(error) => Some(error.to_string()),
    };
    entry::blocks(entry)
        .filter_map(|(block, len)| Some((block, why(&block, len)?)))
        .collect()
}

/// The packs to read.
fn choose(read_data: ReadData, mut packs: Vec<(Id, u64)>) -> Vec<(Id, u64)> {
    let total: u64 = packs.iter().map(|(_, len)| len).sum();
    let budget = match read_data {
        ReadData::Nothing => return Vec::new(),
        ReadData::All => return packs,
        ReadData::Part { number, of } => {
            let of = of.max(1);
            let part =
                |id: &Id| u32::from_le_bytes(*id.0.first_chunk().expect("an ID has 32 bytes")) % of;
            packs.retain(|(id, _)| part(id) + 1 == number);
            return packs;
        }
        ReadData::Percent(percent) => (total as f64 * percent / 100.0).ceil() as u64,
        ReadData::Bytes(bytes) => bytes,
    };
    // The names of packs are hashes: to turn the order by a random number shuffles it.
    let turn: [u8; 32] = tabane_storage::random();
    packs.sort_by_key(|(id, _)| {
        let mut key = id.0;
        key.iter_mut()
            .zip(turn)
            .for_each(|(byte, turn)| *byte ^= turn);
        key
    });
    let mut taken = 0;
    packs.retain(|(_, len)| {
        let take = taken < budget;
        taken += if take { *len } else { 0 };
        take
    });
    packs
}

/// Reads packs from end to end and compares every block with its digest; returns how many bytes
/// that were.
fn read_packs(run: &Arc<Run>, packs: Vec<(Id, u64)>, contents: &Contents) -> u64 {
    let total: u64 = packs.iter().map(|(_, len)| len).sum();
    let done = Arc::new(AtomicU64::new(0));
    let pool = reader::pool(&run.repository, Examiner::default);
    for (id, len) in packs {
        let (run, contents, done) = (Arc::clone(run), Arc::clone(contents), Arc::clone(&done));
        pool.submitter().submit(move |examiner, _| {
            if run.go_on().is_err() {
                return;
            }
            if let Err(error) = read_pack(&run, id, &contents[&id], examiner) {
                run.error(&error);
            }
            let done = done.fetch_add(len, Ordering::Relaxed) + len;
            run.repository.progress().bytes(done, total);
        });
    }
    pool.finish();
    done.load(Ordering::Relaxed)
}

/// Reads a pack and compares every block with its digest.
fn read_pack(run: &Run, id: Id, expected: &PackContents, examiner: &mut Examiner) -> Result<()> {
    let name = Name::new(ObjectKind::Pack, id);
    let read = run.repository.storage().get(name, None);
    let bytes = match read.map_err(Error::storage("read", name)) {
        Err(error @ Error::Damaged { .. }) => {
            let lost = salvage(&run.repository, id, expected)?.lost;
            let blocks = lost
                .iter()
                .flat_map(|&number| &expected.segments[number].blocks);
            lock(&run.bad_blocks).extend(blocks.map(|&(block, _)| block));
            return Err(error);
        }
        read => read?,
    };
    let problem = |error, blocks: &[(Id, u32)]| {
        run.error(&error);
        lock(&run.bad_blocks).extend(blocks.iter().map(|&(block, _)| block));
    };
    examiner.examine(
        &run.repository,
        &bytes,
        expected,
        &name.to_string(),
        problem,
    )
}
