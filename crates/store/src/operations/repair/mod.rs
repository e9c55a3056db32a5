//! Repair: makes an index of what is there, saves of damaged packs what can be, and makes snapshots
//! that are whole of those that are not.
//!
//! Nothing that is sound is touched.

mod exclusive;
mod index;
mod options;
mod packs;
mod snapshots;

pub use index::IndexReport;
pub use options::RepairOptions;
pub use packs::PacksReport;
pub use snapshots::{Lost, Repaired, SnapshotsReport};
