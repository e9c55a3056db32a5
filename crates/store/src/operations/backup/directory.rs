//! Assembles directories from entries that any thread finishes in any order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::known_files::KnownFilesWriter;
use super::parent::Whole;
use crate::access::writer::Encoder;
use tabane_format::entry::{Entry, Flags, Kind, Piece};
use tabane_format::owners::Numbers;
use tabane_format::{Error, Result};
use tabane_storage::sync::lock;

/// A directory that still waits for some of its entries.
pub struct Directory {
    /// The directory's place in its parent; nothing for the root.
    place: Option<Place>,
    state: Mutex<State>,
    /// Entries to come, plus one while the walker still adds entries.
    outstanding: AtomicUsize,
}

struct State {
    /// The directory's own entry, without content; `None` for the root.
    entry: Option<Entry>,
    entries: Vec<Option<Entry>>,
    /// Entries of the parent snapshot to compare with, by number.
    known: Vec<(usize, Option<Whole>)>,
}

/// A place for an entry in a directory.
#[derive(Clone)]
pub struct Place {
    directory: Arc<Directory>,
    number: usize,
}

/// Stores complete directories.
pub struct Assembler {
    encoder: Mutex<Encoder>,
    with_flags: bool,
    /// Numbers in a row for devices, if hard links are to have them.
    devices: Option<Mutex<HashMap<u64, u64>>>,
    /// Of all entries so far.
    owners: Mutex<Numbers>,
    root: Mutex<Option<Vec<Piece>>>,
    changed: AtomicBool,
    /// What a client with a write-only key is to remember of the directories.
    known_files: Option<Mutex<KnownFilesWriter>>,
}

impl Directory {
    /// A directory of `entries` entries, which come sorted by name. `place` and `entry` are `None`
    /// for the root.
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

    /// Sets the parent snapshot's entry with which the `number`-th entry is compared: see
    /// [`Assembler::is_changed`].
    pub fn compare(&self, number: usize, known: Option<Whole>) {
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
    /// Stores directories with `encoder`, with file flags if the repository has them, and with
    /// numbers in a row for devices if `numbered`.
    pub fn new(
        encoder: Encoder,
        with_flags: bool,
        numbered: bool,
        known_files: Option<KnownFilesWriter>,
    ) -> Self {
        Self {
            encoder: Mutex::new(encoder),
            with_flags,
            devices: numbered.then(Mutex::default),
            owners: Mutex::default(),
            root: Mutex::new(None),
            changed: AtomicBool::new(false),
            known_files: known_files.map(Mutex::new),
        }
    }

    /// Gives a device the next number, unless it has one. To be called in the order of the walk, so
    /// that the next backup gives it the same.
    pub fn see_device(&self, device: u64) {
        if let Some(devices) = &self.devices {
            let mut devices = lock(devices);
            let next = devices.len() as u64;
            devices.entry(device).or_insert(next);
        }
    }

    /// Finishes an entry; `None` leaves it out.
    ///
    /// # Errors
    /// When a directory was complete and could not be stored.
    pub fn entry_done(&self, place: Place, entry: Option<Entry>) -> Result<()> {
        self.set(&place, entry);
        self.release(place.directory)
    }

    fn set(&self, place: &Place, mut entry: Option<Entry>) {
        if let Some(entry) = entry.as_mut().filter(|_| !self.with_flags) {
            entry.flags = Flags::default();
        }
        if let Some(devices) = &self.devices
            && let Some(link) = entry.as_mut().and_then(|entry| entry.hard_link.as_mut())
        {
            // One that changed since the walk keeps its own.
            link.device = *lock(devices).get(&link.device).unwrap_or(&link.device);
        }
        lock(&place.directory.state).entries[place.number] = entry;
    }

    /// Notes that all entries of a directory have been handed out.
    ///
    /// # Errors
    /// When the directory was complete and could not be stored.
    pub fn all_listed(&self, directory: Arc<Directory>) -> Result<()> {
        self.release(directory)
    }

    fn release(&self, mut directory: Arc<Directory>) -> Result<()> {
        while directory.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            let (entry, entries, sources) = {
                let mut state = lock(&directory.state);
                let is_same = |(number, known): &(usize, Option<Whole>)| match (
                    &state.entries[*number],
                    known,
                ) {
                    (Some(entry), Some(known)) => known.is(entry),
                    (None, None) => true,
                    _ => false,
                };
                if !state.known.iter().all(is_same) {
                    self.changed.store(true, Ordering::Relaxed);
                }
                let sources = state.known.iter().filter_map(|(number, _)| {
                    let entry = state.entries[*number].as_ref()?;
                    Some(entry.name.clone())
                });
                let sources: Vec<Vec<u8>> = sources.collect();
                (
                    state.entry.take(),
                    std::mem::take(&mut state.entries),
                    sources,
                )
            };
            let entries: Vec<Entry> = entries.into_iter().flatten().collect();
            let mut owners = lock(&self.owners);
            entries.iter().for_each(|entry| owners.add(entry));
            drop(owners);
            let content = lock(&self.encoder).store_directory(&entries)?;
            if let Some(known_files) = &self.known_files {
                lock(known_files).directory(&content, &entries, &sources);
            }
            let (Some(place), Some(mut entry)) = (directory.place.clone(), entry) else {
                *lock(&self.root) = Some(content);
                return Ok(());
            };
            entry.kind = Kind::Directory { content };
            self.set(&place, Some(entry));
            directory = place.directory;
        }
        Ok(())
    }

    /// Whether a compared entry, or anything below it, differs from the parent snapshot.
    /// Directories must be complete.
    pub fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// Packs the last directories; returns the content of the root, who owns the entries, and what
    /// is to be remembered of them.
    ///
    /// # Errors
    /// When storing fails or has failed before.
    pub fn finish(self) -> Result<(Vec<Piece>, Numbers, Option<KnownFilesWriter>)> {
        let encoder = self.encoder.into_inner().expect("no panic under this lock");
        encoder.flush()?;
        let root = self.root.into_inner().expect("no panic under this lock");
        let root = root.ok_or(Error::Interrupted("the backup ended before its time"))?;
        let owners = self.owners.into_inner().expect("no panic under this lock");
        let known_files = self.known_files.map(Mutex::into_inner);
        let known_files = known_files.map(|known| known.expect("no panic under this lock"));
        Ok((root, owners, known_files))
    }
}
