//! Repair: makes an index of what is there, saves of damaged packs what can be, and makes snapshots that are whole of those that
//! are not.
//!
//! Nothing that is sound is touched.

mod index;
mod packs;
mod snapshots;

use std::sync::Arc;

use crate::access::client::Presence;
use crate::access::repository::Repository;
use crate::error::Result;
use crate::operations::prune;

pub use index::{IndexReport, repair_index};
pub use packs::{PacksReport, repair_packs};
pub use snapshots::{Lost, RepairOptions, Repaired, SnapshotsReport, repair_snapshots};

/// Is told what happens.
pub trait Observer: Send + Sync {
    /// Something is worth knowing.
    fn note(&self, what: &str);

    /// So many packs were looked at, of so many.
    fn progress(&self, done: u64, total: u64);
}

/// Announces a repair; a prune and a repair exclude each other.
fn exclusive(repository: &Arc<Repository>, dry_run: bool) -> Result<Option<Presence>> {
    match dry_run {
        true => Ok(None),
        false => prune::announce(repository).map(Some),
    }
}
