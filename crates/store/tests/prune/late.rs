//! A client is stopped just before it puts an object, long enough to be taken for dead, and others
//! go on.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tabane_index::Cache;
use tabane_storage::{Listed, Name, ObjectKind, Storage};
use tabane_store::ExcludeOptions;
use tabane_store::backup::Parent;
use tabane_store::rewrite::RewriteOptions;
use tabane_store::{Error, Id, Repository};

use super::basics::{prune_with, tight};
use crate::common::heard::{Heard, ended};
use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, write};
use crate::common::{
    Recorder, assert_clean, assert_restores, back_up, back_up_observed, backup_options, forward,
    id, init, open, password, scratch,
};

const DAY: Duration = Duration::from_secs(25 * 3600);

type Meanwhile = Box<dyn FnOnce() + Send>;

/// What the client that is stopped sees.
#[derive(Clone)]
struct Stopped {
    inner: MemoryStorage,
    /// Before the first object of this kind is put, this happens.
    meanwhile: Arc<Mutex<Option<(ObjectKind, Meanwhile)>>>,
    /// Whether the client dies when it has put that.
    dies: bool,
    dead: Arc<AtomicBool>,
}

impl Stopped {
    /// A repository as that client sees it.
    fn open(
        inner: &MemoryStorage,
        kind: ObjectKind,
        dies: bool,
        what: Meanwhile,
    ) -> Arc<Repository> {
        open(Self {
            inner: inner.clone(),
            meanwhile: Arc::new(Mutex::new(Some((kind, what)))),
            dies,
            dead: Arc::default(),
        })
    }

    fn live(&self) -> tabane_storage::Result<&MemoryStorage> {
        if self.dead.load(Ordering::Relaxed) {
            Err(tabane_storage::StorageError::new(
                tabane_storage::StorageErrorKind::Permanent,
                "this client is dead",
            ))
        } else {
            Ok(&self.inner)
        }
    }
}

impl Storage for Stopped {
    forward!(location, create);

    fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        let meanwhile = {
            let mut meanwhile = self.meanwhile.lock().unwrap();
            meanwhile.take_if(|(kind, _)| *kind == name.kind)
        };
        let is_stopped = meanwhile.is_some();
        if let Some((_, meanwhile)) = meanwhile {
            meanwhile();
        }
        let put = self.live()?.put(name, parts);
        if is_stopped && self.dies {
            self.dead.store(true, Ordering::Relaxed);
        }
        put
    }
    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        self.live()?.get(name, range)
    }
    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        self.live()?.list(kind)
    }
    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        self.live()?.stat(name)
    }
    fn delete(&self, name: Name) -> tabane_storage::Result<()> {
        self.live()?.delete(name)
    }
}

fn names(storage: &MemoryStorage, kind: ObjectKind) -> Vec<Id> {
    let listed = storage.list(kind).unwrap();
    listed.into_iter().map(|object| object.id).collect()
}

/// Forgets all snapshots and prunes, twice: no removal names any more what went first.
fn remove_all(storage: &MemoryStorage) {
    let dir = scratch();
    write(dir.path().join("other"), &random_bytes(9, 10_000));
    let repository = open(storage.clone());
    for round in 0..2 {
        for snapshot in names(storage, ObjectKind::Snapshot) {
            repository.remove_snapshot(snapshot).unwrap();
        }
        prune_with(&repository, tight()).expect("prune");
        if round == 0 {
            back_up(&repository, &[dir.path()]);
        }
    }
}

/// A repository with a backup of two files.
fn with_two_files(dir: &Path) -> (MemoryStorage, Arc<Repository>, Id) {
    write(dir.join("a"), &random_bytes(1, 100_000));
    write(dir.join("b"), &random_bytes(2, 100_000));
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let made = id(&back_up(&repository, &[dir]));
    (storage, repository, made)
}

