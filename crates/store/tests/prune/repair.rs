//! What can be made whole again.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::backup::Parent;
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::repair::RepairOptions;
use tabane_store::{Error, Id};
use tempfile::TempDir;

use crate::common::memory::{MemoryStorage, Objects};
use crate::common::tree::{random_bytes, small_tree, write};
use crate::common::{
    Recorder, assert_clean, assert_restores, back_up, back_up_with, backup_options, id, init, open,
    scratch,
};

/// A repository with three snapshots, of which the last has all of the source.
struct Sample {
    _dir: TempDir,
    source: PathBuf,
    last: Id,
    objects: Objects,
}

impl Sample {
    fn new() -> Self {
        let dir = scratch();
        let source = dir.path().join("source");
        small_tree(&source, 1);
        let storage = MemoryStorage::default();
        let repository = init(storage.clone());
        let mut last = Id::default();
        for seed in 0..3 {
            write(
                source.join(format!("new {seed}")),
                &random_bytes(seed, 50_000),
            );
            last = id(&back_up(&repository, &[&source]));
        }
        Self {
            _dir: dir,
            source,
            last,
            objects: storage.objects(),
        }
    }

    fn names(&self, kind: ObjectKind) -> Vec<Name> {
        let names = self.objects.keys().copied();
        names.filter(|name| name.kind == kind).collect()
    }
}

#[test]
fn any_part_of_the_index_is_made_anew() {
    let sample = Sample::new();
    let index = sample.names(ObjectKind::Index);
    assert_eq!(index.len(), 3);
    // Each alone, and all at once, missing or damaged.
    let sets = index.iter().map(|name| vec![*name]).chain([index.clone()]);
    for (number, set) in sets.enumerate() {
        for damage in [None, Some(&b"TABANEI\x01 and then nothing"[..])] {
            let storage = MemoryStorage::new(sample.objects.clone());
            for name in &set {
                match damage {
                    None => storage.remove(*name),
                    Some(bytes) => storage.set(*name, bytes.to_vec()),
                }
            }
            let repository = open(storage.clone());
            let before = storage.objects();
            let planned = repository
                .repair_index(RepairOptions::default().dry_run(true))
                .unwrap();
            assert!(storage.objects() == before, "a dry run wrote something");
            let report = repository.repair_index(RepairOptions::default()).unwrap();
            assert_eq!(report, planned);
            assert!(report.added_packs >= 2 * set.len() as u64, "set {number}");
            assert_eq!(report.unreadable_packs, 0);
            assert_clean(&repository);
            assert_restores(&repository, sample.last, &sample.source, &sample.source);
            let again = repository.repair_index(RepairOptions::default()).unwrap();
            assert_eq!((again.added_packs, again.replaced_objects), (0, 0));
        }
    }
}

#[test]
fn a_sound_index_is_left_alone_unless_all_packs_are_to_be_read() {
    let sample = Sample::new();
    let storage = MemoryStorage::new(sample.objects.clone());
    let repository = open(storage.clone());
    repository.repair_index(RepairOptions::default()).unwrap();
    assert!(storage.objects() == sample.objects);
    let report = repository
        .repair_index(RepairOptions::default().all_packs(true))
        .unwrap();
    assert_eq!(report.read_packs, report.packs);
    assert_eq!(report.replaced_objects, 3);
    assert_clean(&repository);
}

#[test]
fn packs_that_are_gone_are_named_no_more() {
    let sample = Sample::new();
    let storage = MemoryStorage::new(sample.objects.clone());
    let lost = sample.names(ObjectKind::Pack)[0];
    storage.remove(lost);
    let repository = open(storage);
    let report = repository.repair_index(RepairOptions::default()).unwrap();
    assert_eq!((report.lost_packs, report.replaced_objects), (1, 1));
    let index = repository.read_index().unwrap();
    assert!(index.values().flatten().all(|(pack, _)| *pack != lost.id));
}

