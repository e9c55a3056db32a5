//! Restore: plan → compare with what is there → read each segment once → write → attributes.
//!
//! A dry run plans and compares, and writes nothing.
//!
//! The plan turns the snapshot around: for each segment, the files that want a part of it. So every
//! segment is read, decrypted and decompressed once, in the order of the packs, by whichever worker
//! is free.

mod delete;
mod files;
mod plan;
mod there;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use crate::access::client::{Presence, Purpose};
use crate::access::repository::Repository;
use crate::error::{Error, Result};
use crate::format::entry::Entry;
use crate::format::owners::Renumbering;
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
    /// Which entries that are there already are changed.
    pub overwrite: Overwrite,
    /// Delete what the snapshot does not have, as far as `includes` choose it, in directories that
    /// the snapshot has whole.
    pub delete: bool,
    /// Find out what would be restored, and write nothing.
    pub dry_run: bool,
    /// Give files to the numbers that owners and groups had, not to those that have their names
    /// here.
    pub numeric_ids: bool,
}

/// Which entries of the target a restore changes, of those that are there and differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// All of them: files are read and compared.
    #[default]
    Always,
    /// All of them, but a file with the size and time of the snapshot's is taken to be equal and
    /// not read.
    IfChanged,
    /// Those whose last change is before that of the snapshot's.
    IfNewer,
    /// None.
    Never,
}

impl Overwrite {
    /// Whether what is there stays as it is.
    fn keeps(self, there: &Entry, entry: &Entry) -> bool {
        match self {
            Self::Always | Self::IfChanged => false,
            Self::IfNewer => there.mtime >= entry.mtime,
            Self::Never => true,
        }
    }
}

impl RestoreOptions {
    /// Restores everything into the directory `target`.
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Self {
            target: target.into(),
            subpath: PathBuf::from("/"),
            includes: IncludeOptions::default(),
            verify: false,
            overwrite: Overwrite::Always,
            delete: false,
            dry_run: false,
            numeric_ids: false,
        }
    }
}

tabane_storage::setters!(RestoreOptions {
    into => target: PathBuf,
    into => subpath: PathBuf,
    set => includes: IncludeOptions,
    set => verify: bool,
    set => overwrite: Overwrite,
    set => delete: bool,
    set => dry_run: bool,
    set => numeric_ids: bool,
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
    /// Entries of all kinds that were not there, or would be made.
    pub created: u64,
    /// Entries that were there and differed.
    pub updated: u64,
    /// Entries that were right already.
    pub unchanged: u64,
    /// Entries that stayed as they were, by [`RestoreOptions::overwrite`].
    pub kept: u64,
    /// Entries that the snapshot does not have and that were deleted, or would be.
    pub deleted: u64,
    /// Bytes of these files, holes included.
    pub total_bytes: u64,
    /// Bytes that were written, or would be.
    pub restored_bytes: u64,
    /// Bytes that were up to date already.
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
    renumbering: Renumbering,
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
    created: AtomicU64,
    updated: AtomicU64,
    unchanged: AtomicU64,
    kept: AtomicU64,
    deleted: AtomicU64,
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

    /// Tells that an entry is done, or would be.
    fn entry(&self, path: &Path, outcome: Outcome) {
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
        let names = snapshot.owners.as_ref().filter(|_| !options.numeric_ids);
        let run = Arc::new(Run {
            repository: self.clone(),
            renumbering: names.map(Renumbering::here).unwrap_or_default(),
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
            surplus,
            mut summary,
        } = plan::make(&run, snapshot_id, snapshot)?;
        let total = &run.counters.total_bytes;
        total.store(summary.total_bytes, Ordering::Relaxed);
        run.count(&run.counters.restored_bytes, 0);
        let files = Arc::new(files);
        match target.map(Arc::new) {
            Some(target) if !run.options.dry_run => {
                files::write_all(&run, &target, &files);
                for file in files.iter().filter(|file| file.has_failed()) {
                    summary.files -= 1;
                    summary.total_bytes = summary.total_bytes.saturating_sub(file.entry.size());
                }
                plan::link_all(&run, &target, &files, &links);
                delete::delete_all(&run, &target, surplus)?;
                plan::finish_directories(&run, &target, &directories);
                plan::set_flags(&run, &target, &files, &directories);
                if run.options.verify && !run.has_failed() {
                    files::verify_all(&run, &target, &files);
                }
                let synced = rustix::fs::syncfs(&*target);
                synced.map_err(|error| Error::path("write", &run.options.target)(error.into()))?;
            }
            target => {
                files::compare_only(&run, target.as_ref(), &files);
                plan::compare_links(&run, target.as_deref(), &files, &links);
                if let Some(target) = &target {
                    delete::delete_all(&run, target, surplus)?;
                }
                for directory in &directories {
                    run.entry(&directory.path, directory.outcome);
                }
            }
        }
        if let Some(error) = lock(&run.failure).take() {
            return Err(error);
        }
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        summary.restored_bytes = load(&run.counters.restored_bytes);
        summary.skipped_bytes = load(&run.counters.skipped_bytes);
        summary.verified_bytes = load(&run.counters.verified_bytes);
        summary.created = load(&run.counters.created);
        summary.updated = load(&run.counters.updated);
        summary.unchanged = load(&run.counters.unchanged);
        summary.kept = load(&run.counters.kept);
        summary.deleted = load(&run.counters.deleted);
        summary.errors = load(&run.counters.errors);
        Ok(summary)
    }
}
