//! The content of a file whose blocks several threads store.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use tabane_format::entry::Piece;

/// The pieces of a file in their order. One thread reads the file, and hands on bundles of blocks,
/// which others store in any order.
pub struct Pieces {
    pieces: Mutex<Vec<Piece>>,
    /// Bundles not stored yet, plus one for the reader.
    outstanding: AtomicUsize,
}

impl Pieces {
    /// Of a file that is being read.
    pub fn new() -> Self {
        Self {
            pieces: Mutex::default(),
            outstanding: AtomicUsize::new(1),
        }
    }

    /// Adds a hole of `len` bytes.
    pub fn hole(&self, len: u64) {
        if len > 0 {
            lock(&self.pieces).push(Piece::Hole { len });
        }
    }

    /// Makes room for so many blocks; returns the number of the first one.
    pub fn reserve(&self, blocks: usize) -> usize {
        let mut pieces = lock(&self.pieces);
        let first = pieces.len();
        // Placeholders, replaced by the blocks when these are stored.
        pieces.resize(first + blocks, Piece::Hole { len: 0 });
        first
    }

    /// The reader hands on a bundle, which has to be released.
    pub fn hand_on(&self) {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets stored blocks, by the numbers that were reserved.
    pub fn set(&self, stored: impl Iterator<Item = (usize, Piece)>) {
        let mut pieces = lock(&self.pieces);
        for (number, piece) in stored {
            pieces[number] = piece;
        }
    }

    /// To be called once for each bundle and once by the reader. The last one gets the content.
    pub fn release(&self) -> Option<Vec<Piece>> {
        let is_last = self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1;
        is_last.then(|| std::mem::take(&mut *lock(&self.pieces)))
    }
}
