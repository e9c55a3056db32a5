//! Snapshots: what was there at one time.

use std::cmp::Reverse;
use std::path::Path;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tabane_storage::Id;

use crate::entry::Piece;
use crate::error::{Error, Result};
use crate::owners::Owners;
use crate::writer_key::WriterId;

/// The contents of a snapshot's object, sealed JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the backup began. Prints as RFC 3339, in UTC.
    pub time: Timestamp,
    /// The machine.
    pub hostname: String,
    /// The user.
    pub username: String,
    /// The paths that were asked for, absolute and sorted (bytes that are not UTF-8 replaced).
    pub paths: Vec<String>,
    /// Free words to find it by.
    pub tags: Vec<String>,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its client wished for its life; rules decide if it said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// The snapshot that unchanged files were taken from.
    pub parent: Option<Id>,
    /// The snapshot that this is a copy of, with other tags, without some entries, repaired, or in
    /// another repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Id>,
    /// How often it was changed, which made one snapshot of another: tags, entries left out,
    /// repairs. Copies to other repositories do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changes: u32,
    /// The content of `/`, a directory.
    pub root: Vec<Piece>,
    /// The write-only key that made it. Stored only where a full key has made another snapshot of
    /// it; otherwise it follows from how the snapshot is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<WriterId>,
    /// The names of owners and groups; nothing in a repository of format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners: Option<Owners>,
    /// The program that wrote it.
    pub program_version: String,
    /// What there was to do.
    pub summary: Summary,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Snapshot {
    /// The name that a user had where the snapshot was made, if it is known.
    pub fn user(&self, number: u32) -> Option<&str> {
        let owners = self.owners.as_ref()?;
        owners.users.get(&number).map(String::as_str)
    }

    /// The name that a group had where the snapshot was made, if it is known.
    pub fn group(&self, number: u32) -> Option<&str> {
        let owners = self.owners.as_ref()?;
        owners.groups.get(&number).map(String::as_str)
    }

    /// What snapshots are sorted by, the latest last: the time. Of those of one time, as of an
    /// import that was done again, one that lacks less is later, and the one that was
    /// changed more often.
    pub fn order(&self, id: Id) -> impl Ord + use<> {
        let lacking = Reverse(self.summary.errors);
        (
            self.time,
            lacking,
            self.changes,
            self.original.is_some(),
            id,
        )
    }

    /// Adds a tag, unless it has it.
    pub fn add_tag(&mut self, tag: &str) {
        if !self.tags.iter().any(|other| other == tag) {
            self.tags.push(tag.to_owned());
        }
    }
}

/// How long rules leave a snapshot alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// Rules never remove it.
    Never,
    /// It stays until this time, whatever rules say, and goes with the first ones after it.
    Until(Timestamp),
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
    /// Bytes written to the repository for them; after a dry run those that would be.
    pub stored_bytes: u64,
    /// Blocks that the repository did not have.
    pub blocks_new: u64,
    /// Blocks that it had.
    pub blocks_duplicate: u64,
}

/// Which snapshots are meant: those that pass all three lists. Empty lists allow all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The snapshot is of one of these machines.
    pub hosts: Vec<String>,
    /// The snapshot has all tags of one of these comma-separated lists: `["a,b", "c"]` means
    /// (a and b) or c. A list without a tag means that the snapshot has none.
    pub tags: Vec<String>,
    /// The snapshot has all of these paths, compared as text with [`Snapshot::paths`].
    pub paths: Vec<String>,
}

impl Filter {
    /// Whether a snapshot is meant.
    pub fn allows(&self, snapshot: &Snapshot) -> bool {
        let has_all = |list: &String| match &split_tags(list)[..] {
            [] => snapshot.tags.is_empty(),
            tags => has_tags(snapshot, tags),
        };
        (self.hosts.is_empty() || self.hosts.contains(&snapshot.hostname))
            && (self.tags.is_empty() || self.tags.iter().any(has_all))
            && self.paths.iter().all(|path| snapshot.paths.contains(path))
    }
}

/// The properties that snapshots of a group share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// The machine.
    pub host: bool,
    /// All paths.
    pub paths: bool,
    /// All tags.
    pub tags: bool,
}

impl GroupBy {
    /// The usual groups: of each machine with the same paths.
    pub const HOST_AND_PATHS: Self = Self {
        host: true,
        paths: true,
        tags: false,
    };
}

impl FromStr for GroupBy {
    type Err = Error;

    /// Reads a list as `host,paths`; an empty one makes one group of all.
    fn from_str(text: &str) -> Result<Self> {
        let mut group_by = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "host" | "hosts" => group_by.host = true,
                "path" | "paths" => group_by.paths = true,
                "tag" | "tags" => group_by.tags = true,
                _ => {
                    return Err(Error::Invalid(format!(
                        "snapshots cannot be grouped by {word:?}: use host, paths, tags or some of \
                         them with commas between"
                    )));
                }
            }
        }
        Ok(group_by)
    }
}

/// The tags of a list with commas between them.
pub fn split_tags(list: &str) -> Vec<String> {
    let tags = list.split(',').map(str::trim);
    tags.filter(|tag| !tag.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether a snapshot has all of these tags. Older programs stored some with space around them.
pub fn has_tags(snapshot: &Snapshot, tags: &[String]) -> bool {
    let has = |tag: &String| snapshot.tags.iter().any(|own| own.trim() == tag);
    tags.iter().all(has)
}

/// How a path is written in a snapshot's list of paths.
pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
