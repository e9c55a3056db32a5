//! A client notices when a repository comes back older than it was, or lacks a snapshot.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tabane_storage::{Id, Name, ObjectKind, Storage};
use tabane_store::check::CheckOptions;
use tabane_store::key::{self, KdfCost, Password};
use tabane_store::{Error, Memory, PruneOptions, Repository, Rollback, parts};

use super::write_only::{Bed, writer_password};
use crate::common::memory::{MemoryStorage, Objects};
use crate::common::tree::write;
use crate::common::{
    Place, Recorder, back_up, backup_options, id, init_options, init_with, password,
};

/// The repository as a machine of this name sees it, opened anew.
fn machine(bed: &Bed, name: &str) -> Arc<Repository> {
    remembering(
        bed,
        name,
        Arc::unwrap_or_clone(crate::common::open(bed.storage.clone())),
    )
}

fn remembering(bed: &Bed, name: &str, repository: Repository) -> Arc<Repository> {
    let memory = Memory::new(bed.dir.path().join(format!("state of {name}")));
    Arc::new(repository.with_memory(memory))
}

fn laptop(bed: &Bed) -> Arc<Repository> {
    remembering(bed, "laptop", Arc::unwrap_or_clone(bed.writer()))
}

/// What a check says, and how many of its problems are of this kind.
fn check(repository: &Arc<Repository>) -> (u64, u64, Vec<String>) {
    let recorder = Arc::new(Recorder::default());
    let told = repository.with_progress(Arc::clone(&recorder));
    let report = told.check(CheckOptions::default()).unwrap();
    assert_eq!(recorder.notes(), [""; 0]);
    let said = recorder.warnings().into_iter().map(|(_, said)| said);
    (report.problems, report.rolled_back, said.collect())
}

#[track_caller]
fn assert_quiet(repository: &Arc<Repository>) {
    assert_eq!(check(repository), (0, 0, Vec::new()));
}

fn back_up_and_compare(bed: &Bed, repository: &Arc<Repository>) -> (Id, Rollback) {
    let made = repository
        .backup(backup_options(), &[bed.source()])
        .unwrap();
    (id(&made), made.rollback)
}

/// Another state of the storage, as a restore of a disk's snapshot brings it back.
fn bring_back(bed: &Bed, objects: &Objects) {
    for name in bed.storage.objects().into_keys() {
        bed.storage.remove(name);
    }
    for (name, bytes) in objects {
        bed.storage.set(*name, bytes.clone());
    }
}

#[test]
fn a_snapshot_that_nobody_removed_is_missed() {
    let bed = Bed::new();
    for name in ["desk", "laptop"] {
        let open = || match name {
            "laptop" => laptop(&bed),
            name => machine(&bed, name),
        };
        let (made, rollback) = back_up_and_compare(&bed, &open());
        assert!(rollback.is_none(), "{rollback}");
        assert_quiet(&open());
        // Another machine that has seen it, and one that has not.
        let other = format!("{name} 2");
        assert_quiet(&machine(&bed, &other));
        bed.storage.remove(Name::new(ObjectKind::Snapshot, made));
        for seen in [open(), machine(&bed, &other)] {
            // It is said each time.
            for _ in 0..2 {
                let (problems, rolled_back, said) = check(&seen);
                assert_eq!((problems, rolled_back), (1, 1), "{said:?}");
                assert!(said[0].contains(&made.to_string()), "{said:?}");
            }
        }
        let (_, rollback) = back_up_and_compare(&bed, &open());
        assert_eq!(rollback.missing, [made]);
        assert_quiet(&machine(&bed, &format!("{name} 3")));
        // Until somebody with a full key gives it up.
        let refused = laptop(&bed).give_up_snapshots(&[made]);
        assert!(matches!(refused, Err(Error::WriteOnly(_))));
        bed.master.give_up_snapshots(&[made]).unwrap();
        assert_quiet(&open());
        assert_quiet(&machine(&bed, &other));
    }
}

/// What a lost snapshot needs can still be made a snapshot of, unless a prune removes it.
#[test]
fn a_prune_removes_nothing_while_a_snapshot_is_missed() {
    let bed = Bed::new();
    let (made, _) = back_up_and_compare(&bed, &machine(&bed, "desk"));
    write(bed.source().join("text"), b"newer");
    back_up_and_compare(&bed, &machine(&bed, "desk"));
    let lost = Name::new(ObjectKind::Snapshot, made);
    bed.storage.remove(lost);
    let before = bed.storage.objects();
    let plan = || machine(&bed, "desk").plan_prune(PruneOptions::default());
    let error = plan().err().expect("a snapshot is lost");
    assert!(matches!(error, Error::SnapshotLost(_)), "{error}");
    assert!(error.to_string().contains(&made.to_string()), "{error}");
    assert!(bed.storage.objects() == before);
    assert_eq!(machine(&bed, "desk").recover(true).unwrap().roots.len(), 1);
    bed.master.give_up_snapshots(&[made]).unwrap();
    assert_eq!(plan().unwrap().stats().snapshots, 1);
    plan().unwrap().execute().unwrap();
}

