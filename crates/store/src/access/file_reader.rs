//! Reads files of snapshots at any offset, as file systems do.

use std::sync::{Arc, Mutex};

use crate::access::segment_cache::SegmentCache;
use tabane_format::Result;
use tabane_format::entry::Piece;
use tabane_storage::sync::lock;

/// Bytes of the first read-ahead, which doubles with each read that continues another.
const AHEAD_MIN: u64 = 1 << 20;

/// A read at most this far from the end of another counts as its continuation: a kernel asks for
/// several parts at once.
const REORDERED_BYTES_MAX: u64 = 1 << 20;

/// One file of a snapshot, for any number of threads.
///
/// If it is read from front to back, all processors decode the next blocks ahead. Holes read as
/// zeros.
pub struct FileReader {
    cache: Arc<SegmentCache>,
    content: Vec<Piece>,
    /// Offset of each piece, and the size behind them.
    starts: Vec<u64>,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// Furthest end of the consecutive reads.
    end: u64,
    /// Bytes to read ahead of this end.
    ahead: u64,
    /// Offset up to which read-ahead was requested.
    asked: u64,
}

impl FileReader {
    /// A reader of the file that consists of these pieces.
    pub fn new(cache: &Arc<SegmentCache>, content: Vec<Piece>) -> Self {
        let mut starts = Vec::with_capacity(content.len() + 1);
        let mut at = 0;
        starts.push(at);
        for piece in &content {
            at += piece.len();
            starts.push(at);
        }
        Self {
            cache: Arc::clone(cache),
            content,
            starts,
            progress: Mutex::default(),
        }
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        *self.starts.last().expect("there is always one")
    }

    /// Reads `len` bytes from `offset` on, or as many as there are before the end.
    ///
    /// # Errors
    /// When the storage fails, a block is missing or damaged.
    pub fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let end = self.end(offset, len);
        if offset < end {
            self.read_ahead(offset, end);
        }
        self.read_on(offset, len)
    }

    /// Reads what is decoded of the bytes from `offset` on, without waiting for the storage;
    /// returns how many, from the front. The others are being read ahead, or
    /// [`FileReader::read_on`] reads them.
    pub fn read_decoded(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let end = self.end(offset, buffer.len());
        if offset < end {
            self.read_ahead(offset, end);
        }
        let mut at = offset;
        while at < end {
            let number = self.piece_at(at);
            let until = self.starts[number + 1].min(end);
            let part = &mut buffer[(at - offset) as usize..(until - offset) as usize];
            match self.content[number] {
                Piece::Hole { .. } => part.fill(0),
                Piece::Block { id, len } => {
                    let start = (at - self.starts[number]) as usize;
                    if !self.cache.copy_decoded(id, len, start, part) {
                        break;
                    }
                }
            }
            at = until;
        }
        (at - offset) as usize
    }

    /// As [`FileReader::read_at`], for the bytes that [`FileReader::read_decoded`] left.
    ///
    /// # Errors
    /// As [`FileReader::read_at`].
    pub fn read_on(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let end = self.end(offset, len);
        if offset >= end {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::with_capacity((end - offset) as usize);
        let mut at = offset;
        for number in self.piece_at(offset).. {
            let (start, piece_end) = (self.starts[number], self.starts[number + 1]);
            let until = piece_end.min(end);
            match self.content[number] {
                Piece::Hole { .. } => bytes.resize((until - offset) as usize, 0),
                Piece::Block { id, len } => {
                    let part = (at - start) as usize..(until - start) as usize;
                    self.cache.append(id, len, part, &mut bytes)?;
                }
            }
            at = until;
            if at == end {
                break;
            }
        }
        Ok(bytes)
    }

    /// Offset of the first byte of data at or behind `offset`, if any.
    pub fn data_from(&self, offset: u64) -> Option<u64> {
        self.first_from(offset, |piece| matches!(piece, Piece::Block { .. }))
    }

    /// Offset of the first hole at or behind `offset`, where the end of the file counts as a hole;
    /// `None` behind the end.
    pub fn hole_from(&self, offset: u64) -> Option<u64> {
        if offset >= self.size() {
            return None;
        }
        let hole = self.first_from(offset, |piece| matches!(piece, Piece::Hole { .. }));
        Some(hole.unwrap_or(self.size()))
    }

    fn first_from(&self, offset: u64, wanted: impl Fn(&Piece) -> bool) -> Option<u64> {
        if offset >= self.size() {
            return None;
        }
        (self.piece_at(offset)..self.content.len())
            .find(|&number| wanted(&self.content[number]))
            .map(|number| self.starts[number].max(offset))
    }

    /// End of `len` bytes from `offset` on, or that of the file before it.
    fn end(&self, offset: u64, len: usize) -> u64 {
        offset.saturating_add(len as u64).min(self.size())
    }

    /// The piece with the byte at `offset`, which is before the end.
    fn piece_at(&self, offset: u64) -> usize {
        self.starts.partition_point(|&start| start <= offset) - 1
    }

    /// Requests the next blocks if the file is read from front to back.
    fn read_ahead(&self, offset: u64, end: u64) {
        let mut progress = lock(&self.progress);
        if offset.abs_diff(progress.end) > REORDERED_BYTES_MAX {
            *progress = Progress {
                end,
                ahead: 0,
                asked: end,
            };
            return;
        }
        let most = self.cache.limit() as u64 / 8;
        progress.end = progress.end.max(end);
        progress.ahead = (progress.ahead * 2).clamp(AHEAD_MIN, most.max(AHEAD_MIN));
        let from = progress.asked.max(end);
        let until = (progress.end + progress.ahead).min(self.size());
        // Requests in steps, so that each has several blocks of a segment.
        if from >= until || until - from < progress.ahead / 4 && until < self.size() {
            return;
        }
        let first = self.piece_at(from);
        let mut last = self.piece_at(until - 1);
        // The blocks of a segment are announced together, to be digested together.
        while let Some(&[Piece::Block { id, .. }, Piece::Block { id: next, .. }]) =
            self.content.get(last..last + 2)
            && self.cache.are_in_one_segment(id, next)
        {
            last += 1;
        }
        progress.asked = self.starts[last + 1];
        drop(progress);
        let blocks = self.content[first..=last]
            .iter()
            .filter_map(|piece| match *piece {
                Piece::Block { id, len } => Some((id, len)),
                Piece::Hole { .. } => None,
            });
        self.cache.read_ahead(blocks);
    }
}
