//! Rewrites snapshots with some of their directories changed.
//!
//! Only changed directories and their parents are stored again; other directories and all files
//! keep their blocks.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::access::writer::{Encoder, Writer};
use crate::operations::commit::commit_beside;
use tabane_format::compress::Compression;
use tabane_format::entry::{Entry, Kind, Piece};
use tabane_format::pack::BlockKind;
use tabane_format::snapshot::{Filter, Snapshot};
use tabane_format::{Error, Result};
use tabane_index::Index;
use tabane_storage::Id;
use tabane_storage::object_id;
use tabane_storage::{Name, ObjectKind};

/// An edit of the directories of snapshots.
pub trait Edit: Send {
    /// A count of changes; the default is none.
    type Changes: Copy + Default + PartialEq + AddAssign + Send;

    /// Returns the new entries of the directory at `path` with this content, sorted by name, and
    /// the changes. Directories among them are edited next.
    ///
    /// # Errors
    /// Any error, which leaves all snapshots unchanged.
    fn directory(
        &mut self,
        trees: &mut Trees<'_>,
        path: &Path,
        content: &[Piece],
    ) -> Result<(Vec<Entry>, Self::Changes)>;

    /// Whether a snapshot without changed directories is to be changed otherwise.
    fn is_otherwise(&self, snapshot: &Snapshot) -> bool {
        let _ = snapshot;
        false
    }

    /// Adapts a snapshot to the changes below it.
    fn snapshot(&self, snapshot: &mut Snapshot, changes: &Self::Changes);
}

/// Access to directories and blocks of a repository.
pub struct Trees<'a> {
    writer: &'a Writer,
    reader: BlockReader,
}

impl Trees<'_> {
    /// The entries of a directory.
    ///
    /// # Errors
    /// When the storage fails, a block is missing or damaged.
    pub fn read(&mut self, content: &[Piece]) -> Result<Vec<Entry>> {
        let reader = &mut self.reader;
        self.writer
            .with_index(|index| reader.read_directory(index, content))
    }

    /// Whether the repository has a block of this ID and length.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn has(&self, id: &Id, len: u32) -> Result<bool> {
        let found = self.writer.with_index(|index| index.find(id))?;
        Ok(found.is_some_and(|place| place.len == len))
    }
}

/// An edited snapshot.
pub struct Edited<C> {
    /// ID of the old snapshot.
    pub old: Id,
    /// ID of the new snapshot; `None` in a dry run.
    pub new: Option<Id>,
    /// The changes.
    pub changes: C,
}

/// Writes a new snapshot for each that `edit` changes, unless it exists already; `forget` removes
/// the old ones. This client must have announced itself before `index` was loaded.
///
/// # Errors
/// When `edit` or the storage fails. Each snapshot then exists in its old form or in its new one.
pub fn edit<E: Edit>(
    repository: &Repository,
    index: Index,
    snapshots: &[(Id, Snapshot)],
    edit: &mut E,
    forget: bool,
    dry_run: bool,
) -> Result<Vec<Edited<E::Changes>>> {
    let removals = index.removals().clone();
    let writer = Writer::new(repository, index, dry_run);
    let mut editor = Editor {
        encoder: writer.encoder(BlockKind::Tree, Compression::AUTO),
        trees: Trees {
            writer: &writer,
            reader: BlockReader::of_trees(repository),
        },
        edit,
        done: HashMap::new(),
        stored: HashSet::new(),
    };
    let edited: Result<Vec<_>> = snapshots
        .iter()
        .filter_map(|(id, snapshot)| {
            let edited = editor.snapshot(*id, snapshot).transpose()?;
            Some(edited.map(|(snapshot, changes)| (*id, snapshot, changes)))
        })
        .collect();
    let stored = editor.stored;
    let flushed = editor.encoder.flush();
    writer.finish()?;
    flushed?;
    let edited = edited?;
    // Snapshots that an interrupted run, or one that kept the old snapshots, has made.
    let (made, unconfirmed) = if dry_run || edited.is_empty() {
        Default::default()
    } else {
        confirmed_and_others(repository)?
    };
    let replaced: Vec<Id> = edited.iter().map(|(old, ..)| *old).collect();
    let removes = forget && !dry_run;
    let record = if removes {
        // Whoever may not remove snapshots is told so before there are two of each.
        repository.record_removal(&replaced)?
    } else {
        None
    };
    let mut done = Vec::new();
    for (old, snapshot, changes) in edited {
        let same = made.iter().find(|(_, made)| *made == snapshot);
        let new = match same {
            _ if dry_run => None,
            Some((id, _)) => Some(*id),
            None => Some(commit_beside(
                repository, old, &stored, &snapshot, &removals,
            )?),
        };
        if same.is_none() && new.is_some() {
            // Deletes unconfirmed twins: the new snapshot is equal and known to be complete.
            for (id, _) in unconfirmed.iter().filter(|(_, made)| *made == snapshot) {
                repository.delete_if_there(Name::new(ObjectKind::Snapshot, *id))?;
            }
        }
        done.push(Edited { old, new, changes });
    }
    if removes {
        let failed = repository.remove_recorded(&replaced, record)?;
        failed
            .into_iter()
            .next()
            .map_or(Ok(()), |(_, error)| Err(error))?;
    }
    Ok(done)
}

