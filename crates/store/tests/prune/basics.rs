//! What a prune removes and what it leaves.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::backup::Backup;
use tabane_store::client::{Presence, Purpose};
use tabane_store::prune::{MaxUnused, PruneOptions, PruneReport};
use tabane_store::{Error, Repository};
use tempfile::TempDir;

use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, small_tree, text, write};
use crate::common::{
    assert_clean, assert_restores, back_up, id, init, open, restore_options, restore_with, scratch,
};

/// Leaves nothing unused.
pub fn tight() -> PruneOptions {
    PruneOptions::default().max_unused(MaxUnused::Bytes(0))
}

pub fn prune_with(
    repository: &Arc<Repository>,
    options: PruneOptions,
) -> tabane_store::Result<PruneReport> {
    repository.plan_prune(options)?.execute()
}

fn prune(repository: &Arc<Repository>) -> PruneReport {
    prune_with(repository, tight()).expect("prune")
}

/// A directory with one file, a repository, and a backup of the one in the other.
fn with_one_backup() -> (TempDir, MemoryStorage, Arc<Repository>, Backup) {
    let dir = scratch();
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    write(dir.path().join("a"), &random_bytes(1, 100_000));
    let made = back_up(&repository, &[dir.path()]);
    (dir, storage, repository, made)
}

fn forget(storage: &MemoryStorage, snapshot: tabane_store::Id) {
    storage
        .delete(Name::new(ObjectKind::Snapshot, snapshot))
        .unwrap();
}

fn count(storage: &MemoryStorage, kind: ObjectKind) -> usize {
    storage.list(kind).unwrap().len()
}

fn pack_bytes(storage: &MemoryStorage) -> u64 {
    let packs = storage.list(ObjectKind::Pack).unwrap();
    packs.iter().map(|pack| pack.len).sum()
}

#[test]
fn what_is_forgotten_goes_and_the_rest_stays() {
    let dir = scratch();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    small_tree(&first, 1);
    write(first.join("only here"), &random_bytes(7, 300_000));
    small_tree(&second, 1);
    write(second.join("only there"), &random_bytes(8, 200_000));
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let alone = {
        let storage = MemoryStorage::default();
        back_up(&init(storage.clone()), &[&second]);
        pack_bytes(&storage)
    };
    let made = [&first, &second].map(|source| back_up(&repository, &[source]));
    let whole = pack_bytes(&storage);

    let planned = repository
        .preview_prune(tight(), &Default::default())
        .unwrap();
    assert_eq!(planned.stats().snapshots, 2);
    assert_eq!(
        planned.stats().unused_packs + planned.stats().repacked_packs,
        0
    );
    assert_eq!(planned.stats().used_bytes, whole);

    forget(&storage, id(&made[0]));
    let objects = storage.objects();
    let planned = repository
        .preview_prune(tight(), &Default::default())
        .unwrap();
    let stats = *planned.stats();
    assert!(storage.objects() == objects, "a dry run wrote something");
    assert!(stats.repacked_packs > 0);
    let report = prune(&repository);
    assert!(report.deleted_packs >= stats.repacked_packs);
    assert_eq!(report.waiting_packs, 0);
    assert_clean(&repository);
    assert_restores(&repository, id(&made[1]), &second, &second);
    let left = pack_bytes(&storage);
    assert!(left <= alone + 10_000, "{left} bytes instead of {alone}");
    // The removal of the deleted packs stays; no client is at work.
    assert_eq!(count(&storage, ObjectKind::Removal), 1);
    assert_eq!(count(&storage, ObjectKind::Client), 0);
    assert_eq!(count(&storage, ObjectKind::Pending), 0);

    let objects = storage.objects();
    let report = prune(&repository);
    assert_eq!(report.deleted_packs + report.waiting_packs, 0);
    assert!(storage.objects() == objects, "there was nothing to do");
    back_up(&repository, &[&first]);
    assert_clean(&repository);
}

#[test]
fn an_empty_repository() {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    prune(&repository);
    let dir = scratch();
    write(dir.path().join("file"), b"x");
    let made = back_up(&repository, &[dir.path()]);
    forget(&storage, id(&made));
    prune(&repository);
    assert_eq!(count(&storage, ObjectKind::Pack), 0);
    assert_eq!(count(&storage, ObjectKind::Index), 0);
    assert_clean(&repository);
}

