//! Puts directories together from entries that are done in any order, by any thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::access::writer::Encoder;
use crate::error::{Error, Result};
use crate::format::node::{Kind, Node, Piece};
use tabane_storage::sync::lock;

/// A directory of which not all entries are done.
pub struct Directory {
    /// Where it belongs; nothing for the root.
    place: Option<Place>,
    state: Mutex<State>,
    /// Entries to come, and one for whoever still adds entries.
    outstanding: AtomicUsize,
}

struct State {
    /// The directory itself, its content to come. Nothing for the root.
    node: Option<Node>,
    entries: Vec<Option<Node>>,
}

/// A place for an entry in a directory.
#[derive(Clone)]
pub struct Place {
    directory: Arc<Directory>,
    number: usize,
}

/// Stores directories when they are complete.
pub struct Assembler {
    encoder: Mutex<Encoder>,
    root: Mutex<Option<Vec<Piece>>>,
}

impl Directory {
    /// A directory whose entries are to come, sorted by name. `place` and `node` are nothing for the root.
    pub fn new(place: Option<Place>, node: Option<Node>, entries: usize) -> Arc<Self> {
        Arc::new(Self {
            place,
            state: Mutex::new(State {
                node,
                entries: vec![None; entries],
            }),
            outstanding: AtomicUsize::new(entries + 1),
        })
    }

    /// The place of its `number`-th entry.
    pub fn place(self: &Arc<Self>, number: usize) -> Place {
        Place {
            directory: Arc::clone(self),
            number,
        }
    }
}

impl Assembler {
    /// Stores directories with `encoder`.
    pub fn new(encoder: Encoder) -> Self {
        Self {
            encoder: Mutex::new(encoder),
            root: Mutex::new(None),
        }
    }

    /// Says what became of an entry: nothing if it is left out.
    ///
    /// # Errors
    /// When a directory was complete and could not be stored.
    pub fn entry_done(&self, place: Place, node: Option<Node>) -> Result<()> {
        lock(&place.directory.state).entries[place.number] = node;
        self.release(place.directory)
    }

    /// Says that all entries of a directory have been handed out.
    ///
    /// # Errors
    /// When the directory was complete and could not be stored.
    pub fn all_listed(&self, directory: Arc<Directory>) -> Result<()> {
        self.release(directory)
    }

    fn release(&self, mut directory: Arc<Directory>) -> Result<()> {
        while directory.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            let (node, entries) = {
                let mut state = lock(&directory.state);
                (state.node.take(), std::mem::take(&mut state.entries))
            };
            let nodes: Vec<Node> = entries.into_iter().flatten().collect();
            let content = lock(&self.encoder).store_directory(&nodes)?;
            let (Some(place), Some(mut node)) = (directory.place.clone(), node) else {
                *lock(&self.root) = Some(content);
                return Ok(());
            };
            node.kind = Kind::Directory { content };
            lock(&place.directory.state).entries[place.number] = Some(node);
            directory = place.directory;
        }
        Ok(())
    }

    /// Packs the last directories; returns the content of the root.
    ///
    /// # Errors
    /// When that fails, or has failed before.
    pub fn finish(self) -> Result<Vec<Piece>> {
        let encoder = self.encoder.into_inner().expect("no panic under this lock");
        encoder.flush()?;
        let root = self.root.into_inner().expect("no panic under this lock");
        root.ok_or(Error::Interrupted("the backup ended before its time"))
    }
}
