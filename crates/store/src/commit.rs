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
/// [`Error::RemovedMeanwhile`] when a block is gone, [`Error::RepositoryGone`] when all is; when the storage fails. There is
/// no snapshot then.
pub fn commit(
    repository: &Arc<Repository>,
    snapshot: &Snapshot,
    removals: &BTreeSet<Id>,
) -> Result<Id> {
    let new = New {
        repository,
        snapshot,
        own: None,
    };
    new.commit(removals, || Ok(()))
}

/// As [`commit`], for a snapshot that needs, but for its `own` blocks, only what the snapshot `old` needs too. As long as
/// that is there nobody removes these, so they are not looked after once more: `removals` is about its own blocks alone.
///
/// # Errors
/// As [`commit`].
pub(crate) fn commit_beside(
    repository: &Arc<Repository>,
    old: Id,
    own: &HashSet<Id>,
    snapshot: &Snapshot,
    removals: &BTreeSet<Id>,
) -> Result<Id> {
    let new = New {
        repository,
        snapshot,
        own: Some(own),
    };
    new.commit(removals, || {
        let old = Name::new(ObjectKind::Snapshot, old);
        match repository.storage().stat(old) {
            // Until now the old one has kept the blocks, and from now on the new one does.
            Ok(_) => Ok(()),
            // Somebody has removed it meanwhile. Nothing is known of what kept its blocks since then.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let whole = New { own: None, ..new };
                whole.secure(&BTreeSet::new()).map(|_| ())
            }
            Err(error) => Err(Error::storage("read", old)(error)),
        }
    })
}

/// A snapshot that is about to be.
#[derive(Clone, Copy)]
struct New<'a> {
    repository: &'a Arc<Repository>,
    snapshot: &'a Snapshot,
    /// The blocks to look after; all that it needs if there is nothing.
    own: Option<&'a HashSet<Id>>,
}

impl New<'_> {
    /// Writes it. `verify` is asked when it is there, and can take it back.
    fn commit(&self, removals: &BTreeSet<Id>, verify: impl FnOnce() -> Result<()>) -> Result<Id> {
        let (repository, snapshot) = (self.repository, self.snapshot);
        let json = serde_json::to_vec(snapshot).expect("a snapshot is plain data");
        let pending = repository.put_sealed(ObjectKind::Pending, &json)?;
        let pending = Name::new(ObjectKind::Pending, pending);
        let committed = self.secure(removals).and_then(|removals| {
            let id = snapshot::save(repository, snapshot)?;
            let confirmed = self
                .confirm(pending, &removals)
                .and_then(|()| verify())
                .and_then(|()| repository.verify_presence());
            match confirmed {
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

    /// Makes sure that it was announced until it was there. If this process was stopped for so long that a prune took it for
    /// dead, its blocks are looked after once more.
    fn confirm(&self, pending: Name, removals: &BTreeSet<Id>) -> Result<()> {
        match self.repository.storage().stat(pending) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.secure(removals).map(|_| ())
            }
            Err(error) => Err(Error::storage("read", pending)(error)),
        }
    }

    /// Sees to it that every block is in a pack that stays; returns the removals that this is true for.
    fn secure(&self, removals: &BTreeSet<Id>) -> Result<BTreeSet<Id>> {
        let mut secured = removals.clone();
        while removal::names(self.repository)? != secured {
            secured = match self.copy_condemned() {
                Err(error) if error.is_not_found() => return Err(Error::RemovedMeanwhile),
                Err(Error::MissingBlock(_)) => return Err(Error::RemovedMeanwhile),
                result => result?,
            };
        }
        Ok(secured)
    }

    /// Copies the blocks that are only in condemned packs; returns the removals that condemned them.
    fn copy_condemned(&self) -> Result<BTreeSet<Id>> {
        let repository = self.repository;
        let index = Arc::new(repository.load_index_and_lost()?.0);
        let mut reach = Reach::default();
        let blocks = match self.own {
            Some(own) => own,
            None => {
                let mut reader = BlockReader::new(repository);
                reach.add(&mut reader, &index, &self.snapshot.root)?;
                reach.blocks()
            }
        };
        let mut condemned = HashSet::new();
        for block in blocks {
            if !index.keeps(block)? {
                condemned.insert(*block);
            }
        }
        if !condemned.is_empty() {
            repack::copy(repository, &index, condemned, |_| {})?;
        }
        Ok(index.removals().clone())
    }
}
