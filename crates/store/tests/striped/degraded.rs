//! Life without some targets, and what happens when they come back.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::{PruneOptions, Repository};
use tabane_striped::{HAS_CHANGED, StripedStorage};

use crate::bed::{Bed, Quiet, Random, heal, scrub};
use crate::common::striped::Told;
use crate::common::{assert_clean, back_up, id, password};

/// A target goes away and comes back as it was.
fn away(bed: &Bed, number: usize) -> impl Fn(&Bed) {
    let elsewhere = bed.dir.path().join(format!("away-{number}"));
    fs::rename(bed.target(number), &elsewhere).unwrap();
    move |bed| fs::rename(&elsewhere, bed.target(number)).unwrap()
}

#[test]
fn a_backup_goes_on_without_two_targets_and_warns_once() {
    let bed = Bed::new(5);
    let first = bed.fill();
    let back = [away(&bed, 1), away(&bed, 4)];
    let told = Told::default();
    let storage = StripedStorage::open("set".to_owned(), bed.places(), told.notice()).unwrap();
    let repository = Arc::new(Repository::open(Arc::new(storage), &password()).unwrap());
    fs::write(bed.source().join("new"), Random(11).bytes(300_000)).unwrap();
    let second = id(&back_up(&repository, &[&bed.source()]));
    assert_clean(&repository);
    bed.assert_restores(second);
    let told = told.all();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("2 of 5 targets missing"), "{told:?}");
    assert!(
        told[0].contains("target-1") && told[0].contains("target-4"),
        "{told:?}"
    );

    // Back, they lack what was stored meanwhile; everything can be read all the same.
    back.iter().for_each(|back| back(&bed));
    let survey = bed.open().survey().unwrap();
    assert!(
        survey.targets[1].lacks > 0 && survey.targets[4].lacks > 0,
        "{survey:?}"
    );
    assert_eq!(survey.targets[0].lacks, 0, "{survey:?}");
    bed.assert_restores(second);
    heal(&bed.open());
    bed.assert_whole();
    for pair in [[0, 2], [2, 3], [0, 3]] {
        let back = pair.map(|number| away(&bed, number));
        bed.assert_restores(second);
        back.iter().for_each(|back| back(&bed));
    }
    assert_eq!(snapshot_count(&bed.repository()), 2);
    assert_ne!(first, second);
}

/// What was stored without two targets cannot be read without two others, and is not lost.
#[test]
fn packs_that_wait_for_their_targets_are_not_taken_for_lost() {
    let bed = Bed::new(5);
    let first = bed.fill();
    let back = [away(&bed, 1), away(&bed, 4)];
    fs::write(bed.source().join("new"), Random(11).bytes(300_000)).unwrap();
    let second = id(&back_up(&bed.repository(), &[&bed.source()]));
    back.iter().for_each(|back| back(&bed));
    let packs = |storage: StripedStorage| {
        let mut packs = storage.list(ObjectKind::Pack).unwrap();
        packs.sort_by_key(|pack| pack.id);
        packs
            .iter()
            .map(|pack| (pack.id, pack.len))
            .collect::<Vec<_>>()
    };
    let before = packs(bed.open());

    let back = [away(&bed, 0), away(&bed, 2)];
    assert_eq!(packs(bed.open()), before);
    let repository = bed.repository();
    let _ = repository.repair_index(Default::default());
    if let Ok(plan) = repository.plan_prune(PruneOptions::default()) {
        plan.execute().unwrap();
    }
    back.iter().for_each(|back| back(&bed));
    assert_eq!(packs(bed.open()), before);
    assert_eq!(snapshot_count(&bed.repository()), 2);
    bed.assert_restores(second);
    assert_clean(&bed.repository());
    assert_ne!(first, second);
}

/// What was forgotten and pruned while a target was away stays away when it returns, healed or not.
#[test]
fn what_was_removed_does_not_come_back() {
    for healed_before in [false, true] {
        let bed = Bed::new(5);
        let first = bed.fill();
        fs::write(bed.source().join("large"), vec![9; 400_000]).unwrap();
        let second = id(&back_up(&bed.repository(), &[&bed.source()]));
        let back = [away(&bed, 0), away(&bed, 3)];
        let repository = bed.repository();
        let forgotten = Name::new(ObjectKind::Snapshot, first);
        repository.storage().delete(forgotten).unwrap();
        prune_all(&repository);
        if healed_before {
            heal(&bed.open());
        }
        let before = names(&bed.open());
        back.iter().for_each(|back| back(&bed));
        assert_eq!(snapshot_count(&bed.repository()), 1);
        assert!(bed.open().stat(forgotten).is_err());
        bed.assert_restores(second);
        assert_eq!(names(&bed.open()), before);
        let report = heal(&bed.open());
        assert!(report.applied_deletions > 0, "{report:?}");
        assert_eq!(names(&bed.open()), before);
        assert_eq!(heal(&bed.open()).applied_deletions, 0);
        // No target holds a part of the forgotten snapshot.
        for number in 0..5 {
            let left = bed.target(number).join(forgotten.path());
            assert!(!left.exists(), "{}", left.display());
        }
        bed.assert_restores(second);
        assert_clean(&bed.repository());
        bed.open().remove_leftovers(Duration::ZERO).unwrap();
        assert_eq!(scrub(&bed.open()).fragments, 0);
        bed.assert_whole();
    }
}

