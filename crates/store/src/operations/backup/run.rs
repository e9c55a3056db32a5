//! What the threads of a backup share, and what they count.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use tabane_files::read;
use tabane_storage::Outcome;

use super::cold::Cold;
use super::directory::Assembler;
use super::gate::Gate;
use super::options::BackupOptions;
use crate::access::buffers::Buffers;
use crate::access::repository::Repository;
use crate::access::writer::{Encoder, Writer};
use tabane_format::entry::{Entry, Time, Xattr};
use tabane_format::{Error, Result};
use tabane_patterns::{Excludes, Problem};

/// What the threads of a backup share.
pub struct Run {
    pub repository: Repository,
    pub writer: Writer,
    pub options: BackupOptions,
    /// The paths that are backed up, absolute.
    pub sources: Vec<PathBuf>,
    pub excludes: Excludes,
    /// Of the snapshot.
    pub time: Timestamp,
    pub assembler: Assembler,
    pub counters: Counters,
    /// Arenas of bundles.
    pub buffers: Buffers,
    pub reading: Gate,
    /// Contents of files.
    pub contents: Cold,
}

/// What a backup has done so far.
#[derive(Default)]
pub struct Counters {
    pub files_new: AtomicU64,
    pub files_changed: AtomicU64,
    pub files_unmodified: AtomicU64,
    pub directories: AtomicU64,
    pub others: AtomicU64,
    pub errors: AtomicU64,
    pub total_bytes: AtomicU64,
    pub read_bytes: AtomicU64,
    /// Bytes of files that were read or found unmodified.
    pub done_bytes: AtomicU64,
    /// Bytes that there are to do: those of the parent snapshot, until they are counted; 0 if
    /// nobody knows.
    pub expected_bytes: AtomicU64,
}

impl Run {
    /// Reports something that will be missing from the snapshot.
    pub fn error(&self, path: &Path, what: &dyn std::fmt::Display) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.repository.progress().warning(path, &what.to_string());
    }

    /// Reports what was there a moment ago. That is an error only if somebody has named it, or
    /// something in it.
    pub fn vanished(&self, path: &Path) {
        let what = "vanished before it was read";
        if self.sources.iter().any(|source| source.starts_with(path)) {
            self.error(path, &what);
        } else {
            self.repository.progress().warning(path, what);
        }
    }

    /// Reports a file in the tree that says what is left out and cannot be used.
    pub fn problem(&self, problem: &Problem) {
        let text = problem.error.to_string();
        self.repository.progress().warning(&problem.path, &text);
    }

    /// Gives an entry the extended attributes that were read; if they could not be, that is
    /// reported, and the entry looks changed to the next backup.
    pub fn set_xattrs(&self, path: &Path, entry: &mut Entry, read: std::io::Result<Vec<Xattr>>) {
        match read {
            Ok(xattrs) => entry.xattrs = xattrs,
            Err(error) => {
                self.error(path, &error);
                entry.ctime = Time::default();
            }
        }
    }

    /// Opens the directory `path`, which is absolute.
    pub fn open_directory(&self, path: &Path) -> Result<OwnedFd> {
        let opened = match &self.options.root {
            Some(root) => {
                let below = path.strip_prefix("/").unwrap_or(path);
                read::open_directory(root.as_fd(), Path::new(".").join(below).as_os_str())
            }
            None => read::open_directory(rustix::fs::CWD, path.as_os_str()),
        };
        opened.map_err(cannot_read(path))
    }

    /// Fails if the backup was cancelled.
    pub fn go_on(&self) -> Result<()> {
        if self.repository.progress().is_cancelled() {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    /// Whether the backup has failed or was cancelled.
    pub fn has_failed(&self, encoder: &Encoder) -> bool {
        if let Err(error) = self.go_on() {
            encoder.fail(error);
        }
        encoder.has_failed()
    }

    /// Counts bytes of file contents that were read.
    pub fn count_read(&self, bytes: u64) {
        let counters = &self.counters;
        counters.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.advance(bytes);
    }

    /// Tells that so many bytes more are done.
    pub fn advance(&self, bytes: u64) {
        let counters = &self.counters;
        let done = bytes + counters.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        let expected = counters.expected_bytes.load(Ordering::Relaxed);
        // More than expected: nobody knows how much more.
        let total = if done > expected { 0 } else { expected };
        self.repository.progress().bytes(done, total);
    }

    /// Counts an entry of `size` bytes.
    pub fn count(&self, path: &Path, outcome: Outcome, size: u64) {
        let counters = &self.counters;
        let counter = match outcome {
            Outcome::New => &counters.files_new,
            Outcome::Changed => &counters.files_changed,
            Outcome::Unmodified => &counters.files_unmodified,
            Outcome::Directory => &counters.directories,
            _ => &counters.others,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        counters.total_bytes.fetch_add(size, Ordering::Relaxed);
        if outcome == Outcome::Unmodified {
            self.advance(size);
        }
        self.repository.progress().entry(path, outcome);
    }
}

/// An [`Error::Path`] for a source.
pub fn cannot_read(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::path("read", path)
}
