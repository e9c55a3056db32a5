//! Snapshots that are written while others condemn packs.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::backup::{Backup, Parent};
use tabane_store::key::{KdfCost, Password};
use tabane_store::repair::RepairOptions;
use tabane_store::{Error, Id, Repository};

use super::basics::{prune_with, tight};
use super::view::with_one_backup;
use crate::common::heard::{Heard, ended};
use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, write};
use crate::common::{
    assert_clean, assert_restores, back_up, back_up_observed, backup_options, id, init, open,
    scratch,
};

/// Backs up without a parent, so that all files are read and their blocks are found in the index.
fn back_up_again(repository: &Arc<Repository>, source: &Path) -> tabane_store::Result<Backup> {
    let options = backup_options().parent(Parent::None);
    back_up_observed(repository, &[source], options, &Arc::default())
}

/// If there is no new removal, the snapshot is put right behind its pending one.
#[test]
fn nothing_is_asked_between_a_pending_snapshot_and_the_snapshot() {
    let dir = scratch();
    write(dir.path().join("a"), &random_bytes(1, 10_000));
    let storage = MemoryStorage::default();
    init(storage.clone());
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let heard = Heard::open(&storage, move |what, kind| {
        tell.lock().unwrap().push((what.to_owned(), kind));
        Ok(())
    });
    back_up_again(&heard, dir.path()).unwrap();
    let told = told.lock().unwrap();
    let mut puts = told.iter().enumerate();
    let mut place = |of: ObjectKind| {
        let found = puts.find(|(_, (what, kind))| (&**what, *kind) == ("put", of));
        found.expect("it is put").0
    };
    assert_eq!(place(ObjectKind::Pending) + 1, place(ObjectKind::Snapshot));
}

/// What happens when a client copies needed blocks out of condemned packs.
#[derive(Clone, Copy)]
enum Copying {
    Succeeds,
    FindsThemGone,
    Fails,
}

/// A backup finds all its blocks in packs that a prune condemns before the snapshot is written.
fn back_up_what_is_condemned(copying: Copying) -> (tabane_store::Result<Backup>, Arc<Repository>) {
    let dir = scratch();
    write(dir.path().join("a"), &random_bytes(1, 100_000));
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let first = id(&back_up(&repository, &[dir.path()]));
    storage.remove(Name::new(ObjectKind::Snapshot, first));
    let (others, mut is_condemned) = (storage.clone(), false);
    let late = Heard::open(&storage, move |what, kind| {
        match (what, kind, copying) {
            ("put", ObjectKind::Pending, _) if !is_condemned => {
                let report = prune_with(&open(others.clone()), tight()).unwrap();
                assert_eq!((report.deleted_packs, report.waiting_packs), (0, 2));
                is_condemned = true;
            }
            ("get", ObjectKind::Pack, Copying::FindsThemGone) if is_condemned => {
                for listed in others.list(ObjectKind::Pack).unwrap() {
                    others.remove(Name::new(ObjectKind::Pack, listed.id));
                }
            }
            ("get", ObjectKind::Pack, Copying::Fails) if is_condemned => return ended(),
            _ => {}
        }
        Ok(())
    });
    let result = back_up_again(&late, dir.path());
    if let Ok(made) = &result {
        assert_restores(&repository, id(made), dir.path(), dir.path());
    }
    (result, repository)
}

#[test]
fn blocks_that_are_condemned_before_a_snapshot_is_written_are_copied() {
    let (result, repository) = back_up_what_is_condemned(Copying::Succeeds);
    result.unwrap();
    assert_eq!(prune_with(&repository, tight()).unwrap().deleted_packs, 2);
    assert_clean(&repository);
}

#[test]
fn condemned_blocks_that_are_gone_were_removed_meanwhile_and_other_errors_say_what_they_are() {
    let (result, _) = back_up_what_is_condemned(Copying::FindsThemGone);
    assert!(matches!(result, Err(Error::RemovedMeanwhile)), "{result:?}");
    let (result, _) = back_up_what_is_condemned(Copying::Fails);
    assert!(matches!(result, Err(Error::Storage { .. })), "{result:?}");
}

/// A repository with two removals, packs that no snapshot needs, and a backup with a write-only key
/// for which these packs have a block.
struct WriteOnly {
    master: Arc<Repository>,
    /// How often the backup was begun.
    begun: u32,
}

impl WriteOnly {
    /// Something happens when the backup is about to write its snapshot.
    fn back_up(
        meanwhile: impl Fn(&MemoryStorage, &Arc<Repository>, [Id; 2]) + Send + 'static,
    ) -> Self {
        let dir = scratch();
        let storage = MemoryStorage::default();
        let password: Password = b"write only".to_vec().into();
        let added = init(storage.clone()).add_write_only_key(&password, KdfCost::WEAKEST);
        added.unwrap();
        let master = open(storage.clone());
        write(dir.path().join("a"), &random_bytes(1, 10_000));
        let made = id(&back_up(&master, &[dir.path()]));
        storage.remove(Name::new(ObjectKind::Snapshot, made));
        let removals = [1, 2].map(|number| {
            let packs = postcard::to_stdvec(&[Id([number; 32])][..]).unwrap();
            master.put_sealed(ObjectKind::Removal, &packs).unwrap()
        });
        let (others, other_master) = (storage.clone(), Arc::clone(&master));
        let begun = Arc::new(AtomicU32::new(0));
        let (count, mut meanwhile) = (Arc::clone(&begun), Some(meanwhile));
        let late = Heard::new(&storage, move |what, kind| {
            match (what, kind) {
                ("put", ObjectKind::Client) => drop(count.fetch_add(1, Ordering::Relaxed)),
                ("put", ObjectKind::Pending) => {
                    if let Some(meanwhile) = meanwhile.take() {
                        meanwhile(&others, &other_master, removals);
                    }
                }
                _ => {}
            }
            Ok(())
        });
        let writer = Arc::new(Repository::open(Arc::new(late), &password).unwrap());
        write(dir.path().join("b"), &random_bytes(2, 10_000));
        let made = back_up_again(&writer, dir.path()).unwrap();
        assert_restores(&master, id(&made), dir.path(), dir.path());
        let begun = begun.load(Ordering::Relaxed);
        Self { master, begun }
    }
}

