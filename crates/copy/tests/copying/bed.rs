//! A directory for a test, and a progress that remembers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tabane_copy::{Options, Problem, Progress, Summary, copy};
use tabane_testing::files;
use tempfile::TempDir;

pub struct Bed(TempDir);

impl Bed {
    pub fn new() -> Self {
        let bed = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(bed.source()).unwrap();
        std::fs::create_dir(bed.path("to")).unwrap();
        files::small_tree(&bed.source(), 7);
        bed
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn source(&self) -> PathBuf {
        self.path("source")
    }

    /// Where the source comes in `to`.
    pub fn copy(&self) -> PathBuf {
        self.path("to/source")
    }

    /// From `source` into `to`.
    pub fn options(&self) -> Options {
        Options::new([self.source()], self.path("to")).sync(false)
    }
}

#[derive(Default)]
pub struct Recorder {
    pub problems: Mutex<Vec<String>>,
    on_bytes: Option<Box<dyn Fn() + Send + Sync>>,
    on_reread: Option<Box<dyn Fn() + Send + Sync>>,
    cancelled: AtomicBool,
    cancels: bool,
    pub kept: Mutex<Vec<PathBuf>>,
    pub total: AtomicU64,
    pub done: AtomicU64,
}

impl Recorder {
    /// Calls this whenever bytes were copied.
    pub fn on_bytes(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            on_bytes: Some(Box::new(hook)),
            ..Self::default()
        }
    }

    /// Cancels the copy when bytes were copied, after calling this.
    pub fn cancelling(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            cancels: true,
            ..Self::on_bytes(hook)
        }
    }

    /// Calls this when all is written and nothing read again.
    pub fn on_reread(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            on_reread: Some(Box::new(hook)),
            ..Self::default()
        }
    }
}

impl Progress for Recorder {
    fn problem(&self, problem: &Problem) {
        self.problems.lock().unwrap().push(format!("{problem:?}"));
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn kept(&self, path: &Path) {
        self.kept.lock().unwrap().push(path.to_owned());
    }

    fn bytes(&self, done: u64, total: u64) {
        self.done.fetch_max(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        if let Some(hook) = self.on_bytes.as_ref().filter(|_| done > 0) {
            hook();
        }
        let cancels = self.cancels && done > 0;
        self.cancelled.fetch_or(cancels, Ordering::Relaxed);
    }

    fn rereading(&self) {
        if let Some(hook) = &self.on_reread {
            hook();
        }
    }
}

/// Copies; returns the summary and the problems.
pub fn run(options: Options, recorder: Recorder) -> (Summary, Vec<String>) {
    run_and_keep(options, &Arc::new(recorder))
}

/// As [`run`]; the recorder can be asked for more.
pub fn run_and_keep(options: Options, recorder: &Arc<Recorder>) -> (Summary, Vec<String>) {
    let progress: Arc<dyn Progress> = Arc::<Recorder>::clone(recorder);
    let summary = copy(options, progress).unwrap();
    let problems = std::mem::take(&mut *recorder.problems.lock().unwrap());
    (summary, problems)
}

/// Copies without anything going wrong.
#[track_caller]
pub fn fine(options: Options) -> Summary {
    let (summary, problems) = run(options, Recorder::default());
    assert!(problems.is_empty(), "{problems:#?}");
    assert_eq!(summary.errors, 0);
    summary
}

/// Wants none of the program's own files at and below a directory.
#[track_caller]
pub fn assert_tidy(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let own = name.to_string_lossy().starts_with(".tabane-cp.");
        assert!(!own, "{}", entry.path().display());
        if entry.file_type().unwrap().is_dir() {
            assert_tidy(&entry.path());
        }
    }
}
