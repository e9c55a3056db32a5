//! Clients that opened a set before it was changed, and go on beside others. The model of groups
//! (`crates/models`) refutes each way that fails here.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tabane_storage::{Name, ObjectKind, Storage, StorageErrorKind, object_id};
use tabane_striped::{HAS_CHANGED, HealOptions, RebalanceOptions, StripedStorage};

use super::drain::put_small;
use super::groups::{bed_with_secret, check, heal, holders, put, rebalance};
use super::{Bed, Problems, object};

/// A set of the first `first` of so many places, and the others.
fn set_of(first: usize, count: usize) -> (Bed, Vec<tabane_striped::Place>) {
    let mut bed = Bed::unformed(count, "target-");
    let new = bed.places.split_off(first);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    (bed, new)
}

fn urls(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("target-{number}")).collect()
}

fn retire(bed: &Bed, numbers: std::ops::Range<usize>) {
    let urls = urls(numbers);
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    assert!(bed.open().retire(&urls).unwrap());
}

fn forget(bed: &Bed, numbers: std::ops::Range<usize>) -> tabane_storage::Result<()> {
    let urls = urls(numbers);
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    bed.open().forget_retired(&urls)
}

/// Puts large objects that are no packs: stripes.
fn put_large(storage: &StripedStorage, count: u8) -> Vec<(Name, Vec<u8>)> {
    let large = |seed: u8| {
        let (pack, bytes) = object(seed, 200_000);
        (Name::new(ObjectKind::Index, pack.id), bytes)
    };
    let objects: Vec<_> = (0..count).map(large).collect();
    for (name, bytes) in &objects {
        storage.put(*name, &[bytes]).unwrap();
    }
    objects
}

fn is_listed(storage: &StripedStorage, name: Name) -> bool {
    let listed = storage.list(name.kind).unwrap();
    listed.iter().any(|listed| listed.id == name.id)
}

#[test]
fn whoever_does_not_know_a_new_group_finds_large_objects_that_are_no_packs() {
    let (mut bed, new) = set_of(3, 6);
    let before = bed.open();
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    let large = put_large(&bed.open(), 9);
    // Nor does a rebalance move them.
    rebalance(&bed_with_secret(&bed));
    assert_eq!(before.list(ObjectKind::Index).unwrap().len(), 9);
    assert!(
        large
            .iter()
            .all(|(name, _)| holders(&bed, *name) == [0, 1, 2])
    );
    // When the first group is emptied, they go to the one that is first then.
    retire(&bed, 0..3);
    let storage = bed_with_secret(&bed);
    rebalance(&storage);
    assert!(
        large
            .iter()
            .all(|(name, _)| holders(&bed, *name) == [3, 4, 5])
    );
    forget(&bed, 0..3).unwrap();
    assert_eq!(bed.open().list(ObjectKind::Index).unwrap().len(), 9);
}

/// What is put into a group that is emptied may come when nobody looks there any more.
#[test]
fn whoever_puts_a_snapshot_into_a_group_that_was_retired_is_told_so() {
    let bed = Bed::of_groups(&[3, 3], "target-");
    let before = bed.open();
    before.check_current().unwrap();
    retire(&bed, 0..3);
    let bytes = [1; 1000];
    let name = Name::new(ObjectKind::Snapshot, object_id(&[&bytes]));
    let error = before.put(name, &[&bytes]).unwrap_err();
    assert!(error.to_string().contains(HAS_CHANGED), "{error}");
    put_small(&bed.open(), 0..1);
}

/// The mark of a deletion may come to targets of which nobody takes it any more.
#[test]
fn whoever_marks_a_deletion_on_a_group_that_was_retired_is_told_so() {
    let (mut bed, new) = set_of(3, 6);
    let small = put_small(&bed.open(), 0..1);
    let before = bed.open();
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    retire(&bed, 0..3);
    heal(&bed.open());
    let error = before.delete(small[0].0).unwrap_err();
    assert!(error.to_string().contains(HAS_CHANGED), "{error}");
}

/// Of old copies and what a newer list misses, nothing is said.
#[test]
fn a_list_that_counts_on_targets_which_are_forgotten_is_refused() {
    let mut bed = Bed::of_groups(&[3, 3], "target-");
    let small = put_small(&bed.open(), 0..2);
    let before = bed.open();
    retire(&bed, 0..3);
    heal(&bed.open());
    forget(&bed, 0..3).unwrap();
    bed.places.drain(..3);
    assert_eq!(before.list(ObjectKind::Snapshot).unwrap().len(), 2);
    bed.open().delete(small[0].0).unwrap();
    let error = before.list(ObjectKind::Snapshot).unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
}

