//! The bytes of a file, piece by piece.

use crate::access::browse::TreeReader;
use tabane_format::Result;
use tabane_format::entry::Piece;

/// Bytes of blocks that are announced before they are read.
const AHEAD_LEN: u64 = 4 << 20;

/// Pieces that are read one behind the other.
pub struct Content {
    pieces: Vec<Piece>,
    /// Number of the next piece.
    next: usize,
    /// Number of the first piece that was not announced.
    ahead: usize,
    /// Announced bytes that were not read.
    announced: u64,
    /// Bytes left of a hole.
    zeros: u64,
}

impl Content {
    /// The content that consists of these pieces.
    pub fn new(pieces: Vec<Piece>) -> Self {
        Self {
            pieces,
            next: 0,
            ahead: 0,
            announced: 0,
            zeros: 0,
        }
    }

    /// Appends bytes until `out` has at least `len`, or the content ends.
    ///
    /// # Errors
    /// When a block cannot be read.
    pub fn append(
        &mut self,
        reader: &mut impl TreeReader,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        while out.len() < len {
            if self.zeros > 0 {
                let room = (len - out.len()) as u64;
                let zeros = self.zeros.min(room);
                out.resize(out.len() + zeros as usize, 0);
                self.zeros -= zeros;
                continue;
            }
            self.announce(reader);
            let Some(piece) = self.pieces.get(self.next) else {
                return Ok(());
            };
            self.next += 1;
            match *piece {
                Piece::Hole { len } => self.zeros = len,
                Piece::Block { id, len } => {
                    reader.append_block(id, len, out)?;
                    self.announced = self.announced.saturating_sub(len.into());
                }
            }
        }
        Ok(())
    }

    /// Announces the next blocks, several at once.
    fn announce(&mut self, reader: &mut impl TreeReader) {
        if self.announced >= AHEAD_LEN / 2 || self.ahead >= self.pieces.len() {
            return;
        }
        let start = self.ahead.max(self.next);
        let mut end = start;
        while end < self.pieces.len() && self.announced < AHEAD_LEN {
            if let Piece::Block { len, .. } = self.pieces[end] {
                self.announced += u64::from(len);
            }
            end += 1;
        }
        self.ahead = end;
        // The first one is read at once.
        let skipped = usize::from(start == self.next);
        let ahead = self.pieces[start..end].iter().skip(skipped);
        let mut blocks = ahead.filter_map(|piece| match *piece {
            Piece::Block { id, len } => Some((id, len)),
            Piece::Hole { .. } => None,
        });
        reader.read_ahead(&mut blocks);
    }
}
