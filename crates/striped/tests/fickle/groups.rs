//! Sets of several groups: each object is on the targets of one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tabane_storage::{Name, ObjectKind, Storage, StorageErrorKind, object_id};
use tabane_striped::{HealOptions, RebalanceOptions, RebalanceReport, StripedStorage};

use super::{Bed, Problems, object};

const LEN: usize = 200_000;

/// The targets that have a part of an object.
pub fn holders(bed: &Bed, name: Name) -> Vec<usize> {
    let has = |number: &usize| bed.targets[*number].inner.stat(name).is_ok();
    (0..bed.targets.len()).filter(has).collect()
}

/// Puts so many packs.
pub fn put(storage: &StripedStorage, count: u8) -> Vec<(Name, Vec<u8>)> {
    let objects: Vec<_> = (0..count).map(|seed| object(seed, LEN)).collect();
    for (name, bytes) in &objects {
        storage.put(*name, &[bytes]).unwrap();
    }
    objects
}

pub fn check(storage: &StripedStorage, objects: &[(Name, Vec<u8>)]) {
    let listed = storage.list(ObjectKind::Pack).unwrap();
    assert_eq!(listed.len(), objects.len());
    for (name, bytes) in objects {
        assert!(storage.get(*name, None).unwrap() == *bytes, "{name}");
        assert_eq!(storage.stat(*name).unwrap(), bytes.len() as u64);
        let one = listed.iter().find(|listed| listed.id == name.id).unwrap();
        assert!(storage.is_listed_as(one.len, bytes.len() as u64));
    }
}

pub fn heal(storage: &StripedStorage) -> tabane_striped::HealReport {
    let problems = Problems::default();
    let report = storage.heal(HealOptions::default(), &problems).unwrap();
    assert!(problems.0.lock().unwrap().is_empty());
    report
}

#[test]
fn an_object_is_in_one_group_and_two_targets_of_each_may_be_lost() {
    let bed = Bed::of_groups(&[4, 5, 3], "target-");
    let storage = bed.open();
    let objects = put(&storage, 48);
    let groups: [&[usize]; 3] = [&[0, 1, 2, 3], &[4, 5, 6, 7, 8], &[9, 10, 11]];
    for group in groups {
        let here = objects
            .iter()
            .filter(|(name, _)| holders(&bed, *name) == group);
        assert!((5..30).contains(&here.count()));
    }
    check(&storage, &objects);
    check(&bed.open(), &objects);
    // Small objects have all their copies in the first group.
    let bytes = [7; 1000];
    let small = Name::new(ObjectKind::Index, object_id(&[&bytes]));
    storage.put(small, &[&bytes]).unwrap();
    assert!(holders(&bed, small).iter().all(|&number| number < 4));
    let survey = storage.survey().unwrap();
    assert!(survey.is_whole() && survey.spare.len() == 12);
    assert_eq!(survey.incomplete_objects, 0);

    let lost = [0, 3, 5, 6, 9, 11];
    bed.fail(&lost, Some(StorageErrorKind::Unreachable));
    let storage = bed.open();
    check(&storage, &objects);
    assert_eq!(storage.get(small, None).unwrap(), bytes);
    let survey = storage.survey().unwrap();
    assert!(survey.spare.is_empty() && survey.spare_pairs.is_empty());
    bed.fail(&[1], Some(StorageErrorKind::Unreachable));
    let notice = std::sync::Arc::new(|_: &_| ());
    let error = StripedStorage::open("set".to_owned(), bed.places.clone(), notice);
    let error = error.err().unwrap();
    assert_eq!(error.kind(), StorageErrorKind::TooFewTargets);
    let text = error.to_string();
    assert!(
        text.starts_with("3 of 4 targets of a group are missing"),
        "{text}"
    );
}

/// Waiting would be of no use: the nodes answer, but not to a client whose file does not list them.
#[test]
fn a_client_whose_file_lacks_a_group_is_told_at_once() {
    let bed = Bed::of_groups(&[3, 3], "node://");
    let notice = std::sync::Arc::new(|_: &_| ());
    let known = bed.places[..3].to_vec();
    let error = StripedStorage::open("set".to_owned(), known, notice).err();
    let error = error.unwrap();
    assert_ne!(error.kind(), StorageErrorKind::TooFewTargets);
    let text = error.to_string();
    assert!(
        text.contains("3 of 3 targets of a group are missing"),
        "{text}"
    );
    assert!(text.contains("get the newest one"), "{text}");
}

