//! Puts directories together from entries that are done in any order, by any thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::access::writer::Encoder;
use crate::error::{Error, Result};
use crate::format::entry::{Entry, Kind, Piece};
use tabane_storage::sync::lock;

/// A directory that still waits for some of its entries.
pub struct Directory {
    /// The directory's place in its parent; nothing for the root.
    place: Option<Place>,
    state: Mutex<State>,
    /// Entries to come, and one for whoever still adds entries.
    outstanding: AtomicUsize,
}

struct State {
    /// The directory itself, its content to come. Nothing for the root.
    entry: Option<Entry>,
    entries: Vec<Option<Entry>>,
    /// What some entries were in the parent snapshot, by number.
    known: Vec<(usize, Option<Entry>)>,
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
    changed: AtomicBool,
}

impl Directory {
    /// A directory whose entries are to come, sorted by name. `place` and `entry` are nothing for
    /// the root.
    pub fn new(place: Option<Place>, entry: Option<Entry>, entries: usize) -> Arc<Self> {
        Arc::new(Self {
            place,
            state: Mutex::new(State {
                entry,
                entries: vec![None; entries],
                known: Vec::new(),
            }),
            outstanding: AtomicUsize::new(entries + 1),
        })
    }

    /// Says what the parent snapshot has for the `number`-th entry, with which it is compared: see
    /// [`Assembler::is_changed`].
    pub fn compare(&self, number: usize, known: Option<Entry>) {
        lock(&self.state).known.push((number, known));
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
            changed: AtomicBool::new(false),
        }
    }

    /// Says what became of an entry: nothing if it is left out.
    ///
    /// # Errors
    /// When a directory was complete and could not be stored.
    pub fn entry_done(&self, place: Place, entry: Option<Entry>) -> Result<()> {
        lock(&place.directory.state).entries[place.number] = entry;
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
            let (entry, entries) = {
                let mut state = lock(&directory.state);
                let differs = |(number, known): &(_, _)| state.entries[*number] != *known;
                if state.known.iter().any(differs) {
                    self.changed.store(true, Ordering::Relaxed);
                }
                (state.entry.take(), std::mem::take(&mut state.entries))
            };
            let entries: Vec<Entry> = entries.into_iter().flatten().collect();
            let content = lock(&self.encoder).store_directory(&entries)?;
            let (Some(place), Some(mut entry)) = (directory.place.clone(), entry) else {
                *lock(&self.root) = Some(content);
                return Ok(());
            };
            entry.kind = Kind::Directory { content };
            lock(&place.directory.state).entries[place.number] = Some(entry);
            directory = place.directory;
        }
        Ok(())
    }

    /// Whether an entry that was compared, or anything in it, is not as in the parent snapshot.
    /// Directories must be complete.
    pub fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
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
