//! Reads files, bundles their blocks and stores them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;
use tabane_engine::{Bundle, Submitter};
use tabane_files::read;

use super::directory::Place;
use super::pieces::Pieces;
use super::run::Run;
use crate::access::writer::Encoder;
use tabane_format::Result;
use tabane_format::entry::{Entry, Found, Kind, Piece, Xattr};
use tabane_storage::Outcome;
use tabane_storage::sync::lock;

/// A bundle is closed when it has this many bytes: several blocks for each lane.
const BUNDLE_LEN: usize = 8 << 20;

/// A batch of small files is closed at this many bytes…
const BATCH_LEN: u64 = 4 << 20;

/// …or at this many files…
const BATCH_FILES: usize = 1024;

/// …or when its files lie in this many directories, which stay open until the batch is read.
const BATCH_DIRECTORIES: usize = 128;

/// Longer files are read one by one, not in a batch.
const SMALL_FILE_LEN_MAX: u64 = 2 << 20;

/// A file to read.
pub struct FileJob {
    /// The place of its entry.
    pub place: Place,
    /// The open directory that holds the file.
    pub directory: Arc<OwnedFd>,
    /// Its path, for messages.
    pub path: PathBuf,
    /// The entry that the walker found.
    pub found: Found,
    /// The outcome to report, which depends on the parent snapshot.
    pub outcome: Outcome,
}

/// Small files that are read and hashed together.
#[derive(Default)]
pub struct Batch {
    jobs: Vec<FileJob>,
    len: u64,
    directories: usize,
}

impl Batch {
    /// Adds a file; returns a full batch to process now.
    pub fn add(&mut self, job: FileJob) -> Option<Self> {
        self.len += job.found.entry.size();
        let same = |last: &FileJob| Arc::ptr_eq(&last.directory, &job.directory);
        self.directories += usize::from(!self.jobs.last().is_some_and(same));
        self.jobs.push(job);
        let full = self.len >= BATCH_LEN
            || self.jobs.len() == BATCH_FILES
            || self.directories == BATCH_DIRECTORIES;
        full.then(|| std::mem::take(self))
    }

    /// Whether a file is small enough for a batch.
    pub fn takes(found: &Found) -> bool {
        found.entry.size() <= SMALL_FILE_LEN_MAX
    }

    /// Reads and stores the files.
    pub fn process(self, run: &Arc<Run>, encoder: &mut Encoder, submitter: &Submitter<Encoder>) {
        if run.has_failed(encoder) {
            return;
        }
        let turn = run.reading.enter();
        let watch = run.contents.watch();
        run.contents.ask_ahead(&self.jobs);
        let mut bundle = Bundle::new(run.buffers.take());
        let mut files: Vec<(FileJob, Entry)> = Vec::with_capacity(self.jobs.len());
        for job in self.jobs {
            let start = bundle.arena.len();
            match read_small(run, &job, &mut bundle.arena) {
                Ok(Some(entry)) => {
                    let mut at = start;
                    let len = bundle.arena.len();
                    for block_len in run
                        .repository
                        .chunker()
                        .blocks(&bundle.arena[start..len], true)
                        .collect::<Vec<_>>()
                    {
                        bundle.add(at..at + block_len, files.len());
                        at += block_len;
                    }
                    run.count_read((len - start) as u64);
                    files.push((job, entry));
                }
                // The file has grown since the walker saw it, or has holes.
                Ok(None) => {
                    bundle.arena.truncate(start);
                    LargeFile::process_in_turn(job, run, encoder, submitter);
                }
                Err(error) => {
                    bundle.arena.truncate(start);
                    unreadable(run, job, error, encoder);
                }
            }
        }
        drop((watch, turn));
        let stored = store(run, &bundle, encoder).and_then(|pieces| {
            for ((_, &file), piece) in bundle.iter().zip(pieces) {
                if let Kind::File { content, .. } = &mut files[file].1.kind {
                    content.push(piece);
                }
            }
            for (job, entry) in files {
                run.count(&job.path, job.outcome, entry.size());
                run.assembler.entry_done(job.place, Some(entry))?;
            }
            Ok(())
        });
        if let Err(error) = stored {
            encoder.fail(error);
        }
        run.buffers.give(bundle.arena);
    }
}

