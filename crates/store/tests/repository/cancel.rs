//! Operations that are cancelled end, and leave the repository whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::tree::{random_bytes, small_tree, write};
use crate::common::{Place, assert_clean, back_up, backup_options};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::snapshot::Filter;
use tabane_store::{Error, Progress, RestoreOptions};

/// Cancels an operation after this many questions whether to go on.
struct CancelAfter(AtomicU64);

impl Progress for CancelAfter {
    fn is_cancelled(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
}

fn after(times: u64) -> Arc<CancelAfter> {
    Arc::new(CancelAfter(AtomicU64::new(times)))
}

#[test]
fn a_cancelled_backup_makes_no_snapshot() {
    let place = Place::new();
    small_tree(&place.source, 1);
    write(place.source.join("big"), &random_bytes(30 << 20, 2));
    for times in [0, 1, 10, 40] {
        let repository = place.repository.with_progress(after(times));
        let result = repository.backup(backup_options().tag("cancelled"), &[&place.source]);
        match result {
            Err(Error::Cancelled) => {}
            other => panic!("{times}: {other:?}"),
        }
        let listing = place.repository.snapshots(&Filter::default()).unwrap();
        assert!(listing.snapshots.is_empty());
        assert_clean(&place.repository);
    }
    place.round_trip();
}

#[test]
fn a_cancelled_restore_goes_on_the_next_time() {
    let place = Place::new();
    small_tree(&place.source, 1);
    write(place.source.join("big"), &random_bytes(30 << 20, 2));
    back_up(&place.repository, &[&place.source]);
    let (id, snapshot) = place
        .repository
        .find_snapshot("latest", &Filter::default())
        .unwrap();
    let target = tempfile::tempdir().unwrap();
    for times in [0, 1, 5] {
        let repository = place.repository.with_progress(after(times));
        let result = repository.restore(RestoreOptions::new(target.path()), id, &snapshot);
        assert!(matches!(result, Err(Error::Cancelled)), "{times}");
    }
    let options = RestoreOptions::new(target.path()).verify(true);
    let summary = place.repository.restore(options, id, &snapshot).unwrap();
    assert_eq!(summary.errors, 0);
}

#[test]
fn a_cancelled_check_is_no_verdict() {
    let place = Place::new();
    small_tree(&place.source, 1);
    back_up(&place.repository, &[&place.source]);
    for times in [0, 1] {
        let options = CheckOptions::default().read_data(ReadData::All);
        let repository = place.repository.with_progress(after(times));
        assert!(matches!(repository.check(options), Err(Error::Cancelled)));
    }
    assert_clean(&place.repository);
}
