//! Clients that have opened a set before it got more targets, and go on.

use tabane_storage::{Name, ObjectKind, Storage, StorageErrorKind};
use tabane_striped::{HAS_CHANGED, StripedStorage};

use super::Bed;
use super::drain::{check_small, put_small};
use super::groups::{heal, holders};

/// A set of three targets at the first of so many places, and the other places.
fn set_of_three(count: usize) -> (Bed, Vec<tabane_striped::Place>) {
    let mut bed = Bed::unformed(count, "target-");
    let new = bed.places.split_off(3);
    StripedStorage::form(bed.places.clone(), false).unwrap();
    (bed, new)
}

/// A prune that misses a snapshot removes what it needs.
#[test]
fn whoever_does_not_know_a_new_group_finds_what_others_put() {
    let (mut bed, new) = set_of_three(6);
    let before = bed.open();
    bed.open().add_group(&new).unwrap();
    bed.places.extend(new);
    let small = put_small(&bed.open(), 0..9);
    check_small(&before, &small);
    check_small(&bed.open(), &small);
}

/// Of three copies at least one is on a target that is known and there, or lists would lack it.
#[test]
fn whoever_may_miss_all_copies_of_an_object_is_told_to_open_the_set_again() {
    let (mut bed, new) = set_of_three(6);
    let before = bed.open();
    let mut small = Vec::new();
    for (count, place) in (0..).zip(&new) {
        bed.open().add(place).unwrap();
        bed.places.push(place.clone());
        small.extend(put_small(&bed.open(), 20 * count..20 * count + 20));
        if count < 2 {
            check_small(&before, &small);
        }
    }
    let error = before.list(ObjectKind::Snapshot).unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
    check_small(&bed.open(), &small);
    // One is not known, and two are missing.
    let (mut bed, new) = set_of_three(4);
    let before = bed.open();
    bed.open().add(&new[0]).unwrap();
    bed.places.extend(new);
    let small = put_small(&bed.open(), 0..20);
    check_small(&before, &small);
    bed.fail(&[0, 1], Some(StorageErrorKind::Unreachable));
    let error = before.list(ObjectKind::Snapshot).unwrap_err();
    assert_eq!(error.to_string(), HAS_CHANGED);
}

#[test]
fn what_is_deleted_by_somebody_who_does_not_know_a_target_does_not_come_back() {
    let (mut bed, new) = set_of_three(4);
    let before = bed.open();
    bed.open().add(&new[0]).unwrap();
    bed.places.extend(new);
    let small = put_small(&bed.open(), 0..20);
    let on_new = |(name, _): &&(Name, Vec<u8>)| holders(&bed, *name).contains(&3);
    let (name, _) = small.iter().find(on_new).expect("one of 20");
    before.delete(*name).unwrap();
    assert_eq!(holders(&bed, *name), [3]);
    let is_listed = || {
        let listed = bed.open().list(ObjectKind::Snapshot).unwrap();
        listed.iter().any(|listed| listed.id == name.id)
    };
    assert!(!is_listed());
    heal(&bed.open());
    assert!(holders(&bed, *name).is_empty() && !is_listed());
}
