//! What is left of snapshots when packs are lost: all that was not in these.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tabane_storage::{Name, ObjectKind};
use tabane_store::browse::Browser;
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::chunker::Chunking;
use tabane_store::entry::{Kind, Piece};
use tabane_store::repair::{RepairOptions, Repaired};
use tabane_store::snapshot::Snapshot;
use tabane_store::{Id, Progress, Repository};
use tempfile::TempDir;

use crate::common::memory::{MemoryStorage, Objects};
use crate::common::tree::{random_bytes, small_tree, text, write};
use crate::common::{
    assert_clean, assert_restores, back_up, compare, id, init_options, init_with, open,
    restore_options, restore_with, scratch,
};

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// A repository with three snapshots, and what each should restore.
struct Sample {
    _dir: TempDir,
    source: PathBuf,
    objects: Objects,
    made: Vec<(Id, Contents)>,
}

impl Sample {
    fn new() -> Self {
        let dir = scratch();
        let source = dir.path().join("source");
        small_tree(&source, 1);
        write(source.join("large/random"), &random_bytes(2, 1_500_000));
        write(source.join("large/text"), &text(1_500_000));
        let storage = MemoryStorage::default();
        let options = init_options().chunking(Chunking::Fixed { len: 16 << 10 });
        let repository = init_with(storage.clone(), options);
        let mut made = Vec::new();
        for seed in 0..3 {
            write(source.join("changes"), &random_bytes(seed, 100_000));
            write(source.join(format!("new {seed}/file")), b"something new");
            made.push((
                id(&back_up(&repository, &[&source])),
                compare::contents(&source),
            ));
        }
        Self {
            _dir: dir,
            source,
            objects: storage.objects(),
            made,
        }
    }

    fn packs(&self) -> Vec<Name> {
        let names = self.objects.keys().copied();
        names.filter(|name| name.kind == ObjectKind::Pack).collect()
    }

    /// The expected contents of a repaired snapshot when some blocks are lost; `None` if its root
    /// is lost.
    fn expected(&self, number: usize, lost: &HashSet<Id>) -> Option<Contents> {
        let repository = open(MemoryStorage::new(self.objects.clone()));
        let (id, contents) = &self.made[number];
        let root = repository.load_snapshot(*id).unwrap().root;
        if is_lost(&root, lost) {
            return None;
        }
        let mut browser = Browser::new(&repository).unwrap();
        let mut found = Contents::new();
        let mut directories = vec![(PathBuf::from("/"), root)];
        while let Some((above, content)) = directories.pop() {
            if is_lost(&content, lost) {
                continue;
            }
            for entry in browser.directory(&content).unwrap() {
                let mut path = above.join(OsStr::from_bytes(&entry.name));
                match entry.kind {
                    Kind::Directory { content } => directories.push((path, content)),
                    Kind::File { content, .. } => {
                        let name = path.strip_prefix(&self.source).unwrap();
                        let mut bytes = contents[name].clone();
                        let mut at = 0;
                        for piece in &content {
                            let end = at + piece.len() as usize;
                            if is_lost(std::slice::from_ref(piece), lost) {
                                bytes[at..end].fill(0);
                            }
                            at = end;
                        }
                        if is_lost(&content, lost) {
                            path.as_mut_os_string().push(".repaired");
                        }
                        let name = path.strip_prefix(&self.source).unwrap();
                        found.insert(name.to_owned(), bytes);
                    }
                    _ => {}
                }
            }
        }
        Some(found)
    }
}

fn is_lost(content: &[Piece], lost: &HashSet<Id>) -> bool {
    let mut blocks = content.iter().filter_map(Piece::block);
    blocks.any(|block| lost.contains(&block))
}

fn snapshots(repository: &Repository) -> Vec<(Id, Snapshot)> {
    let listing = repository.snapshots(&Default::default()).unwrap();
    assert!(listing.damaged.is_empty());
    listing.snapshots
}

fn repair(repository: &Arc<Repository>, forget: bool, dry_run: bool) -> Vec<Repaired> {
    let options = RepairOptions::default().forget(forget).dry_run(dry_run);
    let report = repository.repair_snapshots(options, &snapshots(repository));
    report.unwrap().repaired
}

