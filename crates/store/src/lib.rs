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

pub mod backup;
pub mod browse;
mod buffers;
pub mod cache;
pub mod check;
pub mod chunker;
pub mod client;
pub mod commit;
pub mod compress;
mod config;
pub mod copy;
mod crypto;
mod deep_stack;
pub mod diff;
pub mod dump;
mod edit;
mod error;
pub mod examine;
pub mod file_reader;
pub mod find;
pub mod forget;
pub mod host;
pub mod index;
pub mod key;
mod location;
pub mod node;
pub mod pack;
pub mod prune;
mod reach;
pub mod reader;
pub mod removal;
mod repack;
pub mod repair;
mod repository;
pub mod restore;
pub mod rewrite;
mod salvage;
pub mod segment_cache;
pub mod self_test;
pub mod snapshot;
pub mod stats;
pub mod tree;
mod tree_ahead;
mod writer;

/// What of a tree is taken.
pub mod source {
    pub mod exclude;
}

pub use config::{BLOCK_HASHES, Config, parse_block_hash};
pub use error::{Error, Result};
pub use location::Location;
pub use repository::{InitOptions, Repository};
pub use tabane_engine::Algorithm;
pub use tabane_storage::{Id, Progress};
