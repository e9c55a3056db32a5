//! The Tabane repository.
//!
//! A repository is a set of immutable objects in a [`tabane_storage::Storage`]: *packs* hold blocks, *index* objects say
//! where each block is, *snapshots* name the root of a directory tree whose files are lists of blocks. Objects are
//! named by the hash of their bytes and are never changed, so a crash leaves rubbish, never damage, and any number
//! of clients can write at once. `docs/format.md` has every byte.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tabane_storage::LocalStorage;
//! use tabane_store::Repository;
//!
//! let storage = Arc::new(LocalStorage::new("/backup"));
//! let password = b"correct horse".to_vec().into();
//! let repository = Arc::new(Repository::open(storage, &password)?);
//! for (id, snapshot) in tabane_store::snapshot::list(&repository, &Default::default())?.snapshots {
//!     println!("{} {}", id.short(), snapshot.time);
//! }
//! # Ok::<(), tabane_store::Error>(())
//! ```

#![forbid(unsafe_code)]

mod access;
mod error;
mod format;
mod operations;

pub use access::{
    browse, client, file_reader, location::Location, repository::InitOptions,
    repository::Repository, segment_cache, snapshots as snapshot,
};
pub use error::{Error, Result};
pub use format::config::{BLOCK_HASHES, Config, parse_block_hash};
pub use format::{chunker, compress, host, key, node};
pub use operations::{
    backup, check, copy, diff, dump, exclude, find, forget, prune, repair, restore, rewrite,
    self_test, stats,
};
pub use tabane_engine::Algorithm;
pub use tabane_index as index;
pub use tabane_storage::{Id, Progress};

/// The parts of which repositories are made, for programs that measure or attack them. They may change at any time.
#[doc(hidden)]
pub mod parts {
    pub use crate::access::{examine, reader, removal};
    pub use crate::format::{pack, tree};
}