#[test]
fn snapshots_that_were_removed_are_not_missed() {
    let bed = Bed::new();
    let clients = || [machine(&bed, "desk"), laptop(&bed)];
    let [first, second] = clients().map(|client| back_up_and_compare(&bed, &client).0);
    clients().iter().for_each(assert_quiet);
    let admin = machine(&bed, "admin");
    admin.remove_snapshot(first).unwrap();
    clients().iter().for_each(assert_quiet);
    // Tags make another snapshot of it, in its place.
    let mut tagged = admin.load_snapshot(second).unwrap();
    tagged.tags.push("kept".to_owned());
    admin.replace_snapshots(&[(second, tagged)]).unwrap();
    clients().iter().for_each(assert_quiet);
    // Many records become one.
    for _ in 0..40 {
        let (made, _) = back_up_and_compare(&bed, &machine(&bed, "desk"));
        assert_quiet(&laptop(&bed));
        admin.remove_snapshot(made).unwrap();
    }
    let records = || bed.storage.list(ObjectKind::Forgotten).unwrap().len();
    assert!(records() > 40);
    let plan = admin.plan_prune(PruneOptions::default()).unwrap();
    plan.execute().unwrap();
    assert_eq!(records(), 1);
    clients().iter().for_each(assert_quiet);
    let refused = admin.give_up_snapshots(&[admin.list(ObjectKind::Snapshot).unwrap()[0].0]);
    assert!(matches!(refused, Err(Error::SnapshotThere(_))));
}

#[test]
fn an_older_state_of_the_repository_is_noticed() {
    let bed = Bed::new();
    let clients = || [machine(&bed, "desk"), laptop(&bed)];
    let made = clients().map(|client| back_up_and_compare(&bed, &client).0);
    clients().iter().for_each(assert_quiet);
    let old = bed.storage.objects();
    // Only a removal since then: nothing is missing, and what was removed is back.
    let admin = machine(&bed, "admin");
    admin.remove_snapshot(made[0]).unwrap();
    clients().iter().for_each(assert_quiet);
    let new = bed.storage.objects();
    bring_back(&bed, &old);
    for client in clients() {
        let (problems, rolled_back, said) = check(&client);
        assert_eq!((problems, rolled_back), (1, 1));
        assert!(said[0].contains("it had record 1"), "{said:?}");
    }
    // The next removal is numbered on from what the admin has seen.
    bring_back(&bed, &new);
    clients().iter().for_each(assert_quiet);
    bring_back(&bed, &old);
    assert_quiet(&machine(&bed, "another admin"));
    let rollback = admin.compare_with_memory().unwrap().unwrap();
    assert!(
        rollback.is_none(),
        "the admin has only removed, never looked: {rollback}"
    );
    // A new snapshot since then.
    bring_back(&bed, &new);
    write(bed.source().join("text"), b"newer");
    let newest = clients().map(|client| back_up_and_compare(&bed, &client).0);
    clients().iter().for_each(assert_quiet);
    bring_back(&bed, &new);
    for (client, newest) in clients().iter().zip(newest) {
        let rollback = client.compare_with_memory().unwrap().unwrap();
        assert!(rollback.missing.contains(&newest), "{rollback}");
    }
}

#[test]
fn who_removes_a_snapshot_notices_that_the_removal_is_undone() {
    let bed = Bed::new();
    let client = machine(&bed, "desk");
    let (made, _) = back_up_and_compare(&bed, &client);
    write(bed.source().join("text"), b"newer");
    back_up_and_compare(&bed, &client);
    let old = bed.storage.objects();
    client.remove_snapshot(made).unwrap();
    bring_back(&bed, &old);
    let (problems, rolled_back, said) = check(&machine(&bed, "desk"));
    assert_eq!((problems, rolled_back), (1, 1), "{said:?}");
    assert!(said[0].contains("it had record 1"), "{said:?}");
}

#[test]
fn a_config_without_the_feature_is_noticed() {
    let storage = MemoryStorage::default();
    let master = init_with(storage.clone(), init_options());
    let old = storage.objects();
    master
        .add_write_only_key(&writer_password(), KdfCost::WEAKEST)
        .unwrap();
    let bed = Bed::with(storage);
    assert_quiet(&machine(&bed, "desk"));
    bring_back(&bed, &old);
    let (problems, rolled_back, said) = check(&machine(&bed, "desk"));
    assert_eq!((problems, rolled_back), (1, 1), "{said:?}");
    assert!(said[0].contains("write-only keys"), "{said:?}");
}

