//! What a prune sees of a repository that changes while the prune reads, and of objects with the
//! same time.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::client::{Presence, Purpose};
use tabane_store::{Error, Id, Repository};

use super::basics::{prune_with, tight};
use crate::common::heard::{BySeconds, Heard, ended};
use crate::common::memory::{MemoryStorage, Objects};
use crate::common::tree::{random_bytes, write};
use crate::common::{assert_clean, back_up, back_up_observed, backup_options, id, init, scratch};

const SECOND: Duration = Duration::from_secs(1);

fn count(storage: &MemoryStorage, kind: ObjectKind) -> usize {
    storage.list(kind).unwrap().len()
}

fn forget_all(storage: &MemoryStorage) {
    for listed in storage.list(ObjectKind::Snapshot).unwrap() {
        storage.remove(Name::new(ObjectKind::Snapshot, listed.id));
    }
}

/// Removes all packs from the storage; returns them.
fn take_packs(storage: &MemoryStorage) -> Objects {
    let mut packs = storage.objects();
    packs.retain(|name, _| name.kind == ObjectKind::Pack);
    for name in packs.keys() {
        storage.remove(*name);
    }
    packs
}

/// A repository with a backup of a directory with one file.
pub fn with_one_backup(dir: &Path) -> (MemoryStorage, Arc<Repository>, Id) {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    write(dir.join("a"), &random_bytes(1, 10_000));
    let made = id(&back_up(&repository, &[dir]));
    (storage, repository, made)
}

/// A repository in a storage that lists times in whole seconds, with the packs and the pending
/// snapshot of a client that failed to write its snapshot. All objects have the same time.
fn with_a_pending_snapshot(dir: &Path) -> (MemoryStorage, Arc<Repository>) {
    let storage = MemoryStorage::default();
    let repository = init(BySeconds {
        inner: storage.clone(),
    });
    write(dir.join("a"), &random_bytes(1, 10_000));
    let fails = Heard::open(&storage, |what, kind| match (what, kind) {
        ("put", ObjectKind::Snapshot) => ended(),
        _ => Ok(()),
    });
    let result = back_up_observed(&fails, &[dir], backup_options(), &Arc::default());
    assert!(result.is_err());
    assert_eq!(count(&storage, ObjectKind::Pending), 1);
    (storage, repository)
}

/// Packs go at the first such operation. If they are back when packs are listed again, a prune
/// has missed nothing; otherwise it refuses.
#[track_caller]
fn assert_looks_again(taken_at: &'static str) {
    let dir = scratch();
    for is_back in [true, false] {
        let (storage, _, _) = with_one_backup(dir.path());
        let others = storage.clone();
        let mut taken = None;
        let pruner = Heard::open(&storage, move |what, kind| {
            if (what, kind) == (taken_at, ObjectKind::Pack) && taken.is_none() {
                taken = Some(take_packs(&others));
            } else if (what, kind) == ("list", ObjectKind::Pack) && is_back {
                for (name, bytes) in taken.iter().flatten() {
                    others.set(*name, bytes.clone());
                }
            }
            Ok(())
        });
        let planned = pruner.plan_prune(tight());
        if is_back {
            assert_eq!(planned.unwrap().stats().unused_packs, 0);
        } else {
            let error = planned.err().expect("all packs are missing");
            assert!(matches!(error, Error::CannotPrune(_)), "{error:?}");
        }
    }
}

/// A block may have been moved between two lists, so it counts as missing when two reads in a row
/// lack it.
#[test]
fn a_pack_counts_as_missing_when_it_is_missing_twice() {
    assert_looks_again("list");
}

/// A pack that is gone when it is read may have been moved, too.
#[test]
fn a_pack_that_goes_while_it_is_read_is_looked_for_once_more() {
    assert_looks_again("get");
}

/// A prune executes its plan with the directories that it has read for the plan.
#[test]
fn directories_are_read_once() {
    let dir = scratch();
    let (storage, repository, first) = with_one_backup(dir.path());
    write(dir.path().join("a"), &random_bytes(2, 20_000));
    back_up(&repository, &[dir.path()]);
    storage.remove(Name::new(ObjectKind::Snapshot, first));
    let reads = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&reads);
    let pruner = Heard::open(&storage, move |what, kind| {
        *counted.lock().unwrap() += u32::from((what, kind) == ("get", ObjectKind::Pack));
        Ok(())
    });
    let plan = pruner.plan_prune(tight()).unwrap();
    let planned = *reads.lock().unwrap();
    assert!(planned > 0);
    assert_eq!(plan.stats().repacked_packs, 0);
    assert_eq!(plan.execute().unwrap().deleted_packs, 2);
    assert_eq!(*reads.lock().unwrap(), planned);
    assert_clean(&repository);
}