/// Of three copies one is on a target that is not known, and two were on others that did not
/// answer when they were asked.
#[test]
fn targets_that_are_back_before_a_list_has_ended_were_missing() {
    let mut bed = Bed::unformed(4, "node://");
    let new = bed.places.split_off(3);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    let before = bed.open();
    bed.open().add(&new[0]).unwrap();
    bed.places.extend(new);
    put_small(&bed.open(), 0..20);
    let failing = [Arc::clone(&bed.targets[0]), Arc::clone(&bed.targets[1])];
    bed.fail(&[0, 1], Some(StorageErrorKind::Unreachable));
    let told = Arc::clone(&bed.told);
    bed.targets[2].before(("list", ObjectKind::Set), move || {
        failing.iter().for_each(|target| target.fail(None));
        let are_back = || {
            let told = told.lock().unwrap().join("\n");
            told.matches("answers again").count() == 2
        };
        while !are_back() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let error = before.list(ObjectKind::Snapshot).unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
}

/// A deletion that looks for notes after the set has changed has to find that of the heal.
#[test]
fn a_heal_asks_for_changes_when_its_note_is_there() {
    let bed = Bed::of_groups(&[3, 3], "target-");
    let storage = bed.open();
    let other = bed.open();
    bed.targets[0].before(("put", ObjectKind::Deleted), move || {
        let urls = urls(0..3);
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        other.retire(&urls).unwrap();
    });
    let healed = storage.heal(HealOptions::default(), &Problems::default());
    assert_eq!(healed.unwrap_err().to_string(), HAS_CHANGED);
    assert!(bed.open().survey().unwrap().targets[0].is_retired);
    for target in &bed.targets {
        let notes = target.inner.list(ObjectKind::Deleted).unwrap();
        assert!(notes.is_empty(), "the note is gone");
    }
}

/// A mark keeps away what is on a target that the heal does not know.
#[test]
fn a_heal_applies_no_marks_if_the_set_has_got_a_target() {
    let (mut bed, new) = set_of(3, 4);
    let (storage, deleter, other) = (bed.open(), bed.open(), bed.open());
    let (places, told) = (bed.places.clone(), Arc::clone(&bed.told));
    let new_target = Arc::clone(&bed.targets[3]);
    let added = new.clone();
    let (done, was_done) = channel();
    bed.targets[0].before(("list", ObjectKind::Deleted), move || {
        other.add(&added[0]).unwrap();
        let places = [places, added].concat();
        let notice = Arc::new(move |event: &tabane_storage::Event| {
            told.lock().unwrap().push(event.text.clone());
        });
        let newer = StripedStorage::open("set".to_owned(), places, notice).unwrap();
        let small = put_small(&newer, 0..20);
        let is_there = |(name, _): &&(Name, Vec<u8>)| new_target.inner.stat(*name).is_ok();
        let (name, _) = small.iter().find(is_there).expect("one of 20");
        deleter.delete(*name).unwrap();
        done.send(*name).unwrap();
    });
    heal(&storage);
    let name = was_done.recv().unwrap();
    bed.places.extend(new);
    assert!(!is_listed(&bed.open(), name));
    heal(&bed.open());
    assert!(holders(&bed, name).is_empty());
}

/// A group may be forgotten before the old parts are deleted.
#[test]
fn a_rebalance_deletes_nothing_once_the_set_has_changed() {
    let (mut bed, new) = set_of(3, 6);
    let objects = put(&bed.open(), 20);
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    let (storage, other) = (bed_with_secret(&bed), bed.open());
    bed.targets[3].before(("stat", ObjectKind::Pack), move || {
        let urls = urls(3..6);
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        other.retire(&urls).unwrap();
    });
    let options = RebalanceOptions::default().listing_time(Duration::ZERO);
    let error = storage
        .rebalance(options, &Problems::default())
        .unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
    assert!(
        objects
            .iter()
            .all(|(name, _)| holders(&bed, *name).starts_with(&[0, 1, 2]))
    );
    // Those that were put there go, and the group can be forgotten.
    let left = forget(&bed, 3..6).unwrap_err();
    assert_eq!(left.kind(), StorageErrorKind::TargetNeeded, "{left}");
    rebalance(&bed_with_secret(&bed));
    forget(&bed, 3..6).unwrap();
    bed.places.truncate(3);
    check(&bed.open(), &objects);
}

/// Somebody may be about to delete the other parts.
#[test]
fn a_group_with_parts_of_a_whole_object_is_not_forgotten_and_gives_them_up_first() {
    let (mut bed, new) = set_of(3, 6);
    let objects = put(&bed.open(), 20);
    let parts = |bed: &Bed, number: usize| -> Vec<Vec<u8>> {
        let part = |(name, _): &(Name, Vec<u8>)| bed.targets[number].inner.get(*name, None);
        objects.iter().map(|object| part(object).unwrap()).collect()
    };
    let before: Vec<_> = (0..3).map(|number| parts(&bed, number)).collect();
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    assert!(rebalance(&bed_with_secret(&bed)).moved_objects > 0);
    // As a rebalance leaves them that was killed before it deleted the old parts.
    for (number, parts) in before.iter().enumerate() {
        for ((name, _), part) in objects.iter().zip(parts) {
            let _ = bed.targets[number].inner.put(*name, &[part]);
        }
    }
    retire(&bed, 3..6);
    let error = forget(&bed, 3..6).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::TargetNeeded, "{error}");
    rebalance(&bed_with_secret(&bed));
    assert!(
        objects
            .iter()
            .all(|(name, _)| holders(&bed, *name) == [0, 1, 2])
    );
    forget(&bed, 3..6).unwrap();
    bed.places.truncate(3);
    check(&bed.open(), &objects);
}

/// Once a group before the first is retired, the first has two numbers: an object can come back to
/// the targets from which it goes.
#[test]
fn a_rebalance_deletes_no_parts_that_are_newer_than_those_it_knows() {
    let (mut bed, new) = set_of(3, 9);
    let objects = put(&bed.open(), 20);
    let part = |bed: &Bed, number: usize, name: Name| bed.targets[number].inner.get(name, None);
    let before: Vec<Vec<Vec<u8>>> = (0..3)
        .map(|number| {
            let parts = objects.iter().map(|(name, _)| part(&bed, number, *name));
            parts.map(Result::unwrap).collect()
        })
        .collect();
    for group in new.chunks(3) {
        bed.open().add_group(group).unwrap();
        bed.places.extend_from_slice(group);
    }
    retire(&bed, 3..6);
    rebalance(&bed_with_secret(&bed));
    let moved = (0..objects.len()).filter(|at| holders(&bed, objects[*at].0) == [6, 7, 8]);
    let moved: Vec<usize> = moved.collect();
    assert!(!moved.is_empty());
    for (number, parts) in before.iter().enumerate() {
        for &at in &moved {
            let target = &bed.targets[number].inner;
            target.put(objects[at].0, &[&parts[at]]).unwrap();
        }
    }
    let names: Vec<Name> = moved.iter().map(|at| objects[*at].0).collect();
    let (newer, first) = (names.clone(), bed.targets[..3].to_vec());
    bed.targets[6].before(("stat", ObjectKind::Pack), move || {
        for (name, target) in newer
            .iter()
            .flat_map(|name| first.iter().map(move |it| (name, it)))
        {
            // The length says of which generation a part is.
            target.inner.replace(*name, &[&[0; 16 * 10 + 4]]).unwrap();
        }
    });
    rebalance(&bed_with_secret(&bed));
    for name in names {
        assert_eq!(holders(&bed, name), [0, 1, 2, 6, 7, 8]);
    }
}

/// A change that cannot be made is followed by nobody who opens the set meanwhile.
#[test]
fn whoever_knows_an_older_set_puts_no_description() {
    let (bed, new) = set_of(3, 5);
    let before = bed.open();
    bed.open().add(&new[0]).unwrap();
    let was_put = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let put = Arc::clone(&was_put);
    bed.targets[0].before(("put", ObjectKind::Set), move || {
        put.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let error = before.add(&new[1]).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Overtaken);
    assert!(!was_put.load(std::sync::atomic::Ordering::Relaxed));
}

/// Two clients change the set at once: one of them finds the other's description behind its own,
/// and takes its own back.
#[test]
fn whoever_is_overtaken_while_it_changes_the_set_takes_its_description_back() {
    let (mut bed, new) = set_of(3, 5);
    let (first, second) = (bed.open(), bed.open());
    let place = new[1].clone();
    bed.targets[0].before(("put", ObjectKind::Set), move || {
        second.add(&place).unwrap();
    });
    let error = first.add(&new[0]).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Overtaken);
    bed.places.push(new[1].clone());
    let storage = bed.open();
    let urls: Vec<&str> = storage.urls().collect();
    assert_eq!(urls.len(), 4);
    assert!(urls.contains(&&*new[1].url), "{urls:?}");
    for target in &bed.targets[..3] {
        let descriptions = target.inner.list(ObjectKind::Set).unwrap();
        assert_eq!(descriptions.len(), 2, "the old one and that which counts");
    }
    // The other change can be made afterwards.
    storage.add(&new[0]).unwrap();
}

/// The same, also where the target that leaves was told.
#[test]
fn whoever_is_overtaken_while_it_replaces_a_target_takes_its_description_back() {
    let (bed, new) = set_of(3, 5);
    let (first, second) = (bed.open(), bed.open());
    let place = new[1].clone();
    bed.targets[2].before(("put", ObjectKind::Set), move || {
        second.add(&place).unwrap();
    });
    let error = first.replace("target-2", &new[0]).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Overtaken);
    for target in &bed.targets[..3] {
        let descriptions = target.inner.list(ObjectKind::Set).unwrap();
        assert_eq!(descriptions.len(), 2, "the old one and that which counts");
    }
}

