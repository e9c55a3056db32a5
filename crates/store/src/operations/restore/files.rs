//! Restores contents of files: compares existing ones, writes the differing blocks and verifies
//! them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use tabane_engine::{Bundle, Pool};
use tabane_files::beneath::{in_directory, open_beneath, open_parent, remove};
use tabane_files::read::{data_extents, open_file};
use tabane_files::write::{Fresh, apply, apply_at, apply_to_fresh};

use super::plan::attribute_errors;
use super::run::Run;
use super::there;
use crate::access::reader::{self, BlockReader};
use tabane_format::entry::{Entry, Kind, Piece};
use tabane_format::{Error, Result};
use tabane_storage::sync::lock;
use tabane_storage::{Id, Outcome};

/// Decoded bytes in a worker's batch: enough blocks to fill the lanes.
const BATCH_LEN: u64 = 4 << 20;

/// With fewer packs a worker than this, packs are divided, so that the last one does not keep a
/// single worker busy.
const PACKS_PER_WORKER: usize = 8;

/// Files with blocks in several segments that are kept open between them.
const OPEN_FILES: u32 = 256;

/// A regular file to restore.
pub struct File {
    /// Path below the target.
    pub path: PathBuf,
    /// The snapshot's entry.
    pub entry: Entry,
    /// The existing entry of this name.
    there: There,
    /// Blocks to write; the worker that writes the last one finishes the file.
    outstanding: AtomicU32,
    state: Mutex<State>,
}

/// The existing entry with the name of a file to restore. Keeps only the facts that are needed,
/// since files may be millions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    File {
        /// Its mode, owner and time are those of the file to restore.
        has_attributes: bool,
    },
    Other,
}

#[derive(Default)]
struct State {
    /// The file could not be written, which was reported.
    failed: bool,
    /// The file was made in this run, or exists and may be written into.
    begun: bool,
    /// The file existed with the right content: only its attributes are left.
    right: bool,
    open: Option<Arc<fs::File>>,
}

/// A block's place in a file.
#[derive(Clone, Copy)]
struct Use {
    file: u32,
    /// Offset in the file, in bytes.
    start: u64,
    block: Id,
    /// Offset in the decoded segment, in bytes.
    offset: u32,
    len: u32,
}

impl File {
    /// A file to restore.
    ///
    /// `there` is the existing entry of its name, and `is_right` says that its content counts as
    /// right without being read.
    pub fn new(path: PathBuf, entry: Entry, there: Option<Entry>, is_right: bool) -> Self {
        let there = match there {
            None => There::Nothing,
            Some(there) if matches!(there.kind, Kind::File { .. }) => There::File {
                has_attributes: there::has_attributes(&there, &entry),
            },
            Some(_) => There::Other,
        };
        let state = State {
            begun: is_right,
            right: is_right,
            ..State::default()
        };
        Self {
            path,
            entry,
            there,
            outstanding: AtomicU32::new(0),
            state: Mutex::new(state),
        }
    }

    /// The file's outcome, as far as known.
    pub fn outcome(&self) -> Outcome {
        match self.there {
            There::Nothing => Outcome::Created,
            There::File {
                has_attributes: true,
            } if lock(&self.state).right => Outcome::Unchanged,
            _ => Outcome::Updated,
        }
    }

    /// The blocks of the file: offset in bytes, ID and length of each.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, Id, u32)> + '_ {
        let content: &[Piece] = match &self.entry.kind {
            Kind::File { content, .. } => content,
            _ => &[],
        };
        let mut at = 0;
        content.iter().filter_map(move |piece| {
            let start = at;
            at += piece.len();
            match *piece {
                Piece::Block { id, len } => Some((start, id, len)),
                Piece::Hole { .. } => None,
            }
        })
    }

    /// Length of its blocks in bytes.
    fn block_bytes(&self) -> u64 {
        self.blocks().map(|(_, _, len)| u64::from(len)).sum()
    }

    /// Whether the file could not be written, which was reported.
    pub fn has_failed(&self) -> bool {
        lock(&self.state).failed
    }

    fn has_holes(&self) -> bool {
        match &self.entry.kind {
            Kind::File { content, .. } => content
                .iter()
                .any(|piece| matches!(piece, Piece::Hole { .. })),
            _ => false,
        }
    }
}