#[test]
fn a_rewritten_snapshot_whose_old_one_was_forgotten_meanwhile_lacks_nothing() {
    // The packs of the old snapshot are removed, or about to be.
    for removed in [true, false] {
        let dir = scratch();
        let (storage, repository, old) = with_two_files(dir.path());
        let others = storage.clone();
        let meanwhile = move || {
            repository.remove_snapshot(old).unwrap();
            if removed {
                others.wait(DAY);
            }
            prune_with(&repository, tight()).expect("prune");
        };
        // The new snapshot's own blocks are written after all that: only they are sure to stay.
        let stopped = Stopped::open(&storage, ObjectKind::Pack, false, Box::new(meanwhile));
        let options = RewriteOptions::default()
            .excludes(ExcludeOptions::default().patterns(vec!["b".to_owned()]))
            .forget(true)
            .dry_run(false);
        let snapshot = stopped.load_snapshot(old).unwrap();
        let result = stopped.rewrite(&options, &[(old, snapshot)]);
        if removed {
            assert!(matches!(result, Err(Error::RemovedMeanwhile)), "{result:?}")
        } else {
            assert!(result.is_ok(), "{result:?}")
        }
        let repository = open(storage.clone());
        assert_clean(&repository);
        storage.wait(DAY);
        prune_with(&repository, tight()).expect("prune");
        assert_clean(&repository);
        let left = names(&storage, ObjectKind::Snapshot).len();
        assert_eq!(left, usize::from(!removed));
    }
}

#[test]
fn a_late_index_object_of_a_prune_names_no_pack_that_is_gone() {
    let dir = scratch();
    let (storage, repository, first) = with_two_files(dir.path());
    write(dir.path().join("c"), &random_bytes(3, 100_000));
    back_up(&repository, &[dir.path()]);
    // Its index object has to be rewritten, with a pack that stays.
    repository.remove_snapshot(first).unwrap();
    let others = storage.clone();
    let meanwhile = move || {
        others.wait(DAY);
        remove_all(&others);
    };
    let stopped = Stopped::open(&storage, ObjectKind::Index, false, Box::new(meanwhile));
    let result = prune_with(&stopped, tight());
    assert!(matches!(result, Err(Error::PruneOvertaken)), "{result:?}");
    assert_clean(&open(storage));
}

#[test]
fn a_late_snapshot_is_taken_back_or_goes_with_the_next_prune() {
    for dies in [true, false] {
        let dir = scratch();
        let (storage, _, _) = with_two_files(dir.path());
        let others = storage.clone();
        let meanwhile = move || {
            others.wait(DAY);
            remove_all(&others);
        };
        let stopped = Stopped::open(&storage, ObjectKind::Snapshot, dies, Box::new(meanwhile));
        let result = back_up_observed(&stopped, &[dir.path()], backup_options(), &Arc::default());
        if dies {
            assert!(result.is_err())
        } else {
            assert!(matches!(result, Err(Error::RemovedMeanwhile)))
        }
        assert_eq!(
            names(&storage, ObjectKind::Snapshot).len(),
            usize::from(dies)
        );
        storage.wait(DAY);
        let repository = open(storage.clone());
        // It is no loss: nobody was told of it.
        assert_clean(&repository);
        prune_with(&repository, tight()).expect("prune");
        assert_clean(&repository);
        for kind in [
            ObjectKind::Snapshot,
            ObjectKind::Pending,
            ObjectKind::Client,
        ] {
            assert_eq!(names(&storage, kind), [], "{kind:?}");
        }
    }
}

#[test]
fn nobody_relies_on_a_late_index_object_whose_client_died() {
    let dir = scratch();
    let storage = MemoryStorage::default();
    init(storage.clone());
    write(dir.path().join("a"), &random_bytes(1, 100_000));
    let others = storage.clone();
    let meanwhile = move || {
        others.wait(DAY);
        remove_all(&others);
    };
    let stopped = Stopped::open(&storage, ObjectKind::Index, true, Box::new(meanwhile));
    let result = back_up_observed(&stopped, &[dir.path()], backup_options(), &Arc::default());
    assert!(result.is_err());
    let folder = scratch();
    let cache = Cache::new(folder.path(), |text: &str| panic!("a warning: {text}"));
    let opened = Repository::open(Arc::new(storage), &password()).unwrap();
    let repository = Arc::new(opened.with_cache(cache));
    let made = id(&back_up(&repository, &[dir.path()]));
    assert_restores(&repository, made, dir.path(), dir.path());
}

