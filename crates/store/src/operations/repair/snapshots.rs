//! Rewrites snapshots that lack blocks as complete ones.
//!
//! A file with lost blocks keeps its size and all other blocks: the lost ones become holes, which
//! read as zeros, and the file gets another name, so that no user takes it for intact and no
//! restore overwrites a good file with it. An unreadable directory becomes empty. The next backup
//! reads both anew.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use super::exclusive::exclusive;
use super::options::RepairOptions;
use crate::access::index_objects::Trust;
use crate::access::listing::{LIST_ATTEMPTS_MAX, unsteady};
use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::operations::edit::{Edit, Trees, edit};
use tabane_format::entry::{Entry, Kind, Piece, Time};
use tabane_format::pack;
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_index::Index;
use tabane_storage::Id;
use tabane_storage::{ObjectKind, Progress};

/// Suffix of the name of a file with lost blocks.
const SUFFIX: &str = ".repaired";

/// Bytes of the longest name of a file on Linux.
const NAME_LEN_MAX: usize = 255;

/// Losses of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Files with lost blocks.
    pub damaged_files: u64,
    /// Lost bytes of these files.
    pub lost_bytes: u64,
    /// Unreadable directories, whose entries are unknown.
    pub lost_directories: u64,
}

/// A snapshot that lacked blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// ID of the old snapshot.
    pub old: Id,
    /// ID of the repaired snapshot; `None` in a dry run.
    pub new: Option<Id>,
    /// The losses.
    pub lost: Lost,
}

/// The result of [`Repository::repair_snapshots`], or of its dry run.
#[derive(Clone, Debug, Default)]
pub struct SnapshotsReport {
    /// Snapshots that lacked blocks.
    pub repaired: Vec<Repaired>,
    /// Snapshots whose root directory cannot be read: they cannot be repaired.
    pub unreadable: Vec<Id>,
}

impl Repository {
    /// Writes a new snapshot, tagged `repaired`, for each with lost blocks: zeros replace lost
    /// blocks in files, which get another name, and empty directories replace unreadable ones.
    /// Blocks count as lost if the index or the packs in it lack them: repair index and packs
    /// first.
    ///
    /// # Errors
    /// [`Error::PruneRunning`]; when the storage fails. Each snapshot then exists in its old form
    /// or in its new one.
    pub fn repair_snapshots(
        &self,
        options: RepairOptions,
        snapshots: &[(Id, Snapshot)],
    ) -> Result<SnapshotsReport> {
        let _presence = exclusive(self, options.dry_run)?;
        let index = load_index(self)?;
        let mut report = SnapshotsReport::default();
        let (mut readable, mut missing_roots) = (Vec::new(), Vec::new());
        let mut reader = BlockReader::of_trees(self);
        for (id, snapshot) in snapshots {
            match reader.read_directory(&index, &snapshot.root) {
                Err(error) if is_loss(&error) => {
                    self.progress().note(&format!(
                        "snapshot {}: its first directory cannot be read: {error}",
                        id.short()
                    ));
                    if let Error::MissingBlock(block) = error {
                        missing_roots.push(block);
                    }
                    report.unreadable.push(*id);
                }
                Err(error) => return Err(error),
                Ok(_) => readable.push((*id, snapshot.clone())),
            }
        }
        let unindexed = unindexed_blocks(self, &index)?;
        if !(options.dry_run || unindexed.is_empty()) {
            let is_there = missing_roots.iter().any(|block| unindexed.contains(block));
            let mut probe = Repair::new(&(), unindexed);
            let again = load_index(self)?;
            edit(self, again, &readable, &mut probe, options.forget, true)?;
            if is_there || probe.misses_unindexed {
                return Err(Error::PacksUnindexed);
            }
        }
        let mut repair = Repair::new(&**self.progress(), HashSet::new());
        let edited = edit(
            self,
            index,
            &readable,
            &mut repair,
            options.forget,
            options.dry_run,
        )?;
        report.repaired = edited
            .into_iter()
            .map(|edited| Repaired {
                old: edited.old,
                new: edited.new,
                lost: edited.changes,
            })
            .collect();
        if options.forget && !options.dry_run {
            let failed = self.remove_snapshots(&report.unreadable)?;
            failed
                .into_iter()
                .next()
                .map_or(Ok(()), |(_, error)| Err(error))?;
        }
        Ok(report)
    }
}

/// Loads the index of existing packs, again if a pack vanished meanwhile: blocks that a prune
/// copied out of this pack might seem lost.
fn load_index(repository: &Repository) -> Result<Index> {
    let packs = || -> Result<BTreeSet<Id>> {
        let listed = repository.list(ObjectKind::Pack)?;
        Ok(listed.into_iter().map(|(id, _)| id).collect())
    };
    let mut before = packs()?;
    for _ in 0..LIST_ATTEMPTS_MAX {
        let index = repository.load_index_and_lost(Trust::Any)?.0;
        let after = packs()?;
        if before.is_subset(&after) {
            return Ok(index);
        }
        before = after;
    }
    Err(unsteady(ObjectKind::Pack.name()))
}

/// The blocks of packs that the index lacks and no removal names.
fn unindexed_blocks(repository: &Repository, index: &Index) -> Result<HashSet<Id>> {
    let mut unindexed: HashSet<Id> = repository
        .list(ObjectKind::Pack)?
        .into_iter()
        .map(|(id, _)| id)
        .filter(|id| !index.condemns(id))
        .collect();
    for pack in index.packs() {
        unindexed.remove(&pack?.id);
    }
    let mut blocks = HashSet::new();
    for pack in unindexed {
        // Packs with an unreadable footer are skipped.
        let Ok(contents) = pack::fetch_contents(repository.storage(), repository.keys(), pack)
        else {
            continue;
        };
        let segments = contents.segments.iter().flat_map(|segment| &segment.blocks);
        blocks.extend(segments.map(|(block, _)| *block));
    }
    Ok(blocks)
}

