//! A repository over several targets is brought to the latest format.

use std::fs;
use std::sync::Arc;

use tabane_storage::{LocalStorage, Name, ObjectKind, Storage};
use tabane_store::{FORMAT, Repository};
use tabane_striped::StripedStorage;

use crate::bed::{Bed, heal};
use crate::common::fault::{Fault, FaultyStorage};
use crate::common::{self, assert_clean, back_up, id, init_options, password};

/// A target that is away would keep the config of format 1.
#[test]
fn not_while_a_target_is_missing() {
    let bed = Bed::new(3);
    StripedStorage::form(bed.places(), false).unwrap();
    let storage = Arc::new(bed.open());
    let made = Repository::init(storage, &password(), init_options().format(1)).unwrap();
    let snapshot = id(&back_up(&Arc::new(made), &[&bed.source()]));
    let elsewhere = bed.dir.path().join("elsewhere");
    // Gone before the set is opened, and while it is in use.
    for late in [false, true] {
        let opened = late.then(|| bed.repository());
        fs::rename(bed.target(1), &elsewhere).unwrap();
        let repository = opened.unwrap_or_else(|| bed.repository());
        let error = repository.migrate().unwrap_err().to_string();
        assert!(error.contains("1 of 3 are missing"), "{error}");
        assert!(error.contains("target-1"), "{error}");
        fs::rename(&elsewhere, bed.target(1)).unwrap();
        assert_eq!(bed.repository().format(), 1);
        let copies = bed.open().list(ObjectKind::Copy).unwrap();
        assert_eq!(copies.len(), 0);
    }
    assert!(bed.repository().migrate().unwrap());
    for number in 0..3 {
        let config = bed.place(number).storage.get(Name::CONFIG, None).unwrap();
        assert!(
            config.windows(8).any(|bytes| bytes == b"TABANEC\x02"),
            "{number}"
        );
    }
    let repository = bed.repository();
    assert_eq!(repository.format(), FORMAT);
    assert_clean(&repository);
    bed.assert_restores(snapshot);

    // Copies are healed as everything else.
    bed.lose(2);
    bed.renew(2);
    heal(&bed.open());
    bed.assert_whole();
    let copies = fs::read_dir(bed.target(2).join("copies")).unwrap();
    assert_eq!(copies.count(), 2);
}

/// The format that the config on a target says; nothing where it has none.
fn format_on(bed: &Bed, number: usize) -> Option<u8> {
    let config = bed.place(number).storage.get(Name::CONFIG, None).ok()?;
    let magic = b"TABANEC";
    let at = config.windows(magic.len()).position(|bytes| bytes == magic);
    Some(config[at.unwrap() + magic.len()])
}

/// What is lost in the middle of a migration comes back with the old config. The migration has said
/// so, and the next one mends it, whichever config it reads.
#[test]
fn a_target_that_is_lost_in_the_middle_is_mended_by_another_migration() {
    for lost in [0, 2] {
        // Targets are written at once: which of them has the new config when one fails is chance.
        let seen = (0..50).any(|_| stale_after_migrations(lost) > 0);
        assert!(seen, "no target kept the old config");
    }
}

/// Migrates a set of which one target is lost at its first operation, its second and so on; returns
/// how often this target kept the old config while the others have the new one.
fn stale_after_migrations(lost: usize) -> usize {
    let mut stale = 0;
    for at in 1.. {
        let bed = Bed::new(3);
        StripedStorage::form(bed.places(), false).unwrap();
        let storage = Arc::new(bed.open());
        Repository::init(storage, &password(), init_options().format(1)).unwrap();
        let mut places = bed.places();
        let target = LocalStorage::new(bed.target(lost));
        let faulty = FaultyStorage::over(target, Fault::FailFrom, at, Arc::default());
        places[lost].storage = Arc::new(faulty);
        let storage = Arc::new(common::striped::open(places).unwrap());
        let repository = Repository::open(storage, &password()).unwrap();
        let migrated = repository.migrate();
        if migrated.is_ok() {
            break;
        }
        let others = [0, 1, 2].into_iter().filter(|number| *number != lost);
        let is_new = others
            .map(|number| format_on(&bed, number))
            .all(|it| it == Some(FORMAT));
        stale += usize::from(is_new && format_on(&bed, lost) == Some(1));
        bed.repository().migrate().unwrap();
        for number in 0..3 {
            assert_eq!(format_on(&bed, number), Some(FORMAT), "{at} {number}");
        }
        let repository = bed.repository();
        assert_eq!(
            (repository.format(), repository.damaged()),
            (FORMAT, &[][..])
        );
        assert_clean(&repository);
    }
    stale
}