#[test]
fn what_is_sound_in_a_damaged_pack_is_saved() {
    let sample = Sample::new();
    let (mut saved, mut lost) = (0, 0);
    for name in sample.names(ObjectKind::Pack) {
        let whole = sample.objects[&name].clone();
        for at in [3, 41, whole.len() / 2, whole.len() - 30, whole.len() - 1] {
            let storage = MemoryStorage::new(sample.objects.clone());
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            storage.set(name, bytes.clone());
            let repository = open(storage.clone());
            let all: Vec<Id> = repository
                .list(ObjectKind::Pack)
                .unwrap()
                .into_iter()
                .map(|(id, _)| id)
                .collect();
            let before = storage.objects();
            let never = |_, _: &[u8]| panic!("nothing is removed in a dry run");
            let found = repository
                .repair_packs(RepairOptions::default().dry_run(true), &all, never)
                .unwrap();
            assert!(storage.objects() == before, "a dry run wrote something");
            let mut kept = Vec::new();
            let keep = |id, bytes: &[u8]| {
                kept.push((id, bytes.to_vec()));
                Ok(())
            };
            let report = repository
                .repair_packs(RepairOptions::default(), &all, keep)
                .unwrap();
            assert_eq!(kept, [(name.id, bytes)]);
            assert_eq!(report.damaged_packs, [name.id]);
            assert_eq!(report.lost_blocks, found.lost_blocks);
            saved += report.saved_blocks;
            lost += report.lost_blocks;
            assert!(storage.stat(name).is_err());
            let index = repository.read_index().unwrap();
            assert!(index.values().flatten().all(|(pack, _)| *pack != name.id));
            let checked = repository
                .check(CheckOptions::default().read_data(ReadData::All))
                .unwrap();
            assert_eq!(
                checked.problems == 0,
                report.lost_blocks == 0,
                "{name} at {at}"
            );
            // Lost files that the source still has are stored again.
            let options = backup_options().parent(Parent::None);
            let made = back_up_with(&repository, &[&sample.source], options);
            assert_restores(&repository, id(&made), &sample.source, &sample.source);
        }
    }
    assert!(saved > 0 && lost > 0, "{saved} saved, {lost} lost");
}

/// Neither an index object nor its footer says what it held, so that no block of it can be saved.
#[test]
fn a_damaged_pack_of_which_nothing_is_known_is_given_up() {
    let sample = Sample::new();
    let storage = MemoryStorage::new(sample.objects.clone());
    for name in sample.names(ObjectKind::Index) {
        storage.remove(name);
    }
    let name = sample.names(ObjectKind::Pack)[0];
    let mut bytes = sample.objects[&name].clone();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    storage.set(name, bytes.clone());
    let recorder = Arc::new(Recorder::default());
    let repository = open(storage.clone()).with_progress(Arc::clone(&recorder));
    let mut kept = Vec::new();
    let keep = |id, bytes: &[u8]| {
        kept.push((id, bytes.to_vec()));
        Ok(())
    };
    let report = repository
        .repair_packs(RepairOptions::default(), &[name.id], keep)
        .unwrap();
    assert_eq!(kept, [(name.id, bytes)]);
    let blocks = (report.saved_blocks, report.safe_blocks, report.lost_blocks);
    assert_eq!(blocks, (0, 0, 0));
    let said = recorder.notes().join("\n");
    assert!(said.contains("nothing says what"), "{said}");
    assert!(storage.stat(name).is_err());
    // The other packs are found again, and what is lost is stored again.
    let repository = open(storage);
    repository.repair_index(RepairOptions::default()).unwrap();
    let options = backup_options().parent(Parent::None);
    let made = back_up_with(&repository, &[&sample.source], options);
    assert_restores(&repository, id(&made), &sample.source, &sample.source);
}

#[test]
fn a_copy_that_cannot_be_kept_stops_a_repair() {
    let sample = Sample::new();
    let storage = MemoryStorage::new(sample.objects.clone());
    let name = sample.names(ObjectKind::Pack)[0];
    let mut bytes = sample.objects[&name].clone();
    bytes[100] ^= 1;
    storage.set(name, bytes);
    let before = storage.objects();
    let refuse = |_, _: &[u8]| Err(Error::Invalid("no room".to_owned()));
    let result = open(storage.clone()).repair_packs(RepairOptions::default(), &[name.id], refuse);
    assert!(matches!(result, Err(Error::Invalid(_))));
    assert!(storage.objects() == before);
    assert!(fs::exists(&sample.source).unwrap());
}
