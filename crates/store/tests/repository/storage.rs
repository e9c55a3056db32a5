//! The contract of storages, as one suite that every storage runs.

use std::any::Any;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::common::gateway::{self, BUCKET, Gateway};
use crate::common::process;
use crate::common::sshd::Sshd;
use object_store::memory::InMemory;
use tabane_storage::{
    Id, LocalStorage, Location, Name, ObjectKind, ObjectStorage, RemoteOptions, Storage,
};

use tabane_striped::StripedStorage;

/// The suite, for a storage that is empty and new; in the end it puts `count` packs.
fn suite(storage: &dyn Storage, count: u32) {
    suite_with(storage, count, &|| {});
}

/// As [`suite`], with something that happens now and then.
fn suite_with(storage: &dyn Storage, count: u32, now_and_then: &dyn Fn()) {
    creating(storage);
    now_and_then();
    objects(storage);
    now_and_then();
    bad_names_and_ranges(storage);
    now_and_then();
    lists(storage);
    now_and_then();
    // Over several targets only the config is put in a way that decides between different bytes:
    // all else is named by its hash.
    let rounds = if (storage as &dyn Any).is::<StripedStorage>() {
        1
    } else {
        5
    };
    let winners = races(storage, rounds);
    // A WebDAV server may look whether a name is taken and take it later:
    // docs/reference/object-stores.md
    // says what follows.
    if !storage.location().starts_with("webdav") {
        assert!(winners.iter().all(|&winners| winners == 1), "{winners:?}");
    }
    many(storage, count);
}

fn name(kind: ObjectKind, number: u32) -> Name {
    let mut id = [0; 32];
    // Spread over the folders, as hashes are.
    id[0] = (number % 251) as u8;
    id[1..5].copy_from_slice(&number.to_be_bytes());
    Name::new(kind, Id(id))
}

fn creating(storage: &dyn Storage) {
    assert!(!storage.location().is_empty());
    assert_eq!(
        storage.stat(Name::CONFIG).unwrap_err().kind(),
        tabane_storage::StorageErrorKind::NotFound
    );
    storage.create().unwrap();
    for kind in ObjectKind::ALL {
        match kind {
            ObjectKind::Config => {
                assert_eq!(
                    storage.list(kind).unwrap_err().kind(),
                    tabane_storage::StorageErrorKind::NotFound
                );
            }
            _ => assert_eq!(storage.list(kind).unwrap(), [], "{kind:?}"),
        }
    }
    // An interrupted `init` may have left keys: no obstacle.
    let key = name(ObjectKind::Key, 0);
    storage.put(key, &[b"key"]).unwrap();
    storage.create().unwrap();
    storage.delete(key).unwrap();
}

/// Put, get, stat and delete, of all kinds and several lengths.
fn objects(storage: &dyn Storage) {
    let lengths = [0, 1, 1000, 17 << 20];
    for (number, kind) in (0..).zip(ObjectKind::ALL) {
        for len in lengths {
            if len > 1000 && kind != ObjectKind::Pack {
                continue;
            }
            let name = match kind {
                ObjectKind::Config => Name::CONFIG,
                _ => name(kind, number),
            };
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
            let before = SystemTime::now() - Duration::from_secs(2);
            // In several parts, some of them empty.
            let (front, back) = bytes.split_at(bytes.len() / 3);
            storage.put(name, &[front, &[], back]).unwrap();
            assert!(
                storage.get(name, None).unwrap() == bytes,
                "{name}, {len} bytes"
            );
            assert_eq!(storage.stat(name).unwrap(), len as u64);
            let listed = storage.list(kind).unwrap();
            assert_eq!(listed.len(), 1, "{name}");
            assert_eq!(listed[0].id, name.id);
            assert!(storage.is_listed_as(listed[0].len, len as u64), "{name}");
            let longer = len as u64 + 100_000;
            assert!(!storage.is_listed_as(listed[0].len, longer), "{name}");
            let soon = SystemTime::now() + Duration::from_secs(2);
            assert!(listed[0].modified > before && listed[0].modified < soon);

            let twice = storage.put(name, &[b"other"]).unwrap_err();
            assert_eq!(
                twice.kind(),
                tabane_storage::StorageErrorKind::AlreadyExists,
                "{name}"
            );
            assert_eq!(
                storage.stat(name).unwrap(),
                len as u64,
                "{name} stays as it is"
            );

            storage.delete(name).unwrap();
            for error in [
                storage.delete(name).unwrap_err(),
                storage.stat(name).unwrap_err(),
                storage.get(name, None).unwrap_err(),
                storage.get(name, Some(0..1)).unwrap_err(),
                storage.get(name, Some(0..0)).unwrap_err(),
            ] {
                assert_eq!(
                    error.kind(),
                    tabane_storage::StorageErrorKind::NotFound,
                    "{name}: {error}"
                );
            }
        }
    }
}