/// Appends a whole file to `arena`; `None` if it is no longer small or has holes.
fn read_small(run: &Run, job: &FileJob, arena: &mut Vec<u8>) -> io::Result<Option<Entry>> {
    let (file, found) = open(job)?;
    if !Batch::takes(&found) {
        return Ok(None);
    }
    let size = found.entry.size();
    if found.allocated < size {
        // Holes, or a file system that compresses or keeps small files elsewhere.
        let extents = read::data_extents(file.as_fd(), size, found.allocated)?;
        if !matches!(&extents[..], [whole] if *whole == (0..size)) {
            return Ok(None);
        }
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    }
    let mut entry = found.entry;
    let (start, expected) = (arena.len(), entry.size() as usize);
    arena.reserve(expected);
    while arena.len() - start < expected && read_some(file.as_fd(), arena)? {}
    // Of a growing file, the snapshot gets the bytes up to its size at opening.
    arena.truncate(start + expected);
    if expected == 0 && !read_unsized(file.as_fd(), arena)? {
        return Ok(None);
    }
    let size = (arena.len() - start) as u64;
    warn_if_changed(run, job, file.as_fd(), &entry)?;
    run.set_xattrs(&job.path, &mut entry, read::xattrs(file.as_fd()));
    entry.kind = Kind::File {
        size,
        content: Vec::new(),
    };
    Ok(Some(entry))
}

/// Reads once into the spare capacity of `buffer`; false at the end of the file.
fn read_some(file: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        match rustix::io::read(file, spare_capacity(buffer)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads a file with a size of 0, which may have bytes, as in `/proc`; false when it is too long
/// for a batch. A file that is just getting its first bytes stays empty.
fn read_unsized(file: BorrowedFd<'_>, arena: &mut Vec<u8>) -> io::Result<bool> {
    const PIECE_LEN: usize = 16 << 10;
    let start = arena.len();
    never_wait(file)?;
    loop {
        arena.reserve(PIECE_LEN);
        match read_some(file, arena) {
            // A file that waits for more data, as a log of the kernel does.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Ok(false) => return Ok(true),
            more => more?,
        };
        if rustix::fs::fstat(file)?.st_size != 0 {
            arena.truncate(start);
            return Ok(true);
        }
        if (arena.len() - start) as u64 > SMALL_FILE_LEN_MAX {
            return Ok(false);
        }
    }
}

/// Sets the file to non-blocking, so that reads fail instead of waiting.
fn never_wait(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags | OFlags::NONBLOCK)?)
}

/// Opens a file and reads its attributes again: it may have been changed or replaced since the
/// walker saw it.
fn open(job: &FileJob) -> io::Result<(OwnedFd, Found)> {
    let name = OsStr::from_bytes(&job.found.entry.name);
    let file = read::open_file(job.directory.as_fd(), name)?;
    let with_atime = job.found.entry.atime.is_some();
    let found = read::stat_open(file.as_fd(), name, with_atime)?;
    match found.entry.kind {
        Kind::File { .. } => Ok((file, found)),
        _ => Err(io::Error::other("it is no longer a regular file")),
    }
}

/// Reports a file whose size or times changed since it was opened; returns its current entry.
fn warn_if_changed(
    run: &Run,
    job: &FileJob,
    file: BorrowedFd<'_>,
    opened: &Entry,
) -> io::Result<Entry> {
    let now = read::stat_open(file, OsStr::new(""), false)?.entry;
    if (now.size(), now.mtime, now.ctime) != (opened.size(), opened.mtime, opened.ctime) {
        let what = "changed while it was read; the snapshot has what was read";
        run.repository.progress().warning(&job.path, what);
    }
    Ok(now)
}

