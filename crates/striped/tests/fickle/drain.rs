//! Sets that do without a group from some time on.

use std::ops::Range;

use tabane_storage::{Name, ObjectKind, Storage, StorageErrorKind, object_id};
use tabane_striped::{HAS_CHANGED, HealOptions, StripedStorage};

use super::groups::{bed_with_secret, check, heal, holders, parts_bytes, put, rebalance};
use super::{Bed, Problems};

/// Puts snapshots: small objects, of which there are copies.
pub fn put_small(storage: &StripedStorage, seeds: Range<u8>) -> Vec<(Name, Vec<u8>)> {
    let small = |seed: u8| {
        let bytes = vec![seed; 1000];
        (Name::new(ObjectKind::Snapshot, object_id(&[&bytes])), bytes)
    };
    let objects: Vec<_> = seeds.map(small).collect();
    for (name, bytes) in &objects {
        storage.put(*name, &[bytes]).unwrap();
    }
    objects
}

pub fn check_small(storage: &StripedStorage, objects: &[(Name, Vec<u8>)]) {
    let listed = storage.list(ObjectKind::Snapshot).unwrap();
    assert_eq!(listed.len(), objects.len());
    for (name, bytes) in objects {
        assert!(storage.get(*name, None).unwrap() == *bytes);
    }
}

fn urls(bed: &Bed, numbers: Range<usize>) -> Vec<&str> {
    let places = bed.places[numbers].iter();
    places.map(|place| place.url.as_str()).collect()
}

#[test]
fn a_group_that_is_drained_can_be_switched_off_and_no_byte_moves_twice() {
    let mut bed = Bed::of_groups(&[3, 4, 3], "target-");
    let storage = bed_with_secret(&bed);
    let mut objects = put(&storage, 60);
    let small = put_small(&storage, 0..6);
    let before = parts_bytes(&bed, 7..10);
    assert!(storage.retire(&urls(&bed, 7..10)).unwrap());
    let storage = bed_with_secret(&bed);
    assert!(
        !storage.retire(&urls(&bed, 7..10)).unwrap(),
        "it is so already"
    );
    let survey = storage.survey().unwrap();
    let retired: Vec<bool> = survey
        .targets
        .iter()
        .map(|target| target.is_retired)
        .collect();
    assert_eq!(retired, [[false; 7].as_slice(), &[true; 3]].concat());
    assert!(survey.targets[9].group.is_none() && survey.targets[0].group.is_some());
    // Nothing new goes there, and nobody forgets it before it is empty.
    let more: Vec<_> = (100..130)
        .map(|seed| super::object(seed, 200_000))
        .collect();
    for (name, bytes) in &more {
        storage.put(*name, &[bytes]).unwrap();
        assert!(holders(&bed, *name).iter().all(|&number| number < 7));
    }
    objects.extend(more);
    let error = storage.forget_retired(&urls(&bed, 7..10)).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::TargetNeeded, "{error}");
    check(&bed.open(), &objects);

    heal(&storage);
    let report = rebalance(&storage);
    assert!(
        report.moved_bytes <= before * 11 / 10,
        "{report:?} {before}"
    );
    assert_eq!(parts_bytes(&bed, 7..10), 0);
    storage.forget_retired(&urls(&bed, 7..10)).unwrap();
    bed.fail(&[7, 8, 9], Some(StorageErrorKind::Unreachable));
    bed.places.truncate(7);
    let storage = bed_with_secret(&bed);
    check(&storage, &objects);
    check_small(&storage, &small);
    let survey = storage.survey().unwrap();
    assert!(survey.is_whole() && survey.targets.len() == 7, "{survey:?}");
    assert_eq!(heal(&storage).written_parts, 0);

    // The first one has the copies of small objects. Then there is one left.
    let in_first = |(name, _): &(Name, Vec<u8>)| holders(&bed, *name) == [0, 1, 2];
    assert!(small.iter().all(in_first));
    assert!(storage.retire(&urls(&bed, 0..3)).unwrap());
    let storage = bed_with_secret(&bed);
    heal(&storage);
    rebalance(&storage);
    storage.forget_retired(&urls(&bed, 0..3)).unwrap();
    bed.places.drain(..3);
    let storage = bed_with_secret(&bed);
    check(&storage, &objects);
    check_small(&storage, &small);
    assert!(storage.survey().unwrap().is_whole());
    let error = storage.retire(&urls(&bed, 0..4)).unwrap_err();
    assert!(error.to_string().contains("no other group"), "{error}");
}