/// The newest removal is for clients that began before it. A prune deletes those that were
/// superseded when it began.
#[test]
fn of_removals_the_last_two_are_left() {
    let dir = scratch();
    let (storage, repository, _) = with_one_backup(dir.path());
    let names = || -> BTreeSet<Id> {
        let listed = storage.list(ObjectKind::Removal).unwrap();
        listed.iter().map(|removal| removal.id).collect()
    };
    let mut last = Vec::new();
    for round in 2..6 {
        forget_all(&storage);
        let report = prune_with(&repository, tight()).unwrap();
        assert_eq!(report.deleted_packs, 2);
        let before: BTreeSet<Id> = last.iter().copied().collect();
        let new: Vec<Id> = names().difference(&before).copied().collect();
        assert_eq!(new.len(), 1);
        last.extend(new);
        let from = last.len().saturating_sub(2);
        assert_eq!(names(), last[from..].iter().copied().collect());
        write(dir.path().join("a"), &random_bytes(round, 10_000));
        back_up(&repository, &[dir.path()]);
    }
}

/// A dry run has no record of its own, whose time would be the time of the storage.
#[test]
fn in_a_dry_run_the_latest_pack_is_no_younger_than_the_run() {
    let dir = scratch();
    let (storage, repository, made) = with_one_backup(dir.path());
    let planned = repository.preview_prune(tight(), &[made].into()).unwrap();
    let stats = planned.stats();
    assert_eq!(stats.unused_packs, count(&storage, ObjectKind::Pack) as u64);
    assert_eq!(stats.young_packs, 0);
}

/// Of a client and an object with the same time, nobody knows which one came first.
#[test]
fn a_client_that_began_in_the_same_second_counts_as_earlier() {
    let dir = scratch();
    let storage = MemoryStorage::default();
    let repository = init(BySeconds {
        inner: storage.clone(),
    });
    write(dir.path().join("a"), &random_bytes(1, 10_000));
    back_up(&repository, &[dir.path()]);
    // A pack with the time of the client is young: the client may be about to need it.
    let client = Presence::announce(&repository, Purpose::Backup).unwrap();
    forget_all(&storage);
    let stats = *repository.plan_prune(tight()).unwrap().stats();
    assert_eq!((stats.unused_packs, stats.young_packs), (0, 2));
    drop(client);
    // A removal with the time of the client waits: the client may need its packs.
    storage.wait(SECOND);
    let client = Presence::announce(&repository, Purpose::Backup).unwrap();
    let report = prune_with(&repository, tight()).unwrap();
    assert_eq!((report.deleted_packs, report.waiting_packs), (0, 2));
    let report = prune_with(&repository, tight()).unwrap();
    assert_eq!((report.deleted_packs, report.waiting_packs), (0, 2));
    drop(client);
    assert_eq!(prune_with(&repository, tight()).unwrap().deleted_packs, 2);
}

/// A prune keeps the blocks of a pending snapshot as long as its client may be at work.
#[test]
fn a_pending_snapshot_of_the_second_in_which_a_client_began_keeps_its_blocks() {
    let dir = scratch();
    let (_, repository) = with_a_pending_snapshot(dir.path());
    let client = Presence::announce(&repository, Purpose::Backup).unwrap();
    let used = || {
        let planned = repository.preview_prune(tight(), &Default::default());
        planned.unwrap().stats().used_blocks
    };
    assert!(used() > 0);
    drop(client);
    assert_eq!(used(), 0);
}

/// A pending snapshot that is left behind warns of a snapshot that appears late, for thirty days.
#[test]
fn a_pending_snapshot_of_a_client_that_died_goes_after_thirty_days() {
    let dir = scratch();
    let (storage, repository) = with_a_pending_snapshot(dir.path());
    storage.wait(30 * 24 * 3600 * SECOND);
    prune_with(&repository, tight()).unwrap();
    assert_eq!(count(&storage, ObjectKind::Pending), 1);
    storage.wait(SECOND);
    prune_with(&repository, tight()).unwrap();
    assert_eq!(count(&storage, ObjectKind::Pending), 0);
}
