//! The bytes of a file: each piece is read, hashed and written from one buffer, then read back and
//! compared.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use tabane_engine::{Hasher, Submitter};
use tabane_files::read::{Found, data_extents};

use crate::hash::{has_holes, hash_zeros};
use crate::lock::lock;
use crate::options::Verify;
use crate::problem::{Action, Problem};
use crate::record::FileHash;
use crate::run::{CHUNK_LEN, Run, Worker};

/// Bytes from which a file is copied by several workers.
pub(crate) const SHARED_LEN_MIN: u64 = 4 << 20;

/// Workers that help with one file at most: more would wait for one another, since a file takes one
/// write at a time.
const HELPERS_MAX: usize = 3;

/// Why a file is not copied.
pub(crate) enum Failure {
    /// The source changed since it was opened.
    Changed,
    /// The source ended before its length.
    Short,
    /// The copy read back differs from the bytes written.
    Differs,
    /// A system call failed, or the copy was cancelled.
    Problem(Problem),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Two open files.
pub(crate) struct Pair {
    /// Open for reading.
    pub(crate) source: File,
    /// Open for reading and writing, and empty.
    pub(crate) target: File,
    /// The source's path, for messages.
    pub(crate) source_path: PathBuf,
    /// The target's path, for messages.
    pub(crate) target_path: PathBuf,
}

/// Gives the target the bytes of the source, whose attributes were `found`; returns their hash if
/// one is wanted.
pub(crate) fn transfer(
    run: &Arc<Run>,
    worker: &mut Worker,
    submitter: &Submitter<Worker>,
    pair: &Arc<Pair>,
    found: &Found,
) -> Result<Option<FileHash>, Failure> {
    let size = found.entry.size();
    if size > 0 && rustix::fs::ioctl_ficlone(&pair.target, &pair.source).is_ok() {
        run.counters.shared_bytes.add(size);
        run.bytes(size);
        return Ok(if run.hashes() {
            Some(pair.hash_target(run, &mut worker.buffer)?)
        } else {
            None
        });
    }
    if size == 0 {
        return pair.transfer_to_end(run, worker);
    }
    let extents = data_extents(pair.source.as_fd(), size, found.allocated)
        .map_err(|error| pair.failed_to_read(error))?;
    let ends_in_hole = extents.last().map_or(0, |extent| extent.end) < size;
    let content = Arc::new(Content::new(run, pair, extents, size));
    if size >= SHARED_LEN_MIN {
        for _ in 0..worker.others.min(HELPERS_MAX) {
            let content = Arc::clone(&content);
            submitter.submit_or_run(worker, move |worker, _| content.work(worker));
        }
    }
    content.work(worker);
    let digest = content.finish()?;
    if ends_in_hole {
        pair.target
            .set_len(size)
            .map_err(|error| pair.failed_to_write(error))?;
    }
    Ok(digest)
}

impl Pair {
    /// Copies what can be read of a file, whatever length it says: those of /proc have more, those
    /// of /sys less.
    pub(crate) fn transfer_to_end(
        &self,
        run: &Run,
        worker: &mut Worker,
    ) -> Result<Option<FileHash>, Failure> {
        let mut hasher = run.hashes().then(|| Hasher::new(run.options.algorithm));
        let mut at = 0;
        loop {
            run.go_on().map_err(|error| self.failed_to_read(error))?;
            let len = match self.source.read_at(&mut worker.buffer, at) {
                Ok(0) => return Ok(hasher.map(|hasher| FileHash::whole(hasher.finish()))),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failed_to_read(error)),
            };
            let bytes = &worker.buffer[..len];
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            self.target
                .write_all_at(bytes, at)
                .map_err(|error| self.failed_to_write(error))?;
            if run.options.verify >= Verify::Written {
                self.compare(bytes, at, &mut worker.copy)?;
            }
            at += len as u64;
            run.counters.copied_bytes.add(len as u64);
            run.bytes(len as u64);
        }
    }