#[test]
fn what_cannot_be_drained_is_refused() {
    let bed = Bed::of_groups(&[3, 3, 3], "target-");
    let storage = bed.open();
    put(&storage, 10);
    let refused = |numbers: &[usize]| {
        let urls: Vec<&str> = numbers
            .iter()
            .map(|&it| bed.places[it].url.as_str())
            .collect();
        storage.retire(&urls).unwrap_err().to_string()
    };
    let text = "name all of target-3, target-4, target-5, and no others";
    assert!(refused(&[3, 4]).ends_with(text), "{}", refused(&[3, 4]));
    let text = "all of target-0, target-1, target-2, or all of target-3, target-4, target-5";
    assert!(refused(&[0, 3]).contains(text), "{}", refused(&[0, 3]));
    let error = storage.retire(&["elsewhere"]).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NoSuchTarget);
    let error = storage.forget_retired(&urls(&bed, 0..3)).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    // The others have no room.
    for target in &bed.targets[3..] {
        *target.free.lock().unwrap() = Some(1000);
    }
    let error = refused(&[0, 1, 2]);
    assert!(error.contains("have room for 6000 bytes"), "{error}");
    assert!(!bed.open().survey().unwrap().targets[0].is_retired);
    bed.fail(&[8], Some(StorageErrorKind::Unreachable));
    let error = bed.open().retire(&urls(&bed, 0..3)).unwrap_err();
    assert!(
        error.to_string().contains("all targets are needed"),
        "{error}"
    );
}

/// A client that has opened the set before would put objects there that nobody finds later.
#[test]
fn who_opened_the_set_before_a_group_was_retired_is_told_so() {
    let mut bed = Bed::unformed(9, "target-");
    let new = bed.places.split_off(6);
    let groups = vec![bed.places[..3].to_vec(), bed.places[3..].to_vec()];
    StripedStorage::form_groups(groups, false).unwrap();
    let before = bed.open();
    before.check_current().unwrap();
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    before.check_current().unwrap();
    bed.open().retire(&urls(&bed, 3..6)).unwrap();
    let error = before.check_current().unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
    bed.open().check_current().unwrap();
    // Who knows one group only may be in the same place.
    let mut bed = Bed::unformed(6, "target-");
    let new = bed.places.split_off(3);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let before = bed.open();
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    bed.open().retire(&urls(&bed, 0..3)).unwrap();
    assert!(before.check_current().is_err());
}

/// Of the targets that may have a copy two have to be left, since one may be replaced just now.
#[test]
fn who_misses_one_target_of_a_group_where_another_was_replaced_is_told_so() {
    let mut bed = Bed::unformed(4, "target-");
    let new = bed.places.split_off(3);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let before = bed.open();
    bed.open().replace("target-0", &new[0]).unwrap();
    before.check_current().unwrap();
    bed.fail(&[1], Some(StorageErrorKind::Unreachable));
    let name = Name::new(ObjectKind::Snapshot, object_id(&[b"small"]));
    let error = before.put(name, &[b"small"]).unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
}

/// A heal takes back descriptions that are outdated, and none that it does not know.
#[test]
fn a_heal_that_opened_the_set_before_it_was_changed_changes_nothing() {
    let bed = Bed::of_groups(&[3, 3], "target-");
    let before = bed.open();
    bed.open().retire(&urls(&bed, 0..3)).unwrap();
    let healed = before.heal(HealOptions::default(), &Problems::default());
    assert_eq!(healed.unwrap_err().to_string(), HAS_CHANGED);
    assert!(bed.open().survey().unwrap().targets[0].is_retired);
    heal(&bed.open());
    let sets = bed.targets[0].inner.list(ObjectKind::Set).unwrap();
    assert_eq!(sets.len(), 1, "the outdated one is gone");
}

/// A deletion that a target has missed is not forgotten with those that know of it.
#[test]
fn marks_of_deleted_objects_go_to_others() {
    let mut bed = Bed::of_groups(&[3, 3], "node://");
    let small = put_small(&bed.open(), 0..1);
    let storage = bed_with_secret(&bed);
    put(&storage, 5);
    let (name, _) = small[0];
    // One that is away misses that it is deleted; the mark is on the first group.
    bed.fail(&[1], Some(StorageErrorKind::Unreachable));
    let part = bed.targets[1].inner.get(name, None).unwrap();
    bed.open().delete(name).unwrap();
    bed.fail(&[1], None);
    bed.targets[1].inner.delete(name).unwrap();
    let marks = bed.targets[0].inner.list(ObjectKind::Deleted).unwrap();
    assert_eq!(marks.len(), 1);
    bed.open().retire(&urls(&bed, 0..3)).unwrap();
    let storage = bed_with_secret(&bed);
    rebalance(&storage);
    storage.forget_retired(&urls(&bed, 0..3)).unwrap();
    bed.places.drain(..3);
    bed.targets[4].inner.put(name, &[&part]).unwrap();
    assert!(bed.open().list(ObjectKind::Snapshot).unwrap().is_empty());
    heal(&bed.open());
    assert!(holders(&bed, name).is_empty());
}
