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
use crate::access::repository::Repository;
use crate::operations::salvage::salvage;
use tabane_format::entry::{self, Entry, Piece};
use tabane_format::key::{self, KeyKind};
use tabane_format::pack::{self, PackContents};
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
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
    /// Full keys that can be read: as many passwords open the repository.
    pub keys: u64,
    /// Write-only keys that can be read.
    pub write_only_keys: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Objects of the index.
    pub index_objects: u64,
    /// Packs that the index names.
    pub packs: u64,
    /// Packs that only write-only keys have said something of: the next prune verifies them.
    pub unverified_packs: u64,
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
    /// How many of these are that the repository is older than what this machine has seen, or lacks
    /// snapshots that it has seen.
    pub rolled_back: u64,
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
    /// Problems are reported one by one and counted; they are no error. With a write-only key,
    /// keys, index and packs are looked at, and no snapshot.
    ///
    /// # Errors
    /// [`Error::WriteOnly`] for data or snapshots; when the storage cannot be listed.
    pub fn check(&self, options: CheckOptions) -> Result<CheckReport> {
        if options.read_data != ReadData::Nothing || !options.snapshots.is_empty() {
            self.keys().need_master("checking what snapshots hold")?;
        }
        let run = Arc::new(Run {
            // What is kept on this machine says nothing about the storage.
            repository: self.without_local_copies(),
            problems: AtomicU64::new(0),
            bad_blocks: Mutex::default(),
        });
        let mut report = CheckReport::default();
        let ((keys, recalled), (_presence, objects)) = both(
            self.is_far(),
            || {
                let recall = || self.recall();
                both(self.is_far(), || check_keys(&run), recall)
            },
            || {
                // So that no prune takes packs away meanwhile. A repository that cannot be written
                // to cannot be pruned from here, and can be checked.
                let presence = Presence::announce(self, Purpose::Restore);
                (presence, read_objects(&run, &options.snapshots))
            },
        );
        keys?.count(&mut report);
        let recalled = recalled?;
        if let Some(recalled) = &recalled {
            for sentence in recalled.rollback.sentences() {
                run.problem(&sentence);
                report.rolled_back += 1;
            }
        }
        let Objects {
            removals,
            announced,
            mut snapshots,
            contents,
            unverified,
            packs,
        } = objects?.count(&run, &mut report);
        snapshots.sort_by_key(|(id, snapshot)| snapshot.order(*id));
        let (packs, index) =
            check_packs(&run, &contents, &unverified, packs, &removals, &mut report)?;
        report.packs = contents.len() as u64;
        report.unverified_packs = unverified.len() as u64;
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
        if let Some(recalled) = recalled {
            recalled.remember(self, None);
        }
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

/// Numbers of keys that can be read.
#[derive(Default)]
struct Keys {
    full: u64,
    write_only: u64,
}

impl Keys {
    fn count(self, report: &mut CheckReport) {
        (report.keys, report.write_only_keys) = (self.full, self.write_only);
    }
}

fn check_keys(run: &Run) -> Result<Keys> {
    let repository = &run.repository;
    let is_far = repository.is_far();
    let (faults, (is_migrated, listed)) = both(
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
    let mut keys = Keys::default();
    for key in listed?.keys {
        match key.file.kind {
            KeyKind::Full => keys.full += 1,
            KeyKind::WriteOnly => keys.write_only += 1,
        }
    }
    Ok(keys)
}

type Contents = Arc<HashMap<Id, PackContents>>;

/// What is read of a repository but for its packs.
struct Objects {
    removals: Removals,
    announced: Vec<Snapshot>,
    snapshots: Vec<(Id, Snapshot)>,
    contents: Contents,
    /// Packs of which only write-only keys have said something.
    unverified: HashSet<Id>,
    packs: Vec<(Id, u64)>,
}

/// As [`Objects`], with what is damaged.
struct Read {
    removals: BTreeMap<Id, Result<Removal>>,
    announced: BTreeMap<Id, Result<Snapshot>>,
    snapshots: BTreeMap<Id, Result<Option<Snapshot>>>,
    unverified: BTreeMap<Id, Result<IndexSegment>>,
    index: BTreeMap<Id, Result<IndexSegment>>,
    packs: Vec<Listed>,
}

/// Lists and reads all objects but packs; of snapshots, those that are `chosen`, all if there are
/// none, but none with a write-only key.
fn read_objects(run: &Run, chosen: &[Id]) -> Result<Read> {
    let repository = &run.repository;
    let is_far = repository.is_far();
    let kinds = [
        ObjectKind::Removal,
        ObjectKind::Pending,
        ObjectKind::Snapshot,
        ObjectKind::Unverified,
        ObjectKind::Index,
        ObjectKind::Pack,
    ];
    let read = repository.read_at_one_moment(
        kinds,
        || Ok(None),
        |lists| {
            let [removals, pending, snapshots, unverified, index, _] = lists;
            let read_pending = |id| repository.load_snapshot_from(ObjectKind::Pending, id);
            let read_snapshot = |id| {
                let is_chosen = chosen.is_empty() || chosen.contains(&id);
                let is_chosen = is_chosen && !repository.is_write_only();
                is_chosen.then(|| repository.load_snapshot(id)).transpose()
            };
            let read_index = || {
                let read = |id| repository.read_index_segment(id);
                let read_unverified = |id| repository.read_unverified(id);
                both(
                    is_far,
                    || repository.read_each_listed(unverified, read_unverified),
                    || repository.read_each_listed(index, read),
                )
            };
            let (of_snapshots, (of_removals, of_index)) = both(
                is_far,
                || {
                    both(
                        is_far,
                        || repository.read_each_listed(pending, read_pending),
                        || repository.read_each_listed(snapshots, read_snapshot),
                    )
                },
                || {
                    both(
                        is_far,
                        || repository.read_each_listed(removals, |id| repository.read_removal(id)),
                        read_index,
                    )
                },
            );
            let of_packs = (of_removals?, of_index.0?, of_index.1?);
            let (Some(announced), Some(snapshots)) = (of_snapshots.0?, of_snapshots.1?) else {
                return Ok(None);
            };
            let (Some(removals), Some(unverified), Some(index)) = of_packs else {
                return Ok(None);
            };
            Ok(Some(Read {
                removals,
                announced,
                snapshots,
                unverified,
                index,
                packs: Vec::new(),
            }))
        },
    )?;
    let ([_, _, _, _, _, packs], read) = read.ok_or(Error::RemovedMeanwhile)?;
    Ok(Read { packs, ..read })
}

impl Read {
    /// Counts and reports.
    fn count(self, run: &Run, report: &mut CheckReport) -> Objects {
        let mut removals = BTreeMap::new();
        for (id, removal) in self.removals {
            match removal {
                Ok(removal) => drop(removals.insert(id, removal)),
                // A full key replaces it before it counts.
                Err(Error::WriteOnly(_)) => {}
                Err(error) => run.error(&error),
            }
        }
        let mut snapshots = Vec::new();
        if run.repository.is_write_only() {
            report.snapshots = self.snapshots.len() as u64;
        }
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
        let mut contents = claims(run, self.unverified);
        let mut unverified: HashSet<Id> = contents.keys().copied().collect();
        for segment in self.index.into_values() {
            report.index_objects += 1;
            match segment {
                Ok(segment) => {
                    segment
                        .iter()
                        .for_each(|(pack, _)| _ = unverified.remove(pack));
                    contents.extend(segment);
                }
                Err(error) => run.error(&error),
            }
        }
        let packs = self.packs.into_iter();
        Objects {
            removals: Removals(removals),
            announced: self.announced.into_values().flatten().collect(),
            snapshots,
            contents: Arc::new(contents),
            unverified,
            packs: packs.map(|pack| (pack.id, pack.len)).collect(),
        }
    }
}

/// What write-only keys say of packs. Where they say different things, the pack itself tells.
fn claims(run: &Run, said: BTreeMap<Id, Result<IndexSegment>>) -> HashMap<Id, PackContents> {
    let (mut contents, mut disputed) = (HashMap::new(), HashSet::new());
    let repository = &run.repository;
    for (id, packs) in said {
        match packs {
            // Those of other write-only keys cannot be read with one.
            Ok(packs) if packs.is_empty() && !repository.is_write_only() => {
                let name = Name::new(ObjectKind::Unverified, id);
                let why = "somebody who has no key has put it there";
                run.problem(&format_args!(
                    "{name} is nothing that a write-only key made: {why}"
                ));
            }
            Ok(packs) => {
                for (pack, said) in packs {
                    let others = contents.insert(pack, said.clone());
                    disputed.extend(others.filter(|other| *other != said).map(|_| pack));
                }
            }
            Err(error) => run.error(&error),
        }
    }
    for pack in disputed {
        let name = Name::new(ObjectKind::Pack, pack);
        run.problem(&format_args!(
            "{name}: write-only keys say different things of it"
        ));
        match pack::fetch_contents(repository.storage(), repository.keys(), pack) {
            Ok(own) => drop(contents.insert(pack, own)),
            Err(error) => run.error(&error),
        }
    }
    contents
}

/// Compares the packs that are there with those that the index names; returns those in both with
/// their lengths, and the index of their blocks.
fn check_packs(
    run: &Run,
    contents: &HashMap<Id, PackContents>,
    unverified: &HashSet<Id>,
    listed: Vec<(Id, u64)>,
    removals: &Removals,
    report: &mut CheckReport,
) -> Result<(Vec<(Id, u64)>, Index)> {
    let condemned = removals.condemned();
    let there: HashMap<Id, u64> = listed.iter().copied().collect();
    let (mut index, mut lost) = (Index::default(), Vec::new());
    let mut unverified_index = Index::default();
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
                let index = if unverified.contains(id) {
                    &mut unverified_index
                } else {
                    &mut index
                };
                if let Err(error) = index.add(*id, pack) {
                    run.error(&error.into());
                }
            }
        }
    }
    index.add_unverified(unverified_index)?;
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
    // A write-only key does not know those of others.
    if unreferenced > 0 && !run.repository.is_write_only() {
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
        let what = match snapshot.writer {
            None => format!("snapshot {}", id.short()),
            Some(writer) => {
                let writer = writer.short();
                format!("snapshot {}, of the write-only key {writer}", id.short())
            }
        };
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
    let why = |block: &Id, len| match index.find_of_len(block, len) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_packs_are_chosen_as_were_asked_for() {
        let packs: Vec<(Id, u64)> = (0..10).map(|number| (Id([number; 32]), 100)).collect();
        for (read_data, count) in [
            (ReadData::Nothing, 0),
            (ReadData::Percent(0.1), 1),
            (ReadData::Percent(25.0), 3),
            (ReadData::Percent(100.0), 10),
            (ReadData::Bytes(1), 1),
            (ReadData::Bytes(400), 4),
            (ReadData::Bytes(u64::MAX), 10),
            (ReadData::All, 10),
        ] {
            let chosen = choose(read_data, packs.clone());
            assert_eq!(chosen.len(), count, "{read_data:?}");
            assert!(chosen.iter().all(|pack| packs.contains(pack)));
        }
        // Those that are chosen at random differ, and each pack is in one part.
        let random = || choose(ReadData::Percent(50.0), packs.clone());
        let first = random();
        assert!((0..100).any(|_| random() != first));
        let parts =
            (1..=3).flat_map(|number| choose(ReadData::Part { number, of: 3 }, packs.clone()));
        let mut parts: Vec<_> = parts.collect();
        parts.sort();
        assert_eq!(parts, packs);
    }
}
