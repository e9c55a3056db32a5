//! A worker: rounds of reading a chunk of each of many files and hashing all chunks in one call.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tabane_engine::{Algorithm, Hasher, finish_many, update_many};

use crate::input::{self, Opened};
use crate::method::Method;
use crate::sequential::sum_reader;
use crate::shared::{Next, Shared, StopOnPanic};
use crate::stream::{CHUNK_GAP_LEN, Of, Parted, Progress, Stream};
use crate::sum::Sum;
use crate::task::{Done, Job, Numbered, Results, Source, Task};

/// Bytes that a worker reads of each file in a round while files are many: equal chunks keep all
/// lanes equally busy.
const CHUNK_LEN: usize = 32 << 10;

/// Chunks in a round: enough to fill the lanes, of which MD5 has 64.
const CHUNKS_PER_ROUND: usize = 64;

/// Bytes that a worker reads of each file in a round when files are few.
const CHUNK_LEN_MAX: usize = 256 << 10;

/// Below this, a chunk is not worth a system call.
const CHUNK_LEN_MIN: usize = 4 << 10;

/// The most files that a worker has open, and so the most requests it makes of a disk.
const STREAMS_MAX: usize = 64;

/// Files that are left to the rest of the process.
const OTHER_OPEN_FILES: u64 = 48;

/// A hashing thread.
pub(crate) struct Worker<T: Task> {
    shared: Arc<Shared<T>>,
    arena: Vec<u8>,
    streams: Vec<Stream<T>>,
    /// The most streams, [`STREAMS_MAX`] unless the system allows fewer files.
    max_streams: usize,
    /// Tasks taken and not begun.
    tasks: VecDeque<Numbered<T>>,
    /// Whether no task was left when the worker last asked.
    dry: bool,
    /// Results not handed over yet.
    done: Vec<Numbered<Done<T>>>,
}

impl<T: Task> Worker<T> {
    /// One of `workers` workers.
    pub(crate) fn new(shared: Arc<Shared<T>>, workers: usize) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = files.saturating_sub(OTHER_OPEN_FILES) / workers as u64;
        Self {
            shared,
            arena: vec![0; CHUNKS_PER_ROUND * (CHUNK_LEN + CHUNK_GAP_LEN)],
            streams: Vec::with_capacity(STREAMS_MAX),
            max_streams: share.clamp(1, STREAMS_MAX as u64) as usize,
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

    /// Gives every second stream away when a worker is idle.
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
        let chunk_len = if self.dry {
            let share = CHUNKS_PER_ROUND * CHUNK_LEN / self.streams.len().max(1);
            share.clamp(CHUNK_LEN, CHUNK_LEN_MAX)
        } else {
            CHUNK_LEN
        };
        for stream in &mut self.streams {
            let room = self.arena.len().saturating_sub(used);
            if room < CHUNK_LEN_MIN {
                break;
            }
            used += stream.read(used, &mut self.arena[used..][..chunk_len.min(room)]);
        }
        while self.streams.len() < self.max_streams {
            let room = self.arena.len().saturating_sub(used);
            if room < CHUNK_LEN_MIN {
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
            // No stream has bytes in the page cache: wait for the disk at one of them.
            if let Some(stream) = self.streams.first_mut() {
                stream.read_waiting(&mut self.arena[..CHUNK_LEN_MAX]);
            }
        }
        let read = self.streams.iter().map(|stream| stream.chunk.len() as u64);
        (self.shared.on_bytes)(read.sum());
    }

    /// Opens the next file or takes the next part, if any.
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
                        let sum = sum_reader(File::from(file), method, &*self.shared.on_bytes);
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
                    self.shared.specials.file(task, file, method, results);
                }
                // An open file will be closed soon.
                Err(error) if is_too_many(&error) && !self.streams.is_empty() => {
                    self.tasks.push_front(task);
                    return None;
                }
                Err(error) => self.end(task, Some(Err(error))),
            }
        }
    }

    /// Hashes the bytes read, and finishes ended streams.
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
        // Without a receiver the results are unwanted, as `is_stopped` shows.
        if !self.done.is_empty() {
            let _ = results.send(std::mem::take(&mut self.done));
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