fn bad_names_and_ranges(storage: &dyn Storage) {
    let pack = name(ObjectKind::Pack, 3);
    let bytes: Vec<u8> = (0..=255).collect();
    storage.put(pack, &[&bytes]).unwrap();
    for (start, end) in [(0, 256), (0, 1), (255, 256), (17, 99), (0, 0), (256, 256)] {
        let part = storage.get(pack, Some(start..end)).unwrap();
        assert_eq!(part, &bytes[start as usize..end as usize], "{start}..{end}");
    }
    for (start, end) in [(0, 257), (255, 257), (256, 257), (1000, 2000)] {
        let error = storage.get(pack, Some(start..end)).unwrap_err();
        assert_eq!(
            error.kind(),
            tabane_storage::StorageErrorKind::PastEnd,
            "{start}..{end}: {error}"
        );
    }
    storage.delete(pack).unwrap();
}

fn lists(storage: &dyn Storage) {
    for kind in [ObjectKind::Index, ObjectKind::Pack] {
        let names: BTreeSet<Name> = (0..40).map(|number| name(kind, number)).collect();
        for (&name, len) in names.iter().zip(1..) {
            storage.put(name, &[&vec![7; len]]).unwrap();
        }
        let listed = storage.list(kind).unwrap();
        assert_eq!(listed.len(), 40);
        let found = listed.iter().map(|object| Name::new(kind, object.id));
        assert_eq!(found.collect::<BTreeSet<_>>(), names);
        for object in listed {
            let len = 1 + names.iter().position(|name| name.id == object.id).unwrap();
            assert!(storage.is_listed_as(object.len, len as u64));
        }
        for name in names {
            storage.delete(name).unwrap();
        }
        assert_eq!(storage.list(kind).unwrap(), []);
    }
}

/// Of many who put the same name, some succeed, and the bytes of one of them are there whole: how
/// many, in each round.
fn races(storage: &dyn Storage, rounds: u32) -> Vec<usize> {
    let round = |round| {
        let config = match round {
            0 => Name::CONFIG,
            _ => name(ObjectKind::Removal, round),
        };
        let start = Barrier::new(8);
        let won: Vec<u8> = thread::scope(|scope| {
            let putters: Vec<_> = (0..8_u8)
                .map(|number| {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        let bytes = vec![number; 100_000];
                        match storage.put(config, &[&bytes]) {
                            Ok(()) => Some(number),
                            Err(error) => {
                                assert_eq!(
                                    error.kind(),
                                    tabane_storage::StorageErrorKind::AlreadyExists,
                                    "{error}"
                                );
                                None
                            }
                        }
                    })
                })
                .collect();
            let done = putters.into_iter().map(|putter| putter.join().unwrap());
            done.flatten().collect()
        });
        let bytes = storage.get(config, None).unwrap();
        assert!(won.iter().any(|&winner| bytes == vec![winner; 100_000]));
        storage.delete(config).unwrap();
        won.len()
    };
    (0..rounds).map(round).collect()
}

