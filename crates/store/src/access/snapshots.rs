//! The snapshots of a repository: writing, finding and removing them.

use jiff::Timestamp;
use tabane_storage::{Id, Name, ObjectKind};

use crate::access::repository::Repository;
use crate::error::{Error, Result};

pub use crate::format::snapshot::*;

/// Readable snapshots, and the errors of the others.
#[derive(Debug, Default)]
pub struct Listing {
    /// Oldest first.
    pub snapshots: Vec<(Id, Snapshot)>,
    /// Errors of the unreadable snapshots.
    pub damaged: Vec<Error>,
}

impl Repository {
    /// Writes a snapshot; returns its ID.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn save_snapshot(&self, snapshot: &Snapshot) -> Result<Id> {
        let json = serde_json::to_vec(snapshot).expect("a snapshot is plain data");
        self.put_sealed(ObjectKind::Snapshot, &json)
    }

    /// Replaces a snapshot by another one that needs the same blocks; returns the new ID.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`] when the old snapshot was removed meanwhile; when the storage fails,
    /// and then both snapshots may exist.
    pub fn replace_snapshot(&self, old: Id, snapshot: &Snapshot) -> Result<Id> {
        let id = self.save_snapshot(snapshot)?;
        if !self.has(Name::new(ObjectKind::Snapshot, old))? {
            self.remove_snapshot(id)?;
            return Err(Error::NoSnapshot(old.to_string()));
        }
        // The old snapshot has kept the blocks until now; from now on the new one does.
        self.remove_snapshot(old).map(|()| id)
    }

    /// Removes a snapshot; its blocks stay until a prune. A missing snapshot is no error.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn remove_snapshot(&self, id: Id) -> Result<()> {
        // model: removal/forget/delete-snapshot
        self.delete_if_there(Name::new(ObjectKind::Snapshot, id))
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    /// When the storage fails or the snapshot is damaged.
    pub fn load_snapshot(&self, id: Id) -> Result<Snapshot> {
        self.load_snapshot_from(ObjectKind::Snapshot, id)
    }

    /// Reads a snapshot object or a pending one, as `kind` says.
    pub(crate) fn load_snapshot_from(&self, kind: ObjectKind, id: Id) -> Result<Snapshot> {
        let json = self.get_sealed(kind, id)?;
        serde_json::from_slice(&json)
            .map_err(|error| Error::damaged(format!("snapshot {}", id.short()), error))
    }

    /// Pending snapshots: of clients at work, or of clients that died before they confirmed that no
    /// block is missing (rule 3 of [`crate::access::removal`]). A snapshot equal to one of them may
    /// lack blocks.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn announced_snapshots(&self) -> Result<Vec<Snapshot>> {
        let kind = ObjectKind::Pending;
        let read = self.read_each(kind, |id| self.load_snapshot_from(kind, id))?;
        Ok(read.into_values().flatten().collect())
    }

    /// Lists all snapshots that `filter` allows; unreadable ones are reported apart.
    ///
    /// # Errors
    /// When the storage cannot be listed.
    pub fn snapshots(&self, filter: &Filter) -> Result<Listing> {
        let mut listing = Listing::default();
        // Other clients may forget or replace snapshots meanwhile.
        let read = self.read_each(ObjectKind::Snapshot, |id| self.load_snapshot(id))?;
        self.nearby()
            .retain_objects(ObjectKind::Snapshot, |id| read.contains_key(id));
        for (id, snapshot) in read {
            match snapshot {
                Ok(snapshot) if filter.allows(&snapshot) => listing.snapshots.push((id, snapshot)),
                Ok(_) => {}
                Err(error) => listing.damaged.push(error),
            }
        }
        listing
            .snapshots
            .sort_by_key(|(id, snapshot)| (snapshot.time, *id));
        Ok(listing)
    }

    /// The snapshot that `name` means: `latest` of those that `filter` allows, an ID, or its
    /// beginning.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`], [`Error::AmbiguousSnapshot`], [`Error::LatestUnclear`], damage, or
    /// when the storage fails.
    pub fn find_snapshot(&self, name: &str, filter: &Filter) -> Result<(Id, Snapshot)> {
        match name {
            "latest" => self.find_latest(filter),
            _ => {
                let id = self.find_by_prefix(name)?;
                Ok((id, self.load_snapshot(id)?))
            }
        }
    }

    /// As [`Repository::find_snapshot`], but returns the ID only. Except for `latest`, the snapshot
    /// is not read and may be damaged.
    ///
    /// # Errors
    /// As [`Repository::find_snapshot`].
    pub fn find_snapshot_id(&self, name: &str, filter: &Filter) -> Result<Id> {
        match name {
            "latest" => Ok(self.find_latest(filter)?.0),
            _ => self.find_by_prefix(name),
        }
    }

    fn find_latest(&self, filter: &Filter) -> Result<(Id, Snapshot)> {
        let Listing {
            mut snapshots,
            mut damaged,
        } = self.snapshots(filter)?;
        match (damaged.pop(), snapshots.pop()) {
            (Some(error), _) => Err(Error::LatestUnclear(Box::new(error))),
            (None, Some(latest)) => Ok(latest),
            (None, None) => Err(Error::NoSnapshot("latest".to_owned())),
        }
    }

    fn find_by_prefix(&self, prefix: &str) -> Result<Id> {
        let listed = self.list(ObjectKind::Snapshot)?;
        let mut matching = listed
            .iter()
            .map(|&(id, _)| id)
            .filter(|id| id.has_prefix(prefix));
        match (matching.next(), matching.count()) {
            (Some(id), 0) if !prefix.is_empty() => Ok(id),
            (Some(_), others) if !prefix.is_empty() => Err(Error::AmbiguousSnapshot {
                prefix: prefix.to_owned(),
                count: others + 1,
            }),
            _ => Err(Error::NoSnapshot(prefix.to_owned())),
        }
    }

    /// The latest snapshot from before `time` that has in common with `new` what `by` names, with
    /// which a backup compares.
    ///
    /// # Errors
    /// When the storage fails. Damaged snapshots are passed over.
    pub fn find_parent_snapshot(
        &self,
        new: &Origin<'_>,
        by: GroupBy,
        time: Timestamp,
    ) -> Result<Option<(Id, Snapshot)>> {
        let mut snapshots = self.snapshots(&Filter::default())?.snapshots;
        let sorted = |tags: &[String]| {
            let mut tags = tags.to_vec();
            tags.sort();
            tags
        };
        snapshots.retain(|(_, snapshot)| {
            snapshot.time <= time
                && (!by.host || snapshot.hostname == new.hostname)
                && (!by.paths || snapshot.paths == new.paths)
                && (!by.tags || sorted(&snapshot.tags) == sorted(new.tags))
        });
        Ok(snapshots.pop())
    }
}

/// What a new snapshot may have in common with older ones.
pub struct Origin<'a> {
    /// The machine.
    pub hostname: &'a str,
    /// The paths.
    pub paths: &'a [String],
    /// The tags.
    pub tags: &'a [String],
}