    /// Compares the bytes written with the file's bytes.
    fn compare(&self, written: &[u8], mut at: u64, copy: &mut [u8]) -> Result<(), Failure> {
        for part in written.chunks(copy.len()) {
            let copy = &mut copy[..part.len()];
            match self.target.read_exact_at(copy, at) {
                Ok(()) if copy == part => at += part.len() as u64,
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                    return Err(self.failed_to_write(error));
                }
                _ => return Err(Failure::Differs),
            }
        }
        Ok(())
    }

    fn hash_target(&self, run: &Run, buffer: &mut [u8]) -> Result<FileHash, Failure> {
        FileHash::of(run, &self.target, buffer).map_err(|error| {
            Failure::Problem(Problem::System {
                action: Action::Read,
                path: self.target_path.clone(),
                error,
            })
        })
    }

    fn failed_to_read(&self, error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Failure::Short,
            _ => Failure::Problem(Problem::System {
                action: Action::Read,
                path: self.source_path.clone(),
                error,
            }),
        }
    }

    fn failed_to_write(&self, error: io::Error) -> Failure {
        Failure::Problem(Problem::System {
            action: Action::Write,
            path: self.target_path.clone(),
            error,
        })
    }
}

/// A file that is being copied, by one worker or several.
struct Content {
    run: Arc<Run>,
    pair: Arc<Pair>,
    size: u64,
    /// Ranges with data, if only these are hashed.
    data: Option<Arc<[Range<u64>]>>,
    state: Mutex<State>,
    /// Signalled when a piece was hashed or a worker is done.
    changed: Condvar,
}

struct State {
    pieces: Pieces,
    /// Pieces that were taken.
    taken: u64,
    /// Pieces that were hashed.
    hashed: u64,
    /// Away while a piece is hashed.
    hasher: Option<Hasher>,
    working: usize,
    failure: Option<Failure>,
}

