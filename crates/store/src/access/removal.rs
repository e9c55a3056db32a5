//! Removals: which packs are about to go.
//!
//! Packs are removed without locks and without trusting any clock. What makes that safe are three
//! rules:
//!
//! 1. Nobody deletes a pack before a *removal*, an object that names it, is durable. From then on
//!    the pack is *condemned*: it stays so, and nobody relies on it any more.
//! 2. Who deletes packs first lists, in this order, all removals, pending snapshots, snapshots, the
//!    index and the packs, after the removals in question were written. Every block that a snapshot
//!    needs has to be in a pack that no removal names, or is copied into a new one.
//! 3. Who makes a snapshot takes condemned packs for absent. He writes what the snapshot will be
//!    ([`ObjectKind::Pending`]), and then lists the removals. If they are those that he started
//!    with, all is well; if not, he does for his snapshot what rule 2 says (see
//!    `operations/commit.rs`). When the snapshot is there they must still be the same: else he
//!    takes it back, and begins anew. Until then the pending object says that it may lack
//!    something.
//!
//! Of any two that meet, at least one sees the other: a writer of snapshots the removal, or the
//! remover the snapshot that is about to be. The last removal stays when it is done, so that it is
//! seen even by those who started before it. That a prune leaves alone what clients at work may
//! need ([`crate::access::client`]) only spares these the copying.

use std::collections::BTreeSet;

use crate::access::repository::Repository;
use crate::error::Result;
pub use crate::format::removal::{Removal, Removals};
use tabane_storage::Id;
use tabane_storage::ObjectKind;

/// The names of the removals that there are.
///
/// # Errors
/// When the storage fails.
pub fn names(repository: &Repository) -> Result<BTreeSet<Id>> {
    let listed = repository.list_steadily(ObjectKind::Removal)?;
    Ok(listed.into_iter().map(|object| object.id).collect())
}

/// Writes a removal; returns its name.
///
/// # Errors
/// When the storage fails.
pub(crate) fn save(repository: &Repository, removal: &Removal) -> Result<Id> {
    let payload = postcard::to_stdvec(removal).expect("a removal is plain data");
    repository.put_sealed(ObjectKind::Removal, &payload)
}
