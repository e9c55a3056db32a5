//! Writes a snapshot while other clients may delete packs: rule 3 of [`crate::access::removal`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::access::client::Presence;
use crate::access::index_objects::Trust;
use crate::access::listing::{LIST_ATTEMPTS_MAX, unsteady};
use crate::access::reach::Reach;
use crate::access::reader::BlockReader;
use crate::access::removal;
use crate::access::repository::Repository;
use crate::operations::repack;
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_storage::Id;
use tabane_storage::sync::both;
use tabane_storage::{Name, ObjectKind};

/// Writes a snapshot; returns its ID. `removals` are those of the index in which its blocks were
/// found ([`Index::removals`](tabane_index::Index::removals)). Its blocks must be durable and
/// indexed, each in a pack that no such removal names. `presence` ends when the snapshot is there,
/// if this client has nothing else to do.
///
/// # Errors
/// [`Error::RemovedMeanwhile`] when a block is gone, [`Error::RepositoryGone`] when the repository
/// is; when the storage fails. No snapshot is left then.
pub fn commit(
    repository: &Repository,
    snapshot: &Snapshot,
    removals: &BTreeSet<Id>,
    presence: Option<Presence>,
) -> Result<Id> {
    let new = New {
        repository,
        snapshot,
        beside: None,
        presence,
    };
    new.commit(removals)
}

/// As [`commit`], for a snapshot that needs, but for its `own` blocks, only what the snapshot `old`
/// needs too. As long as `old` exists nobody removes the shared blocks, so only the blocks of `own`
/// are checked against `removals`.
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
        presence: None,
    };
    new.commit(removals)
}

/// A snapshot that is being committed.
struct New<'a> {
    repository: &'a Repository,
    snapshot: &'a Snapshot,
    /// The old snapshot, which keeps all blocks but the listed ones; if absent, all blocks need
    /// checking.
    beside: Option<(Id, &'a HashSet<Id>)>,
    /// The announcement of this client, which ends with a committed snapshot.
    presence: Option<Presence>,
}

impl New<'_> {
    /// Writes the snapshot, again after each removal of packs that came in between.
    fn commit(mut self, removals: &BTreeSet<Id>) -> Result<Id> {
        let repository = self.repository;
        let json = serde_json::to_vec(self.snapshot).expect("a snapshot is plain data");
        let mut removals = removals.clone();
        for _ in 0..LIST_ATTEMPTS_MAX {
            // What was removed since the blocks were looked up shows most often here, before
            // anything relies on them.
            // model: removal/commit/look
            let look = || removal::names(repository);
            // model: removal/commit/put-pending
            let put = || repository.put_sealed(ObjectKind::Pending, &json);
            let (seen, pending) = both(repository.is_far(), look, put);
            let pending = pending?;
            // As long as the pending object exists, an equal snapshot counts as not confirmed. A
            // pending object that is left behind is removed by a later prune.
            // model: removal/commit/delete-pending
            let forget_pending =
                || repository.delete_if_there(Name::new(ObjectKind::Pending, pending));
            let secured = match seen {
                Ok(seen) if seen == removals => Ok(removals),
                Ok(_) => self.secure(&removals),
                Err(error) => Err(error),
            };
            removals = secured.inspect_err(|_| {
                let _ = forget_pending();
            })?;
            if let Some(id) = self.attempt(&removals)? {
                // The records of a client that has done its work go together.
                let presence = self.presence.take();
                let _ = both(repository.is_far(), || drop(presence), forget_pending);
                return Ok(id);
            }
            forget_pending()?;
            if !self.is_old_there()? {
                // The old snapshot is gone, so any shared block may have been removed since.
                self.beside = None;
                removals.clear();
            }
        }
        Err(unsteady(ObjectKind::Removal.name()))
    }

    /// Writes the snapshot and lists the removals once more: this process may have been stopped for
    /// long before the write, and packs may be gone. Then the snapshot is deleted rather than
    /// completed: other clients may be about to remove it as incomplete.
    fn attempt(&self, removals: &BTreeSet<Id>) -> Result<Option<Id>> {
        let repository = self.repository;
        // model: removal/commit/put-snapshot
        let id = repository.save_snapshot(self.snapshot)?;
        let stands = || {
            // model: removal/commit/confirm
            let is_secured = || -> Result<bool> { Ok(removal::names(repository)? == *removals) };
            let is_there = || {
                repository.verify_presence()?;
                self.is_old_there()
            };
            let (is_secured, is_there) = both(repository.is_far(), is_secured, is_there);
            Ok(is_secured? & is_there?)
        };
        let stands: Result<bool> = stands();
        if let Ok(true) = stands {
            return Ok(Some(id));
        }
        // Deleting is safe: no caller has learned this ID.
        // model: removal/commit/delete-snapshot
        let deleted = repository.delete_if_there(Name::new(ObjectKind::Snapshot, id));
        stands.and(deleted).map(|()| None)
    }

    /// Whether the old snapshot, if this one relies on it, still exists.
    fn is_old_there(&self) -> Result<bool> {
        match self.beside {
            Some((old, _)) => self.repository.has(Name::new(ObjectKind::Snapshot, old)),
            None => Ok(true),
        }
    }

    /// Copies blocks until each is in a pack that stays; returns the removals that this takes into
    /// account.
    fn secure(&self, removals: &BTreeSet<Id>) -> Result<BTreeSet<Id>> {
        let mut secured = removals.clone();
        for _ in 0..LIST_ATTEMPTS_MAX {
            // model: removal/commit/list-removals
            if removal::names(self.repository)? == secured {
                return Ok(secured);
            }
            if self.repository.is_write_only() {
                secured = self.unneeded(removals)?;
                continue;
            }
            secured = match self.copy_condemned() {
                Err(error) if error.is_not_found() => return Err(Error::RemovedMeanwhile),
                Err(Error::MissingBlock(_)) => return Err(Error::RemovedMeanwhile),
                result => result?,
            };
        }
        Err(unsteady(ObjectKind::Removal.name()))
    }

    /// The removals, of which none but `known` condemns a pack: a write-only key cannot read what
    /// is to be copied.
    fn unneeded(&self, known: &BTreeSet<Id>) -> Result<BTreeSet<Id>> {
        let removals = self.repository.read_removals()?;
        let mut new = removals.iter().filter(|(id, _)| !known.contains(id));
        if new.any(|(_, removal)| !removal.packs.is_empty()) {
            Err(Error::RemovedMeanwhile)
        } else {
            Ok(removals.names())
        }
    }

    /// Copies the blocks that are only in condemned packs; returns the removals that condemned
    /// them.
    fn copy_condemned(&self) -> Result<BTreeSet<Id>> {
        let repository = self.repository;
        let index = Arc::new(repository.load_index_and_lost(Trust::Any)?.0);
        let mut reach = Reach::default();
        let blocks = match self.beside {
            Some((_, own)) => own,
            None => {
                let mut reader = BlockReader::of_trees(repository);
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
