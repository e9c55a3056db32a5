//! Follows one path through many snapshots.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use crate::access::browse::{TreeReader, absolute, root};
use tabane_format::Result;
use tabane_format::entry::{Entry, Piece, content_id};
use tabane_format::snapshot::Snapshot;
use tabane_storage::Id;

/// Finds what a path is in each of many snapshots. A directory that snapshots share is read once.
pub struct PathHistory<R> {
    reader: R,
    /// The names that lead to it.
    names: Vec<OsString>,
    /// What the rest of the path is below a directory, by its content and the names before it.
    known: HashMap<(Id, usize), Option<Entry>>,
}

impl<R: TreeReader> PathHistory<R> {
    /// Follows `path`.
    pub fn new(reader: R, path: &Path) -> Self {
        let path = absolute(path);
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        });
        Self {
            reader,
            names: names.collect(),
            known: HashMap::new(),
        }
    }

    /// The entry at the path in a snapshot; nothing if there is none.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn find(&mut self, snapshot: &Snapshot) -> Result<Option<Entry>> {
        if self.names.is_empty() {
            return Ok(Some(root(snapshot)));
        }
        self.below(&snapshot.root, 0)
    }

    fn below(&mut self, content: &[Piece], depth: usize) -> Result<Option<Entry>> {
        let key = (content_id(content), depth);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let mut entries = self.reader.directory(content)?;
        let name = self.names[depth].as_bytes();
        let place = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
        let entry = place.ok().map(|place| entries.swap_remove(place));
        let found = match entry {
            Some(entry) if depth + 1 < self.names.len() => match entry.directory() {
                Some(content) => self.below(content, depth + 1)?,
                None => None,
            },
            entry => entry,
        };
        self.known.insert(key, found.clone());
        Ok(found)
    }
}