fn snapshot_count(repository: &Arc<Repository>) -> usize {
    repository
        .snapshots(&Default::default())
        .unwrap()
        .snapshots
        .len()
}

/// The objects that snapshots and index consist of.
fn names(storage: &StripedStorage) -> Vec<Name> {
    let kinds = [ObjectKind::Key, ObjectKind::Index, ObjectKind::Snapshot];
    let of_kind = |kind| {
        storage
            .list(kind)
            .unwrap()
            .into_iter()
            .map(move |one| Name::new(kind, one.id))
    };
    let mut names: Vec<Name> = kinds.into_iter().flat_map(of_kind).collect();
    names.sort();
    names
}

fn prune_all(repository: &Arc<Repository>) {
    let plan = repository.plan_prune(PruneOptions::default()).unwrap();
    plan.execute().unwrap();
}

#[test]
fn a_target_that_fails_in_the_middle_is_left_alone() {
    let bed = Bed::new(5);
    bed.fill();
    let told = Told::default();
    let storage = StripedStorage::open("set".to_owned(), bed.places(), told.notice()).unwrap();
    let repository = Arc::new(Repository::open(Arc::new(storage), &password()).unwrap());
    bed.lose(2);
    fs::write(bed.source().join("new"), Random(11).bytes(300_000)).unwrap();
    let made = id(&back_up(&repository, &[&bed.source()]));
    let told = told.all();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("target-2"), "{told:?}");
    bed.assert_restores(made);
}

#[test]
fn two_who_heal_at_once_are_no_trouble() {
    let bed = Bed::new(5);
    let made = bed.fill();
    for number in [1, 2] {
        bed.lose(number);
        bed.renew(number);
    }
    let (one, other) = (bed.open(), bed.open());
    std::thread::scope(|scope| {
        for storage in [&one, &other] {
            scope.spawn(|| storage.heal(Default::default(), &Quiet).unwrap());
        }
    });
    bed.assert_whole();
    bed.assert_restores(made);
}

/// New stripes also use the added target, old ones stay, and all can be read without any two
/// targets.
#[test]
fn a_target_is_added() {
    let mut bed = Bed::new(4);
    let first = bed.fill();
    bed.open().add(&bed.place(4)).unwrap();
    bed.count = 5;
    assert!(
        bed.open().survey().unwrap().targets[4].lacks > 0,
        "it has no keys yet"
    );
    heal(&bed.open());
    fs::write(bed.source().join("new"), Random(11).bytes(300_000)).unwrap();
    let second = id(&back_up(&bed.repository(), &[&bed.source()]));
    fs::remove_file(bed.source().join("new")).unwrap();
    let survey = bed.assert_whole();
    assert!(survey.targets[4].bytes > 0);
    let packs = bed.open().list(ObjectKind::Pack).unwrap();
    assert!(packs.len() > 1);
    for pair in crate::bed::pairs(5) {
        let back = pair.map(|number| away(&bed, number));
        bed.assert_restores(first);
        assert_clean(&bed.repository());
        back.iter().for_each(|back| back(&bed));
    }
    assert_ne!(first, second);
    // An old one is replaced in all generations.
    bed.lose(0);
    bed.renew(0);
    heal(&bed.open());
    bed.assert_whole();
}

/// Who opened the set before takes no new stripe for lost.
#[test]
fn who_does_not_know_of_an_added_target_is_told() {
    let mut bed = Bed::new(4);
    bed.fill();
    let before = bed.repository();
    bed.open().add(&bed.place(4)).unwrap();
    assert_clean(&before);
    bed.count = 5;
    heal(&bed.open());
    fs::write(bed.source().join("new"), Random(12).bytes(300_000)).unwrap();
    back_up(&bed.repository(), &[&bed.source()]);
    let error = before.plan_prune(Default::default()).map(drop).unwrap_err();
    assert!(error.to_string().contains(HAS_CHANGED), "{error}");
    assert_clean(&bed.repository());
}

/// An interrupted `add` goes on, whatever of it was done.
#[test]
fn an_interrupted_addition_goes_on() {
    let mut bed = Bed::new(3);
    bed.fill();
    bed.open().add(&bed.place(3)).unwrap();
    // The others know; the file does not list it yet.
    assert_eq!(bed.open().survey().unwrap().targets[3].lacks, 0);
    bed.open().add(&bed.place(3)).unwrap();
    bed.count = 4;
    assert_eq!(bed.open().survey().unwrap().targets.len(), 4);
    heal(&bed.open());
    bed.assert_whole();
}