#[test]
fn little_waste_is_left_alone() {
    let dir = scratch();
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    write(dir.path().join("much"), &random_bytes(1, 3_000_000));
    write(dir.path().join("little"), &random_bytes(2, 60_000));
    let made = back_up(&repository, &[dir.path()]);
    fs::remove_file(dir.path().join("little")).unwrap();
    back_up(&repository, &[dir.path()]);
    forget(&storage, id(&made));
    let options = PruneOptions::default();
    let planned = repository
        .preview_prune(options, &Default::default())
        .unwrap();
    // The unneeded blocks are in a pack of their own, or with others.
    assert!(planned.stats().left_unused_bytes + planned.stats().unused_bytes >= 60_000);
    assert_eq!(planned.stats().repacked_packs, 0);
    prune_with(&repository, options).unwrap();
    assert_clean(&repository);
    prune(&repository);
    let planned = repository
        .preview_prune(tight(), &Default::default())
        .unwrap();
    assert_eq!(planned.stats().used_bytes, planned.stats().pack_bytes);
}

#[test]
fn what_a_running_client_may_need_stays() {
    let (dir, storage, repository, made) = with_one_backup();
    // As a backup that runs in another process, and has already written something.
    let presence = Presence::announce(&repository, Purpose::Backup).unwrap();
    let other = open(storage.clone());
    write(dir.path().join("b"), &random_bytes(2, 100_000));
    let unfinished = back_up(&other, &[dir.path()]);
    for made in [&made, &unfinished] {
        forget(&storage, id(made));
    }
    let report = prune(&repository);
    assert_eq!(report.deleted_packs, 0);
    assert!(report.waiting_packs > 0, "the first snapshot's packs wait");
    let planned = repository
        .preview_prune(tight(), &Default::default())
        .unwrap();
    assert!(
        planned.stats().young_packs > 0,
        "the second's are not touched"
    );
    assert_eq!(planned.stats().clients, 1);
    drop(presence);
    prune(&repository);
    assert_eq!(count(&storage, ObjectKind::Pack), 0);
}

/// A client that began before packs were condemned may need them; one that began afterwards does
/// not, since it takes them for absent.
#[test]
fn who_was_there_first_holds_back_what_is_condemned() {
    let (_dir, storage, repository, made) = with_one_backup();
    let minute = Duration::from_secs(60);
    let early = Presence::announce(&repository, Purpose::Backup).unwrap();
    storage.wait(minute);
    forget(&storage, id(&made));
    assert!(prune(&repository).waiting_packs > 0, "condemned");
    assert_eq!(count(&storage, ObjectKind::Removal), 1);
    storage.wait(minute);
    let late = Presence::announce(&repository, Purpose::Backup).unwrap();
    storage.wait(minute);
    for _ in 0..2 {
        assert_eq!(
            prune(&repository).deleted_packs,
            0,
            "the early one is there"
        );
    }
    drop(early);
    assert!(
        prune(&repository).deleted_packs > 0,
        "the late one is no hindrance"
    );
    assert_eq!(count(&storage, ObjectKind::Pack), 0);
    drop(late);
}

#[test]
fn the_dead_hold_nothing_back_for_ever() {
    let (_dir, storage, repository, made) = with_one_backup();
    forget(&storage, id(&made));
    std::mem::forget(Presence::announce(&repository, Purpose::Backup).unwrap());
    std::mem::forget(Presence::announce(&repository, Purpose::Prune).unwrap());
    assert!(matches!(
        prune_with(&repository, tight()),
        Err(Error::PruneRunning(_))
    ));
    assert_eq!(count(&storage, ObjectKind::Client), 2);
    storage.wait(Duration::from_secs(25 * 3600));
    prune(&repository);
    assert_eq!(count(&storage, ObjectKind::Pack), 0);
    assert_eq!(count(&storage, ObjectKind::Client), 0);

    std::mem::forget(Presence::announce(&repository, Purpose::Prune).unwrap());
    assert_eq!(
        repository.forget_dead_clients(false).unwrap().removed.len(),
        0
    );
    assert_eq!(
        repository.forget_dead_clients(true).unwrap().removed.len(),
        1
    );
    prune(&repository);
}

#[test]
fn grace_lets_what_is_condemned_live_on() {
    let (_dir, storage, repository, made) = with_one_backup();
    forget(&storage, id(&made));
    let hour = Duration::from_secs(3600);
    let options = tight().grace(hour);
    // Too young to be condemned, then too short a time condemned.
    for _ in 0..2 {
        let report = prune_with(&repository, options).unwrap();
        assert_eq!(report.deleted_packs, 0);
        storage.wait(hour);
    }
    assert!(prune_with(&repository, options).unwrap().deleted_packs > 0);
    assert_eq!(count(&storage, ObjectKind::Pack), 0);
}