/// What one worker has.
struct Worker {
    reader: BlockReader,
    /// The directory in which it made the last file.
    place: Option<Place>,
}

/// A directory in which files are made, one after the other.
struct Place {
    path: PathBuf,
    directory: OwnedFd,
    /// What the files in it are at first, if that can be told, once one was made.
    fresh: Option<Option<Fresh>>,
}

fn pool(run: &Run) -> Pool<Worker> {
    reader::pool(&run.repository, || Worker {
        reader: BlockReader::new(&run.repository),
        place: None,
    })
}

/// Writes all files.
pub fn write_all(run: &Arc<Run>, target: &Arc<OwnedFd>, files: &Arc<Vec<Arc<File>>>) {
    let wanted = compare_all(run, target, files);
    let mut by_segment: HashMap<u32, Vec<Use>> = HashMap::new();
    let mut without_blocks = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let uses = match locate(run, file, number, &wanted[number]) {
            Ok(uses) => uses,
            Err(error) => {
                run.error(&file.path, &error);
                lock(&file.state).failed = true;
                continue;
            }
        };
        file.outstanding.store(uses.len() as u32, Ordering::Relaxed);
        if uses.is_empty() {
            without_blocks.push(number);
        }
        for (segment, place) in uses {
            by_segment.entry(segment).or_default().push(place);
        }
    }
    let pool = pool(run);
    for numbers in without_blocks.chunks(256) {
        let (run, target, files, numbers) = (
            Arc::clone(run),
            Arc::clone(target),
            Arc::clone(files),
            numbers.to_vec(),
        );
        pool.submitter().submit(move |worker, _| {
            for number in numbers {
                write(&run, &target, &files[number], &mut worker.place, &[], 0);
            }
        });
    }
    let mut segments: Vec<(u32, Vec<Use>)> = by_segment.into_iter().collect();
    // Segments are numbered pack by pack: each pack is read from its front to its end.
    segments.sort_unstable_by_key(|&(segment, _)| segment);
    match batches_by_pack(run, segments) {
        // One worker takes a whole pack: files of a directory are neighbours there, and only one
        // thread at a time can make files in a directory.
        Ok(packs) if packs.len() >= PACKS_PER_WORKER * reader::workers(&run.repository) => {
            for pack in packs {
                submit(run, target, files, &pool, pack);
            }
        }
        Ok(packs) => {
            for batch in packs.into_iter().flatten() {
                submit(run, target, files, &pool, vec![batch]);
            }
        }
        Err(error) => run.fail(error),
    }
    pool.finish();
}

/// Segments that are decoded together, with the wanted blocks of each.
type Batch = Vec<(u32, Vec<Use>)>;

/// Bundles segments, none of different packs.
fn batches_by_pack(run: &Run, segments: Vec<(u32, Vec<Use>)>) -> Result<Vec<Vec<Batch>>> {
    let mut packs: Vec<Vec<Batch>> = Vec::new();
    let (mut last_pack, mut batch_len) = (None, 0);
    for (segment, uses) in segments {
        let entry = run.index.segment(segment)?;
        if last_pack.replace(entry.pack) != Some(entry.pack) {
            packs.push(Vec::new());
            batch_len = BATCH_LEN;
        }
        let batches = packs.last_mut().expect("one was begun");
        if batch_len >= BATCH_LEN {
            batches.push(Batch::new());
            batch_len = 0;
        }
        batch_len += u64::from(entry.raw_len);
        batches
            .last_mut()
            .expect("one was begun")
            .push((segment, uses));
    }
    Ok(packs)
}

