#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod operations;
/// Locks and threads. Tests compile what uses them with those of a scheduler instead, which chooses
/// the orders of the threads (`models/tests/orders`).
mod sync {
    pub use std::sync::{
        Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
    pub use std::sync::{atomic, mpsc};
    pub use std::thread;
    pub use tabane_storage::sync::lock;
}

#[doc(hidden)]
pub use access::deep_stack::with_deep_stack;
pub use access::location::Location;
pub use access::memory::{Memory, Rollback};
pub use access::repository::{InitOptions, Repository};
pub use access::{
    browse, client, file_reader, layout, lister, segment_cache, snapshots as snapshot,
};
/// A moment in time, as in [`Snapshot::time`]; prints as RFC 3339, in UTC.
pub use jiff::Timestamp;
pub use operations::backup::BackupOptions;
pub use operations::check::CheckOptions;
pub use operations::copy::CopyOptions;
pub use operations::key_text::ImportedKey;
pub use operations::prune::PruneOptions;
pub use operations::repair::RepairOptions;
pub use operations::restore::RestoreOptions;
pub use operations::rewrite::RewriteOptions;
pub use operations::{
    backup, check, content, copy, diff, dump, find, forget, history, prune, recover, repair,
    restore, rewrite, snapshot_writer, stats,
};
pub use tabane_engine::Algorithm;
pub use tabane_format::config::{BLOCK_HASHES, Config, parse_block_hash};
pub use tabane_format::crypto::FORMAT;
pub use tabane_format::key::Password;
pub use tabane_format::snapshot::{Filter, Snapshot};
pub use tabane_format::writer_key::WriterId;
pub use tabane_format::{Error, Result};
pub use tabane_format::{chunker, compress, entry, host, key, owners, tally};
pub use tabane_index::Cache;
pub use tabane_patterns::{ExcludeOptions, IncludeOptions};
pub use tabane_storage::{Id, LocalStorage, Outcome, Progress, RemoteOptions, Storage};
pub use tabane_striped::cluster::Plan;

/// The parts of which repositories are made, for programs that measure or attack them. They may
/// change at any time.
#[doc(hidden)]
pub mod parts {
    pub use crate::access::index_objects::Trust;
    pub use crate::access::{examine, reader, removal};
    pub use tabane_format::crypto::{MasterKey, ObjectKey};
    pub use tabane_format::keyring::Keyring;
    pub use tabane_format::writer_key::WriterKey;
    pub use tabane_format::{pack, tree};
    pub use tabane_index as index;

    /// The secret from which a repository's keys come.
    ///
    /// # Panics
    /// When the repository was opened with a write-only key.
    pub fn master(repository: &crate::Repository) -> &MasterKey {
        let master = repository.keys().need_master("this");
        master.expect("a full key opened the repository")
    }

    /// What opens and seals the objects of a repository.
    pub fn keys(repository: &crate::Repository) -> &Keyring {
        repository.keys()
    }
}