/// Whether an error means lost data; other errors may pass.
fn is_loss(error: &Error) -> bool {
    matches!(error, Error::MissingBlock(_) | Error::Damaged { .. })
}

impl AddAssign for Lost {
    fn add_assign(&mut self, other: Self) {
        self.damaged_files += other.damaged_files;
        self.lost_bytes += other.lost_bytes;
        self.lost_directories += other.lost_directories;
    }
}

/// Replaces lost blocks by holes and lost directories by empty ones.
struct Repair<'a> {
    progress: &'a dyn Progress,
    /// Notes that were reported already: many snapshots lack the same blocks.
    told: HashSet<String>,
    /// Blocks in packs that the index lacks.
    unindexed: HashSet<Id>,
    /// Whether a snapshot needs one of these blocks.
    misses_unindexed: bool,
}

impl<'a> Repair<'a> {
    fn new(progress: &'a dyn Progress, unindexed: HashSet<Id>) -> Self {
        Self {
            progress,
            told: HashSet::new(),
            unindexed,
            misses_unindexed: false,
        }
    }

    /// Replaces missing blocks of a file by holes; returns the number of lost bytes.
    fn take_out_lost(&mut self, trees: &Trees<'_>, entry: &mut Entry) -> Result<u64> {
        let Kind::File { content, .. } = &mut entry.kind else {
            return Ok(0);
        };
        let mut lost = 0;
        for piece in content {
            if let Piece::Block { id, len } = *piece
                && !trees.has(&id, len)?
            {
                self.miss(&id);
                lost += piece.len();
                *piece = Piece::Hole { len: piece.len() };
            }
        }
        Ok(lost)
    }

    fn miss(&mut self, block: &Id) {
        self.misses_unindexed |= self.unindexed.contains(block);
    }

    fn note(&mut self, what: String) {
        if !self.told.contains(&what) {
            self.progress.note(&what);
            self.told.insert(what);
        }
    }
}

impl Edit for Repair<'_> {
    type Changes = Lost;

    fn directory(
        &mut self,
        trees: &mut Trees<'_>,
        path: &Path,
        content: &[Piece],
    ) -> Result<(Vec<Entry>, Lost)> {
        let mut lost = Lost::default();
        let mut entries = match trees.read(content) {
            Err(error) if is_loss(&error) => {
                if let Error::MissingBlock(block) = &error {
                    self.miss(block);
                }
                let path = path.display();
                self.note(format!(
                    "{path}: this directory cannot be read, an empty one takes its place: {error}"
                ));
                lost.lost_directories = 1;
                return Ok((Vec::new(), lost));
            }
            entries => entries?,
        };
        let mut names: BTreeSet<Vec<u8>> = entries.iter().map(|entry| entry.name.clone()).collect();
        for entry in &mut entries {
            let missing = self.take_out_lost(trees, entry)?;
            if missing == 0 {
                continue;
            }
            let name = new_name(&entry.name, &names);
            self.note(format!(
                "{}: {missing} of {} bytes are lost; zeros take their place, under the name {}",
                path.join(OsStr::from_bytes(&entry.name)).display(),
                entry.size(),
                OsStr::from_bytes(&name).display(),
            ));
            names.insert(name.clone());
            entry.name = name;
            // A ctime that no file has, so that the next backup reads a file of this name.
            entry.ctime = Time::default();
            lost.damaged_files += 1;
            lost.lost_bytes += missing;
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((entries, lost))
    }

    fn snapshot(&self, snapshot: &mut Snapshot, _: &Lost) {
        snapshot.add_tag("repaired");
    }
}

/// A name for a repaired file: none of `taken`, and at most [`NAME_LEN_MAX`] bytes long.
fn new_name(name: &[u8], taken: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let mut suffixes = std::iter::once(SUFFIX.to_owned())
        .chain((2_u64..).map(|number| format!("{SUFFIX}{number}")));
    loop {
        let suffix = suffixes.next().expect("there are more than can be taken");
        let room = NAME_LEN_MAX - suffix.len();
        let stem = match std::str::from_utf8(name) {
            Ok(text) => &name[..text.floor_char_boundary(room)],
            Err(_) => &name[..name.len().min(room)],
        };
        let new = [stem, suffix.as_bytes()].concat();
        if !taken.contains(&new) {
            return new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_are_free_and_not_too_long() {
        let taken = |names: &[&[u8]]| names.iter().map(|name| name.to_vec()).collect();
        assert_eq!(new_name(b"a", &taken(&[b"a"])), b"a.repaired");
        let names = taken(&[b"a", b"a.repaired", b"a.repaired2"]);
        assert_eq!(new_name(b"a", &names), b"a.repaired3");
        // Shortened names stay different and contain no half letter.
        let long = "ä".repeat(127);
        let first = new_name(long.as_bytes(), &taken(&[]));
        assert_eq!(first, format!("{}.repaired", "ä".repeat(123)).into_bytes());
        let second = new_name(long.as_bytes(), &[first].into());
        assert_eq!(
            second,
            format!("{}.repaired2", "ä".repeat(122)).into_bytes()
        );
        let bytes = [0xff; 255];
        assert_eq!(new_name(&bytes, &taken(&[])).len(), 255);
    }
}
