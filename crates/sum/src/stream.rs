//! Files that are being hashed, whole or in parts.

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tabane_engine::{Algorithm, Digest, Hasher};

use crate::etag::{Assembly, Upload};
use crate::input::{self, At};
use crate::sum::Sum;
use crate::task::Numbered;

/// Bytes requested from the disk at a time, and this far ahead of reading.
const FETCH_LEN: u64 = 1 << 20;

/// Bytes left free behind each chunk, so that chunks read at the same pace do not fall into the
/// same set of the cache.
pub(crate) const CHUNK_GAP_LEN: usize = 7 * 64;

/// A file or a part of a file that is being hashed.
pub(crate) struct Stream<T> {
    pub(crate) of: Of<T>,
    pub(crate) hasher: Hasher,
    /// Offset of the next chunk in the file, in bytes.
    pub(crate) position: u64,
    /// Offset of the end of the part, or of the file at its opening.
    pub(crate) end: u64,
    /// Up to where the disk was asked for bytes, once some were not in the page cache.
    fetched: Option<u64>,
    /// Range of this round's chunk in the arena.
    pub(crate) chunk: Range<usize>,
    pub(crate) state: Progress,
}

/// The source of a stream.
pub(crate) enum Of<T> {
    File(OwnedFd, Numbered<T>),
    Part(Arc<Parted<T>>, u64),
}

/// Progress of a stream.
pub(crate) enum Progress {
    Reading,
    Ended,
    Failed(io::Error),
}

/// A file that is hashed in parts.
pub(crate) struct Parted<T> {
    file: OwnedFd,
    len: u64,
    part_len: u64,
    parts: u64,
    /// A part could not be read: no other needs to be.
    failed: AtomicBool,
    rest: Mutex<Rest<T>>,
}

struct Rest<T> {
    /// Until the last part is there.
    task: Option<Numbered<T>>,
    assembly: Assembly,
    /// Parts that are not there yet.
    left: u64,
    error: Option<io::Error>,
}

impl<T> Stream<T> {
    pub(crate) fn of_file(file: OwnedFd, len: u64, hasher: Hasher, task: Numbered<T>) -> Self {
        Self {
            of: Of::File(file, task),
            hasher,
            position: 0,
            end: len,
            fetched: None,
            chunk: 0..0,
            state: Progress::Reading,
        }
    }

    pub(crate) fn of_part(file: Arc<Parted<T>>, part: u64) -> Self {
        let position = part * file.part_len;
        Self {
            hasher: Hasher::new(Algorithm::Md5),
            position,
            end: file.len.min(position.saturating_add(file.part_len)),
            fetched: None,
            chunk: 0..0,
            state: if file.failed.load(Ordering::Relaxed) {
                Progress::Ended
            } else {
                Progress::Reading
            },
            of: Of::Part(file, part),
        }
    }

    /// Reads the next chunk into `buffer`, which is the arena from `start` on, unless that means
    /// waiting for the disk. Returns how much of the arena is used for it.
    pub(crate) fn read(&mut self, start: usize, buffer: &mut [u8]) -> usize {
        if !matches!(self.state, Progress::Reading) {
            return 0;
        }
        let (file, at, len) = self.next_chunk(buffer.len());
        let asked = &mut buffer[..len];
        match input::read_cached(file, at, asked) {
            Ok(Some(read)) => self.has_read(start, read, len),
            Ok(None) => self.fetched = self.fetched.or(Some(self.position)),
            Err(error) => self.state = Progress::Failed(error.into()),
        }
        self.fetch();
        match self.chunk.len() {
            0 => 0,
            len => len.next_multiple_of(64) + CHUNK_GAP_LEN,
        }
    }

    /// Requests bytes from the disk ahead of reading, if any are not cached.
    fn fetch(&mut self) {
        if let Some(fetched) = &mut self.fetched
            && *fetched < self.end
            && *fetched < self.position + FETCH_LEN
        {
            let file = match &self.of {
                Of::File(file, _) => file,
                Of::Part(file, _) => &file.file,
            };
            input::fetch(file, *fetched, NonZeroU64::new(FETCH_LEN));
            *fetched += FETCH_LEN;
        }
    }

    /// Reads the next chunk to the beginning of the arena, and waits for it.
    pub(crate) fn read_waiting(&mut self, arena: &mut [u8]) {
        let (file, at, len) = self.next_chunk(arena.len());
        match input::read_waiting(file, at, &mut arena[..len]) {
            Ok(read) => self.has_read(0, read, len),
            Err(error) => self.state = Progress::Failed(error.into()),
        }
    }

    /// From where to read how much, if there is room for `room` bytes.
    fn next_chunk(&self, room: usize) -> (BorrowedFd<'_>, At, usize) {
        let left = self.end.saturating_sub(self.position);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        match &self.of {
            // Asks for one byte beyond the expected end: a short read then shows the end.
            Of::File(file, _) if left > 0 => {
                (file.as_fd(), At::Cursor, room.min(left.saturating_add(1)))
            }
            Of::File(file, _) => (file.as_fd(), At::Cursor, room),
            Of::Part(file, _) => (file.file.as_fd(), At::Offset(self.position), room.min(left)),
        }
    }

    /// Notes that `read` of `asked` bytes were read to `start` of the arena.
    fn has_read(&mut self, start: usize, read: usize, asked: usize) {
        self.chunk = start..start + read;
        self.position += read as u64;
        self.state = match &self.of {
            // A short read is the end only at the file's known length: pipes and page caches may
            // have more bytes in a moment.
            Of::File(..) if read == 0 || read < asked && self.position == self.end => {
                Progress::Ended
            }
            Of::Part(..) if self.position == self.end => Progress::Ended,
            Of::Part(..) if read == 0 => Progress::Failed(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "became shorter while it was read",
            )),
            _ => Progress::Reading,
        };
    }
}

impl<T> Parted<T> {
    pub(crate) fn new(
        file: OwnedFd,
        len: u64,
        upload: Upload,
        parts: u64,
        task: Numbered<T>,
    ) -> Self {
        Self {
            file,
            len,
            part_len: upload.part_len.get(),
            parts,
            failed: AtomicBool::new(false),
            rest: Mutex::new(Rest {
                task: Some(task),
                assembly: Assembly::new(),
                left: parts,
                error: None,
            }),
        }
    }

    pub(crate) fn parts(&self) -> u64 {
        self.parts
    }

    /// Takes what has become of a part; the last one makes the result of the file.
    pub(crate) fn end_part(
        &self,
        part: u64,
        digest: io::Result<Digest>,
    ) -> Option<(Numbered<T>, io::Result<Sum>)> {
        let mut rest = self.rest.lock().expect("nothing panics under this lock");
        rest.left -= 1;
        match digest {
            Ok(digest) => rest.assembly.add(part, digest),
            Err(error) => {
                self.failed.store(true, Ordering::Relaxed);
                rest.error.get_or_insert(error);
            }
        }
        if rest.left > 0 {
            return None;
        }
        let sum = match rest.error.take() {
            Some(error) => Err(error),
            None => Ok(rest.assembly.sum()),
        };
        Some((rest.task.take()?, sum))
    }
}
