//! The trait for reports of a running operation.

use std::path::Path;
use std::sync::Arc;

/// Receives reports of a running operation. Many threads call the methods at once; each method does
/// nothing by default, so `()` ignores all reports.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tabane_storage::Progress;
///
/// /// Counts what is wrong.
/// #[derive(Default)]
/// struct Problems(AtomicU64);
///
/// impl Progress for Problems {
///     fn problem(&self, what: &str) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///         eprintln!("{what}");
///     }
/// }
/// # Problems::default().note("nothing is printed");
/// ```
pub trait Progress: Send + Sync {
    /// A part of the repository is damaged or lost.
    fn problem(&self, what: &str) {
        let _ = what;
    }

    /// An entry could not be stored or restored completely: it is missing, or changed meanwhile. Or
    /// a file of this machine that a command should use cannot be used.
    fn warning(&self, path: &Path, what: &str) {
        let _ = (path, what);
    }

    /// A harmless event worth knowing.
    fn note(&self, what: &str) {
        let _ = what;
    }

    /// A backup or a restore has finished with an entry.
    fn entry(&self, path: &Path, outcome: Outcome) {
        let _ = (path, outcome);
    }

    /// A backup begins to read a file that may take a while.
    fn begun(&self, path: &Path) {
        let _ = path;
    }

    /// Whether the total amount of work is wanted. If not, a backup does not count its sources
    /// first.
    fn wants_total(&self) -> bool {
        false
    }

    /// The operation has processed `done` bytes of `total`; a `total` of 0 means unknown. Calls of
    /// several threads may arrive out of order.
    fn bytes(&self, done: u64, total: u64) {
        let _ = (done, total);
    }

    /// A prune has deleted, or a repair has read, `done` packs of `total`.
    fn packs(&self, done: u64, total: u64) {
        let _ = (done, total);
    }

    /// Whether the operation is to end now, with an error. Backup, restore and check call this
    /// between files and packs.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Outcomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A backup stored a file that the parent snapshot lacks.
    New,
    /// A backup stored a file that differs from the parent snapshot's.
    Changed,
    /// A backup took a file from the parent snapshot unread.
    Unmodified,
    /// A backup stored a directory.
    Directory,
    /// A backup stored a link, device or other entry without content.
    Other,
    /// A backup left out an entry, as requested.
    Excluded,
    /// A restore made a missing entry.
    Created,
    /// A restore changed an existing entry.
    Updated,
    /// A restore found an entry up to date.
    Unchanged,
    /// A restore left a differing entry unchanged, as requested.
    Kept,
    /// A restore deleted an entry that the snapshot lacks.
    Deleted,
}

impl Progress for () {}

impl<P: Progress + ?Sized> Progress for Arc<P> {
    fn problem(&self, what: &str) {
        (**self).problem(what);
    }

    fn warning(&self, path: &Path, what: &str) {
        (**self).warning(path, what);
    }

    fn note(&self, what: &str) {
        (**self).note(what);
    }

    fn entry(&self, path: &Path, outcome: Outcome) {
        (**self).entry(path, outcome);
    }

    fn begun(&self, path: &Path) {
        (**self).begun(path);
    }

    fn wants_total(&self) -> bool {
        (**self).wants_total()
    }

    fn bytes(&self, done: u64, total: u64) {
        (**self).bytes(done, total);
    }

    fn packs(&self, done: u64, total: u64) {
        (**self).packs(done, total);
    }

    fn is_cancelled(&self) -> bool {
        (**self).is_cancelled()
    }
}
