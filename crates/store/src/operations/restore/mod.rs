//! Restore: plan → compare with what is there → read each segment once → write → attributes.
//!
//! A dry run plans and compares, and writes nothing.
//!
//! The plan turns the snapshot around: for each segment, the files that want a part of it. So every
//! segment is read, decrypted and decompressed once, in the order of the packs, by whichever worker
//! is free.

mod delete;
mod files;
mod options;
mod plan;
mod run;
mod there;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::access::client::{Presence, Purpose};
use crate::access::repository::Repository;
use crate::error::{Error, Result};
use crate::format::owners::Renumbering;
use crate::format::snapshot::Snapshot;
use tabane_storage::Id;
use tabane_storage::sync::lock;

use plan::Plan;
use run::{Counters, Run};

pub use options::{Overwrite, RestoreOptions};
pub use run::RestoreSummary;

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
            includes,
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
                delete::delete_all(&run, &target, &includes, &surplus);
                plan::finish_directories(&run, &target, &directories);
                if run.options.file_flags {
                    plan::set_flags(&run, &target, &files, &directories);
                }
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
                    delete::delete_all(&run, target, &includes, &surplus);
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