type Snapshots = Vec<(Id, Snapshot)>;

/// The snapshots that their clients have confirmed as complete, and the others.
fn confirmed_and_others(repository: &Repository) -> Result<(Snapshots, Snapshots)> {
    let made = repository.snapshots(&Filter::default())?.snapshots;
    // Pending snapshots are read last: a snapshot without one by now has been confirmed.
    let announced = repository.announced_snapshots()?;
    Ok(made
        .into_iter()
        .partition(|(_, snapshot)| !announced.contains(snapshot)))
}

/// Writes changed directories.
struct Editor<'a, E: Edit> {
    trees: Trees<'a>,
    encoder: Encoder,
    edit: &'a mut E,
    /// Results of edited directories, by content and path.
    done: HashMap<Id, (Vec<Piece>, E::Changes)>,
    /// Blocks of all stored directories.
    stored: HashSet<Id>,
}

impl<E: Edit> Editor<'_, E> {
    /// The edited snapshot and a count of its changes; `None` if nothing changes.
    fn snapshot(&mut self, id: Id, snapshot: &Snapshot) -> Result<Option<(Snapshot, E::Changes)>> {
        let (root, changes) =
            with_deep_stack(|| self.directory(Path::new("/"), &snapshot.root, 0))?;
        if changes == E::Changes::default() && !self.edit.is_otherwise(snapshot) {
            return Ok(None);
        }
        let mut edited = snapshot.clone();
        edited.root = root;
        edited.original = Some(snapshot.original.unwrap_or(id));
        edited.changes += 1;
        self.edit.snapshot(&mut edited, &changes);
        Ok(Some((edited, changes)))
    }

    fn directory(
        &mut self,
        path: &Path,
        content: &[Piece],
        depth: usize,
    ) -> Result<(Vec<Piece>, E::Changes)> {
        let identity = postcard::to_stdvec(content).expect("a content is plain data");
        let identity = object_id(&[&identity, path.as_os_str().as_bytes()]);
        if let Some(done) = self.done.get(&identity) {
            return Ok(done.clone());
        }
        if depth > DEPTH_MAX {
            return Err(Error::damaged("a directory", "it is too deep"));
        }
        let (mut entries, mut changes) = self.edit.directory(&mut self.trees, path, content)?;
        for entry in &mut entries {
            if let Kind::Directory { content } = &mut entry.kind {
                let path = path.join(OsStr::from_bytes(&entry.name));
                let below;
                (*content, below) = self.directory(&path, content, depth + 1)?;
                changes += below;
            }
        }
        let content = if changes == E::Changes::default() {
            content.to_vec()
        } else {
            self.store(&entries)?
        };
        self.done.insert(identity, (content.clone(), changes));
        Ok((content, changes))
    }

    fn store(&mut self, entries: &[Entry]) -> Result<Vec<Piece>> {
        let content = self.encoder.store_directory(entries)?;
        self.stored.extend(content.iter().filter_map(Piece::block));
        Ok(content)
    }
}
