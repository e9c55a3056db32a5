//! Removals: objects that name packs which are about to be deleted.
//!
//! Packs are removed without locks and without trusting any clock. Three rules make this safe:
//!
//! 1. Nobody deletes a pack before a *removal*, an object that names it, is durable. From then on
//!    the pack is *condemned* for ever: no snapshot may rely on it.
//! 2. A client that deletes packs writes their removal, and only then lists all removals, pending
//!    snapshots, snapshots and the index, as they are at one moment, and then the packs
//!    (`Repository::read_at_one_moment`). Every block that a snapshot needs has to be in a pack
//!    that no removal names, or is copied into a new one.
//! 3. A client that makes a snapshot takes condemned packs for absent. It writes the future
//!    snapshot as a pending object ([`ObjectKind::Pending`]), and then lists the removals. If new
//!    removals appeared since its start, it does for its snapshot what rule 2 says (see
//!    `operations/commit.rs`). After writing the snapshot it lists the removals again: if they
//!    changed, it deletes the snapshot and begins anew. As long as the pending object exists, the
//!    snapshot may lack blocks.
//!
//! If a writer of a snapshot and a remover meet, at least one sees the other: the writer the
//! removal, or the remover the pending snapshot. The newest removal stays after its packs are
//! deleted, so that clients which started before it still see it; a prune deletes those that were
//! superseded before it began. A prune that spares packs which
//! clients at work may need ([`crate::access::client`]) only saves these clients the copying.

use std::collections::BTreeSet;

use crate::access::repository::Repository;
use tabane_format::Result;
pub use tabane_format::removal::{Removal, Removals};
use tabane_storage::{Id, Listed, Name, ObjectKind};

/// IDs of all removals in the storage.
///
/// # Errors
/// When the storage fails.
pub fn names(repository: &Repository) -> Result<BTreeSet<Id>> {
    Ok(list(repository)?
        .into_iter()
        .map(|object| object.id)
        .collect())
}

/// All removals in the storage.
///
/// A list that is made while one object replaces another may lack both. Of removals that cannot be:
/// a prune deletes only those that were superseded before it began, so such a list would have to
/// last as long as a whole prune. The list of a directory may, if its client sleeps meanwhile, and
/// is made twice; the answer of a server is of one moment.
///
/// # Errors
/// When the storage fails.
pub(crate) fn list(repository: &Repository) -> Result<Vec<Listed>> {
    if repository.is_far() {
        repository.list_with_times(ObjectKind::Removal)
    } else {
        repository.list_steadily(ObjectKind::Removal)
    }
}

/// Writes a removal of these packs, to be verified; returns its name.
///
/// # Errors
/// When the storage fails.
pub(crate) fn put(repository: &Repository, packs: &[Id]) -> Result<Id> {
    let payload = postcard::to_stdvec(packs).expect("a removal is plain data");
    repository.put_sealed(ObjectKind::Removal, &payload)
}

/// Makes sure that write-only keys can read a removal that was just written: one from before the
/// first such key is taken back.
///
/// # Errors
/// [`Error::MigratedMeanwhile`](crate::Error::MigratedMeanwhile) when they cannot; when the storage
/// fails.
pub(crate) fn verify(repository: &Repository, id: Id) -> Result<()> {
    repository.verify_presence().inspect_err(|_| {
        let _ = repository.delete_if_there(Name::new(ObjectKind::Removal, id));
    })
}

/// Writes a removal of these packs that write-only keys can read.
///
/// # Errors
/// As [`put`] and [`verify`].
pub(crate) fn save(repository: &Repository, packs: &[Id]) -> Result<()> {
    let id = put(repository, packs)?;
    verify(repository, id)
}

/// Makes removals anew that write-only keys cannot read.
///
/// # Errors
/// When the storage fails.
pub(crate) fn sign(repository: &Repository) -> Result<()> {
    for (id, removal) in repository.read_removals()?.iter() {
        if removal.is_waiting {
            save(repository, &removal.packs)?;
            repository.delete_if_there(Name::new(ObjectKind::Removal, *id))?;
        }
    }
    Ok(())
}
