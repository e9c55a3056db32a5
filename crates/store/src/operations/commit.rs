//! Makes a snapshot, so that nothing that it needs is removed meanwhile: rule 3 of
//! [`crate::access::removal`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::access::reach::Reach;
use crate::access::reader::BlockReader;
use crate::access::removal;
use crate::access::repository::Repository;
use crate::error::{Error, Result};
use crate::format::snapshot::Snapshot;
use crate::operations::repack;
use tabane_storage::Id;
use tabane_storage::{Name, ObjectKind};

/// Writes a snapshot; returns its ID. `removals` are those that were there before its blocks were
/// found ([`Index::removals`](tabane_index::Index::removals)); its blocks must be durable and
/// indexed, and none of them only in a pack that those name.
///
/// # Errors
/// [`Error::RemovedMeanwhile`] when a block is gone, [`Error::RepositoryGone`] when all is; when
/// the storage fails. There is
/// no snapshot then.
pub fn commit(repository: &Repository, snapshot: &Snapshot, removals: &BTreeSet<Id>) -> Result<Id> {
    let new = New {
        repository,
        snapshot,
        beside: None,
    };
    new.commit(removals)
}

/// As [`commit`], for a snapshot that needs, but for its `own` blocks, only what the snapshot `old`
/// needs too. As long as that is there nobody removes these, so they are not looked after once
/// more: `removals` is about its own blocks alone.
///
/// # Errors
/// As [`commit`].
pub(crate) fn commit_beside(
    repository: &Repository,
    old: Id,
    own: &HashSet<Id>,
    snapshot: &Snapshot,
    removals: &BTreeSet<Id>,
) -> Result<Id> {
    let new = New {
        repository,
        snapshot,
        beside: Some((old, own)),
    };
    new.commit(removals)
}

/// A snapshot that is about to be.
struct New<'a> {
    repository: &'a Repository,
    snapshot: &'a Snapshot,
    /// The snapshot that keeps all but these blocks; if there is none, all that it needs is to be
    /// looked after.
    beside: Option<(Id, &'a HashSet<Id>)>,
}

impl New<'_> {
    /// Writes it, as often as somebody removes packs at that moment.
    fn commit(mut self, removals: &BTreeSet<Id>) -> Result<Id> {
        let repository = self.repository;
        let json = serde_json::to_vec(self.snapshot).expect("a snapshot is plain data");
        let mut removals = removals.clone();
        loop {
            let pending = repository.put_sealed(ObjectKind::Pending, &json)?;
            // As long as it is there, a snapshot that is like it counts as not confirmed. If it
            // stays, a later prune removes it.
            let forget_pending =
                || repository.delete_if_there(Name::new(ObjectKind::Pending, pending));
            removals = self.secure(&removals).inspect_err(|_| {
                let _ = forget_pending();
            })?;
            if let Some(id) = self.attempt(&removals)? {
                let _ = forget_pending();
                return Ok(id);
            }
            forget_pending()?;
            if !self.is_old_there()? {
                // Nothing is known of what kept its blocks since then.
                self.beside = None;
                removals.clear();
            }
        }
    }

    /// Writes it, and looks once more: this process may have been stopped for long before it was
    /// there, and packs may be gone. Then it is taken back, not made whole where it is: others may
    /// be about to remove it, since it lacks something.
    fn attempt(&self, removals: &BTreeSet<Id>) -> Result<Option<Id>> {
        let repository = self.repository;
        let id = repository.save_snapshot(self.snapshot)?;
        let stands = || -> Result<bool> {
            let stands = removal::names(repository)? == *removals && self.is_old_there()?;
            repository.verify_presence()?;
            Ok(stands)
        };
        let stands = stands();
        if let Ok(true) = stands {
            return Ok(Some(id));
        }
        // Nobody was told of it.
        let deleted = repository.delete_if_there(Name::new(ObjectKind::Snapshot, id));
        stands.and(deleted).map(|()| None)
    }

    /// Whether the old snapshot is there that keeps blocks for this one, if that is how they are
    /// kept.
    fn is_old_there(&self) -> Result<bool> {
        match self.beside {
            Some((old, _)) => self.repository.has(Name::new(ObjectKind::Snapshot, old)),
            None => Ok(true),
        }
    }

    /// Sees to it that every block is in a pack that stays; returns the removals that this is true
    /// for.
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

    /// Copies the blocks that are only in condemned packs; returns the removals that condemned
    /// them.
    fn copy_condemned(&self) -> Result<BTreeSet<Id>> {
        let repository = self.repository;
        let index = Arc::new(repository.load_index_and_lost()?.0);
        let mut reach = Reach::default();
        let blocks = match self.beside {
            Some((_, own)) => own,
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