/// The model of removal found this order of steps.
#[test]
fn an_index_object_that_somebody_relies_on_is_not_taken_back() {
    let dir = scratch();
    write(dir.path().join("a"), &random_bytes(1, 100_000));
    let storage = MemoryStorage::default();
    init(storage.clone());

    // A prune that lists the index before the sleeper's object is there, and the packs after it;
    // it dies when its removal is durable.
    let (reached, wait_until_reached) = channel();
    let (go, wait_to_go) = channel();
    let (mut has_paused, mut has_removed) = (false, false);
    let pruner = Heard::open(&storage, move |what, kind| {
        if has_removed {
            return ended();
        }
        has_removed = (what, kind) == ("put", ObjectKind::Removal);
        if (what, kind, has_paused) == ("list", ObjectKind::Pack, false) {
            has_paused = true;
            reached.send(()).unwrap();
            wait_to_go.recv().unwrap();
        }
        Ok(())
    });
    let mut pruning = Some(move || {
        std::thread::spawn(move || prune_with(&pruner, tight()).expect_err("it dies"))
    });
    let mut running = None;

    // A backup that sleeps behind its index object, while another one relies on it.
    let made = Arc::new(Mutex::new(None));
    let (others, other_made) = (storage.clone(), Arc::clone(&made));
    let (source, mut is_indexed) = (dir.path().to_owned(), false);
    let sleeper = Heard::open(&storage, move |what, kind| {
        if (what, kind) == ("put", ObjectKind::Index)
            && let Some(pruning) = pruning.take()
        {
            // The sleeper seems dead to it.
            others.wait(DAY);
            running = Some(pruning());
            wait_until_reached.recv().unwrap();
            is_indexed = true;
        } else if is_indexed
            && (what, kind) == ("list", ObjectKind::Removal)
            && let Some(running) = running.take()
        {
            let backup = back_up(&open(others.clone()), &[&source]);
            assert_eq!(backup.snapshot.summary.duplicate_bytes, 100_000);
            *other_made.lock().unwrap() = Some(id(&backup));
            go.send(()).unwrap();
            running.join().unwrap();
        }
        Ok(())
    });
    let result = back_up_observed(&sleeper, &[dir.path()], backup_options(), &Arc::default());
    assert!(matches!(result, Err(Error::RemovedMeanwhile)), "{result:?}");
    let made = made.lock().unwrap().expect("the other one was made");
    let repository = open(storage.clone());
    assert_restores(&repository, made, dir.path(), dir.path());
    storage.wait(DAY);
    prune_with(&repository, tight()).expect("prune");
    assert_restores(&repository, made, dir.path(), dir.path());
    assert_clean(&repository);
}

#[test]
fn a_backup_whose_parent_goes_while_it_is_compared_says_so() {
    let dir = scratch();
    write(dir.path().join("a"), &random_bytes(1, 1000));
    // Its entries take more than a segment, so they are read from the pack after those of the root.
    for number in 0..3000 {
        write(dir.path().join(format!("b/{number:0>240}")), &[]);
    }
    let storage = MemoryStorage::default();
    let repository = init(storage.clone());
    let first = back_up(&repository, &[dir.path()]);
    let parent = id(&first);
    let others = Mutex::new(Some(storage.clone()));
    let observer = Recorder::on_entry(move |_, _| {
        if let Some(storage) = others.lock().unwrap().take() {
            storage.wait(DAY);
            remove_all(&storage);
        }
    });
    let options = backup_options().parent(Parent::Snapshot(parent));
    let result = back_up_observed(&repository, &[dir.path()], options, &Arc::new(observer));
    assert!(matches!(result, Err(Error::RemovedMeanwhile)), "{result:?}");
}
