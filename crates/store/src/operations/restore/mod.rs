//! Restore: plan → compare with what is there → read each segment once → write → attributes.
//!
//! The plan turns the snapshot around: for each segment, the files that want a part of it. So every
//! segment is read, decrypted and decompressed once, in the order of the packs, by whichever worker
//! is free.

mod files;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use crate::access::client::{Presence, Purpose};
use crate::access::repository::Repository;
use crate::error::{Error, Result};
use crate::format::snapshot::Snapshot;
use crate::operations::exclude::IncludeOptions;
use tabane_index::Index;
use tabane_storage::sync::lock;
use tabane_storage::{Id, Outcome};

use plan::Plan;

/// What to restore, and where to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The directory that takes what is restored; made if it is not there.
    pub target: PathBuf,
    /// The directory or file of the snapshot that is restored into the target; `/` for all.
    pub subpath: PathBuf,
    /// Which entries.
    pub includes: IncludeOptions,
    /// Read everything again at the end and compare it with the snapshot.
    pub verify: bool,
    /// Find out what would be restored, and write nothing.
    pub dry_run: bool,
}

impl RestoreOptions {
    /// Restores everything into the directory `target`.
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Self {
            target: target.into(),
            subpath: PathBuf::from("/"),
            includes: IncludeOptions::default(),
            verify: false,
            dry_run: false,
        }
    }
}

tabane_storage::setters!(RestoreOptions {
    into => target: PathBuf,
    into => subpath: PathBuf,
    set => includes: IncludeOptions,
    set => verify: bool,
    set => dry_run: bool,
});

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RestoreSummary {
    /// Regular files that are in the target as the snapshot has them, or would be.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Links, devices and other entries without content; further names of hard links.
    pub others: u64,
    /// Bytes of these files, holes included.
    pub total_bytes: u64,
    /// Bytes that were written.
    pub restored_bytes: u64,
    /// Bytes that were right already.
    pub skipped_bytes: u64,
    /// Bytes that were read again and compared.
    pub verified_bytes: u64,
    /// Things that could not be restored as they were.
    pub errors: u64,
}

/// What the threads of a restore share.
struct Run {
    repository: Repository,
    index: Index,
    options: RestoreOptions,
    counters: Counters,
    failure: Mutex<Option<Error>>,
    /// Files that are kept open.
    open_files: AtomicU32,
}

#[derive(Default)]
struct Counters {
    /// Bytes of all files, once that is known.
    total_bytes: AtomicU64,
    restored_bytes: AtomicU64,
    skipped_bytes: AtomicU64,
    verified_bytes: AtomicU64,
    errors: AtomicU64,
}

impl Run {
    /// Counts bytes that are done in the counter for them, and tells of all that are.
    fn count(&self, counter: &AtomicU64, bytes: u64) {
        counter.fetch_add(bytes, Ordering::Relaxed);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let done = load(&counters.restored_bytes) + load(&counters.skipped_bytes);
        let total = load(&counters.total_bytes);
        self.repository.progress().bytes(done, total);
    }

    /// Tells that an entry is done.
    fn entry(&self, path: &Path) {
        self.repository.progress().entry(path, Outcome::Restored);
    }

    fn error(&self, path: &Path, what: &dyn std::fmt::Display) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.repository.progress().warning(path, &what.to_string());
    }

    /// Reports an error that concerns one file, or ends the restore if the disk is full.
    fn io_error(&self, path: &Path, action: &'static str, error: std::io::Error) {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                self.fail(Error::path(action, path)(error));
            }
            _ => self.error(path, &format_args!("cannot {action} it: {error}")),
        }
    }

    fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }
}

impl Repository {
    /// Restores `snapshot`.
    ///
    /// Entries that cannot be restored are reported and counted in [`RestoreSummary::errors`]; that
    /// is no error.
    ///
    /// # Errors
    /// Unusable options, a target that cannot be used, a full disk, or when the repository cannot
    /// be read at all.
    pub fn restore(
        &self,
        options: RestoreOptions,
        snapshot_id: Id,
        snapshot: &Snapshot,
    ) -> Result<RestoreSummary> {
        // So that no prune takes packs away meanwhile, where this repository can be written to.
        let _presence = Presence::announce(self, Purpose::Restore);
        let run = Arc::new(Run {
            repository: self.clone(),
            index: self.load_index()?,
            options,
            counters: Counters::default(),
            failure: Mutex::default(),
            open_files: AtomicU32::new(0),
        });
        let Plan {
            target,
            files,
            links,
            directories,
            mut summary,
        } = plan::make(&run, snapshot_id, snapshot)?;
        let total = &run.counters.total_bytes;
        total.store(summary.total_bytes, Ordering::Relaxed);
        run.count(&run.counters.restored_bytes, 0);
        if !run.options.dry_run {
            let target = Arc::new(target.expect("there is a target unless nothing is written"));
            let files = Arc::new(files);
            files::write_all(&run, &target, &files);
            for file in files.iter().filter(|file| file.has_failed()) {
                summary.files -= 1;
                summary.total_bytes = summary.total_bytes.saturating_sub(file.entry.size());
            }
            plan::link_all(&run, &target, &files, &links);
            plan::finish_directories(&run, &target, &directories);
            if run.options.verify && !run.has_failed() {
                files::verify_all(&run, &target, &files);
            }
            let synced = rustix::fs::syncfs(&*target);
            synced.map_err(|error| Error::path("write", &run.options.target)(error.into()))?;
        }
        if let Some(error) = lock(&run.failure).take() {
            return Err(error);
        }
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        summary.restored_bytes = load(&run.counters.restored_bytes);
        summary.skipped_bytes = load(&run.counters.skipped_bytes);
        summary.verified_bytes = load(&run.counters.verified_bytes);
        summary.errors = load(&run.counters.errors);
        Ok(summary)
    }
}