/// The last target of a group that is replaced has to know it before anybody else.
#[test]
fn whoever_knows_replaced_targets_alone_is_told_so_before_others_put_something() {
    let (mut bed, new) = set_of(3, 6);
    let before = bed.open();
    for (old, place) in new.iter().enumerate().take(2) {
        bed.open().replace(&format!("target-{old}"), place).unwrap();
        bed.places[old] = place.clone();
    }
    let (places, told) = (bed.places.clone(), Arc::clone(&bed.told));
    let places = [places, new[2..].to_vec()].concat();
    let (done, was_done) = channel();
    bed.targets[5].before(("put", ObjectKind::Set), move || {
        let notice = Arc::new(move |event: &tabane_storage::Event| {
            told.lock().unwrap().push(event.text.clone());
        });
        let newer = StripedStorage::open("set".to_owned(), places, notice).unwrap();
        put_small(&newer, 0..1);
        done.send(before.list(ObjectKind::Snapshot)).unwrap();
    });
    bed.open().replace("target-2", &new[2]).unwrap();
    let error = was_done.recv().unwrap().unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
}

/// All targets of a group are replaced, one after the other, and still answer.
#[test]
fn whoever_knows_replaced_targets_alone_is_told_so() {
    let (mut bed, new) = set_of(3, 6);
    put_small(&bed.open(), 0..3);
    let before = bed.open();
    for (old, place) in new.iter().enumerate() {
        bed.open().replace(&format!("target-{old}"), place).unwrap();
        bed.places[old] = place.clone();
        heal(&bed.open());
    }
    put_small(&bed.open(), 10..13);
    let error = before.list(ObjectKind::Snapshot).unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
    let bytes = [99; 1000];
    let name = Name::new(ObjectKind::Snapshot, object_id(&[&bytes]));
    let error = before.put(name, &[&bytes]).unwrap_err();
    assert!(error.to_string().contains(HAS_CHANGED), "{error}");
}

/// One target that was replaced leaves two of the three that may have copies. If one of these does
/// not answer, a single one is left, which others need not ask.
#[test]
fn whoever_knows_one_replaced_target_is_told_so_once_another_is_away() {
    let (bed, new) = set_of(3, 4);
    let before = bed.open();
    bed.open().replace("target-0", &new[0]).unwrap();
    let snapshot = |byte: u8| {
        let bytes = [byte; 1000];
        let name = Name::new(ObjectKind::Snapshot, object_id(&[&bytes]));
        before.put(name, &[&bytes])
    };
    snapshot(1).unwrap();
    bed.targets[1].fail(Some(StorageErrorKind::Unreachable));
    let error = snapshot(2).unwrap_err();
    assert!(error.to_string().contains(HAS_CHANGED), "{error}");
}
