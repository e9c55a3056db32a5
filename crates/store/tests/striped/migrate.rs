//! A repository over several targets is brought to the latest format.

use std::fs;
use std::sync::Arc;

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::{FORMAT, Repository};
use tabane_striped::StripedStorage;

use crate::bed::{Bed, heal};
use crate::common::{assert_clean, back_up, id, init_options, password};

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
