//! Repair: makes an index of what is there, saves of damaged packs what can be, and makes snapshots that are whole of those that
//! are not.
//!
//! Nothing that is sound is touched.

mod exclusive;
mod index;
mod packs;
mod snapshots;

pub use exclusive::Observer;
pub use index::{IndexReport, repair_index};
pub use packs::{PacksReport, repair_packs};
pub use snapshots::{Lost, RepairOptions, Repaired, SnapshotsReport, repair_snapshots};