/// A write-only key cannot copy what it cannot read, so the blocks are stored again.
#[test]
fn a_backup_with_a_write_only_key_begins_anew_when_packs_are_condemned_meanwhile() {
    let made = WriteOnly::back_up(|_, master, _| {
        assert!(prune_with(master, tight()).unwrap().waiting_packs > 0);
    });
    assert_eq!(made.begun, 2);
    assert!(prune_with(&made.master, tight()).unwrap().deleted_packs > 0);
    assert_clean(&made.master);
}

#[test]
fn a_backup_with_a_write_only_key_goes_on_when_no_pack_is_condemned_meanwhile() {
    // A removal that another one has superseded goes.
    let made = WriteOnly::back_up(|storage, _, removals| {
        storage.remove(Name::new(ObjectKind::Removal, removals[0]));
    });
    assert_eq!(made.begun, 1);
    // One comes that names no pack.
    let made = WriteOnly::back_up(|_, master, _| {
        let none = postcard::to_stdvec::<[Id]>(&[]).unwrap();
        master.put_sealed(ObjectKind::Removal, &none).unwrap();
    });
    assert_eq!(made.begun, 1);
}

/// A repository of which no snapshot needs the packs gets its first write-only key when a client is
/// about to write a removal. The key cannot read the removal then: it is taken back, the client
/// ends with an error, and no pack is deleted.
#[track_caller]
fn assert_takes_its_removal_back(work: impl Fn(&Arc<Repository>, Vec<Id>) -> Option<Error>) {
    let dir = scratch();
    let (storage, _, made) = with_one_backup(dir.path());
    storage.remove(Name::new(ObjectKind::Snapshot, made));
    let names = |kind: ObjectKind| -> Vec<Id> {
        let listed = storage.list(kind).unwrap();
        listed.iter().map(|object| object.id).collect()
    };
    let packs = names(ObjectKind::Pack);
    // The first pack cannot be read.
    storage.set(Name::new(ObjectKind::Pack, packs[0]), vec![0; 100]);
    let (others, put) = (storage.clone(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&put);
    let stale = Heard::open(&storage, move |what, kind| {
        if (what, kind) == ("put", ObjectKind::Removal)
            && count.fetch_add(1, Ordering::Relaxed) == 0
        {
            let password = b"write only".to_vec().into();
            let added = open(others.clone()).add_write_only_key(&password, KdfCost::WEAKEST);
            added.unwrap();
        }
        Ok(())
    });
    let error = work(&stale, packs.clone());
    assert!(matches!(error, Some(Error::MigratedMeanwhile)), "{error:?}");
    assert_eq!(put.load(Ordering::Relaxed), 1);
    assert_eq!(names(ObjectKind::Removal), []);
    assert_eq!(names(ObjectKind::Pack), packs);
}

#[test]
fn a_prune_takes_its_removal_back_if_write_only_keys_cannot_read_it() {
    assert_takes_its_removal_back(|stale, _| prune_with(stale, tight()).err());
}

#[test]
fn a_repair_takes_its_removal_back_if_write_only_keys_cannot_read_it() {
    assert_takes_its_removal_back(|stale, packs| {
        let options = RepairOptions::default();
        stale.repair_packs(options, &packs, |_, _| Ok(())).err()
    });
}

/// Other clients must not rely on a pack that is about to go.
#[test]
fn a_repair_names_a_damaged_pack_in_a_removal_before_it_deletes_the_pack() {
    let dir = scratch();
    let (storage, _, _) = with_one_backup(dir.path());
    let pack = storage.list(ObjectKind::Pack).unwrap()[0].id;
    storage.set(Name::new(ObjectKind::Pack, pack), vec![0; 100]);
    let (others, condemned) = (storage.clone(), Arc::new(Mutex::new(None)));
    let found = Arc::clone(&condemned);
    let heard = Heard::open(&storage, move |what, kind| {
        if (what, kind) == ("delete", ObjectKind::Pack) {
            let removals = open(others.clone()).read_removals().unwrap();
            *found.lock().unwrap() = Some(removals.condemned());
        }
        Ok(())
    });
    let options = RepairOptions::default();
    let report = heard.repair_packs(options, &[pack], |_, _| Ok(()));
    assert_eq!(report.unwrap().damaged_packs, [pack]);
    assert_eq!(*condemned.lock().unwrap(), Some([pack].into()));
}