/// The blocks of a condemned pack are stored again, and those of a snapshot that appears are copied
/// out.
#[test]
fn condemned_packs_are_not_relied_on() {
    let (dir, storage, repository, made) = with_one_backup();
    forget(&storage, id(&made));
    let presence = Presence::announce(&repository, Purpose::Backup).unwrap();
    assert!(prune(&repository).waiting_packs > 0);
    let again = back_up(&repository, &[dir.path()]);
    assert!(again.snapshot.summary.added_bytes >= 100_000);
    drop(presence);
    prune(&repository);
    assert_clean(&repository);
    assert_restores(&repository, id(&again), dir.path(), dir.path());
}

#[test]
fn damage_stops_a_prune() {
    let dir = scratch();
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    write(dir.path().join("a"), &text(100_000));
    let made = [(); 3].map(|()| {
        write(dir.path().join("b"), &random_bytes(1, 10_000));
        back_up(&repository, &[dir.path()])
    });
    forget(&storage, id(&made[0]));
    let sound = storage.objects();
    let mut needless = 0;
    for kind in [ObjectKind::Snapshot, ObjectKind::Index, ObjectKind::Pack] {
        for listed in storage.list(kind).unwrap() {
            let name = Name::new(kind, listed.id);
            let damages: [Option<Vec<u8>>; 2] = [None, Some(vec![0; listed.len as usize])];
            for damage in damages {
                // Nobody misses a snapshot that is gone, and a prune does not read what it does not
                // copy.
                if (kind, damage.is_none()) == (ObjectKind::Snapshot, true)
                    || (kind, damage.is_some()) == (ObjectKind::Pack, true)
                {
                    continue;
                }
                let damaged = MemoryStorage::new(sound.clone());
                match damage {
                    None => damaged.remove(name),
                    Some(bytes) => damaged.set(name, bytes),
                }
                let before = damaged.objects();
                let repository = open(damaged.clone());
                match prune_with(&repository, tight()) {
                    Err(_) => assert!(damaged.objects() == before, "{name}: something was changed"),
                    // Only what was forgotten needed it.
                    Ok(_) => {
                        assert_eq!(
                            kind,
                            ObjectKind::Pack,
                            "{name} is damaged, and a prune went on"
                        );
                        assert_clean(&repository);
                        needless += 1;
                    }
                }
            }
        }
    }
    assert!(needless <= 2, "{needless} packs were not missed");
}

#[test]
fn many_small_backups_end_in_few_objects() {
    let dir = scratch();
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let mut last = None;
    for number in 0..40 {
        write(
            dir.path().join(format!("{number}")),
            &random_bytes(number, 2000),
        );
        last = Some(back_up(&repository, &[dir.path()]));
    }
    assert!(count(&storage, ObjectKind::Pack) >= 80);
    prune_with(&repository, PruneOptions::default()).unwrap();
    assert!(count(&storage, ObjectKind::Pack) <= 4);
    assert!(count(&storage, ObjectKind::Index) <= 2);
    assert_clean(&repository);
    let target = scratch();
    let id = id(&last.unwrap());
    restore_with(&repository, id, restore_options(target.path()));
    assert_eq!(
        repository
            .snapshots(&Default::default())
            .unwrap()
            .snapshots
            .len(),
        40
    );
}

/// Eight small index objects are left as they are, and more become one.
#[test]
fn many_small_index_objects_become_one() {
    let dir = scratch();
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    for number in 1..=8 {
        write(dir.path().join("a"), &random_bytes(number, 3000));
        back_up(&repository, &[dir.path()]);
    }
    assert_eq!(count(&storage, ObjectKind::Index), 8);
    let gentle = || PruneOptions::default().max_unused(MaxUnused::Unlimited);
    prune_with(&repository, gentle()).unwrap();
    assert_eq!(count(&storage, ObjectKind::Index), 8);
    write(dir.path().join("a"), &random_bytes(9, 3000));
    back_up(&repository, &[dir.path()]);
    prune_with(&repository, gentle()).unwrap();
    assert_eq!(count(&storage, ObjectKind::Index), 1);
    assert_clean(&repository);
}
