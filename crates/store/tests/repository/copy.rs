//! Copies between repositories that are interrupted.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::fault::{Fault, FaultyStorage};
use crate::common::tree::{random_bytes, write};
use crate::common::{Place, assert_clean, assert_restores, back_up, id, init, open};
use tabane_storage::{LocalStorage, ObjectKind};
use tabane_store::compress::Compression;
use tabane_store::copy::{Copied, CopyOptions};
use tabane_store::{Algorithm, Progress, Repository};

struct NeverTooMuch;

impl Progress for NeverTooMuch {
    fn bytes(&self, done_bytes: u64, total_bytes: u64) {
        assert!(done_bytes <= total_bytes);
    }
}

fn copy_all(from: &Arc<Repository>, to: &Arc<Repository>) -> tabane_store::Result<Copied> {
    let snapshots = from.snapshots(&Default::default())?.snapshots;
    let options = CopyOptions::default().compression(Compression::Off);
    from.with_progress(NeverTooMuch)
        .copy_to(options, to, &snapshots)
}

fn copied(repository: &Arc<Repository>) -> usize {
    repository.list(ObjectKind::Snapshot).expect("listed").len()
}

/// After a failure of any operation, what the target says to have is whole, and running it again
/// completes it.
#[test]
fn a_failure_at_any_operation_leaves_the_target_whole() {
    let place = Place::new();
    for number in 0..2 {
        let bytes = random_bytes(number, 200_000);
        write(place.source.join(format!("deep/file {number}")), &bytes);
        // A file that is the very bytes of a directory hides nothing.
        write(place.source.join("small"), &bytes[..100]);
        back_up(&place.repository, &[&place.source]);
    }
    for fault in [Fault::FailOnce, Fault::FailFrom] {
        for at in 1.. {
            let root = place.path("target");
            let _ = fs::remove_dir_all(&root);
            drop(init(LocalStorage::new(&root)));
            let faulty = FaultyStorage::new(root.clone(), fault, u64::MAX);
            let done = faulty.done();
            drop(open(faulty));
            let at = at + done.load(Ordering::SeqCst);
            let faulty = FaultyStorage::new(root.clone(), fault, at);
            let done = faulty.done();
            let result = copy_all(&place.repository, &open(faulty));
            let target = open(LocalStorage::new(&root));
            assert_clean(&target);
            if done.load(Ordering::SeqCst) < at {
                assert_eq!(result.expect("no fault came").snapshots.len(), 2);
                break;
            }
            let before = copied(&target);
            let made = copy_all(&place.repository, &target).expect("no more faults");
            assert_eq!(
                (made.present.len(), made.snapshots.len()),
                (before, 2 - before)
            );
            assert_clean(&target);
            assert_eq!(copied(&target), 2);
            let (_, copy) = made.snapshots.last().copied().unwrap_or_else(|| {
                let (from, there) = made.present[1];
                (from, Some(there))
            });
            assert_restores(
                &target,
                copy.expect("it was made"),
                &place.source,
                &place.source,
            );
        }
    }
}

/// A directory whose bytes were stored as a file before it came is entered all the same.
#[test]
fn a_file_that_looks_like_a_directory_does_not_hide_it() {
    let place = Place::new();
    write(
        place.source.join("directory/file"),
        &random_bytes(1, 50_000),
    );
    let made = back_up(&place.repository, &[&place.source]);
    let mut browser = tabane_store::browse::Browser::new(&place.repository).expect("an index");
    let path = place.source.join("directory");
    let entry = browser
        .find(id(&made), &made.snapshot, &path)
        .expect("it is there");
    let entries = browser
        .directory(entry.directory().expect("one"))
        .expect("read");
    // In the order of names, the file comes before the directory, and in a snapshot before it.
    let encoded = tabane_store::parts::tree::encode(&entries);
    write(place.source.join("a file"), &encoded);
    back_up(&place.repository, &[&place.source]);
    let target = init(LocalStorage::new(place.path("target")));
    copy_all(&place.repository, &target).expect("copied");
    assert_clean(&target);
}

#[test]
fn blocks_that_are_named_by_their_sha1_are_not_copied() {
    let [from, to] = [(); 2].map(|()| Place::hashing(Algorithm::Sha1));
    back_up(&from.repository, &[&from.source]);
    let error = copy_all(&from.repository, &to.repository).unwrap_err();
    assert!(error.to_string().contains("SHA-1"), "{error}");
    assert_eq!(copied(&to.repository), 0);
}
