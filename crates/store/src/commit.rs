//! Makes a snapshot, so that nothing that it needs is removed meanwhile: rule 3 of [`crate::removal`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::id::Id;
use crate::reach::Reach;
use crate::reader::BlockReader;
use crate::removal;
use crate::repack;
use crate::repository::Repository;
use crate::snapshot::{self, Snapshot};
use crate::storage::{Name, ObjectKind};

/// Writes a snapshot; returns its ID. `removals` are those that were there before its blocks were found
/// ([`Index::removals`](crate::index::Index::removals)); its blocks must be durable and indexed, and none of them only in a pack that those name.
///
/// # Errors
/// [`Error::RemovedMeanwhile`] when a block is gone; when the storage fails. There is no snapshot then.
pub fn commit(
    repository: &Arc<Repository>,
    snapshot: &Snapshot,
    removals: &BTreeSet<Id>,
) -> Result<Id> {
    let json = serde_json::to_vec(snapshot).expect("a snapshot is plain data");
    let pending = repository.put_sealed(ObjectKind::Pending, &json)?;
    let pending = Name::new(ObjectKind::Pending, pending);
    let committed = secure(repository, snapshot, removals).and_then(|removals| {
        let id = snapshot::save(repository, snapshot)?;
        match confirm(repository, snapshot, pending, &removals) {
            Ok(()) => Ok(id),
            Err(error) => {
                // Nobody was told of it, and what it needs may be gone.
                let _ = repository
                    .storage()
                    .delete(Name::new(ObjectKind::Snapshot, id));
                Err(error)
            }
        }
    });
    // What is left of it is passed over, and removed by the next prune.
    let _ = repository.storage().delete(pending);
    committed
}

/// Makes sure that a snapshot was announced until it was there. If this process was stopped for so long that a prune took it for
/// dead, its blocks are looked after once more.
fn confirm(
    repository: &Arc<Repository>,
    snapshot: &Snapshot,
    pending: Name,
    removals: &BTreeSet<Id>,
) -> Result<()> {
    match repository.storage().stat(pending) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            secure(repository, snapshot, removals).map(|_| ())
        }
        Err(error) => Err(Error::storage("read", pending)(error)),
    }
}

/// Sees to it that every block of a snapshot is in a pack that stays; returns the removals that this is true for.
fn secure(
    repository: &Arc<Repository>,
    snapshot: &Snapshot,
    removals: &BTreeSet<Id>,
) -> Result<BTreeSet<Id>> {
    let mut secured = removals.clone();
    while removal::names(repository)? != secured {
        secured = match copy_condemned(repository, snapshot) {
            Err(error) if error.is_not_found() => return Err(Error::RemovedMeanwhile),
            Err(Error::MissingBlock(_)) => return Err(Error::RemovedMeanwhile),
            result => result?,
        };
    }
    Ok(secured)
}

/// Copies the blocks of a snapshot that are only in condemned packs; returns the removals that condemned them.
fn copy_condemned(repository: &Arc<Repository>, snapshot: &Snapshot) -> Result<BTreeSet<Id>> {
    let index = Arc::new(repository.load_index_and_lost()?.0);
    let mut reach = Reach::default();
    reach.add(&mut BlockReader::new(repository), &index, &snapshot.root)?;
    let mut condemned = HashSet::new();
    for block in reach.blocks() {
        if !index.keeps(block)? {
            condemned.insert(*block);
        }
    }
    if !condemned.is_empty() {
        repack::copy(repository, &index, condemned, |_| {})?;
    }
    Ok(index.removals().clone())
}
