//! Removals: objects that name packs which are about to go.

use serde::{Deserialize, Serialize};
use tabane_storage::Id;

/// The contents of a removal, sealed, in postcard's encoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The packs.
    pub packs: Vec<Id>,
}
