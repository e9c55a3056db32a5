//! Removals: objects that name packs which are about to be deleted.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tabane_storage::Id;

/// A removal. It is stored as its packs, sealed, in postcard's encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// The packs.
    pub packs: Vec<Id>,
    /// Whether no pack may be deleted for it: write-only keys cannot read it.
    pub is_waiting: bool,
}

/// The removals of a repository at one time.
#[derive(Clone, Debug, Default)]
pub struct Removals(pub BTreeMap<Id, Removal>);

impl Removals {
    /// IDs of the removals.
    pub fn names(&self) -> BTreeSet<Id> {
        self.0.keys().copied().collect()
    }

    /// The removals with their IDs.
    pub fn iter(&self) -> impl Iterator<Item = (&Id, &Removal)> {
        self.0.iter()
    }

    /// All packs that the removals name.
    pub fn condemned(&self) -> HashSet<Id> {
        let packs = self.0.values().flat_map(|removal| &removal.packs);
        packs.copied().collect()
    }
}
