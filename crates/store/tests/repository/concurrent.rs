//! Several at once in one repository.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::{fs, ops::Range, thread};

use crate::common::memory::MemoryStorage;
use crate::common::tree::{random_bytes, small_tree, write};
use crate::common::{
    Recorder, assert_clean, assert_restores, back_up, back_up_with, backup_options, forward, id,
    init, init_options, open, password, process, scratch,
};
use tabane_storage::{Listed, LocalStorage, Name, ObjectKind, Storage};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::{Error, Repository, snapshot};

/// Sources that have half of their bytes in common.
fn sources(root: &Path, count: u64) -> Vec<PathBuf> {
    let shared = random_bytes(1, 12 << 20);
    (0..count)
        .map(|number| {
            let source = root.join(format!("source {number}"));
            fs::create_dir(&source).unwrap();
            small_tree(&source, 7);
            write(source.join("shared"), &shared);
            write(source.join("own"), &random_bytes(100 + number, 12 << 20));
            source
        })
        .collect()
}

fn check_all(repository: &Path, sources: &[PathBuf]) {
    let repository = open(LocalStorage::new(repository));
    let report = assert_clean(&repository);
    assert_eq!(report.unreferenced_packs, 0);
    let listed = repository.snapshots(&Default::default()).unwrap().snapshots;
    for source in sources {
        let of_source =
            |snapshot: &snapshot::Snapshot| snapshot.paths == [source.to_str().unwrap().to_owned()];
        let mut found = listed.iter().filter(|(_, snapshot)| of_source(snapshot));
        let (id, _) = found.next().expect("each source has its snapshot");
        assert_restores(&repository, *id, source, source);
    }
}

#[test]
fn backups_in_threads() {
    for count in [2, 4] {
        let dir = scratch();
        let sources = sources(dir.path(), count);
        let repository = dir.path().join("repository");
        init(LocalStorage::new(&repository));
        let start = Barrier::new(sources.len());
        thread::scope(|scope| {
            for source in &sources {
                scope.spawn(|| {
                    let repository = open(LocalStorage::new(&repository));
                    start.wait();
                    back_up(&repository, &[source]);
                });
            }
        });
        check_all(&repository, &sources);
    }
}

#[test]
fn backups_of_the_same_files() {
    let dir = scratch();
    let source = sources(dir.path(), 1).remove(0);
    let repository = dir.path().join("repository");
    init(LocalStorage::new(&repository));
    let shared = open(LocalStorage::new(&repository));
    // Two threads with an open repository each, and two that share one.
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for number in 0..4 {
            let (repository, start, source) = (&repository, &start, &source);
            let shared = Arc::clone(&shared);
            scope.spawn(move || {
                let own = match number {
                    0 | 1 => open(LocalStorage::new(repository)),
                    _ => shared,
                };
                start.wait();
                back_up(&own, &[source]);
            });
        }
    });
    let repository = open(LocalStorage::new(&repository));
    let report = assert_clean(&repository);
    assert_eq!(report.snapshots, 4);
    for (id, _) in repository.snapshots(&Default::default()).unwrap().snapshots {
        assert_restores(&repository, id, &source, &source);
    }
}

#[test]
fn backups_in_processes() {
    let dir = scratch();
    let sources = sources(dir.path(), 2);
    let repository = dir.path().join("repository");
    init(LocalStorage::new(&repository));
    let children: Vec<_> = sources
        .iter()
        .map(|source| {
            let task = [repository.clone(), source.clone()];
            let mut command = process::child(child_that_backs_up, &task);
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    check_all(&repository, &sources);
}

#[test]
fn child_that_backs_up() {
    let Some(task) = process::task() else { return };
    let repository = open(LocalStorage::new(&task[0]));
    back_up(&repository, &[&task[1]]);
}

/// One of two `init`s wins, and what is left of the other never hides the repository from its
/// password.
#[test]
fn inits_at_the_same_time() {
    let (mut both, mut lost) = (0, 0);
    for _ in 0..40 {
        let dir = scratch();
        let repository = dir.path().join("repository");
        let start = Barrier::new(2);
        let init = || {
            let storage = Arc::new(LocalStorage::new(&repository));
            start.wait();
            Repository::init(storage, &password(), init_options())
        };
        let (first, second) = thread::scope(|scope| {
            let (first, second) = (scope.spawn(init), scope.spawn(init));
            (first.join().unwrap(), second.join().unwrap())
        });
        let mut won = Vec::new();
        for result in [first, second] {
            match result {
                Ok(repository) => won.push(repository.config().id),
                Err(Error::RepositoryExists(_)) => lost += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won.len(), 1, "one of them makes the repository");
        let storage = Arc::new(LocalStorage::new(&repository));
        let opened = Repository::open(storage, &password())
            .unwrap_or_else(|error| panic!("after two inits at once: {error}"));
        assert_eq!(opened.config().id, won[0]);
        both += 1;
    }
    eprintln!("{both} races of two inits: {lost} were told that there is a repository");
}

/// Storage in memory that does something the first time that objects of a kind were listed.
struct Hooked<F> {
    inner: MemoryStorage,
    kind: ObjectKind,
    done: AtomicBool,
    hook: F,
}

impl<F: Fn() + Send + Sync + 'static> Storage for Hooked<F> {
    forward!(location, create, put, get, stat, delete);

    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        let listed = self.inner.list(kind);
        if kind == self.kind && !self.done.swap(true, Ordering::SeqCst) {
            (self.hook)();
        }
        listed
    }
}

/// Whenever in a check another backup ends, the check finds no problem.
#[test]
fn a_backup_that_ends_during_a_check() {
    for kind in ObjectKind::ALL {
        let dir = scratch();
        let source = dir.path().join("source");
        fs::create_dir(&source).unwrap();
        small_tree(&source, 1);
        let storage = MemoryStorage::default();
        let repository = init(storage.clone());
        back_up(&repository, &[&source]);
        write(source.join("new"), &random_bytes(2, 100_000));
        let hooked = Hooked {
            inner: storage,
            kind,
            done: AtomicBool::new(false),
            hook: move || {
                back_up(&repository, &[&source]);
            },
        };
        let repository = open(hooked);
        let recorder = Arc::new(Recorder::default());
        let report = repository
            .with_progress(Arc::clone(&recorder))
            .check(CheckOptions::default().read_data(ReadData::All))
            .unwrap();
        assert_eq!(recorder.warnings(), [], "after {} were listed", kind.name());
        assert_eq!(report.problems, 0);
    }
}

/// Whenever in a backup another one ends, both are good.
#[test]
fn a_backup_that_ends_during_a_backup() {
    for kind in ObjectKind::ALL {
        let dir = scratch();
        let source = dir.path().join("source");
        fs::create_dir(&source).unwrap();
        small_tree(&source, 1);
        let storage = MemoryStorage::default();
        let repository = init(storage.clone());
        back_up(&repository, &[&source]);
        write(source.join("new"), &random_bytes(2, 100_000));
        let (first, inner) = (Arc::clone(&repository), source.clone());
        let hooked = Hooked {
            inner: storage,
            kind,
            done: AtomicBool::new(false),
            hook: move || {
                let options = backup_options().tags(vec!["inner".to_owned()]);
                back_up_with(&first, &[&inner], options);
            },
        };
        let made = back_up(&open(hooked), &[&source]);
        assert_clean(&repository);
        assert_restores(&repository, id(&made), &source, &source);
    }
}
