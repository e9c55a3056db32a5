//! Reads directories of snapshots ahead, in other threads.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex};

use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use tabane_format::Result;
use tabane_format::entry::{Entry, Piece};
use tabane_index::Index;
use tabane_storage::sync::lock;

/// The most directories that are read ahead.
const DIRECTORIES_AHEAD_MAX: usize = 64;

/// Bytes of the directories that are read ahead, as they are encoded, after which no more is read.
const BYTES_AHEAD_MAX: u64 = 4 << 20;

/// Threads that read, if the storage takes several requests at a time.
const READERS_MAX: usize = 4;

/// Reads directories that were announced, the last one first.
pub struct TreesAhead<'a> {
    index: &'a Index,
    reader: BlockReader,
    shared: &'a Shared,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when a directory is announced and there is room for it.
    work: Condvar,
    /// Signalled when an awaited directory was read.
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// Contents of directories, the next one last.
    announced: Vec<Vec<Piece>>,
    being_read: HashSet<Vec<Piece>>,
    done: HashMap<Vec<Piece>, Result<Vec<Entry>>>,
    /// Bytes of those that are being read and done.
    bytes: u64,
    /// Readers that wait for work.
    idle: usize,
    /// Whether the caller waits for a directory that is being read.
    awaited: bool,
    closed: bool,
}

/// Calls `body` with a reader that reads ahead; `reader` makes those that it uses.
pub fn with_trees_ahead<R>(
    repository: &Repository,
    index: &Index,
    reader: impl Fn() -> BlockReader,
    body: impl FnOnce(&mut TreesAhead) -> R,
) -> R {
    /// Ends the readers, even if `body` panics.
    struct Close<'a>(&'a Shared);
    impl Drop for Close<'_> {
        fn drop(&mut self) {
            lock(&self.0.state).closed = true;
            self.0.work.notify_all();
        }
    }
    let shared = Shared::default();
    std::thread::scope(|scope| {
        let _close = Close(&shared);
        for _ in 0..repository.storage().connections().clamp(1, READERS_MAX) {
            let (mut reader, shared) = (reader(), &shared);
            scope.spawn(move || shared.read_announced(&mut reader, index));
        }
        body(&mut TreesAhead {
            index,
            reader: reader(),
            shared: &shared,
        })
    })
}

impl TreesAhead<'_> {
    /// Announces directories that will be read before all announced earlier.
    pub fn announce<'a>(&self, contents: impl DoubleEndedIterator<Item = &'a [Piece]>) {
        let mut state = lock(&self.shared.state);
        state
            .announced
            .extend(contents.rev().map(<[Piece]>::to_vec));
        self.shared.wake_reader(&state);
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// When the storage fails, a block is missing or damaged.
    pub fn read(&mut self, content: &[Piece]) -> Result<Vec<Entry>> {
        let mut state = lock(&self.shared.state);
        while state.being_read.contains(content) {
            state.awaited = true;
            state = self.shared.done.wait(state).expect("no reader panics");
        }
        let done = state.done.remove(content);
        if done.is_some() {
            state.bytes -= len(content);
        }
        // Usually the last one announced, unless a reader has begun it.
        state.announced.pop_if(|last| last == content);
        // Wakes a reader only once half the room is free: waking a thread takes about as long as
        // reading a directory.
        if state.done.len() <= DIRECTORIES_AHEAD_MAX / 2 && state.bytes <= BYTES_AHEAD_MAX / 2 {
            self.shared.wake_reader(&state);
        }
        drop(state);
        done.unwrap_or_else(|| self.reader.read_directory(self.index, content))
    }
}

/// Bytes of a content.
fn len(content: &[Piece]) -> u64 {
    content.iter().map(Piece::len).sum()
}

impl Shared {
    /// Wakes an idle reader if there is work for it. The very next directory does not count, since
    /// the caller reads that one sooner itself.
    fn wake_reader(&self, state: &State) {
        if state.idle > 0 && state.announced.len() > 1 {
            self.work.notify_one();
        }
    }

    /// Reads announced directories until the end.
    fn read_announced(&self, reader: &mut BlockReader, index: &Index) {
        let mut state = lock(&self.state);
        while !state.closed {
            let ahead = state.done.len() + state.being_read.len();
            let has_room = ahead < DIRECTORIES_AHEAD_MAX && state.bytes < BYTES_AHEAD_MAX;
            let Some(content) = has_room.then(|| state.announced.pop()).flatten() else {
                state.idle += 1;
                state = self.work.wait(state).expect("no reader panics");
                state.idle -= 1;
                continue;
            };
            if state.done.contains_key(&content) || !state.being_read.insert(content.clone()) {
                continue;
            }
            state.bytes += len(&content);
            self.wake_reader(&state);
            drop(state);
            let entries = reader.read_directory(index, &content);
            state = lock(&self.state);
            state.being_read.remove(&content);
            state.done.insert(content, entries);
            if std::mem::take(&mut state.awaited) {
                self.done.notify_all();
            }
        }
    }
}
