//! A repository that is deleted, or deleted and made anew, while a backup runs: no backup is
//! reported as made.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::gateway::{BUCKET, Gateway};
use crate::common::memory::{MemoryStorage, Objects};
use crate::common::tree::small_tree;
use crate::common::{
    Recorder, back_up, back_up_observed, backup_options, init, init_options, open, password,
    process, scratch,
};
use tabane_storage::{self, LocalStorage, Location, Name, ObjectKind, Storage};
use tabane_store::backup::Backup;
use tabane_store::{Error, Repository};

/// Backs up, and does `harm` when the first bytes have been read.
fn back_up_while(
    repository: &Arc<Repository>,
    source: &Path,
    harm: impl Fn() + Send + Sync + 'static,
) -> tabane_store::Result<Backup> {
    let done = AtomicBool::new(false);
    let recorder = Arc::new(Recorder::on_read(move |_| {
        if !done.swap(true, Ordering::SeqCst) {
            harm();
        }
    }));
    back_up_observed(repository, &[source], backup_options(), &recorder)
}

fn source(directory: &Path) -> std::path::PathBuf {
    let source = directory.join("source");
    small_tree(&source, 1);
    source
}

#[test]
fn a_directory_that_is_deleted() {
    let dir = scratch();
    let (source, path) = (source(dir.path()), dir.path().join("repository"));
    let repository = init(LocalStorage::new(&path));
    let deleted = path.clone();
    let result = back_up_while(&repository, &source, move || {
        fs::remove_dir_all(&deleted).unwrap();
    });
    assert!(result.is_err());
}

#[test]
fn a_directory_that_is_deleted_and_made_anew() {
    let dir = scratch();
    let (source, path) = (source(dir.path()), dir.path().join("repository"));
    let repository = init(LocalStorage::new(&path));
    let replaced = path.clone();
    let result = back_up_while(&repository, &source, move || {
        fs::remove_dir_all(&replaced).unwrap();
        init(LocalStorage::new(&replaced));
    });
    assert!(
        matches!(result, Err(Error::RepositoryGone(_))),
        "{result:?}"
    );
    // The new repository got no snapshot object of the old one.
    let other = open(LocalStorage::new(&path));
    assert_eq!(other.list(ObjectKind::Snapshot).unwrap(), []);
    back_up(&other, &[&source]);
}

#[test]
fn a_storage_that_is_emptied_and_takes_new_objects() {
    let dir = scratch();
    let source = source(dir.path());
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let emptied = storage.clone();
    let result = back_up_while(&repository, &source, move || {
        for name in emptied.objects().into_keys() {
            emptied.remove(name);
        }
    });
    assert!(
        matches!(result, Err(Error::RepositoryGone(_))),
        "{result:?}"
    );
    assert_eq!(storage.list(ObjectKind::Snapshot).unwrap(), []);
}

#[test]
fn the_config_of_another_repository() {
    let dir = scratch();
    let source = source(dir.path());
    let (storage, other) = (MemoryStorage::default(), MemoryStorage::default());
    let repository = init(storage.clone());
    init(other.clone());
    let others: Objects = other.objects();
    let result = back_up_while(&repository, &source, {
        let storage = storage.clone();
        move || storage.set(Name::CONFIG, others[&Name::CONFIG].clone())
    });
    assert!(
        matches!(result, Err(Error::RepositoryGone(_))),
        "{result:?}"
    );
}

#[test]
fn a_prefix_of_a_real_object_store_that_is_emptied() {
    let Some(gateway) = Gateway::start("a repository on S3 that is deleted during a backup") else {
        return;
    };
    let mut child = process::child(child_with_a_bucket, &[]);
    let child =
        Gateway::credentials(&mut child).env("TABANE_TEST_URL", gateway.url(BUCKET, "some/prefix"));
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

#[test]
fn child_with_a_bucket() {
    let Ok(url) = std::env::var("TABANE_TEST_URL") else {
        return;
    };
    let dir = scratch();
    let source = source(dir.path());
    let location = Location::parse(url.as_ref(), "").unwrap();
    let storage = location.open(&Default::default()).unwrap();
    let made = Repository::init(Arc::clone(&storage), &password(), init_options());
    let emptied = Arc::clone(&storage);
    let result = back_up_while(&Arc::new(made.unwrap()), &source, move || {
        for kind in ObjectKind::ALL {
            for object in emptied.list(kind).unwrap() {
                emptied.delete(Name::new(kind, object.id)).unwrap();
            }
        }
    });
    assert!(
        matches!(result, Err(Error::RepositoryGone(_))),
        "{result:?}"
    );
}
