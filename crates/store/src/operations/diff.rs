//! Differences between two trees.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::access::browse::TreeReader;
use tabane_format::Result;
use tabane_format::entry::{Entry, Kind, blocks as blocks_of};
use tabane_storage::Id;

/// A difference between two trees: an entry added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path below the compared directories.
    pub path: PathBuf,
    /// The entry of the first tree.
    pub old: Option<Entry>,
    /// The entry of the second tree.
    pub new: Option<Entry>,
    /// Kind of the difference.
    pub kind: ChangeKind,
}

/// Kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the second tree has the entry.
    Added,
    /// Only the first tree has the entry.
    Removed,
    /// The entry is another kind of file.
    Type,
    /// The content differs: bytes or holes of a file, target of a link, number of a device.
    Content,
    /// Only attributes differ that a restore would set: mode, owner, time of change, extended
    /// attributes.
    Metadata,
}

/// Counts of the differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffSummary {
    /// Entries other than directories that only the second tree has.
    pub files_added: u64,
    /// Entries other than directories that only the first tree has.
    pub files_removed: u64,
    /// Entries whose content or kind differs.
    pub files_changed: u64,
    /// Entries that differ in attributes only.
    pub metadata_changed: u64,
    /// Directories that only the second tree has.
    pub directories_added: u64,
    /// Directories that only the first tree has.
    pub directories_removed: u64,
    /// Blocks that, among the files that differ, only the second tree has.
    pub blocks_added: u64,
    /// Blocks that, among the files that differ, only the first tree has.
    pub blocks_removed: u64,
    /// Bytes of the blocks that only the second tree has.
    pub added_bytes: u64,
    /// Bytes of the blocks that only the first tree has.
    pub removed_bytes: u64,
}

/// Compares everything below two directories, or two entries of which one is none, and hands each
/// difference to `change`, a directory before its entries, entries sorted by name.
///
/// Subtrees with equal contents are not read. Numbers of inodes and times of access or of the last
/// change of an inode are not compared: they differ after every copy.
///
/// # Errors
/// When a directory cannot be read, and what `change` returns.
pub fn diff<E: From<crate::Error>>(
    reader: &mut impl TreeReader,
    old: &Entry,
    new: &Entry,
    mut change: impl FnMut(Change) -> std::result::Result<(), E>,
) -> std::result::Result<DiffSummary, E> {
    let mut summary = DiffSummary::default();
    let (mut old_blocks, mut new_blocks) = (HashSet::new(), HashSet::new());
    let top = match (old.directory(), new.directory()) {
        (Some(_), Some(_)) => pairs(reader, Some(old), Some(new))?,
        _ => vec![(Some(old.clone()), Some(new.clone()))],
    };
    let mut levels = vec![(PathBuf::from("/"), top.into_iter())];
    while let Some((directory, pairs_left)) = levels.last_mut() {
        let Some((old, new)) = pairs_left.next() else {
            levels.pop();
            continue;
        };
        let Some(name) = old
            .as_ref()
            .or(new.as_ref())
            .map(|entry| entry.name.as_slice())
        else {
            continue;
        };
        let path = directory.join(OsStr::from_bytes(name));
        let kind = compare(old.as_ref(), new.as_ref());
        if let Some(kind) = kind {
            summary.count(kind, old.as_ref(), new.as_ref());
            if kind != ChangeKind::Metadata {
                collect(&mut old_blocks, old.as_ref());
                collect(&mut new_blocks, new.as_ref());
            }
        }
        if differ_below(old.as_ref(), new.as_ref()) {
            let below = pairs(reader, old.as_ref(), new.as_ref())?;
            levels.push((path.clone(), below.into_iter()));
        }
        if let Some(kind) = kind {
            change(Change {
                path,
                old,
                new,
                kind,
            })?;
        }
    }
    for &(_, len) in new_blocks.difference(&old_blocks) {
        summary.added_bytes += u64::from(len);
        summary.blocks_added += 1;
    }
    for &(_, len) in old_blocks.difference(&new_blocks) {
        summary.removed_bytes += u64::from(len);
        summary.blocks_removed += 1;
    }
    Ok(summary)
}

/// How two entries of one name differ; directories are compared without their contents.
pub fn compare(old: Option<&Entry>, new: Option<&Entry>) -> Option<ChangeKind> {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (Some(_), None) => return Some(ChangeKind::Removed),
        (None, Some(_)) => return Some(ChangeKind::Added),
        (None, None) => return None,
    };
    if std::mem::discriminant(&old.kind) != std::mem::discriminant(&new.kind) {
        return Some(ChangeKind::Type);
    }
    let is_directory = matches!(new.kind, Kind::Directory { .. });
    if !is_directory && old.kind != new.kind {
        return Some(ChangeKind::Content);
    }
    let same_attributes = (old.mode, old.uid, old.gid, old.mtime, &old.xattrs)
        == (new.mode, new.uid, new.gid, new.mtime, &new.xattrs);
    (!same_attributes).then_some(ChangeKind::Metadata)
}

/// Whether the trees below two entries can differ.
pub fn differ_below(old: Option<&Entry>, new: Option<&Entry>) -> bool {
    old.and_then(Entry::directory) != new.and_then(Entry::directory)
}

/// The entries of one name in two directories.
pub type Pair = (Option<Entry>, Option<Entry>);

/// Pairs the entries of two directories by name; what is no directory has none.
///
/// # Errors
/// When a directory cannot be read.
pub fn pairs(
    reader: &mut impl TreeReader,
    old: Option<&Entry>,
    new: Option<&Entry>,
) -> Result<Vec<Pair>> {
    let mut entries = |entry: Option<&Entry>| match entry.and_then(Entry::directory) {
        Some(content) => reader.directory(content),
        None => Ok(Vec::new()),
    };
    let mut old = entries(old)?.into_iter().peekable();
    let mut new = entries(new)?.into_iter().peekable();
    let mut pairs = Vec::with_capacity(old.len().max(new.len()));
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old.name.cmp(&new.name),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(pairs),
        };
        pairs.push(match order {
            Ordering::Less => (old.next(), None),
            Ordering::Equal => (old.next(), new.next()),
            Ordering::Greater => (None, new.next()),
        });
    }
}

/// Adds the blocks of a file.
fn collect(blocks: &mut HashSet<(Id, u32)>, entry: Option<&Entry>) {
    let file = entry.filter(|entry| entry.directory().is_none());
    blocks.extend(file.iter().flat_map(|entry| blocks_of(entry)));
}

impl DiffSummary {
    fn count(&mut self, kind: ChangeKind, old: Option<&Entry>, new: Option<&Entry>) {
        let is_directory =
            |entry: Option<&Entry>| entry.is_some_and(|entry| entry.directory().is_some());
        let counter = match kind {
            ChangeKind::Added if is_directory(new) => &mut self.directories_added,
            ChangeKind::Added => &mut self.files_added,
            ChangeKind::Removed if is_directory(old) => &mut self.directories_removed,
            ChangeKind::Removed => &mut self.files_removed,
            ChangeKind::Type | ChangeKind::Content => &mut self.files_changed,
            ChangeKind::Metadata => &mut self.metadata_changed,
        };
        *counter += 1;
    }
}

/// Path of a change if the compared trees are at `base`.
pub fn place_of(base: &Path, change: &Path) -> PathBuf {
    base.join(change.strip_prefix("/").unwrap_or(change))
}