/// Puts `count` objects; more than 1000 do not fit into one answer of a server.
fn many(storage: &dyn Storage, count: u32) {
    let pack = |number| name(ObjectKind::Pack, number);
    thread::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move || {
                for number in (0..count).filter(|number| number % 8 == part) {
                    storage.put(pack(number), &[b"x"]).unwrap();
                }
            });
        }
    });
    let listed = storage.list(ObjectKind::Pack).unwrap();
    assert_eq!(listed.len(), count as usize);
    let found: BTreeSet<Id> = listed.iter().map(|object| object.id).collect();
    assert_eq!(found, (0..count).map(|number| pack(number).id).collect());
}

#[test]
fn a_directory() {
    let directory = tempfile::tempdir().unwrap();
    suite(&LocalStorage::new(directory.path().join("repository")), 100);
}

#[test]
fn the_memory_of_object_store() {
    for prefix in ["", "some/prefix"] {
        suite(&in_memory(Arc::default(), prefix), 1500);
    }
}

/// So many packs that they are listed folder by folder, and from the middle of a folder on.
#[test]
fn many_packs_in_many_folders() {
    let storage = in_memory(Arc::default(), "p");
    many(&storage, 12_345);
}

fn in_memory(store: Arc<InMemory>, prefix: &str) -> ObjectStorage {
    let options = RemoteOptions::default();
    ObjectStorage::new(store, prefix, "memory".to_owned(), &options).unwrap()
}

#[test]
fn several_targets() {
    let directory = tempfile::tempdir().unwrap();
    let directories = (0..5).map(|number| -> Arc<dyn Storage> {
        Arc::new(LocalStorage::new(directory.path().join(number.to_string())))
    });
    suite(
        &crate::common::striped::new_set(directories.collect(), false),
        100,
    );
    let stores = (0..8).map(|_| -> Arc<dyn Storage> { Arc::new(in_memory(Arc::default(), "p")) });
    suite(
        &crate::common::striped::new_set(stores.collect(), true),
        300,
    );
}

#[test]
fn storages_beside_each_other_do_not_mix() {
    let store = Arc::new(InMemory::new());
    let inner = in_memory(Arc::clone(&store), "a/b");
    let outer = in_memory(Arc::clone(&store), "a");
    let beside = in_memory(store, "a/bb");
    inner.create().unwrap();
    inner.put(name(ObjectKind::Pack, 1), &[b"x"]).unwrap();
    assert_eq!(outer.list(ObjectKind::Pack).unwrap(), []);
    assert_eq!(beside.list(ObjectKind::Pack).unwrap(), []);
    beside.create().unwrap();
    for storage in [&inner, &outer] {
        let error = storage.create().unwrap_err();
        assert_eq!(error.kind(), tabane_storage::StorageErrorKind::NotEmpty);
    }
}

#[test]
fn a_real_s3_server() {
    let Some(gateway) = Gateway::start("the suite of storages on a real S3 server") else {
        return;
    };
    fs::create_dir(gateway.bucket().with_file_name("whole")).unwrap();
    for url in [gateway.url(BUCKET, "some/prefix"), gateway.url("whole", "")] {
        // A URL has colons in it, which a task cannot have.
        let mut child = process::child(child_that_runs_the_suite, &["1500".into()]);
        let child = Gateway::credentials(&mut child).env("TABANE_TEST_URL", url);
        assert!(child.status().unwrap().success());
    }
}