#[test]
fn what_is_stored_while_a_target_is_away_goes_to_whole_groups() {
    let bed = Bed::of_groups(&[3, 3], "target-");
    bed.fail(&[1], Some(StorageErrorKind::Unreachable));
    let objects = put(&bed.open(), 12);
    for (name, _) in &objects {
        assert_eq!(holders(&bed, *name), [3, 4, 5]);
    }
    // Where no group is whole, both take what comes, and a heal completes it.
    bed.fail(&[1], None);
    bed.fail(&[0, 4], Some(StorageErrorKind::Unreachable));
    let storage = bed.open();
    let more: Vec<_> = (100..124).map(|seed| object(seed, LEN)).collect();
    for (name, bytes) in &more {
        storage.put(*name, &[bytes]).unwrap();
        assert!([vec![1, 2], vec![3, 5]].contains(&holders(&bed, *name)));
    }
    bed.fail(&[0, 4], None);
    let storage = bed.open();
    let all = [objects, more].concat();
    check(&storage, &all);
    let survey = storage.survey().unwrap();
    assert_eq!(survey.targets[0].lacks + survey.targets[4].lacks, 24);
    assert_eq!(survey.spare.len(), 6, "one more may go");
    assert!(!survey.spare_pairs.contains(&(1, 2)) && survey.spare_pairs.contains(&(1, 3)));
    assert_eq!(heal(&storage).healed_objects, 24);
    assert!(bed.open().survey().unwrap().is_whole());
}

#[test]
fn a_group_with_more_room_gets_more() {
    let bed = Bed::of_groups(&[3, 3], "target-");
    for (number, target) in bed.targets.iter().enumerate() {
        let gib = if number < 3 { 900 } else { 100 };
        *target.free.lock().unwrap() = Some(gib << 30);
    }
    // The fullest target of a group decides.
    *bed.targets[4].free.lock().unwrap() = Some(50 << 30);
    let objects = put(&bed.open(), 100);
    let first = objects
        .iter()
        .filter(|(name, _)| holders(&bed, *name) == [0, 1, 2]);
    assert!((85..100).contains(&first.count()));
}

#[test]
fn a_write_that_was_interrupted_in_one_group_may_end_in_another() {
    let bed = Bed::of_groups(&[4, 4], "target-");
    let (name, bytes) = object(1, LEN);
    bed.open().put(name, &[&bytes]).unwrap();
    let first = holders(&bed, name);
    // Of this put only one part was written before its client was killed.
    let part = bed.targets[first[1]].inner.get(name, None).unwrap();
    for number in &first {
        bed.targets[*number].inner.delete(name).unwrap();
    }
    bed.targets[first[1]].inner.put(name, &[&part]).unwrap();
    bed.fail(&first[..1], Some(StorageErrorKind::Unreachable));
    bed.open().put(name, &[&bytes]).unwrap();
    bed.fail(&first[..1], None);
    let storage = bed.open();
    assert_eq!(holders(&bed, name).len(), 5);
    check(&storage, &[(name, bytes.clone())]);
    assert!(storage.get(name, Some(5..70_000)).unwrap() == bytes[5..70_000]);
    let survey = storage.survey().unwrap();
    assert_eq!((survey.incomplete_objects, survey.fragments), (0, 0));
    assert_eq!(heal(&storage).written_parts, 0);
    // As other leftovers, the part goes when it is old.
    assert_eq!(
        storage.remove_leftovers(Duration::from_secs(3600)).unwrap(),
        0
    );
    assert_eq!(storage.remove_leftovers(Duration::ZERO).unwrap(), 1);
    assert_eq!(holders(&bed, name).len(), 4);
    assert!(!holders(&bed, name).contains(&first[1]));
    check(&bed.open(), &[(name, bytes)]);
}