/// Reports a file that could not be read, and leaves it out.
fn unreadable(run: &Run, job: FileJob, error: io::Error, encoder: &Encoder) {
    match error.kind() {
        // The backup has failed for another reason, which it reports at its end.
        _ if encoder.has_failed() => {}
        io::ErrorKind::NotFound => run.vanished(&job.path),
        _ => run.error(&job.path, &error),
    }
    if let Err(error) = run.assembler.entry_done(job.place, None) {
        encoder.fail(error);
    }
}

/// Hashes the blocks of a bundle side by side and stores those that are new.
fn store<T>(run: &Run, bundle: &Bundle<T>, encoder: &mut Encoder) -> Result<Vec<Piece>> {
    let digests = bundle.digests(run.repository.config().hash);
    let blocks: Vec<&[u8]> = bundle.iter().map(|(block, _)| block).collect();
    encoder.store(&blocks, digests)
}

/// A file that is read by one worker while others store its bundles.
pub struct LargeFile {
    /// Its entry; the content is in `pieces`.
    entry: Mutex<Option<Entry>>,
    pieces: Pieces,
    place: Mutex<Option<Place>>,
    path: PathBuf,
    outcome: Outcome,
}

impl LargeFile {
    /// Reads a file and hands on its bundles.
    pub fn process(
        job: FileJob,
        run: &Arc<Run>,
        encoder: &mut Encoder,
        submitter: &Submitter<Encoder>,
    ) {
        if !run.has_failed(encoder) {
            let _turn = run.reading.enter();
            Self::process_in_turn(job, run, encoder, submitter);
        }
    }

    /// As [`LargeFile::process`], for a caller that holds a turn of reading.
    fn process_in_turn(
        job: FileJob,
        run: &Arc<Run>,
        encoder: &mut Encoder,
        submitter: &Submitter<Encoder>,
    ) {
        match open(&job) {
            Ok((file, found)) => Self::read(job, file.into(), found, run, encoder, submitter),
            Err(error) => unreadable(run, job, error, encoder),
        }
    }

    fn read(
        job: FileJob,
        mut file: File,
        found: Found,
        run: &Arc<Run>,
        encoder: &mut Encoder,
        submitter: &Submitter<Encoder>,
    ) {
        run.repository.progress().begun(&job.path);
        let entry = found.entry.clone();
        let size = found.entry.size();
        let extents = match size {
            // A file of size 0 with more bytes than a batch: see `read_unsized`.
            0 => never_wait(file.as_fd()).map(|()| std::iter::once(0..u64::MAX).collect()),
            _ => read::data_extents(file.as_fd(), size, found.allocated),
        };
        let large = Self::begin(&job, found.entry);
        let result = extents.and_then(|extents| {
            let cutter = Cutter::new(&large, run, submitter);
            let mut end = 0;
            for extent in extents {
                large.pieces.hole(extent.start - end);
                file.seek(SeekFrom::Start(extent.start))?;
                end = extent.start + cutter.data(&mut file, extent.end - extent.start, encoder)?;
                if end < extent.end {
                    // The file was truncated meanwhile.
                    break;
                }
            }
            let now = warn_if_changed(run, &job, file.as_fd(), &entry)?;
            // A hole at the end of a file that was not cut short meanwhile.
            let hole = size.min(now.size()).saturating_sub(end);
            large.pieces.hole(hole);
            Ok(read::xattrs(file.as_fd()))
        });
        large.read_to_the_end(result, run, encoder);
    }

    /// Reads `input` to its end as the file `job`.
    pub fn process_stream(
        job: FileJob,
        mut input: impl Read,
        run: &Arc<Run>,
        encoder: &mut Encoder,
        submitter: &Submitter<Encoder>,
    ) {
        let large = Self::begin(&job, job.found.entry.clone());
        let result = Cutter::new(&large, run, submitter).data(&mut input, u64::MAX, encoder);
        large.read_to_the_end(result.map(|_| Ok(Vec::new())), run, encoder);
    }