#[test]
fn a_real_webdav_server() {
    let Some(program) = gateway::program("wsgidav") else {
        eprintln!(
            "NOT CHECKED: the suite of storages on a real WebDAV server: wsgidav is not installed"
        );
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let port = gateway::free_port();
    let mut server = Command::new(program)
        .args([
            "--host=127.0.0.1",
            "--auth=anonymous",
            "--server=cheroot",
            "-qq",
        ])
        .arg(format!("--port={port}"))
        .arg(format!("--root={}", directory.path().display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    gateway::wait_for(port);
    let mut child = process::child(child_that_runs_the_suite, &["300".into()]);
    child.env(
        "TABANE_TEST_URL",
        format!("webdav+http://127.0.0.1:{port}/some/folder"),
    );
    let passed = child.status().unwrap().success();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(passed);
    let left = fs::read_dir(directory.path().join("some/folder/tmp")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn a_real_sftp_server() {
    let Some(mut sshd) = Sshd::start("the suite of storages on a real SFTP server") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("volume 1/backup");
    let asks = directory.path().join("asks");
    let mut child = process::child(child_that_runs_the_suite, &["300".into()]);
    child.env("PATH", sshd.search_path());
    child.env("TABANE_TEST_URL", sshd.url("sftp", &root));
    child.env("TABANE_TEST_ASKS", &asks);
    let mut child = child.spawn().unwrap();
    let mut deaths = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if asks.exists() {
            sshd.restart();
            deaths += 1;
            fs::remove_file(&asks).unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
    assert_eq!(deaths, 4);
    let left = fs::read_dir(root.join("tmp")).unwrap();
    assert_eq!(left.count(), 0);
}

/// The server dies again and again while objects are written, read and deleted: nothing that was
/// acknowledged is lost, and nothing deleted comes back.
#[test]
fn an_sftp_server_that_is_killed_again_and_again() {
    let Some(mut sshd) = Sshd::start("a real SFTP server that dies all the time") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("backup");
    let mut child = process::child(child_that_writes_much, &[]);
    child.env("PATH", sshd.search_path());
    child.env("TABANE_TEST_URL", sshd.url("sftp", &root));
    let mut child = child.spawn().unwrap();
    let mut deaths = 0;
    let status = loop {
        thread::sleep(Duration::from_millis(400));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        sshd.restart();
        deaths += 1;
    };
    assert!(status.success());
    eprintln!("{deaths} deaths of the server");
    // What the child has left, without the server.
    let storage = LocalStorage::new(&root);
    let listed = storage.list(ObjectKind::Pack).unwrap();
    assert_eq!(listed.len(), MUCH as usize / 2);
    for number in (1..MUCH).step_by(2) {
        let bytes = storage.get(name(ObjectKind::Pack, number), None).unwrap();
        assert!(bytes == content(number), "{number}");
    }
}

/// Objects of [`child_that_writes_much`].
const MUCH: u32 = 200;

fn content(number: u32) -> Vec<u8> {
    let len = 1 + (number as usize * 7919) % 600_000;
    vec![number as u8; len]
}

#[test]
fn child_that_writes_much() {
    if process::task().is_none() {
        return;
    }
    let storage = open_test_url();
    storage.create().unwrap();
    thread::scope(|scope| {
        for part in 0..5 {
            let storage = &storage;
            scope.spawn(move || {
                for number in (part..MUCH).step_by(5) {
                    let pack = name(ObjectKind::Pack, number);
                    let bytes = content(number);
                    storage.put(pack, &[&bytes]).unwrap();
                    assert!(storage.get(pack, None).unwrap() == bytes);
                    let (start, end) = (bytes.len() / 3, bytes.len() / 2);
                    let part = storage.get(pack, Some(start as u64..end as u64)).unwrap();
                    assert!(part == bytes[start..end]);
                    if number % 2 == 0 {
                        storage.delete(pack).unwrap();
                    }
                }
            });
        }
    });
}

fn open_test_url() -> Arc<dyn Storage> {
    let url = std::env::var("TABANE_TEST_URL").unwrap();
    let location = Location::parse(OsStr::new(&url), "").unwrap();
    location.open(&RemoteOptions::default()).unwrap()
}

#[test]
fn child_that_runs_the_suite() {
    let Some(task) = process::task() else { return };
    let count = task[0].to_str().unwrap().parse().unwrap();
    let url = std::env::var("TABANE_TEST_URL").unwrap();
    let storage = open_test_url();
    assert_eq!(
        format!("{}/", storage.location()).trim_end_matches('/'),
        url.trim_end_matches('/')
    );
    // The test takes this file away when it has killed and restarted the server.
    let asks = std::env::var_os("TABANE_TEST_ASKS").map(PathBuf::from);
    suite_with(&*storage, count, &|| {
        let Some(asks) = &asks else { return };
        fs::write(asks, "").unwrap();
        while asks.exists() {
            thread::sleep(Duration::from_millis(5));
        }
    });
}