#[test]
fn a_set_gets_more_groups_and_they_get_larger() {
    let mut bed = Bed::unformed(9, "target-");
    let new = bed.places.split_off(4);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let mut objects = put(&bed.open(), 12);
    bed.open().add_group(&new[..4]).unwrap();
    bed.places.extend_from_slice(&new[..4]);
    // An interrupted addition is made again.
    bed.open().add_group(&new[..4]).unwrap();
    let more: Vec<_> = (50..90).map(|seed| object(seed, LEN)).collect();
    let storage = bed.open();
    for (name, bytes) in &more {
        storage.put(*name, &[bytes]).unwrap();
    }
    let second = more
        .iter()
        .filter(|(name, _)| holders(&bed, *name) == [4, 5, 6, 7]);
    assert!((8..32).contains(&second.count()));
    objects.extend(more);
    check(&storage, &objects);
    // One more target makes the first group larger.
    storage.add(&new[4]).unwrap();
    bed.places.push(new[4].clone());
    let storage = bed.open();
    let more: Vec<_> = (100..140).map(|seed| object(seed, LEN)).collect();
    for (name, bytes) in &more {
        storage.put(*name, &[bytes]).unwrap();
        assert!([vec![0, 1, 2, 3, 8], vec![4, 5, 6, 7]].contains(&holders(&bed, *name)));
    }
    objects.extend(more);
    heal(&storage);
    check(&bed.open(), &objects);
    // Each target is replaced by an empty one, and loses nothing.
    bed.fail(&[2, 6], Some(StorageErrorKind::Unreachable));
    check(&bed.open(), &objects);
    let error = bed.open().add_group(&new[..2]).unwrap_err();
    assert!(error.to_string().contains("too few"), "{error}");
}

#[test]
fn copies_that_are_in_two_groups_come_into_one() {
    let bed = Bed::of_groups(&[3, 3], "target-");
    bed.fail(&[1, 2], Some(StorageErrorKind::Unreachable));
    let bytes = [9; 500];
    let name = Name::new(ObjectKind::Index, object_id(&[&bytes]));
    bed.open().put(name, &[&bytes]).unwrap();
    assert_eq!(holders(&bed, name).len(), 3);
    assert!(holders(&bed, name).contains(&0));
    bed.fail(&[1, 2], None);
    let storage = bed.open();
    assert!(
        !storage
            .survey()
            .unwrap()
            .targets
            .iter()
            .all(|target| target.lacks == 0)
    );
    heal(&storage);
    let there = holders(&bed, name);
    assert!(
        [0..3, 3..6]
            .iter()
            .any(|group| group.clone().all(|one| there.contains(&one)))
    );
    assert_eq!(heal(&bed.open()).written_parts, 0);
}

pub fn rebalance(storage: &StripedStorage) -> RebalanceReport {
    let options = RebalanceOptions::default().listing_time(Duration::from_millis(100));
    let problems = Problems::default();
    let report = storage.rebalance(options, &problems).unwrap();
    assert!(problems.0.lock().unwrap().is_empty());
    report
}

pub fn parts_bytes(bed: &Bed, numbers: std::ops::Range<usize>) -> u64 {
    let lists = bed.targets[numbers].iter();
    let lists = lists.flat_map(|target| target.inner.list(ObjectKind::Pack).unwrap());
    lists.map(|listed| listed.len).sum()
}

/// From one group to two to four, beside somebody who reads all the time.
#[test]
fn new_groups_get_their_share_and_no_byte_more() {
    let mut bed = Bed::unformed(12, "target-");
    let new = bed.places.split_off(3);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let objects = put(&bed.open(), 60);
    let total = parts_bytes(&bed, 0..3);
    for (groups, add) in [(2, &new[..3]), (4, &new[3..])] {
        for group in add.chunks(3) {
            bed.open().add_group(group).unwrap();
            bed.places.extend_from_slice(group);
        }
        let storage = bed.open();
        storage.learn_secret(&[5; 32]);
        let reader = bed.open();
        let is_done = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    check(&reader, &objects);
                }
            });
            let report = rebalance(&storage);
            is_done.store(true, Ordering::Relaxed);
            report
        });
        let share = total / groups;
        let least = share * (groups / 2);
        assert!(report.moved_bytes <= least * 11 / 10, "{report:?} {least}");
        for group in 0..groups as usize {
            let bytes = parts_bytes(&bed, 3 * group..3 * group + 3);
            assert!(
                bytes.abs_diff(share) <= share / 10,
                "{group}: {bytes} of {share}"
            );
        }
        check(&bed.open(), &objects);
        assert!(bed.open().survey().unwrap().is_whole());
        assert_eq!(rebalance(&storage), RebalanceReport::default());
    }
    // Who was there before everything moved finds it still.
    check(&bed.open(), &objects);
}

