//! Tells a person how an operation on a repository goes on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tabane_store::Outcome;

use crate::process;
use crate::progress::Progress;

/// Shows what an operation reports.
pub struct Reporter {
    progress: Arc<Progress>,
    /// Whether notes are left out.
    without_notes: bool,
}

impl Reporter {
    /// Shows it with `progress`.
    pub fn new(progress: &Arc<Progress>) -> Self {
        Self {
            progress: Arc::clone(progress),
            without_notes: false,
        }
    }

    /// Leaves notes out if `quiet`.
    pub fn without_notes(self, quiet: bool) -> Self {
        Self {
            without_notes: quiet,
            ..self
        }
    }
}

impl tabane_store::Progress for Reporter {
    fn problem(&self, what: &str) {
        self.progress.problem(what);
    }

    fn warning(&self, path: &Path, what: &str) {
        self.progress.path_warning(path, what);
    }

    fn note(&self, what: &str) {
        if !self.without_notes {
            self.progress.note(what);
        }
    }

    fn entry(&self, path: &Path, outcome: Outcome) {
        // The target of a restore itself.
        let is_itself = path.as_os_str().is_empty();
        let path = if is_itself { Path::new(".") } else { path };
        self.progress.entry(path);
        let (level, action) = match outcome {
            Outcome::New => (1, "new"),
            Outcome::Changed => (1, "changed"),
            Outcome::Unmodified => (2, "unmodified"),
            Outcome::Directory | Outcome::Other => (2, "stored"),
            Outcome::Excluded => (2, "excluded"),
            Outcome::Created => (1, "created"),
            Outcome::Updated => (1, "updated"),
            Outcome::Unchanged => (2, "unchanged"),
            Outcome::Kept => (1, "kept"),
            Outcome::Deleted => (1, "deleted"),
        };
        self.progress.verbose(level, action, path);
    }

    fn begun(&self, path: &Path) {
        self.progress.current(path);
    }

    fn is_cancelled(&self) -> bool {
        process::is_interrupted()
    }

    fn wants_total(&self) -> bool {
        self.progress.is_shown()
    }

    fn bytes(&self, done: u64, total: u64) {
        let counters = self.progress.counters();
        counters.bytes.store(done, Ordering::Relaxed);
        counters.total_bytes.store(total, Ordering::Relaxed);
    }

    fn packs(&self, done: u64, _total: u64) {
        let counters = self.progress.counters();
        counters.entries.store(done, Ordering::Relaxed);
    }
}