/// What is remembered is of one key, and what is not as it was written is not believed.
#[test]
fn nobody_else_can_change_what_is_remembered() {
    let bed = Bed::new();
    let (made, _) = back_up_and_compare(&bed, &machine(&bed, "desk"));
    let folder = bed.dir.path().join("state of desk");
    let files = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(&folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let [file] = &files()[..] else { panic!() };
    let sound = std::fs::read(file).unwrap();
    assert!(!sound.windows(32).any(|bytes| bytes == made.0));
    bed.storage.remove(Name::new(ObjectKind::Snapshot, made));
    for at in (0..sound.len()).step_by(7) {
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        std::fs::write(file, &flipped).unwrap();
        let recorder = Arc::new(Recorder::default());
        let told = machine(&bed, "desk").with_progress(Arc::clone(&recorder));
        let rollback = told.compare_with_memory().unwrap().unwrap();
        assert!(rollback.is_none());
        assert!(recorder.warnings()[0].1.contains("damaged"), "byte {at}");
    }
    std::fs::write(file, &sound).unwrap();
    let rollback = machine(&bed, "desk").compare_with_memory().unwrap();
    assert_eq!(rollback.unwrap().missing, [made]);
}

/// A snapshot that is taken back, since packs were removed meanwhile, was never there.
#[test]
fn what_was_never_confirmed_is_not_missed() {
    let bed = Bed::new();
    let (made, _) = back_up_and_compare(&bed, &machine(&bed, "desk"));
    let name = Name::new(ObjectKind::Snapshot, made);
    let bytes = bed.storage.get(name, None).unwrap();
    // As while it is being committed: a pending object is there, then the snapshot.
    bed.storage.remove(name);
    let pending = bed.master.put_sealed(ObjectKind::Pending, b"{}").unwrap();
    bed.storage.put(name, &[&bytes]).unwrap();
    assert_eq!(check(&machine(&bed, "looks")).1, 0);
    bed.storage.remove(name);
    bed.storage.remove(Name::new(ObjectKind::Pending, pending));
    assert_quiet(&machine(&bed, "looks"));
}

/// A server lets a client that may only add take back what it has just put.
#[test]
fn what_was_just_put_may_go_again() {
    let place = Place::new();
    write(place.source.join("file"), b"x");
    let made = id(&back_up(&place.repository, &[&place.source]));
    let path = place
        .path("repository")
        .join(Name::new(ObjectKind::Snapshot, made).path());
    let (hidden, state) = (place.path("hidden"), Memory::new(place.path("state")));
    let compare = || {
        let repository = Repository::clone(&place.repository).with_memory(state.clone());
        let (_, rolled_back, said) = check(&Arc::new(repository));
        (rolled_back, said)
    };
    assert_eq!(compare().0, 0);
    fs::rename(&path, &hidden).unwrap();
    assert_eq!(compare().0, 0);
    fs::rename(&hidden, &path).unwrap();
    let old = SystemTime::now() - Duration::from_secs(601);
    let file = fs::File::open(&path).unwrap();
    file.set_modified(old).unwrap();
    assert_eq!(compare().0, 0);
    fs::rename(&path, &hidden).unwrap();
    let (rolled_back, said) = compare();
    assert_eq!(rolled_back, 1, "{said:?}");
}

#[test]
fn the_key_that_opened_last_is_tried_first() {
    let storage = MemoryStorage::default();
    let repository = init_with(storage.clone(), init_options());
    let dir = tempfile::tempdir().unwrap();
    let open = |password: &Password| {
        let memory = Memory::new(dir.path());
        let storage = Arc::new(storage.clone());
        Repository::open_with_memory(storage, password, Some(memory)).unwrap()
    };
    let note = || {
        let mut files = fs::read_dir(dir.path()).unwrap();
        files.next().unwrap().unwrap().path()
    };
    let noted = || fs::read_to_string(note()).unwrap();
    assert_eq!(open(&password()).key(), repository.key());
    assert_eq!(noted(), repository.key().to_string());

    // One password opens all of these, so the key says which one was tried first. Clients that add
    // keys at the same moment can make such keys.
    let secret = parts::keys(&repository).secret();
    for _ in 0..4 {
        key::add(&storage, &secret, &password(), KdfCost::WEAKEST).unwrap();
    }
    let keys = key::ids(&storage).unwrap();
    for key in [keys[3], keys[2]] {
        fs::write(note(), key.to_string()).unwrap();
        assert_eq!(open(&password()).key(), key);
    }

    // The password of another key notes that key; notes of wrong and lost keys cost only time.
    let own: Password = b"battery staple".to_vec().into();
    let added = repository.add_key(&own, KdfCost::WEAKEST).unwrap();
    assert_eq!(open(&own).key(), added);
    assert_eq!(noted(), added.to_string());
    key::delete(&storage, added).unwrap();
    assert_eq!(open(&password()).key(), key::ids(&storage).unwrap()[0]);
    for wrong in ["", "no key", &Id([7; 32]).to_string()] {
        fs::write(note(), wrong).unwrap();
        assert_eq!(open(&password()).key(), keys[0]);
        assert_eq!(noted(), keys[0].to_string());
    }
    let path = note();
    fs::remove_file(&path).unwrap();
    let mkfifo = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(mkfifo.unwrap().success());
    assert_eq!(open(&password()).key(), keys[0], "nobody waits for it");
}
