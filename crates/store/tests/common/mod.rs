//! What the integration tests share. Each test program uses a part of it.
#![allow(dead_code, unused_imports, unused_macros)]

pub mod fault;
pub mod heard;
pub mod striped;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tabane_storage::{LocalStorage, Storage};
use tabane_store::backup::{Backup, BackupOptions};
use tabane_store::check::{CheckOptions, CheckReport, ReadData};
use tabane_store::chunker::Chunking;
use tabane_store::key::{KdfCost, Password};
use tabane_store::restore::{RestoreOptions, RestoreSummary};
use tabane_store::{Algorithm, Id, InitOptions, Outcome, Progress, Repository};
pub use tabane_testing::{
    compare, far, files as tree, gateway, is_root, memory, mount, not_checked, process, scratch,
    sshd,
};
use tempfile::TempDir;

/// Methods of a wrapper's `Storage` which are those of its field `inner`.
macro_rules! forward {
    ($($method:ident),+) => { $(forward!(@ $method);)+ };
    (@ location) => {
        fn location(&self) -> String {
            self.inner.location()
        }
    };
    (@ create) => {
        fn create(&self) -> tabane_storage::Result<()> {
            self.inner.create()
        }
    };
    (@ put) => {
        fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
            self.inner.put(name, parts)
        }
    };
    (@ get) => {
        fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
            self.inner.get(name, range)
        }
    };
    (@ list) => {
        fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
            self.inner.list(kind)
        }
    };
    (@ stat) => {
        fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
            self.inner.stat(name)
        }
    };
    (@ delete) => {
        fn delete(&self, name: Name) -> tabane_storage::Result<()> {
            self.inner.delete(name)
        }
    };
}
pub(crate) use forward;

/// The password of all repositories of the tests.
pub fn password() -> Password {
    b"correct horse".to_vec().into()
}

/// The usual options, but for a password that costs nothing to guess.
pub fn init_options() -> InitOptions {
    InitOptions::default().kdf_cost(KdfCost::WEAKEST)
}

pub fn init(storage: impl Storage + 'static) -> Arc<Repository> {
    init_with(storage, init_options())
}

pub fn init_with(storage: impl Storage + 'static, options: InitOptions) -> Arc<Repository> {
    Arc::new(Repository::init(Arc::new(storage), &password(), options).expect("init"))
}

pub fn open(storage: impl Storage + 'static) -> Arc<Repository> {
    Arc::new(Repository::open(Arc::new(storage), &password()).expect("open"))
}

pub fn backup_options() -> BackupOptions {
    BackupOptions::default().hostname("host").username("user")
}

pub fn restore_options(target: &Path) -> RestoreOptions {
    RestoreOptions::new(target)
}

type ReadHook = Box<dyn Fn(u64) + Send + Sync>;
type EntryHook = Box<dyn Fn(&Path, Outcome) + Send + Sync>;

/// Writes down what it is told, and calls hooks.
#[derive(Default)]
pub struct Recorder {
    warnings: Mutex<Vec<(PathBuf, String)>>,
    notes: Mutex<Vec<String>>,
    entries: Mutex<Vec<(PathBuf, Outcome)>>,
    read: AtomicU64,
    on_read: Option<ReadHook>,
    on_entry: Option<EntryHook>,
}

impl Recorder {
    pub fn on_read(hook: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self {
            on_read: Some(Box::new(hook)),
            ..Self::default()
        }
    }

    pub fn on_entry(hook: impl Fn(&Path, Outcome) + Send + Sync + 'static) -> Self {
        Self {
            on_entry: Some(Box::new(hook)),
            ..Self::default()
        }
    }

    pub fn warnings(&self) -> Vec<(PathBuf, String)> {
        self.warnings.lock().unwrap().clone()
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    pub fn outcome(&self, path: &Path) -> Option<Outcome> {
        let entries = self.entries.lock().unwrap();
        let found = entries.iter().find(|(at, _)| at == path);
        found.map(|(_, outcome)| *outcome)
    }

    fn warn(&self, path: &Path, what: &str) {
        let warning = (path.to_owned(), what.to_owned());
        self.warnings.lock().unwrap().push(warning);
    }
}

impl Progress for Recorder {
    fn problem(&self, what: &str) {
        self.warn(Path::new(""), what);
    }

    fn warning(&self, path: &Path, what: &str) {
        self.warn(path, what);
    }

    fn note(&self, what: &str) {
        self.notes.lock().unwrap().push(what.to_owned());
    }

