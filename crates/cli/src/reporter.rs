//! Tells a person what a long look at a repository finds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::progress::Progress;

/// Shows what a check or a heal finds.
pub struct Reporter {
    /// Where to.
    pub progress: Arc<Progress>,
    /// Without what is harmless.
    pub quiet: bool,
}

impl tabane_store::Progress for Reporter {
    fn problem(&self, what: &str) {
        self.progress.problem(what);
    }

    fn note(&self, what: &str) {
        if !self.quiet {
            self.progress.note(what);
        }
    }

    fn progress(&self, done_bytes: u64, total_bytes: u64) {
        let counters = self.progress.counters();
        counters.bytes.store(done_bytes, Ordering::Relaxed);
        counters.total_bytes.store(total_bytes, Ordering::Relaxed);
    }
}
