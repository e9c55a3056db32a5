//! State and counters shared by the threads of a restore.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use serde::Serialize;
use tabane_index::Index;
use tabane_storage::Outcome;
use tabane_storage::sync::lock;

use super::options::RestoreOptions;
use super::xattrs::XattrFilter;
use crate::access::repository::Repository;
use tabane_format::Error;
use tabane_format::entry::Entry;
use tabane_format::owners::Renumbering;

/// The result of a restore, or of its dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RestoreSummary {
    /// Regular files of the snapshot that the target has now; in a dry run, would have.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Links, devices and other entries without content; further names of hard links.
    pub others: u64,
    /// Entries of all kinds that the target lacked and the restore made, or would make.
    pub created: u64,
    /// Entries that existed and differed.
    pub updated: u64,
    /// Entries that were up to date already.
    pub unchanged: u64,
    /// Entries that stayed as they were, by [`RestoreOptions::overwrite`].
    pub kept: u64,
    /// Entries that the snapshot lacks and that were deleted, or would be.
    pub deleted: u64,
    /// Bytes of `files`, holes included.
    pub total_bytes: u64,
    /// Bytes that were written, or would be.
    pub restored_bytes: u64,
    /// Bytes that were up to date already.
    pub skipped_bytes: u64,
    /// Bytes that were read again and compared.
    pub verified_bytes: u64,
    /// Number of problems: entries, attributes or bytes that could not be restored.
    pub errors: u64,
}

/// State shared by the threads of a restore.
pub struct Run {
    pub repository: Repository,
    pub index: Index,
    pub options: RestoreOptions,
    pub renumbering: Renumbering,
    pub xattrs: XattrFilter,
    pub counters: Counters,
    pub failure: Mutex<Option<Error>>,
    /// Files that are kept open.
    pub open_files: AtomicU32,
}

/// Counters of a running restore.
#[derive(Default)]
pub struct Counters {
    /// Bytes of all files, once known.
    pub total_bytes: AtomicU64,
    pub restored_bytes: AtomicU64,
    pub skipped_bytes: AtomicU64,
    pub verified_bytes: AtomicU64,
    pub errors: AtomicU64,
    pub created: AtomicU64,
    pub updated: AtomicU64,
    pub unchanged: AtomicU64,
    pub kept: AtomicU64,
    pub deleted: AtomicU64,
    /// Files that could not be written, and their bytes, holes included.
    pub failed_files: AtomicU64,
    pub failed_bytes: AtomicU64,
}

impl Run {
    /// Gives an entry of the snapshot the attributes that it gets here.
    pub fn adapt(&self, entry: &mut Entry) {
        self.renumbering.apply(entry);
        self.xattrs.apply(entry);
    }

    /// Adds `bytes` to a counter, and reports the bytes done of all files.
    pub fn count(&self, counter: &AtomicU64, bytes: u64) {
        counter.fetch_add(bytes, Ordering::Relaxed);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let done = load(&counters.restored_bytes) + load(&counters.skipped_bytes);
        let total = load(&counters.total_bytes);
        self.repository.progress().bytes(done, total);
    }

    /// Counts an entry and reports its outcome; in a dry run, the outcome that it would have.
    pub fn entry(&self, path: &Path, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Created => &self.counters.created,
            Outcome::Kept => &self.counters.kept,
            Outcome::Deleted => &self.counters.deleted,
            Outcome::Unchanged => &self.counters.unchanged,
            _ => &self.counters.updated,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.repository.progress().entry(path, outcome);
    }

    pub fn error(&self, path: &Path, what: &dyn std::fmt::Display) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.repository.progress().warning(path, &what.to_string());
    }

    /// Reports an error that concerns one file, or ends the restore if the disk is full.
    pub fn io_error(&self, path: &Path, action: &'static str, error: std::io::Error) {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                self.fail(Error::path(action, path)(error));
            }
            _ => self.error(path, &format_args!("cannot {action} it: {error}")),
        }
    }

    pub fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
    }

    /// Whether the restore has failed or was cancelled.
    pub fn has_failed(&self) -> bool {
        if self.repository.progress().is_cancelled() {
            self.fail(Error::Cancelled);
        }
        lock(&self.failure).is_some()
    }
}