/// What can be read below the source in a snapshot.
fn restored(repository: &Arc<Repository>, id: Id, source: &Path) -> Contents {
    let target = scratch();
    restore_with(repository, id, restore_options(target.path()));
    let below = target.path().join(source.strip_prefix("/").unwrap());
    if below.exists() {
        compare::contents(&below)
    } else {
        Contents::new()
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Deleted,
    CutShort,
    /// One byte, so far from its beginning in hundredths.
    Flipped(usize),
}

#[test]
fn all_is_left_that_was_not_in_the_pack_that_is_lost() {
    let sample = Sample::new();
    let (mut damaged_files, mut lost_directories, mut lost_snapshots) = (0, 0, 0);
    for pack in sample.packs() {
        for damage in [
            Damage::Deleted,
            Damage::CutShort,
            Damage::Flipped(30),
            Damage::Flipped(99),
        ] {
            let what = format!("{pack} {damage:?}");
            let storage = MemoryStorage::new(sample.objects.clone());
            let mut bytes = sample.objects[&pack].clone();
            match damage {
                Damage::Deleted => storage.remove(pack),
                Damage::CutShort => storage.set(pack, bytes[..bytes.len() / 2].to_vec()),
                Damage::Flipped(place) => {
                    let at = bytes.len() * place / 100;
                    bytes[at] ^= 1;
                    storage.set(pack, bytes);
                }
            }
            let repository = open(storage.clone());
            let all = repository.list(ObjectKind::Pack).unwrap();
            let all: Vec<Id> = all.into_iter().map(|(id, _)| id).collect();
            repository
                .repair_packs(RepairOptions::default(), &all, |_, _| Ok(()))
                .unwrap();
            repository.repair_index(RepairOptions::default()).unwrap();
            let index = repository.load_index().unwrap();
            let pristine = open(MemoryStorage::new(sample.objects.clone()));
            let lost: HashSet<Id> = pristine
                .load_index()
                .unwrap()
                .blocks()
                .map(|block| block.unwrap().0)
                .filter(|block| index.find(block).unwrap().is_none())
                .collect();

            let before = storage.objects();
            let planned = repair(&repository, true, true);
            assert!(storage.objects() == before, "a dry run wrote something");
            let report = {
                let options = RepairOptions::default().forget(true).dry_run(false);
                repository
                    .repair_snapshots(options, &snapshots(&repository))
                    .unwrap()
            };
            let losses = |repaired: &[Repaired]| -> Vec<_> {
                repaired.iter().map(|one| (one.old, one.lost)).collect()
            };
            assert_eq!(losses(&planned), losses(&report.repaired));
            assert_clean(&repository);
            for (number, (old, _)) in sample.made.iter().enumerate() {
                let Some(expected) = sample.expected(number, &lost) else {
                    lost_snapshots += 1;
                    assert!(report.unreadable.contains(old), "{what}");
                    continue;
                };
                let repaired = report.repaired.iter().find(|one| one.old == *old);
                let now = repaired.map_or(*old, |one| one.new.unwrap());
                let found = restored(&repository, now, &sample.source);
                assert!(found == expected, "{what}, snapshot {number}");
                let Some(repaired) = repaired else {
                    assert!(expected == sample.made[number].1, "{what}");
                    continue;
                };
                damaged_files += repaired.lost.damaged_files;
                lost_directories += repaired.lost.lost_directories;
                let snapshot = repository.load_snapshot(now).unwrap();
                assert_eq!(snapshot.tags, ["repaired"]);
                assert_eq!(snapshot.original, Some(*old));
                assert!(repository.load_snapshot(*old).is_err());
            }
            assert!(repair(&repository, true, false).is_empty(), "{what}");
            // What is still at its source is taken for new, though it looks as it did.
            let next = id(&back_up(&repository, &[&sample.source]));
            assert_restores(&repository, next, &sample.source, &sample.source);
            assert_clean(&repository);
        }
    }
    assert!(
        damaged_files > 0 && lost_directories > 0 && lost_snapshots > 0,
        "{damaged_files} files, {lost_directories} directories, {lost_snapshots} snapshots"
    );
}

/// Writes down what it is told.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<String>>);

impl Progress for Notes {
    fn note(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }
}

#[test]
fn old_snapshots_stay_unless_they_are_to_be_forgotten_and_nothing_is_made_twice() {
    let sample = Sample::new();
    let storage = MemoryStorage::new(sample.objects.clone());
    let largest = sample.packs().into_iter();
    let largest = largest.max_by_key(|pack| sample.objects[pack].len());
    storage.remove(largest.unwrap());
    let repository = open(storage.clone());
    let notes = Arc::new(Notes::default());
    let all = snapshots(&repository);
    let options = RepairOptions::default();
    let report = repository
        .with_progress(Arc::clone(&notes))
        .repair_snapshots(options, &all)
        .unwrap();
    let first = report.repaired;
    assert_eq!(first.len(), 3);
    // Each damaged file is named once, though three snapshots have it.
    let notes = notes.0.lock().unwrap();
    let named = notes.iter().filter(|note| note.contains("large/random"));
    assert_eq!(named.count(), 1, "{notes:#?}");
    assert_eq!(snapshots(&repository).len(), 6);
    assert_eq!(repair(&repository, false, false), first);
    assert_eq!(snapshots(&repository).len(), 6);
    assert_eq!(repair(&repository, true, false), first);
    assert_eq!(snapshots(&repository).len(), 3);
    // The index still names the pack, and nobody needs it.
    let checked = repository.check(CheckOptions::default().read_data(ReadData::All));
    assert_eq!(checked.unwrap().problems, 1);
    repository.repair_index(RepairOptions::default()).unwrap();
    assert_clean(&repository);
}
