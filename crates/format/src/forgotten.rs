//! Records of snapshots that were removed: what is missing without one was lost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tabane_storage::Id;

/// A record, sealed JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// More than that of each record that was there before.
    pub number: u64,
    /// The snapshots, and when they were removed.
    pub snapshots: BTreeMap<Id, Timestamp>,
}