    fn begin(job: &FileJob, entry: Entry) -> Arc<Self> {
        Arc::new(Self {
            entry: Mutex::new(Some(entry)),
            pieces: Pieces::new(),
            place: Mutex::new(Some(job.place.clone())),
            path: job.path.clone(),
            outcome: job.outcome,
        })
    }

    fn read_to_the_end(
        &self,
        result: io::Result<io::Result<Vec<Xattr>>>,
        run: &Run,
        encoder: &Encoder,
    ) {
        match result {
            Ok(xattrs) => {
                if let Some(entry) = lock(&self.entry).as_mut() {
                    run.set_xattrs(&self.path, entry, xattrs);
                }
            }
            Err(error) => {
                // A backup that has failed reports why at its end.
                if !encoder.has_failed() {
                    run.error(&self.path, &error);
                }
                *lock(&self.entry) = None;
            }
        }
        self.release(run, encoder);
    }

    /// Called once for each bundle and once by the reader: the last one completes the file.
    fn release(&self, run: &Run, encoder: &Encoder) {
        let Some(content) = self.pieces.release() else {
            return;
        };
        let mut entry = lock(&self.entry).take();
        if let Some(entry) = &mut entry {
            let size = content.iter().map(Piece::len).sum();
            entry.kind = Kind::File { size, content };
            run.count(&self.path, self.outcome, size);
        }
        let place = lock(&self.place).take().expect("a file is completed once");
        if let Err(error) = run.assembler.entry_done(place, entry) {
            encoder.fail(error);
        }
    }
}

/// Cuts read bytes into blocks and hands them on in bundles.
struct Cutter<'a> {
    large: &'a Arc<LargeFile>,
    run: &'a Arc<Run>,
    submitter: &'a Submitter<Encoder>,
}

impl<'a> Cutter<'a> {
    fn new(
        large: &'a Arc<LargeFile>,
        run: &'a Arc<Run>,
        submitter: &'a Submitter<Encoder>,
    ) -> Self {
        Self {
            large,
            run,
            submitter,
        }
    }

    /// Reads up to `len` bytes; returns the number read.
    fn data(&self, file: &mut impl Read, len: u64, encoder: &mut Encoder) -> io::Result<u64> {
        let chunker = self.run.repository.chunker();
        let room = BUNDLE_LEN.max(2 * chunker.block_len_max());
        let (mut total, mut rest) = (0, Vec::new());
        loop {
            let mut bundle: Bundle<usize> = Bundle::new(self.run.buffers.take());
            bundle.arena.append(&mut rest);
            let wanted = (len - total).min((room - bundle.arena.len()) as u64);
            let count = file.by_ref().take(wanted).read_to_end(&mut bundle.arena)? as u64;
            total += count;
            self.run.count_read(count);
            let end = count < wanted || total == len;
            let mut at = 0;
            let lens: Vec<usize> = chunker.blocks(&bundle.arena, end).collect();
            let first = self.large.pieces.reserve(lens.len());
            for (number, block_len) in (first..).zip(lens) {
                bundle.add(at..at + block_len, number);
                at += block_len;
            }
            rest.extend_from_slice(&bundle.arena[at..]);
            self.hand_on(bundle, encoder);
            if end {
                return Ok(total);
            }
            if self.run.has_failed(encoder) {
                return Err(io::Error::other("the backup has failed"));
            }
        }
    }

    fn hand_on(&self, bundle: Bundle<usize>, encoder: &mut Encoder) {
        if bundle.is_empty() {
            return;
        }
        self.large.pieces.hand_on();
        let (large, run) = (Arc::clone(self.large), Arc::clone(self.run));
        self.submitter.submit_or_run(encoder, move |encoder, _| {
            match store(&run, &bundle, encoder) {
                Ok(stored) => {
                    let numbers = bundle.iter().map(|(_, &number)| number);
                    large.pieces.set(numbers.zip(stored));
                }
                Err(error) => encoder.fail(error),
            }
            run.buffers.give(bundle.arena);
            large.release(&run, encoder);
        });
    }
}
