//! A worker: rounds of reading a chunk of each of many files and hashing all chunks in one call.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tabane_engine::{Algorithm, Digest, Hasher, finish_many, update_many};

use crate::etag::{Assembly, Upload};
use crate::input::{self, At, Opened};
use crate::method::{Method, Sum};
use crate::pipeline::{Done, Job, Next, Numbered, Results, Shared, Source, StopOnPanic, Task};
use crate::sequential::sum_reader;

/// What a worker reads of one file in a round, in bytes, while there are many: so every lane has as much to do.
const CHUNK_LEN: usize = 32 << 10;

/// As many chunks as there are in a round: they fill the lanes, of which MD5 has 64.
const CHUNKS: usize = 64;

/// What it reads of one file, in bytes, when there are few.
const MAX_CHUNK_LEN: usize = 256 << 10;

/// Below this, a chunk is not worth a system call.
const MIN_CHUNK_LEN: usize = 4 << 10;

/// Files that a worker has open at most: as many requests as it makes of a disk.
const MAX_STREAMS: usize = 64;

/// Files that are left to the rest of the process.
const OTHER_FILES: u64 = 48;

/// What is asked of the disk at a time, in bytes, and as much ahead of what is read.
const FETCH_LEN: u64 = 1 << 20;

/// What is left free behind each chunk, in bytes, so that chunks which are read at the same pace don't fall into the same
/// set of the cache.
const SKEW: usize = 7 * 64;

pub(crate) struct Worker<T: Task> {
    shared: Arc<Shared<T>>,
    arena: Vec<u8>,
    streams: Vec<Stream<T>>,
    /// How many there may be, [`MAX_STREAMS`] unless the system allows fewer files.
    max_streams: usize,
    /// Tasks that it has taken and not begun.
    tasks: VecDeque<Numbered<T>>,
    /// There were no more tasks when it last asked.
    dry: bool,
    /// Results that it has not handed over.
    done: Vec<Numbered<Done<T>>>,
}

/// A file, or a part of one, that is being hashed.
pub(crate) struct Stream<T> {
    of: Of<T>,
    hasher: Hasher,
    /// Where the next chunk begins, in bytes from the beginning of the file.
    position: u64,
    /// Where the part ends, or the file did when it was opened.
    end: u64,
    /// Up to where the disk was asked for bytes, once some were not in the page cache.
    fetched: Option<u64>,
    /// Where in the arena the chunk of this round is.
    chunk: Range<usize>,
    state: Progress,
}

enum Of<T> {
    File(OwnedFd, Numbered<T>),
    Part(Arc<Parted<T>>, u64),
}

enum Progress {
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

impl<T: Task> Worker<T> {
    /// One of so many workers.
    pub(crate) fn new(shared: Arc<Shared<T>>, workers: usize) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = files.saturating_sub(OTHER_FILES) / workers as u64;
        Self {
            shared,
            arena: vec![0; CHUNKS * (CHUNK_LEN + SKEW)],
            streams: Vec::with_capacity(MAX_STREAMS),
            max_streams: share.clamp(1, MAX_STREAMS as u64) as usize,
            tasks: VecDeque::new(),
            dry: false,
            done: Vec::new(),
        }
    }

    /// Works until nothing is left.
    pub(crate) fn run(&mut self, results: &Results<T>) {
        let shared = Arc::clone(&self.shared);
        let _stop = StopOnPanic(&shared);
        while !shared.is_stopped() {
            self.share();
            self.read(results);
            if self.streams.is_empty() && self.done.is_empty() {
                match shared.wait() {
                    Next::Streams(streams) => self.streams = streams,
                    Next::Look => {}
                    Next::End => return,
                }
                continue;
            }
            self.hash();
            self.hand_over(results);
        }
    }

    /// Gives every second stream away when somebody has nothing to do.
    fn share(&mut self) {
        if self.streams.len() > 1 && self.shared.someone_is_idle() {
            let mut number = 0;
            let given = self.streams.extract_if(.., |_| {
                number += 1;
                number % 2 == 0
            });
            self.shared.offer_streams(given);
        }
    }

    /// Fills the arena: first with the streams at work, then with new ones.
    fn read(&mut self, results: &Results<T>) {
        let mut used = 0;
        let chunk_len = match self.dry {
            true => {
                let share = CHUNKS * CHUNK_LEN / self.streams.len().max(1);
                share.clamp(CHUNK_LEN, MAX_CHUNK_LEN)
            }
            false => CHUNK_LEN,
        };
        for stream in &mut self.streams {
            let room = self.arena.len().saturating_sub(used);
            if room < MIN_CHUNK_LEN {
                break;
            }
            used += stream.read(used, &mut self.arena[used..][..chunk_len.min(room)]);
        }
        while self.streams.len() < self.max_streams {
            let room = self.arena.len().saturating_sub(used);
            if room < MIN_CHUNK_LEN {
                break;
            }
            let Some(mut stream) = self.begin(results) else {
                break;
            };
            // A small file is read whole, or in the next round.
            let fits = room > CHUNK_LEN || room as u64 > stream.end - stream.position;
            if fits {
                used += stream.read(used, &mut self.arena[used..][..CHUNK_LEN.min(room)]);
            }
            self.streams.push(stream);
            if !fits {
                break;
            }
        }
        let is_reading = |stream: &Stream<T>| matches!(stream.state, Progress::Reading);
        if used == 0 && self.streams.iter().all(is_reading) {
            // Nothing is in the page cache: so wait for one.
            if let Some(stream) = self.streams.first_mut() {
                stream.read_waiting(&mut self.arena[..MAX_CHUNK_LEN]);
            }
        }
        let read = self.streams.iter().map(|stream| stream.chunk.len() as u64);
        (self.shared.on_bytes)(read.sum());
    }

