//! The contract of storages, as one suite that every storage runs.

use std::any::Any;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::gateway::{self, BUCKET, Gateway};
use crate::common::process;
use crate::common::sshd::Sshd;
use object_store::memory::InMemory;
use tabane_storage::{
    LocalStorage, Location, Name, ObjectKind, ObjectStorage, RemoteOptions, Storage, object_id,
};

use tabane_striped::StripedStorage;
use tabane_testing::storage_suite::{self, Suite};

/// The suite, for a storage that is empty and new; in the end it puts `count` packs.
fn suite(storage: &dyn Storage, count: u32) {
    let mut suite = Suite {
        count,
        ..Suite::default()
    };
    // Over several targets only the config is put in a way that decides who was first.
    if (storage as &dyn Any).is::<StripedStorage>() {
        suite.races = 1;
    }
    suite.run(storage);
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
    storage_suite::many(&storage, 12_345);
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
    let pack = Name::new(ObjectKind::Pack, object_id(&[b"x"]));
    inner.put(pack, &[b"x"]).unwrap();
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
    // Without the server.
    storage_suite::check_much(&LocalStorage::new(&root));
}

#[test]
fn child_that_writes_much() {
    if process::task().is_some() {
        storage_suite::write_much(&*open_test_url());
    }
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
    let now_and_then = || {
        let Some(asks) = &asks else { return };
        fs::write(asks, "").unwrap();
        while asks.exists() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    Suite {
        count,
        now_and_then: &now_and_then,
        ..Suite::default()
    }
    .run(&*storage);
}
