//! Counts of a copy.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Regular files that were copied.
    pub copied_files: u64,
    /// Directories that were made.
    pub copied_directories: u64,
    /// Links, devices and other entries without content that were made; further names of hard
    /// links.
    pub copied_others: u64,
    /// Regular files that were there already.
    pub skipped_files: u64,
    /// Directories that were there already.
    pub skipped_directories: u64,
    /// Other entries that were there already.
    pub skipped_others: u64,
    /// Bytes of all files, holes included.
    pub total_bytes: u64,
    /// Bytes that were written: less than those of the copied files if these have holes or share
    /// blocks, more if a file was read again since it had changed.
    pub copied_bytes: u64,
    /// Bytes of files that were there already.
    pub skipped_bytes: u64,
    /// Bytes of files that share their blocks with the source.
    pub shared_bytes: u64,
    /// Bytes that were read again from the disk and are right; holes count, though nothing is read.
    pub reread_bytes: u64,
    /// Files that were wrong when they were read again, and were mended.
    pub mended: u64,
    /// Number of problems, as reported to [`Progress`](crate::Progress).
    pub errors: u64,
    /// Whether [`Progress::is_cancelled`](crate::Progress::is_cancelled) ended it early.
    pub interrupted: bool,
}

/// A counter for all threads.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to it; returns the sum.
    pub(crate) fn add(&self, count: u64) -> u64 {
        self.0.fetch_add(count, Ordering::Relaxed) + count
    }

    /// The sum so far.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The fields of [`Summary`] while they grow.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) copied_files: Counter,
    pub(crate) copied_directories: Counter,
    pub(crate) copied_others: Counter,
    pub(crate) skipped_files: Counter,
    pub(crate) skipped_directories: Counter,
    pub(crate) skipped_others: Counter,
    pub(crate) total_bytes: Counter,
    pub(crate) copied_bytes: Counter,
    pub(crate) skipped_bytes: Counter,
    pub(crate) shared_bytes: Counter,
    pub(crate) reread_bytes: Counter,
    pub(crate) mended: Counter,
    pub(crate) errors: Counter,
}

impl Counters {
    /// The numbers as they are now.
    pub(crate) fn summary(&self, interrupted: bool) -> Summary {
        Summary {
            copied_files: self.copied_files.get(),
            copied_directories: self.copied_directories.get(),
            copied_others: self.copied_others.get(),
            skipped_files: self.skipped_files.get(),
            skipped_directories: self.skipped_directories.get(),
            skipped_others: self.skipped_others.get(),
            total_bytes: self.total_bytes.get(),
            copied_bytes: self.copied_bytes.get(),
            skipped_bytes: self.skipped_bytes.get(),
            shared_bytes: self.shared_bytes.get(),
            reread_bytes: self.reread_bytes.get(),
            mended: self.mended.get(),
            errors: self.errors.get(),
            interrupted,
        }
    }
}