    /// Opens the next file or takes the next part, if there is one.
    fn begin(&mut self, results: &Results<T>) -> Option<Stream<T>> {
        loop {
            if let Some((file, part)) = self.shared.take_part() {
                return Some(Stream::of_part(file, part));
            }
            if self.tasks.is_empty() {
                self.shared.take_tasks(&mut self.tasks);
            }
            self.dry = self.tasks.is_empty();
            let task = self.tasks.pop_front()?;
            let Some(Job {
                source: Source::File(path),
                method,
            }) = task.value.job()
            else {
                self.end(task, None);
                continue;
            };
            match input::open(path) {
                Ok(Opened::Regular(file, len)) => match method {
                    // One at a time, so that memory is bounded.
                    Method::Digest(function) if function.algorithm().needs_whole_message() => {
                        let sum = sum_reader(File::from(file), method, &self.shared.on_bytes);
                        self.end(task, Some(sum));
                    }
                    Method::Digest(function) => {
                        let hasher = function.hasher();
                        return Some(Stream::of_file(file, len, hasher, task));
                    }
                    &Method::Etag(upload) => match upload.parts(len) {
                        None => {
                            let hasher = Hasher::new(Algorithm::Md5);
                            return Some(Stream::of_file(file, len, hasher, task));
                        }
                        Some(parts) => {
                            let parted = Parted::new(file, len, upload, parts, task);
                            self.shared.offer_parts(Arc::new(parted));
                        }
                    },
                },
                Ok(Opened::Special(file)) => {
                    let method = method.clone();
                    self.shared
                        .specials
                        .file(&self.shared, task, file, method, results);
                }
                // One that is open will be closed soon.
                Err(error) if is_too_many(&error) && !self.streams.is_empty() => {
                    self.tasks.push_front(task);
                    return None;
                }
                Err(error) => self.end(task, Some(Err(error))),
            }
        }
    }

    /// Hashes what was read, and ends what has come to its end.
    fn hash(&mut self) {
        let arena = &self.arena;
        let with_chunk = self
            .streams
            .iter_mut()
            .filter(|stream| !stream.chunk.is_empty());
        let mut parts: Vec<(&mut Hasher, &[u8])> = with_chunk
            .map(|stream| {
                let chunk = std::mem::take(&mut stream.chunk);
                (&mut stream.hasher, &arena[chunk])
            })
            .collect();
        update_many(&mut parts);
        let ended = |stream: &Stream<T>| !matches!(stream.state, Progress::Reading);
        let hashers: Vec<&Hasher> = self
            .streams
            .iter()
            .filter(|stream| ended(stream))
            .map(|stream| &stream.hasher)
            .collect();
        let digests = finish_many(&hashers);
        let streams: Vec<_> = self
            .streams
            .extract_if(.., |stream| ended(stream))
            .collect();
        for (stream, digest) in streams.into_iter().zip(digests) {
            let digest = match stream.state {
                Progress::Failed(error) => Err(error),
                _ => Ok(digest),
            };
            match stream.of {
                Of::File(_, task) => {
                    let sum = digest.map(|digest| Sum {
                        digest,
                        parts: None,
                    });
                    self.end(task, Some(sum));
                }
                Of::Part(file, part) => {
                    if let Some((task, sum)) = file.end_part(part, digest) {
                        self.end(task, Some(sum));
                    }
                }
            }
        }
    }

    fn end(&mut self, task: Numbered<T>, outcome: Option<io::Result<Sum>>) {
        self.done.push(task.done(outcome));
    }

    fn hand_over(&mut self, results: &Results<T>) {
        // Without a receiver nobody wants the results, and `is_stopped` says so.
        if !self.done.is_empty() {
            let _ = results.send(std::mem::take(&mut self.done));
        }
    }
}

impl<T> Numbered<T> {
    /// The result of this task.
    pub(crate) fn done(self, outcome: Option<io::Result<Sum>>) -> Numbered<Done<T>> {
        Numbered {
            number: self.number,
            value: Done {
                task: self.value,
                outcome,
            },
        }
    }
}

/// Whether no more files can be open.
fn is_too_many(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

impl<T: Task> Stream<T> {
    fn of_file(file: OwnedFd, len: u64, hasher: Hasher, task: Numbered<T>) -> Self {
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

    fn of_part(file: Arc<Parted<T>>, part: u64) -> Self {
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

    /// Reads the next chunk into `buffer`, which is the arena from `start` on, unless that means waiting for the disk.
    /// Returns how much of the arena is used for it.
    fn read(&mut self, start: usize, buffer: &mut [u8]) -> usize {
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
            len => len.next_multiple_of(64) + SKEW,
        }
    }

    /// Keeps the disk busy ahead of what is read, if it is needed at all.
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
    fn read_waiting(&mut self, arena: &mut [u8]) {
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
            // One byte more than there should be: fewer than asked for are a sign of the end.
            Of::File(file, _) if left > 0 => {
                (file.as_fd(), At::Cursor, room.min(left.saturating_add(1)))
            }
            Of::File(file, _) => (file.as_fd(), At::Cursor, room),
            Of::Part(file, _) => (file.file.as_fd(), At::Offset(self.position), room.min(left)),
        }
    }

    /// Of `asked` bytes `read` have come, to `start` of the arena.
    fn has_read(&mut self, start: usize, read: usize, asked: usize) {
        self.chunk = start..start + read;
        self.position += read as u64;
        self.state = match &self.of {
            // Fewer bytes than asked for are the end only if the file is as long as it was said to be: there are pipes
            // and page caches that have more in a moment.
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
    fn new(file: OwnedFd, len: u64, upload: Upload, parts: u64, task: Numbered<T>) -> Self {
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
    fn end_part(
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
