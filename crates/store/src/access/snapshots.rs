//! The snapshots of a repository: writing, finding and removing them.

use jiff::Timestamp;
use tabane_storage::sync::try_each;
use tabane_storage::{Id, Name, ObjectKind};

use crate::access::forgotten;
use crate::access::repository::Repository;
use tabane_format::{Error, Result};

pub use tabane_format::snapshot::*;

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

    /// Replaces snapshots by others that need the same blocks; returns the new IDs.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`] when an old snapshot was removed meanwhile; when the storage fails.
    /// Both snapshots of some pairs may exist then.
    pub fn replace_snapshots(&self, changed: &[(Id, Snapshot)]) -> Result<Vec<Id>> {
        // Whoever may not remove snapshots is told so before there are two of each.
        let all: Vec<Id> = changed.iter().map(|(id, _)| *id).collect();
        let record = self.record_removal(&all)?;
        let (mut new, mut old) = (Vec::new(), Vec::new());
        let mut gone = None;
        for (id, snapshot) in changed {
            let saved = self.save_snapshot(snapshot)?;
            if !self.has(Name::new(ObjectKind::Snapshot, *id))? {
                // Nobody has kept its blocks.
                self.delete_if_there(Name::new(ObjectKind::Snapshot, saved))?;
                gone = Some(Error::NoSnapshot(id.to_string()));
                break;
            }
            new.push(saved);
            old.push(*id);
        }
        // The old snapshots have kept the blocks until now; from now on the new ones do.
        self.remove_recorded(&old, record)?
            .into_iter()
            .next()
            .map_or(Ok(()), |(_, error)| Err(error))?;
        gone.map_or(Ok(new), Err)
    }

    /// Removes a snapshot; its blocks stay until a prune. A missing snapshot is no error.
    ///
    /// # Errors
    /// As [`Repository::remove_snapshots`]; when it cannot be removed.
    pub fn remove_snapshot(&self, id: Id) -> Result<()> {
        let failed = self.remove_snapshots(&[id])?;
        failed
            .into_iter()
            .next()
            .map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Removes snapshots, and records that; returns those that could not be removed, with the
    /// reasons.
    ///
    /// # Errors
    /// [`Error::WriteOnly`]; when the storage fails before the first one is removed.
    pub fn remove_snapshots(&self, ids: &[Id]) -> Result<Vec<(Id, Error)>> {
        let record = self.record_removal(ids)?;
        self.remove_recorded(ids, record)
    }

    /// Records that these snapshots are about to be removed; returns the record and its number.
    ///
    /// # Errors
    /// As [`Repository::remove_snapshots`], also if this client may not remove snapshots.
    pub(crate) fn record_removal(&self, ids: &[Id]) -> Result<Option<(Id, u64)>> {
        self.keys().need_master("removing snapshots")?;
        forgotten::record(self, ids)
    }

    /// Removes snapshots for which there is a record; returns those that could not be removed, with
    /// the reasons.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn remove_recorded(
        &self,
        ids: &[Id],
        record: Option<(Id, u64)>,
    ) -> Result<Vec<(Id, Error)>> {
        let failed = try_each(ids, self.storage().connections(), |id| {
            // model: removal/forget/delete-snapshot
            let removed = self.delete_if_there(Name::new(ObjectKind::Snapshot, *id));
            Ok::<_, Error>(removed.err().map(|error| (*id, error)))
        })?;
        let failed = failed.into_iter().flatten().collect();
        if let Some(memory) = self.memory() {
            memory.forget(self, ids, record);
        }
        Ok(failed)
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
        let opened = self.get_opened(kind, id)?;
        let damaged = |error| Error::damaged(format!("snapshot {}", id.short()), error);
        let mut snapshot: Snapshot = serde_json::from_slice(&opened.payload).map_err(damaged)?;
        // Whatever a write-only key says, the snapshot is its own.
        snapshot.writer = opened.writer.or(snapshot.writer);
        Ok(snapshot)
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
    /// [`Error::WriteOnly`]; when the storage cannot be listed.
    pub fn snapshots(&self, filter: &Filter) -> Result<Listing> {
        self.keys().need_master("reading snapshots")?;
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
            .sort_by_key(|(id, snapshot)| snapshot.order(*id));
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
        // Nobody who has a key has made these.
        damaged.retain(|error| !matches!(error, Error::Foreign(_)));
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
    /// which a backup compares. None that a write-only key made: whoever stole it could make others
    /// take forged files for unchanged ones.
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
                && snapshot.writer.is_none()
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