#[test]
fn a_rebalance_that_was_killed_is_ended_by_the_next() {
    let mut bed = Bed::unformed(6, "target-");
    let new = bed.places.split_off(3);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let objects = put(&bed.open(), 10);
    bed.open().add_group(&new).unwrap();
    bed.places.extend_from_slice(&new);
    let storage = bed.open();
    let error = storage.rebalance(RebalanceOptions::default(), &Problems::default());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("takes the password")
    );
    storage.learn_secret(&[5; 32]);
    // Two are in both groups, and of a third one part of the new group is missing.
    let before: Vec<Vec<(Name, Vec<u8>)>> = (0..3)
        .map(|number| {
            let target = &bed.targets[number].inner;
            let part = |name: Name| (name, target.get(name, None).unwrap());
            objects.iter().map(|(name, _)| part(*name)).collect()
        })
        .collect();
    assert_eq!(rebalance(&storage).moved_objects, 5);
    let moved: Vec<Name> = objects.iter().map(|(name, _)| *name).collect();
    let moved: Vec<Name> = moved
        .into_iter()
        .filter(|name| holders(&bed, *name)[0] == 3)
        .collect();
    for name in &moved[..3] {
        for (number, parts) in before.iter().enumerate() {
            let (_, part) = parts.iter().find(|(other, _)| other == name).unwrap();
            bed.targets[number].inner.put(*name, &[part]).unwrap();
        }
    }
    bed.targets[4].inner.delete(moved[2]).unwrap();
    check(&bed.open(), &objects);
    let report = rebalance(&bed_with_secret(&bed));
    assert_eq!(report.freed_objects, 2);
    check(&bed.open(), &objects);
    assert_eq!(heal(&bed.open()).written_parts, 0);
    // Of the third the new group has a part less: the others are leftovers.
    let storage = bed.open();
    assert_eq!(
        storage.remove_leftovers(Duration::from_secs(3600)).unwrap(),
        0
    );
    assert_eq!(storage.remove_leftovers(Duration::ZERO).unwrap(), 2);
    assert!(
        objects
            .iter()
            .all(|(name, _)| holders(&bed, *name).len() == 3)
    );
    check(&bed.open(), &objects);
    assert!(bed.open().survey().unwrap().is_whole());
    // Where a part of the new group is cut off, the old group keeps the object.
    let (name, _) = objects
        .iter()
        .find(|(name, _)| holders(&bed, *name)[0] == 3)
        .unwrap();
    let target = &bed.targets[3].inner;
    let part = target.get(*name, None).unwrap();
    for (number, parts) in before.iter().enumerate() {
        let (_, part) = parts.iter().find(|(other, _)| other == name).unwrap();
        bed.targets[number].inner.put(*name, &[part]).unwrap();
    }
    target.replace(*name, &[&part[..part.len() - 16]]).unwrap();
    let options = RebalanceOptions::default().listing_time(Duration::ZERO);
    let again = bed_with_secret(&bed).rebalance(options, &Problems::default());
    assert_eq!(again.unwrap().freed_objects, 0);
    assert!(holders(&bed, *name).starts_with(&[0, 1, 2]));
    check(&bed.open(), &objects);
    // With a target away nothing moves.
    bed.fail(&[0], Some(StorageErrorKind::Unreachable));
    let storage = bed_with_secret(&bed);
    let error = storage.rebalance(RebalanceOptions::default(), &Problems::default());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("all targets are needed")
    );
}

pub fn bed_with_secret(bed: &Bed) -> StripedStorage {
    let storage = bed.open();
    storage.learn_secret(&[5; 32]);
    storage
}