impl Content {
    fn new(run: &Arc<Run>, pair: &Arc<Pair>, extents: Vec<Range<u64>>, size: u64) -> Self {
        let without_holes = !run.hashes_holes() && has_holes(&extents, size);
        Self {
            run: Arc::clone(run),
            pair: Arc::clone(pair),
            size,
            data: without_holes.then(|| extents.as_slice().into()),
            state: Mutex::new(State {
                pieces: Pieces {
                    extents,
                    extent: 0,
                    at: 0,
                    size,
                },
                taken: 0,
                hashed: 0,
                hasher: run.hashes().then(|| Hasher::new(run.options.algorithm)),
                working: 0,
                failure: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Copies pieces until none is left.
    fn work(&self, worker: &mut Worker) {
        let mut state = lock(&self.state);
        state.working += 1;
        while state.failure.is_none()
            && let Some(piece) = state.pieces.next()
        {
            let number = state.taken;
            state.taken += 1;
            drop(state);
            let result = self.piece(piece, number, worker);
            state = lock(&self.state);
            if let Err(failure) = result {
                state.failure.get_or_insert(failure);
                self.changed.notify_all();
            }
        }
        state.working -= 1;
        self.changed.notify_all();
    }

    /// Waits for the other workers.
    fn finish(&self) -> Result<Option<FileHash>, Failure> {
        let mut state = lock(&self.state);
        while state.working > 0 {
            state = self.changed.wait(state).expect("no panic under this lock");
        }
        // A worker that only now comes to help must find nothing to do, after a failure too.
        state.pieces.end();
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => {
                let digest = state.hasher.take().map(|hasher| hasher.finish());
                Ok(digest.map(|digest| match &self.data {
                    Some(data) => FileHash::data(digest, self.size, Arc::clone(data)),
                    None => FileHash::whole(digest),
                }))
            }
        }
    }

    fn piece(&self, piece: Piece, number: u64, worker: &mut Worker) -> Result<(), Failure> {
        let pair = &self.pair;
        self.run
            .go_on()
            .map_err(|error| pair.failed_to_read(error))?;
        let range = match piece {
            Piece::Hole(len) => {
                self.in_turn(number, |hasher| {
                    if self.data.is_none() {
                        hash_zeros(hasher, len);
                    }
                });
                self.run.bytes(len);
                return Ok(());
            }
            Piece::Data(range) => range,
        };
        let len = (range.end - range.start) as usize;
        let buffer = &mut worker.buffer[..len];
        pair.source
            .read_exact_at(buffer, range.start)
            .map_err(|error| pair.failed_to_read(error))?;
        self.in_turn(number, |hasher| hasher.update(buffer));
        pair.target
            .write_all_at(buffer, range.start)
            .map_err(|error| pair.failed_to_write(error))?;
        if self.run.options.verify >= Verify::Written {
            pair.compare(buffer, range.start, &mut worker.copy)?;
        }
        self.run.counters.copied_bytes.add(len as u64);
        self.run.bytes(len as u64);
        Ok(())
    }

    /// Hashes a piece when all before it are hashed.
    fn in_turn(&self, number: u64, hash: impl FnOnce(&mut Hasher)) {
        if !self.run.hashes() {
            return;
        }
        let mut state = lock(&self.state);
        while state.hashed != number && state.failure.is_none() {
            state = self.changed.wait(state).expect("no panic under this lock");
        }
        if state.hashed != number {
            return;
        }
        let mut hasher = state.hasher.take().expect("it is here between two pieces");
        drop(state);
        hash(&mut hasher);
        state = lock(&self.state);
        state.hasher = Some(hasher);
        state.hashed += 1;
        self.changed.notify_all();
    }
}

/// Part of a file.
#[derive(Debug, PartialEq)]
enum Piece {
    /// Bytes, no more than [`CHUNK_LEN`].
    Data(Range<u64>),
    /// A hole of this many bytes.
    Hole(u64),
}

/// The pieces of a file in their order.
struct Pieces {
    extents: Vec<Range<u64>>,
    extent: usize,
    at: u64,
    size: u64,
}

impl Pieces {
    /// Leaves out those that remain.
    fn end(&mut self) {
        self.extents.clear();
        self.at = self.size;
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let start = self.at;
        while self
            .extents
            .get(self.extent)
            .is_some_and(|extent| extent.end <= start)
        {
            self.extent += 1;
        }
        let data = self.extents.get(self.extent);
        if let Some(extent) = data.filter(|extent| extent.start <= start) {
            self.at = extent.end.min(start + CHUNK_LEN as u64);
            return Some(Piece::Data(start..self.at));
        }
        self.at = data.map_or(self.size, |extent| extent.start);
        (self.at > start).then(|| Piece::Hole(self.at - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_file() {
        let chunk = CHUNK_LEN as u64;
        let pieces = |extents: &[Range<u64>], size| {
            let extents = extents.to_vec();
            Pieces {
                extents,
                extent: 0,
                at: 0,
                size,
            }
            .collect::<Vec<_>>()
        };
        assert_eq!(pieces(&[], 0), []);
        assert_eq!(pieces(&[], 7), [Piece::Hole(7)]);
        let extents = [0..chunk + 1, chunk + 2..chunk + 3];
        let expected = [
            Piece::Data(0..chunk),
            Piece::Data(chunk..chunk + 1),
            Piece::Hole(1),
            Piece::Data(chunk + 2..chunk + 3),
        ];
        assert_eq!(pieces(&extents, chunk + 3), expected);
        let ends = [
            Piece::Hole(5),
            Piece::Data(5..9),
            Piece::Hole(1),
            Piece::Data(10..11),
            Piece::Hole(2),
        ];
        assert_eq!(pieces(&[5..9, 10..11], 13), ends);
    }

    #[test]
    fn pieces_end_early() {
        let chunk = CHUNK_LEN as u64;
        let mut pieces = Pieces {
            extents: vec![0..3 * chunk, 4 * chunk..5 * chunk],
            extent: 0,
            at: 0,
            size: 6 * chunk,
        };
        assert_eq!(pieces.next(), Some(Piece::Data(0..chunk)));
        pieces.end();
        assert_eq!(pieces.next(), None);
    }
}
