//! Repair: rebuilds the index, saves sound blocks of damaged packs, and rewrites snapshots that
//! lack blocks.
//!
//! Sound objects are never changed.

mod exclusive;
mod index;
mod options;
mod packs;
mod snapshots;

pub use index::IndexReport;
pub use options::RepairOptions;
pub use packs::PacksReport;
pub use snapshots::{Lost, Repaired, SnapshotsReport};