/// Locates the wanted blocks of a file: the segment and the use of each.
fn locate(run: &Run, file: &File, number: usize, wanted: &Wanted) -> Result<Vec<(u32, Use)>> {
    let mut uses = Vec::new();
    for (at, (start, block, len)) in file.blocks().enumerate() {
        if wanted.skips(at) {
            continue;
        }
        let found = run.index.find_of_len(&block, len)?;
        let location = found.ok_or(Error::MissingBlock(block))?;
        if location.len != len {
            return Err(Error::damaged(
                format!("block {block}"),
                "it has another length than the snapshot says",
            ));
        }
        let place = Use {
            file: number as u32,
            start,
            block,
            offset: location.offset,
            len,
        };
        uses.push((location.segment, place));
    }
    Ok(uses)
}

fn submit(
    run: &Arc<Run>,
    target: &Arc<OwnedFd>,
    files: &Arc<Vec<Arc<File>>>,
    pool: &Pool<Worker>,
    batches: Vec<Batch>,
) {
    let (run, target, files) = (Arc::clone(run), Arc::clone(target), Arc::clone(files));
    pool.submitter().submit(move |worker, _| {
        for batch in batches {
            process(&run, &target, &files, worker, batch);
        }
    });
}

/// Reads segments, checks all wanted blocks side by side, and writes them.
fn process(run: &Run, target: &OwnedFd, files: &[Arc<File>], worker: &mut Worker, batch: Batch) {
    let reader = &mut worker.reader;
    if run.has_failed() {
        return;
    }
    let mut segments = Vec::with_capacity(batch.len());
    let numbers: Vec<u32> = batch.iter().map(|(segment, _)| *segment).collect();
    let read = reader.read_segments(&run.index, &numbers);
    for ((_, uses), read) in batch.into_iter().zip(read) {
        match read {
            Ok(raw) => segments.push((raw, uses)),
            Err(error) => {
                for place in uses {
                    match read_elsewhere(run, reader, &place) {
                        Some(raw) => segments.push((raw, vec![Use { offset: 0, ..place }])),
                        None => give_up(run, &files[place.file as usize], &error),
                    }
                }
            }
        }
    }
    // Each block is hashed once, however often it is used.
    let mut unique: HashMap<Id, bool> = HashMap::new();
    let mut blocks: Vec<(Id, &[u8])> = Vec::new();
    for (raw, uses) in &segments {
        for place in uses {
            if unique.insert(place.block, false).is_none() {
                blocks.push((place.block, part(raw, place)));
            }
        }
    }
    let messages: Vec<&[u8]> = blocks.iter().map(|&(_, bytes)| bytes).collect();
    let digests = run.repository.config().hash.digest_many(&messages);
    for ((block, _), digest) in blocks.iter().zip(&digests) {
        unique.insert(*block, run.repository.is_block(block, digest));
    }
    // A pack that nobody has verified may hold something else, and another pack the block.
    let mut mended: HashMap<Id, Vec<u8>> = HashMap::new();
    for place in segments.iter().flat_map(|(_, uses)| uses) {
        if unique[&place.block] || mended.contains_key(&place.block) {
            continue;
        }
        if let Some(raw) = read_elsewhere(run, reader, place) {
            let digest = run.repository.config().hash.digest(&raw);
            unique.insert(place.block, run.repository.is_block(&place.block, &digest));
            mended.insert(place.block, raw);
        }
    }
    for (raw, uses) in &segments {
        // A file's uses are neighbours: they were added file by file.
        for uses in uses.chunk_by(|a, b| a.file == b.file) {
            let file = &files[uses[0].file as usize];
            if let Some(bad) = uses.iter().find(|place| !unique[&place.block]) {
                let error = Error::damaged(
                    format!("block {}", bad.block),
                    "its bytes do not match its digest",
                );
                give_up(run, file, &error);
                continue;
            }
            let parts: Vec<(u64, &[u8])> = uses
                .iter()
                .map(|place| match mended.get(&place.block) {
                    Some(block) => (place.start, &block[..]),
                    None => (place.start, part(raw, place)),
                })
                .collect();
            write(
                run,
                target,
                file,
                &mut worker.place,
                &parts,
                uses.len() as u32,
            );
        }
    }
}

