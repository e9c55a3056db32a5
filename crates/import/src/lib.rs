#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod borg;
mod copy;
mod error;
mod import;
mod restic;

use tabane_storage::Id;
use tabane_store::Snapshot;
use tabane_store::compress::Compression;

pub use borg::{Borg, LockedBorg};
pub use error::{Error, Result};
pub use restic::Restic;

/// Readers of single files, for the fuzzer. They may change at any time.
#[doc(hidden)]
pub mod parts {
    pub use crate::restic::{read_index as read_restic_index, read_tree as read_restic_tree};
}

/// A snapshot of another program.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Its ID there.
    pub id: Id,
    /// What is known of it, without a root.
    pub snapshot: Snapshot,
    /// Names the list of its entries.
    tree: Id,
}

/// The snapshots of a repository of another program.
#[derive(Debug, Default)]
pub struct Listing {
    /// Snapshots, oldest first.
    pub snapshots: Vec<Foreign>,
    /// Why others cannot be read.
    pub damaged: Vec<Error>,
}

/// Sorts them.
impl FromIterator<Result<Foreign>> for Listing {
    fn from_iter<I: IntoIterator<Item = Result<Foreign>>>(read: I) -> Self {
        let mut listing = Self::default();
        for one in read {
            match one {
                Ok(snapshot) => listing.snapshots.push(snapshot),
                Err(error) => listing.damaged.push(error),
            }
        }
        listing
            .snapshots
            .sort_by_key(|foreign| (foreign.snapshot.time, foreign.id));
        listing
    }
}

/// Options of an import.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Level of compression.
    pub compression: Compression,
    /// Find out what would be imported, and import nothing.
    pub dry_run: bool,
}

tabane_storage::setters!(ImportOptions {
    set => compression: Compression,
    set => dry_run: bool,
});

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            compression: Compression::AUTO,
            dry_run: false,
        }
    }
}

/// The result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Each snapshot with its new ID, oldest first; a dry run makes none.
    pub snapshots: Vec<(Id, Option<Id>)>,
    /// Snapshots that were there already, each with its ID there.
    pub present: Vec<(Id, Id)>,
    /// Blocks that were copied.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Blocks that were there already.
    pub blocks_present: u64,
    /// Bytes that were added to the repository, compressed and encrypted.
    pub stored_bytes: u64,
    /// Entries that are left out, or empty, because something is lost.
    pub errors: u64,
}
