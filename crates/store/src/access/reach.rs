//! Finds the blocks that snapshots need.

use std::collections::HashSet;

use crate::access::reader::BlockReader;
use tabane_format::entry::{self, Piece};
use tabane_format::{Error, Result};
use tabane_index::Index;
use tabane_storage::Id;

/// The blocks that some snapshots need. A directory shared by several snapshots is read once.
#[derive(Default)]
pub struct Reach {
    blocks: HashSet<Id>,
    /// Contents of finished directories. Equal content means the same directory.
    directories: HashSet<Vec<Piece>>,
    /// The snapshots added.
    snapshots: HashSet<Id>,
}

impl Reach {
    /// Clears the reach unless all added snapshots still exist.
    pub fn keep_if_all_in(&mut self, there: impl Fn(&Id) -> bool) {
        if !self.snapshots.iter().all(there) {
            *self = Self::default();
        }
    }

    /// Adds a snapshot and its blocks.
    ///
    /// # Errors
    /// As [`Reach::add`].
    pub fn add_snapshot(
        &mut self,
        reader: &mut BlockReader,
        index: &Index,
        id: Id,
        root: &[Piece],
    ) -> Result<()> {
        self.snapshots.insert(id);
        self.add(reader, index, root)
    }

    /// The first needed block that the index lacks, if any.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn first_missing(&self, index: &Index) -> Result<Option<Id>> {
        for id in &self.blocks {
            if index.find(id)?.is_none() {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }

    /// Adds the blocks of a directory and of everything below it.
    ///
    /// # Errors
    /// When a directory cannot be read. Blocks found before stay, and the call can be repeated.
    pub fn add(&mut self, reader: &mut BlockReader, index: &Index, root: &[Piece]) -> Result<()> {
        let mut done = Vec::new();
        let walked = self.walk(reader, index, root, &mut done);
        if walked.is_err() {
            // Directories below them may be unfinished.
            for content in done {
                self.directories.remove(&content);
            }
        }
        walked
    }

    fn walk(
        &mut self,
        reader: &mut BlockReader,
        index: &Index,
        root: &[Piece],
        done: &mut Vec<Vec<Piece>>,
    ) -> Result<()> {
        let mut directories = vec![root.to_vec()];
        while let Some(content) = directories.pop() {
            if !self.directories.insert(content.clone()) {
                continue;
            }
            done.push(content.clone());
            self.use_blocks(&content);
            for entry in reader.read_directory(index, &content)? {
                match entry.directory() {
                    Some(content) => directories.push(content.to_vec()),
                    None => self.blocks.extend(entry::blocks(&entry).map(|(id, _)| id)),
                }
            }
        }
        Ok(())
    }

    fn use_blocks(&mut self, content: &[Piece]) {
        self.blocks.extend(content.iter().filter_map(Piece::block));
    }

    /// All blocks so far.
    pub fn blocks(&self) -> &HashSet<Id> {
        &self.blocks
    }
}

/// Whether all blocks of a snapshot with this root exist.
///
/// # Errors
/// When a directory is damaged, or the storage fails.
pub fn is_whole(reader: &mut BlockReader, index: &Index, root: &[Piece]) -> Result<bool> {
    let mut reach = Reach::default();
    match reach.add(reader, index, root) {
        Ok(()) => Ok(reach.first_missing(index)?.is_none()),
        Err(Error::MissingBlock(_)) => Ok(false),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