/// Reads a block from its other places, after its first one failed; nothing if it has another
/// length there.
fn read_elsewhere(run: &Run, reader: &mut BlockReader, place: &Use) -> Option<Vec<u8>> {
    let (mut raw, block) = (Vec::new(), place.block);
    let several = run.index.places(&block).ok()?.len() > 1;
    let read = several && reader.append_block(&run.index, block, &mut raw).is_ok();
    (read && raw.len() == place.len as usize).then_some(raw)
}

fn part<'a>(raw: &'a [u8], place: &Use) -> &'a [u8] {
    &raw[place.offset as usize..][..place.len as usize]
}

/// Reports once why a file cannot be restored.
fn give_up(run: &Run, file: &File, error: &dyn std::fmt::Display) {
    let mut state = lock(&file.state);
    if !std::mem::replace(&mut state.failed, true) {
        run.error(&file.path, error);
    }
    close(run, &mut state);
}

/// Closes a file that was kept open between segments.
fn close(run: &Run, state: &mut State) {
    if state.open.take().is_some() {
        run.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Writes parts of a file, and sets its attributes after the last of its `outstanding` blocks.
fn write(
    run: &Run,
    target: &OwnedFd,
    file: &File,
    place: &mut Option<Place>,
    parts: &[(u64, &[u8])],
    blocks: u32,
) {
    if lock(&file.state).right {
        // Not opened for writing: a running program would refuse this.
        let applied = in_directory(target, &file.path, |directory, name| {
            Ok(apply_at(directory, name, &file.entry))
        });
        match applied {
            Ok(failures) => attribute_errors(run, &file.path, &failures),
            Err(error) => run.io_error(&file.path, "finish", error),
        }
        run.entry(&file.path, file.outcome());
        return;
    }
    let before = file.outstanding.load(Ordering::Relaxed);
    let written = (|| -> io::Result<()> {
        let Some((open, fresh)) = open(run, target, file, place, before == blocks)? else {
            return Ok(());
        };
        let mut bytes = 0;
        for run_of_parts in parts.chunk_by(|a, b| a.0 + a.1.len() as u64 == b.0) {
            // Neighbours in the file and in the segment go out in one call.
            let mut at = run_of_parts[0].0;
            for (_, part) in run_of_parts {
                open.write_all_at(part, at)?;
                at += part.len() as u64;
                bytes += part.len() as u64;
            }
        }
        run.count(&run.counters.restored_bytes, bytes);
        if file.outstanding.fetch_sub(blocks, Ordering::AcqRel) == blocks {
            // A file may end in a hole, and an existing one may be too long.
            if file.has_holes()
                || file.there != There::Nothing && open.metadata()?.len() != file.entry.size()
            {
                open.set_len(file.entry.size())?;
            }
            let failures = match fresh {
                Some(fresh) => apply_to_fresh(open.as_fd(), fresh, &file.entry),
                None => apply(open.as_fd(), &file.entry),
            };
            attribute_errors(run, &file.path, &failures);
            close(run, &mut lock(&file.state));
            run.entry(&file.path, file.outcome());
        }
        Ok(())
    })();
    if let Err(error) = written {
        let mut state = lock(&file.state);
        if !std::mem::replace(&mut state.failed, true) {
            drop(state);
            run.io_error(&file.path, "write", error);
        }
    }
}

/// Opens a file for writing, and says what it is if it was just made; `None` if the file was given
/// up. `whole` says that no other worker needs it.
fn open(
    run: &Run,
    target: &OwnedFd,
    file: &File,
    place: &mut Option<Place>,
    whole: bool,
) -> io::Result<Option<(Arc<fs::File>, Option<Fresh>)>> {
    let mut state = lock(&file.state);
    if state.failed {
        return Ok(None);
    }
    if let Some(open) = &state.open {
        return Ok(Some((Arc::clone(open), None)));
    }
    let begun = std::mem::replace(&mut state.begun, true);
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let new = flags | OFlags::CREATE | OFlags::EXCL;
    let owner = Mode::RUSR | Mode::WUSR;
    let mut fresh = None;
    let first = if begun {
        open_beneath(target, &file.path, flags, Mode::empty())
    } else {
        make(target, &file.path, place, new, owner).map(|(made, known)| {
            fresh = known;
            made
        })
    };
    let opened = match first {
        // The file is read-only, as an earlier restore may have left it.
        Err(error) if begun && error.kind() == io::ErrorKind::PermissionDenied => {
            in_directory(target, &file.path, |directory, name| {
                Ok(rustix::fs::chmodat(
                    directory,
                    name,
                    owner,
                    AtFlags::empty(),
                )?)
            })?;
            open_beneath(target, &file.path, flags, Mode::empty())?
        }
        // The existing entry must not be written into: remove it.
        Err(error) if !begun && error.kind() == io::ErrorKind::AlreadyExists => {
            in_directory(target, &file.path, remove)?;
            open_beneath(target, &file.path, new, owner)?
        }
        result => result?,
    };
    let opened = Arc::new(fs::File::from(opened));
    if !whole && run.open_files.load(Ordering::Relaxed) < OPEN_FILES {
        run.open_files.fetch_add(1, Ordering::Relaxed);
        state.open = Some(Arc::clone(&opened));
    }
    Ok(Some((opened, fresh)))
}

/// Makes a file, and says what it is if that is known. The directory of the last file serves again:
/// neighbours in a pack are neighbours in a directory.
fn make(
    target: &OwnedFd,
    path: &Path,
    place: &mut Option<Place>,
    flags: OFlags,
    mode: Mode,
) -> io::Result<(OwnedFd, Option<Fresh>)> {
    let (parent, name) = (path.parent(), path.file_name());
    let (Some(parent), Some(name)) = (parent, name) else {
        return Ok((open_beneath(target, path, flags, mode)?, None));
    };
    if place.as_ref().is_none_or(|place| place.path != parent) {
        *place = Some(Place {
            path: parent.to_owned(),
            directory: open_parent(target, path)?,
            fresh: None,
        });
    }
    let here = place.as_mut().expect("it was set");
    let flags_here = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(&here.directory, name, flags_here, mode) {
        Ok(made) => {
            let fresh = *here.fresh.get_or_insert_with(|| Fresh::of(made.as_fd()));
            Ok((made, fresh))
        }
        // Somebody may have put another directory in its place.
        Err(Errno::NOENT) => {
            *place = None;
            Ok((open_beneath(target, path, flags, mode)?, None))
        }
        Err(error) => Err(error.into()),
    }
}

/// The blocks of a file to write.
#[derive(Clone, Default)]
enum Wanted {
    /// All of them.
    #[default]
    All,
    /// The blocks marked true.
    Some(Vec<bool>),
}

impl Wanted {
    fn skips(&self, block: usize) -> bool {
        matches!(self, Self::Some(wanted) if !wanted[block])
    }
}

/// Reports the outcomes that a restore of all files would have.
pub fn compare_only(run: &Arc<Run>, target: Option<&Arc<OwnedFd>>, files: &Arc<Vec<Arc<File>>>) {
    let wanted = target.map(|target| compare_all(run, target, files));
    for (number, file) in files.iter().enumerate() {
        let skips = |block| {
            wanted
                .as_ref()
                .is_some_and(|wanted| wanted[number].skips(block))
        };
        let blocks = file.blocks().enumerate();
        let blocks = blocks.filter(|(block, _)| !skips(*block));
        let bytes = blocks.map(|(_, (_, _, len))| u64::from(len)).sum();
        run.count(&run.counters.restored_bytes, bytes);
        run.entry(&file.path, file.outcome());
    }
}

/// Finds the blocks that existing files hold already; a file of which some are kept is marked as
/// begun.
fn compare_all(run: &Arc<Run>, target: &Arc<OwnedFd>, files: &Arc<Vec<Arc<File>>>) -> Vec<Wanted> {
    let mut wanted = vec![Wanted::All; files.len()];
    let mut existing = Vec::new();
    for (number, file) in files.iter().enumerate() {
        if lock(&file.state).right {
            wanted[number] = Wanted::Some(vec![false; file.blocks().count()]);
            run.count(&run.counters.skipped_bytes, file.block_bytes());
        } else if matches!(file.there, There::File { .. }) {
            existing.push(number);
        }
    }
    let wanted = Arc::new(Mutex::new(wanted));
    let found = Arc::clone(&wanted);
    let taken = Mutex::new(HashSet::new());
    read_all(
        run,
        target,
        files,
        &existing,
        move |run, file, number, comparison| {
            let Ok(comparison) = comparison else {
                return;
            };
            let right_size = comparison.size == file.entry.size();
            let all_right =
                comparison.wrong.is_empty() && comparison.holes == Holes::Right && right_size;
            // Writing into a file with several names would change all of them. Such an inode is
            // kept only if its content is right and the snapshot's file has several names as well,
            // and for one file only.
            let own = match (comparison.shared_inode, file.entry.hard_link) {
                (None, _) => true,
                (Some(inode), Some(_)) => all_right && lock(&taken).insert(inode),
                (Some(_), None) => false,
            };
            // A file that should have holes is written anew: this code cannot punch them.
            if !own || !all_right && file.has_holes() {
                return;
            }
            let mut blocks = vec![false; file.blocks().count()];
            for &block in &comparison.wrong {
                blocks[block] = true;
            }
            let right: u64 = file
                .blocks()
                .zip(&blocks)
                .filter(|(_, wanted)| !**wanted)
                .map(|((_, _, len), _)| u64::from(len))
                .sum();
            run.count(&run.counters.skipped_bytes, right);
            let mut state = lock(&file.state);
            state.begun = true;
            state.right = all_right;
            drop(state);
            lock(&found)[number] = Wanted::Some(blocks);
        },
    );
    std::mem::take(&mut lock(&wanted))
}

/// Reads all restored files again and reports each that differs from the snapshot.
pub fn verify_all(run: &Arc<Run>, target: &Arc<OwnedFd>, files: &Arc<Vec<Arc<File>>>) {
    let good: Vec<usize> = (0..files.len())
        .filter(|&number| !files[number].has_failed())
        .collect();
    read_all(run, target, files, &good, |run, file, _, comparison| {
        let what = match comparison {
            Err(error) => format!("cannot be read again: {error}"),
            Ok(comparison) if comparison.size != file.entry.size() => {
                "has another length than in the snapshot".to_owned()
            }
            Ok(comparison) if !comparison.wrong.is_empty() || comparison.holes == Holes::Wrong => {
                "differs from the snapshot".to_owned()
            }
            Ok(_) => {
                run.counters
                    .verified_bytes
                    .fetch_add(file.entry.size(), Ordering::Relaxed);
                return;
            }
        };
        run.error(&file.path, &what);
    });
}

/// The comparison of an existing file with the snapshot's.
struct Comparison {
    size: u64,
    /// Device and inode of a file with several names.
    shared_inode: Option<(u64, u64)>,
    /// Numbers of the blocks that differ.
    wrong: Vec<usize>,
    holes: Holes,
}

/// What a file has in place of its holes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holes {
    /// Holes.
    Right,
    /// Allocated zeros: the same bytes, and the best that file systems without holes can do.
    Zeros,
    /// Other bytes than zeros.
    Wrong,
}

/// Reads files in batches whose blocks are hashed together, and hands each comparison to `done`.
fn read_all(
    run: &Arc<Run>,
    target: &Arc<OwnedFd>,
    files: &Arc<Vec<Arc<File>>>,
    numbers: &[usize],
    done: impl Fn(&Run, &File, usize, io::Result<Comparison>) + Send + Sync + 'static,
) {
    let pool = pool(run);
    let done = Arc::new(done);
    let (mut batch, mut len) = (Vec::new(), 0);
    for (at, &number) in numbers.iter().enumerate() {
        len += files[number].entry.size();
        batch.push(number);
        if len < BATCH_LEN && batch.len() < 1024 && at + 1 < numbers.len() {
            continue;
        }
        len = 0;
        let (run, target, files, done, batch) = (
            Arc::clone(run),
            Arc::clone(target),
            Arc::clone(files),
            Arc::clone(&done),
            std::mem::take(&mut batch),
        );
        pool.submitter().submit(move |_, _| {
            let mut comparer = Comparer {
                run: &run,
                bundle: Bundle::new(Vec::new()),
                comparisons: Vec::new(),
            };
            for &number in &batch {
                let comparison = comparer.file(&target, &files[number]);
                comparer.comparisons.push(comparison);
            }
            comparer.flush();
            for (number, comparison) in batch.into_iter().zip(comparer.comparisons) {
                done(&run, &files[number], number, comparison);
            }
        });
    }
    pool.finish();
}

struct Comparer<'a> {
    run: &'a Run,
    /// Blocks read, each with the number of its comparison, its number in the file and its expected
    /// ID.
    bundle: Bundle<(usize, usize, Id)>,
    comparisons: Vec<io::Result<Comparison>>,
}

