//! The records of clients at work: when they are put, and when they are removed.

use std::sync::{Arc, Mutex};

use tabane_storage::{Name, ObjectKind, Storage};
use tabane_store::client::{self, Presence, Purpose};
use tabane_store::{Error, Id};

use super::basics::{prune_with, tight};
use super::view::with_one_backup;
use crate::common::heard::{Heard, ended};
use crate::common::memory::MemoryStorage;
use crate::common::{init, open, process, scratch};

fn records(storage: &MemoryStorage) -> Vec<Id> {
    let listed = storage.list(ObjectKind::Client).unwrap();
    listed.into_iter().map(|object| object.id).collect()
}

/// Others remove the record of a client that they take for dead. If it is alive, it puts a new one.
#[test]
fn a_client_whose_record_was_removed_announces_itself_again() {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let own = Presence::announce(&repository, Purpose::Backup).unwrap();
    let removed = records(&storage);
    let other = Presence::announce(&repository, Purpose::Restore).unwrap();
    for id in &removed {
        storage.remove(Name::new(ObjectKind::Client, *id));
    }
    let (others, _) = own.others().unwrap();
    let purposes = |seen: &[client::Seen]| -> Vec<Option<Purpose>> {
        let clients = seen.iter().map(|seen| seen.client.as_ref());
        clients
            .map(|client| client.map(|client| client.purpose))
            .collect()
    };
    assert_eq!(purposes(&others), [Some(Purpose::Restore)]);
    let (others, _) = other.others().unwrap();
    assert_eq!(purposes(&others), [Some(Purpose::Backup)]);
    // The time of the lost record is lost, too.
    assert_eq!(others[0].client.as_ref().unwrap().since, None);
    assert!(!removed.contains(&others[0].id));
    drop((own, other));
    assert_eq!(records(&storage), []);
}

#[test]
fn child_that_withdraws() {
    if process::task().is_none() {
        return;
    }
    let storages = [(); 3].map(|()| MemoryStorage::default());
    let announce = |storage: &MemoryStorage| {
        Presence::announce(&init(storage.clone()), Purpose::Backup).unwrap()
    };
    let mut presences: Vec<Presence> = storages.iter().map(announce).collect();
    let left = |storages: &[MemoryStorage; 3]| storages.each_ref().map(|one| records(one).len());
    // One client ends before the others.
    presences.remove(0);
    assert_eq!(left(&storages), [0, 1, 1]);
    client::withdraw();
    assert_eq!(left(&storages), [0, 0, 0]);
    println!("withdrawn");
}

/// In a process of its own, since the records of all clients of the process are removed.
#[test]
fn a_process_that_ends_early_withdraws_from_all_repositories() {
    let mut child = process::child(child_that_withdraws, &["withdraw".into()]);
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("withdrawn"));
}

#[test]
fn a_record_that_cannot_be_removed_is_an_error_unless_it_is_gone() {
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let client = Presence::announce(&repository, Purpose::Backup).unwrap();
    let refuses = Heard::open(&storage, |what, kind| match (what, kind) {
        ("delete", ObjectKind::Client) => ended(),
        _ => Ok(()),
    });
    let result = refuses.forget_dead_clients(true);
    assert!(matches!(result, Err(Error::Storage { .. })), "{result:?}");
    let others = storage.clone();
    let vanishes = Heard::open(&storage, move |what, kind| {
        if (what, kind) == ("delete", ObjectKind::Client) {
            for id in records(&others) {
                others.remove(Name::new(ObjectKind::Client, id));
            }
        }
        Ok(())
    });
    let forgotten = vanishes.forget_dead_clients(true).unwrap();
    // The client, and the one that could not remove its own record above.
    assert_eq!((forgotten.removed.len(), forgotten.left.len()), (2, 0));
    drop(client);
}

/// Another prune may begin once the record of this one is gone, and must not overtake the removal
/// of this one.
#[test]
fn a_prune_withdraws_after_its_last_removal_and_not_beside_it() {
    let dir = scratch();
    let (storage, repository, made) = with_one_backup(dir.path());
    storage.remove(Name::new(ObjectKind::Snapshot, made));
    let client = Presence::announce(&repository, Purpose::Backup).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let mut far = Heard::new(&storage, move |what, kind| {
        if [("put", ObjectKind::Removal), ("delete", ObjectKind::Client)].contains(&(what, kind)) {
            let thread = std::thread::current().id();
            tell.lock().unwrap().push((kind, thread));
        }
        Ok(())
    });
    far.is_far = true;
    prune_with(&open(far), tight()).unwrap();
    let here = std::thread::current().id();
    let expected = [(ObjectKind::Removal, here), (ObjectKind::Client, here)];
    assert_eq!(*told.lock().unwrap(), expected);
    drop(client);
}
