//! Snapshots: what was there at one time.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::forget;
use crate::node::Piece;
use crate::repository::Repository;
use tabane_storage::Id;
use tabane_storage::{Name, ObjectKind};

/// The contents of a snapshot's object, sealed JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the backup began.
    pub time: Timestamp,
    /// The machine.
    pub hostname: String,
    /// The user.
    pub username: String,
    /// The paths that were asked for, absolute and sorted (bytes that are not UTF-8 replaced).
    pub paths: Vec<String>,
    /// Free words to find it by.
    pub tags: Vec<String>,
    /// The snapshot that unchanged files were taken from.
    pub parent: Option<Id>,
    /// The snapshot that this is a copy of, with other tags, without some entries, repaired, or in another repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Id>,
    /// The content of `/`, a directory.
    pub root: Vec<Piece>,
    /// The program that wrote it.
    pub program_version: String,
    /// What there was to do.
    pub summary: Summary,
}

impl Snapshot {
    /// Adds a tag, unless it has it.
    pub fn add_tag(&mut self, tag: &str) {
        if !self.tags.iter().any(|other| other == tag) {
            self.tags.push(tag.to_owned());
        }
    }
}

/// What a backup did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// When the backup began, by the clock; [`Snapshot::time`] may be chosen.
    pub start: Timestamp,
    /// When the backup ended.
    pub end: Timestamp,
    /// Files that the parent snapshot does not have.
    pub files_new: u64,
    /// Files that differ from the parent snapshot's.
    pub files_changed: u64,
    /// Files taken from the parent snapshot unread.
    pub files_unmodified: u64,
    /// Directories.
    pub directories: u64,
    /// Links, devices and other entries without content.
    pub others: u64,
    /// Entries that could not be read and are missing.
    pub errors: u64,
    /// Bytes of all files, holes included.
    pub total_bytes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes of blocks that the repository did not have.
    pub added_bytes: u64,
    /// Bytes of files that were read and that the repository had.
    pub duplicate_bytes: u64,
    /// Bytes written to the repository for them.
    pub stored_bytes: u64,
    /// Blocks that the repository did not have.
    pub blocks_new: u64,
    /// Blocks that it had.
    pub blocks_duplicate: u64,
}

/// Which snapshots are meant. Empty lists allow all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Any of these machines.
    pub hosts: Vec<String>,
    /// All tags of any of these comma-separated lists.
    pub tags: Vec<String>,
    /// All of these paths.
    pub paths: Vec<String>,
}

impl Filter {
    /// Whether a snapshot is meant.
    pub fn allows(&self, snapshot: &Snapshot) -> bool {
        let has_all = |list: &String| has_tags(snapshot, &split_tags(list));
        (self.hosts.is_empty() || self.hosts.contains(&snapshot.hostname))
            && (self.tags.is_empty() || self.tags.iter().any(has_all))
            && self.paths.iter().all(|path| snapshot.paths.contains(path))
    }
}

/// The tags of a list with commas between them.
pub fn split_tags(list: &str) -> Vec<String> {
    let tags = list.split(',').filter(|tag| !tag.is_empty());
    tags.map(str::to_owned).collect()
}

/// Whether a snapshot has all of these tags.
pub fn has_tags(snapshot: &Snapshot, tags: &[String]) -> bool {
    tags.iter().all(|tag| snapshot.tags.contains(tag))
}

/// Writes a snapshot; returns its ID.
///
/// # Errors
/// When the storage fails.
pub fn save(repository: &Repository, snapshot: &Snapshot) -> Result<Id> {
    let json = serde_json::to_vec(snapshot).expect("a snapshot is plain data");
    repository.put_sealed(ObjectKind::Snapshot, &json)
}

/// Puts a snapshot that needs the same blocks in the place of another; returns its ID.
///
/// # Errors
/// [`Error::NoSnapshot`] when the other has been removed meanwhile; when the storage fails, both may be there.
pub fn replace(repository: &Repository, old: Id, snapshot: &Snapshot) -> Result<Id> {
    let id = save(repository, snapshot)?;
    if !repository.has(Name::new(ObjectKind::Snapshot, old))? {
        forget::remove(repository, id)?;
        return Err(Error::NoSnapshot(old.to_string()));
    }
    // Until now the old one has kept the blocks, and from now on the new one does.
    forget::remove(repository, old).map(|()| id)
}