impl Comparer<'_> {
    fn file(&mut self, target: &OwnedFd, file: &File) -> io::Result<Comparison> {
        let open: fs::File = in_directory(target, &file.path, open_file)?.into();
        let stat = rustix::fs::fstat(&open)?;
        let size = stat.st_size as u64;
        let mut comparison = Comparison {
            size,
            shared_inode: (stat.st_nlink > 1).then_some((stat.st_dev, stat.st_ino)),
            wrong: Vec::new(),
            holes: Holes::Right,
        };
        if file.has_holes() {
            let allocated = stat.st_blocks as u64 * 512;
            let extents = data_extents(open.as_fd(), size, allocated)?;
            if size == file.entry.size() {
                comparison.holes = holes(&open, &extents, &file.entry)?;
            }
        }
        let number = self.comparisons.len();
        for (at, (start, id, len)) in file.blocks().enumerate() {
            let before = self.bundle.arena.len();
            self.bundle.arena.resize(before + len as usize, 0);
            match open.read_exact_at(&mut self.bundle.arena[before..], start) {
                Ok(()) => self
                    .bundle
                    .add(before..before + len as usize, (number, at, id)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.bundle.arena.truncate(before);
                    comparison.wrong.push(at);
                }
                Err(error) => return Err(error),
            }
            if self.bundle.arena.len() as u64 >= BATCH_LEN {
                // This file's comparison is not in the list yet.
                self.comparisons.push(Ok(comparison));
                self.flush();
                comparison = self.comparisons.pop().expect("it was pushed")?;
            }
        }
        Ok(comparison)
    }

    /// Hashes the blocks read so far.
    fn flush(&mut self) {
        let bundle = std::mem::replace(&mut self.bundle, Bundle::new(Vec::new()));
        let digests = bundle.digests(self.run.repository.config().hash);
        for ((_, (number, block, id)), digest) in bundle.iter().zip(digests) {
            if !self.run.repository.is_block(id, &digest)
                && let Ok(comparison) = &mut self.comparisons[*number]
            {
                comparison.wrong.push(*block);
            }
        }
    }
}

/// What a file has in place of holes; `extents` are its ranges with data.
fn holes(open: &fs::File, extents: &[Range<u64>], entry: &Entry) -> io::Result<Holes> {
    let Kind::File { content, .. } = &entry.kind else {
        return Ok(Holes::Right);
    };
    let mut buffer = vec![0; 64 << 10];
    let (mut at, mut extents, mut holes) = (0, extents, Holes::Right);
    for piece in content {
        let range = at..at + piece.len();
        at = range.end;
        if matches!(piece, Piece::Block { .. }) {
            continue;
        }
        let behind = extents.partition_point(|extent| extent.end <= range.start);
        extents = &extents[behind..];
        let overlapping = extents.iter().take_while(|extent| extent.start < range.end);
        for extent in overlapping {
            holes = Holes::Zeros;
            let (mut start, end) = (extent.start.max(range.start), extent.end.min(range.end));
            while start < end {
                let len = (end - start).min(buffer.len() as u64);
                let part = &mut buffer[..len as usize];
                open.read_exact_at(part, start)?;
                if part.iter().any(|&byte| byte != 0) {
                    return Ok(Holes::Wrong);
                }
                start += len;
            }
        }
    }
    Ok(holes)
}