    fn entry(&self, path: &Path, outcome: Outcome) {
        if let Some(hook) = &self.on_entry {
            hook(path, outcome);
        }
        let entry = (path.to_owned(), outcome);
        self.entries.lock().unwrap().push(entry);
    }

    fn bytes(&self, done: u64, _total: u64) {
        if let Some(hook) = &self.on_read {
            let before = self.read.fetch_max(done, Ordering::Relaxed);
            hook(done.saturating_sub(before));
        }
    }
}

/// Backs up, and wants no warning.
pub fn back_up(repository: &Arc<Repository>, paths: &[&Path]) -> Backup {
    back_up_with(repository, paths, backup_options())
}

pub fn back_up_with(
    repository: &Arc<Repository>,
    paths: &[&Path],
    options: BackupOptions,
) -> Backup {
    let recorder = Arc::new(Recorder::default());
    let made = back_up_observed(repository, paths, options, &recorder).expect("backup");
    assert_eq!(recorder.warnings(), [], "a backup warned");
    assert_eq!(made.snapshot.summary.errors, 0);
    made
}

pub fn back_up_observed(
    repository: &Arc<Repository>,
    paths: &[&Path],
    options: BackupOptions,
    recorder: &Arc<Recorder>,
) -> tabane_store::Result<Backup> {
    repository
        .with_progress(Arc::clone(recorder))
        .backup(options, paths)
}

/// Restores what the options say, and wants no warning.
pub fn restore_with(
    repository: &Arc<Repository>,
    id: Id,
    options: RestoreOptions,
) -> RestoreSummary {
    let (summary, warnings) = restore_observed(repository, id, options);
    assert_eq!(warnings, [], "a restore warned");
    assert_eq!(summary.errors, 0);
    summary
}

pub fn restore_observed(
    repository: &Arc<Repository>,
    id: Id,
    options: RestoreOptions,
) -> (RestoreSummary, Vec<(PathBuf, String)>) {
    let recorder = Arc::new(Recorder::default());
    let loaded = repository.load_snapshot(id).expect("the snapshot loads");
    let repository = repository.with_progress(Arc::clone(&recorder));
    let summary = repository.restore(options, id, &loaded).expect("restore");
    (summary, recorder.warnings())
}

/// Restores a directory of a snapshot, without the path to it, and compares it with `expected`.
pub fn assert_restores(repository: &Arc<Repository>, id: Id, subpath: &Path, expected: &Path) {
    let target = scratch();
    restore_with(
        repository,
        id,
        restore_options(target.path()).subpath(subpath.to_owned()),
    );
    compare::assert_same_contents(expected, target.path());
}

/// Reads everything in the repository, and wants no problem.
pub fn assert_clean(repository: &Arc<Repository>) -> CheckReport {
    let recorder = Arc::new(Recorder::default());
    let told = repository.with_progress(Arc::clone(&recorder));
    let report = told
        .check(CheckOptions::default().read_data(ReadData::All))
        .expect("check");
    assert_eq!(recorder.warnings(), [], "the check found problems");
    assert_eq!(report.problems, 0);
    report
}

/// A repository in a directory, and a directory to back up.
pub struct Place {
    pub dir: TempDir,
    pub source: PathBuf,
    pub repository: Arc<Repository>,
}

impl Place {
    pub fn new() -> Self {
        Self::with(init_options())
    }

    pub fn with(options: InitOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::create_dir(&source).unwrap();
        let repository = init_with(LocalStorage::new(dir.path().join("repository")), options);
        Self {
            dir,
            source,
            repository,
        }
    }

    pub fn hashing(hash: Algorithm) -> Self {
        Self::with(init_options().hash(hash))
    }

    pub fn chunking(chunking: Chunking) -> Self {
        Self::with(init_options().chunking(chunking))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Backs the source up, restores it elsewhere and wants no difference.
    pub fn round_trip(&self) -> Backup {
        let made = back_up(&self.repository, &[&self.source]);
        let target = self.path("target");
        let _ = fs::remove_dir_all(&target);
        self.restore_source(&made, &target);
        compare::assert_same_contents(&self.source, &target);
        made
    }

    /// Restores what is in the source into `target`.
    pub fn restore_source(&self, made: &Backup, target: &Path) -> RestoreSummary {
        restore_with(&self.repository, id(made), self.source_into(target))
    }

    pub fn source_into(&self, target: &Path) -> RestoreOptions {
        restore_options(target).subpath(self.source.clone())
    }
}

/// The snapshot that a backup made.
pub fn id(made: &Backup) -> Id {
    made.id.expect("it was no dry run")
}