/// Reads a snapshot.
///
/// # Errors
/// When the storage fails or the snapshot is damaged.
pub fn load(repository: &Repository, id: Id) -> Result<Snapshot> {
    load_from(repository, ObjectKind::Snapshot, id)
}

/// Reads a snapshot, or one that is about to be.
pub(crate) fn load_from(repository: &Repository, kind: ObjectKind, id: Id) -> Result<Snapshot> {
    let json = repository.get_sealed(kind, id)?;
    serde_json::from_slice(&json)
        .map_err(|error| Error::damaged(format!("snapshot {}", id.short()), error))
}

/// Snapshots that are about to be, or whose clients died before they could say that they lack nothing: rule 3 of
/// [`crate::removal`]. A snapshot that is equal to one of them may lack something.
///
/// # Errors
/// When the storage fails.
pub(crate) fn announced(repository: &Repository) -> Result<Vec<Snapshot>> {
    let kind = ObjectKind::Pending;
    let read = repository.read_each(kind, |id| load_from(repository, kind, id))?;
    Ok(read.into_values().flatten().collect())
}

/// Snapshots that can be read, and those that cannot.
#[derive(Debug, Default)]
pub struct Listing {
    /// Oldest first.
    pub snapshots: Vec<(Id, Snapshot)>,
    /// Why the others cannot be read.
    pub damaged: Vec<Error>,
}

/// All snapshots that `filter` allows. Those that cannot be read don't hide the others.
///
/// # Errors
/// When the storage cannot be listed.
pub fn list(repository: &Repository, filter: &Filter) -> Result<Listing> {
    let mut listing = Listing::default();
    // Some may be forgotten meanwhile, or replaced by others.
    for (id, snapshot) in repository.read_each(ObjectKind::Snapshot, |id| load(repository, id))? {
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

/// The snapshot that `name` means: `latest` of those that `filter` allows, an ID, or its beginning.
///
/// # Errors
/// [`Error::NoSnapshot`], [`Error::AmbiguousSnapshot`], [`Error::LatestUnclear`], damage, or when the storage fails.
pub fn find(repository: &Repository, name: &str, filter: &Filter) -> Result<(Id, Snapshot)> {
    match name {
        "latest" => find_latest(repository, filter),
        _ => {
            let id = find_by_prefix(repository, name)?;
            Ok((id, load(repository, id)?))
        }
    }
}

/// As [`find`], except for `latest` the snapshot itself is not read: it may be damaged.
///
/// # Errors
/// As [`find`].
pub fn find_id(repository: &Repository, name: &str, filter: &Filter) -> Result<Id> {
    match name {
        "latest" => Ok(find_latest(repository, filter)?.0),
        _ => find_by_prefix(repository, name),
    }
}

fn find_latest(repository: &Repository, filter: &Filter) -> Result<(Id, Snapshot)> {
    let Listing {
        mut snapshots,
        mut damaged,
    } = list(repository, filter)?;
    match (damaged.pop(), snapshots.pop()) {
        (Some(error), _) => Err(Error::LatestUnclear(Box::new(error))),
        (None, Some(latest)) => Ok(latest),
        (None, None) => Err(Error::NoSnapshot("latest".to_owned())),
    }
}

fn find_by_prefix(repository: &Repository, prefix: &str) -> Result<Id> {
    let listed = repository.list(ObjectKind::Snapshot)?;
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

/// The latest snapshot of the same machine and paths, from before `time`: what a backup compares with.
///
/// # Errors
/// When the storage fails. Damaged snapshots are passed over.
pub fn find_parent(
    repository: &Repository,
    hostname: &str,
    paths: &[String],
    time: Timestamp,
) -> Result<Option<(Id, Snapshot)>> {
    let mut snapshots = list(repository, &Filter::default())?.snapshots;
    snapshots.retain(|(_, snapshot)| {
        snapshot.hostname == hostname && snapshot.paths == paths && snapshot.time <= time
    });
    Ok(snapshots.pop())
}

/// How a path is written in a snapshot's list of paths.
pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
