//! Restore: plan → compare with what is there → read each segment once → write → attributes.
//!
//! A dry run plans and compares, and writes nothing.
//!
//! The plan turns the snapshot around: for each segment, the files that want a part of it. So every
//! segment is read, decrypted and decompressed once, in the order of the packs, by whichever worker
//! is free. A snapshot of very many files is planned in parts, of which one is written while the
//! next one is planned: so the memory is bounded by the length of a part.

mod delete;
mod files;
mod options;
mod plan;
mod repositories;
mod run;
mod target;
mod there;
mod xattrs;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use crate::access::client::{Presence, Purpose};
use crate::access::repository::Repository;
use tabane_format::owners::Renumbering;
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_patterns::Includes;
use tabane_storage::Id;
use tabane_storage::sync::lock;

use plan::{Directory, Part};
use run::{Counters, Run};

use xattrs::XattrFilter;

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
            xattrs: XattrFilter::new(&options)?,
            index: self.load_index()?,
            options,
            counters: Counters::default(),
            failure: Mutex::default(),
            open_files: AtomicU32::new(0),
        });
        let includes = Includes::new(&run.options.includes).map_err(Error::pattern)?;
        if snapshot.summary.total_bytes > 0 && run.options.restores_all() {
            let total = &run.counters.total_bytes;
            total.store(snapshot.summary.total_bytes, Ordering::Relaxed);
        }
        let (target, rest) = std::thread::scope(|scope| {
            // While a part is written, the next one is planned, and waits.
            let (sender, receiver) = sync_channel::<(Option<Arc<OwnedFd>>, Part)>(0);
            let run = &run;
            let finish = move || {
                for (target, part) in receiver {
                    finish_part(run, target.as_ref(), part);
                }
            };
            let writer = scope.spawn(finish);
            let planned = plan::make(run, &includes, snapshot_id, snapshot, |target, part| {
                // Parts are taken until the end.
                let _ = sender.send((target.clone(), part));
            });
            drop(sender);
            let written = writer.join();
            written.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            planned
        })?;
        let total = &run.counters.total_bytes;
        total.store(rest.summary.total_bytes, Ordering::Relaxed);
        run.count(&run.counters.restored_bytes, 0);
        if let Some(target) = &target {
            delete::delete_all(&run, target, &includes, &rest.surplus, snapshot);
            finish_directories(&run, target, &rest.directories);
            if !run.options.dry_run {
                if run.options.file_flags {
                    plan::set_flags(&run, target, &rest);
                }
                let synced = rustix::fs::syncfs(&**target);
                synced.map_err(|error| Error::path("write", &run.options.target)(error.into()))?;
            }
        }
        let mut summary = rest.summary;
        if let Some(error) = lock(&run.failure).take() {
            return Err(error);
        }
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        summary.files -= load(&run.counters.failed_files);
        let failed_bytes = load(&run.counters.failed_bytes);
        summary.total_bytes = summary.total_bytes.saturating_sub(failed_bytes);
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

/// Writes the files of a part, and does what waits for them; in a dry run, says what would be done.
fn finish_part(run: &Arc<Run>, target: Option<&Arc<OwnedFd>>, part: Part) {
    let files = Arc::new(part.files);
    let Some(target) = target.filter(|_| !run.options.dry_run) else {
        files::compare_only(run, target, &files);
        plan::compare_links(run, target.map(|target| &**target), &part.links);
        for directory in &part.directories {
            run.entry(&directory.path, directory.outcome);
        }
        return;
    };
    files::write_all(run, target, &files);
    let counters = &run.counters;
    for file in files.iter().filter(|file| file.has_failed()) {
        counters.failed_files.fetch_add(1, Ordering::Relaxed);
        let size = file.entry.size();
        counters.failed_bytes.fetch_add(size, Ordering::Relaxed);
    }
    plan::link_all(run, target, &part.links);
    finish_directories(run, target, &part.directories);
    if run.options.verify && !run.has_failed() {
        files::verify_all(run, target, &files);
    }
}

/// Gives directories their attributes; in a dry run, says what would become of them.
fn finish_directories(run: &Run, target: &OwnedFd, directories: &[Directory]) {
    if run.options.dry_run {
        for directory in directories {
            run.entry(&directory.path, directory.outcome);
        }
    } else {
        plan::finish_directories(run, target, directories);
    }
}
