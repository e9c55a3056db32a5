//! Copies blocks out of files of another program: each becomes a block of the same bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tabane_engine::{Bundle, Digest, Pool};
use tabane_storage::sync::lock;
use tabane_storage::{Files, Id, Progress};
use tabane_store::chunker::BLOCK_LEN_MAX;
use tabane_store::entry::Piece;
use tabane_store::snapshot_writer::{BlockWriter, SnapshotWriter};
use tabane_store::{Algorithm, Error as StoreError};

use crate::error::{Error, Result, Sound, read_range};

/// Bytes of a pack that are read at once.
const READ_LEN: u64 = 16 << 20;

/// Bytes that are read in vain rather than with another request.
const GAP_LEN: u64 = 256 << 10;

/// Where a block is, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the file.
    pub file: u32,
    /// First byte within the file.
    pub offset: u64,
    /// Bytes within the file.
    pub len: u32,
    /// Bytes of the block; 0 if only the block tells.
    pub raw_len: u32,
    /// Whether the block is compressed, where only the index tells.
    pub is_compressed: bool,
}

impl Place {
    /// Behind the last byte within the file.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// Blocks of another program's repository.
pub trait Source: Send + Sync + 'static {
    /// The files of the repository.
    fn files(&self) -> &dyn Files;

    /// The place of number `attempt`, from 0, at which a block is.
    fn place(&self, id: &Id, attempt: usize) -> Option<Place>;

    /// The path of a file.
    fn path(&self, file: u32) -> String;

    /// Opens a block that was read, and appends its bytes to `out`.
    fn open(&self, id: &Id, place: &Place, sealed: &mut [u8], out: &mut Vec<u8>) -> Sound<()>;

    /// The IDs of blocks with these bytes.
    fn ids(&self, blocks: &[&[u8]]) -> Vec<Id>;

    /// The hash whose digests IDs are, without a key; nothing if they are something else.
    fn hash(&self) -> Option<Algorithm>;
}

/// What blocks became.
pub struct Copied {
    /// Blocks that have another ID here than there.
    renamed: Mutex<HashMap<Id, Id>>,
    /// Blocks that are lost, and why.
    lost: Mutex<HashMap<Id, String>>,
    /// Bytes of each block that was wanted.
    lens: HashMap<Id, u32>,
    /// Number of blocks that were copied.
    pub blocks: AtomicU64,
    /// Bytes of these blocks.
    pub bytes: AtomicU64,
}

impl Copied {
    /// A block of `len` bytes as a piece of a content here.
    ///
    /// # Errors
    /// Why it is lost.
    pub fn piece(&self, there: &Id, len: u32) -> Sound<Piece> {
        if let Some(why) = lock(&self.lost).get(there) {
            return Err(why.clone());
        }
        if self.lens.get(there).is_some_and(|known| *known != len) {
            return Err(format!("its block {there} has another length"));
        }
        let id = *lock(&self.renamed).get(there).unwrap_or(there);
        Ok(Piece::Block { id, len })
    }
}

/// Neighbouring blocks that are read at once.
struct Run {
    file: u32,
    start: u64,
    end: u64,
    blocks: Vec<(Id, Place)>,
}

/// What the threads of a copy share.
struct Shared {
    source: Arc<dyn Source>,
    hash: Algorithm,
    copied: Arc<Copied>,
    failure: Mutex<Option<Error>>,
    progress: Arc<dyn Progress>,
    total: u64,
    /// Bytes of blocks that were read.
    done: AtomicU64,
}

/// Copies these blocks, each with its length in bytes, with writers of `target`, which uses `hash`;
/// returns the writers, whatever has failed. Lost blocks are no error; that a place failed or the
/// run was cancelled is.
pub fn copy(
    source: &Arc<dyn Source>,
    wanted: Vec<(Id, u32)>,
    target: &SnapshotWriter,
    hash: Algorithm,
    progress: &Arc<dyn Progress>,
) -> (Result<Arc<Copied>>, Vec<BlockWriter>) {
    let copied = Arc::new(Copied {
        renamed: Mutex::default(),
        lost: Mutex::default(),
        lens: wanted.iter().copied().collect(),
        blocks: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    });
    let shared = Arc::new(Shared {
        hash,
        copied: Arc::clone(&copied),
        failure: Mutex::new(None),
        progress: Arc::clone(progress),
        total: wanted.iter().map(|(_, len)| u64::from(*len)).sum(),
        done: AtomicU64::new(0),
        source: Arc::clone(source),
    });
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut writers: Vec<_> = (0..processors).map(|_| target.block_writer()).collect();
    let mut wanted: Vec<Id> = wanted.into_iter().map(|(id, _)| id).collect();
    // Blocks that are lost at one place may be sound at another.
    for attempt in 0.. {
        let mut found = Vec::new();
        for id in wanted {
            match source.place(&id, attempt) {
                Some(place) => {
                    lock(&copied.lost).remove(&id);
                    found.push((id, place));
                }
                None => {
                    let why = || format!("its block {id} is not in the repository");
                    lock(&copied.lost).entry(id).or_insert_with(why);
                }
            }
        }
        if found.is_empty() {
            break;
        }
        let pool = Pool::new(writers, processors);
        shared.read(runs(found), &pool);
        writers = pool.finish();
        if shared.has_failed() {
            break;
        }
        wanted = lock(&copied.lost).keys().copied().collect();
    }
    match lock(&shared.failure).take() {
        Some(error) => (Err(error), writers),
        None => (Ok(copied), writers),
    }
}

/// Runs of neighbours, in the order of files.
fn runs(mut blocks: Vec<(Id, Place)>) -> Vec<Run> {
    blocks.sort_unstable_by_key(|(_, place)| (place.file, place.offset));
    let mut runs: Vec<Run> = Vec::new();
    for (id, place) in blocks {
        let start = place.offset;
        match runs.last_mut() {
            Some(run)
                if run.file == place.file
                    && start <= run.end + GAP_LEN
                    && place.end() <= run.start + READ_LEN =>
            {
                run.end = run.end.max(place.end());
                run.blocks.push((id, place));
            }
            _ => runs.push(Run {
                file: place.file,
                start,
                end: place.end(),
                blocks: vec![(id, place)],
            }),
        }
    }
    runs
}

impl Shared {
    /// Reads runs, several at a time, and hands them to workers.
    fn read(self: &Arc<Self>, runs: Vec<Run>, pool: &Pool<BlockWriter>) {
        let readers = self.source.files().connections().min(runs.len());
        let runs = Mutex::new(runs.into_iter());
        let next = || lock(&runs).next().filter(|_| !self.has_failed());
        std::thread::scope(|scope| {
            for _ in 0..readers {
                scope.spawn(|| {
                    while let Some(run) = next() {
                        self.read_run(run, pool);
                    }
                });
            }
        });
    }

    fn read_run(self: &Arc<Self>, run: Run, pool: &Pool<BlockWriter>) {
        let path = self.source.path(run.file);
        let bytes = match read_range(self.source.files(), &path, run.start..run.end) {
            Ok(Ok(bytes)) => bytes,
            // Perhaps only the end of the file is missing.
            Ok(Err(_)) if run.blocks.len() > 1 => {
                for (id, place) in run.blocks {
                    let run = Run {
                        file: run.file,
                        start: place.offset,
                        end: place.end(),
                        blocks: vec![(id, place)],
                    };
                    self.read_run(run, pool);
                }
                return;
            }
            Ok(Err(why)) => {
                for (id, _) in run.blocks {
                    lock(&self.copied.lost).insert(id, why.clone());
                }
                return;
            }
            Err(error) => return self.fail(error),
        };
        let shared = Arc::clone(self);
        pool.submitter().submit(move |writer, _| {
            if !shared.has_failed()
                && let Err(error) = shared.store(&run, bytes, writer)
            {
                shared.fail(error.into());
            }
        });
    }

    /// Opens the blocks of a run, checks them and stores them.
    fn store(
        &self,
        run: &Run,
        mut bytes: Vec<u8>,
        writer: &mut BlockWriter,
    ) -> std::result::Result<(), StoreError> {
        let mut bundle = Bundle::new(Vec::new());
        let mut lost = Vec::new();
        for (id, place) in &run.blocks {
            let start = bundle.arena.len();
            let from = (place.offset - run.start) as usize;
            let sealed = &mut bytes[from..from + place.len as usize];
            let opened = match place.raw_len {
                len if len > BLOCK_LEN_MAX => Err("it is too long".to_owned()),
                _ => self.source.open(id, place, sealed, &mut bundle.arena),
            };
            match opened {
                Ok(()) if bundle.arena.len() - start <= BLOCK_LEN_MAX as usize => {
                    bundle.add(start..bundle.arena.len(), *id);
                }
                Ok(()) => {
                    bundle.arena.truncate(start);
                    lost.push((*id, "it is too long".to_owned()));
                }
                Err(why) => {
                    bundle.arena.truncate(start);
                    lost.push((*id, why));
                }
            }
        }
        let opened: Vec<&[u8]> = bundle.iter().map(|(block, _)| block).collect();
        let ids = self.source.ids(&opened);
        let mut sound = Vec::new();
        for ((block, wanted), id) in bundle.iter().zip(ids) {
            let len = self.copied.lens.get(wanted);
            if id != *wanted {
                lost.push((*wanted, "it does not match its hash".to_owned()));
            } else if len.is_some_and(|len| *len as usize != block.len()) {
                lost.push((*wanted, "it has another length".to_owned()));
            } else {
                sound.push((id, block));
            }
        }
        let blocks: Vec<&[u8]> = sound.iter().map(|(_, block)| *block).collect();
        let digests = if self.source.hash() == Some(self.hash) {
            sound
                .iter()
                .filter_map(|(id, _)| Digest::from_bytes(&id.0))
                .collect()
        } else {
            self.hash.digest_many(&blocks)
        };
        let pieces = writer.store(&blocks, digests)?;
        for ((there, _), piece) in sound.iter().zip(pieces) {
            if let Some(here) = piece.block().filter(|here| here != there) {
                lock(&self.copied.renamed).insert(*there, here);
            }
        }
        let bytes: u64 = blocks.iter().map(|block| block.len() as u64).sum();
        let count = |counter: &AtomicU64, by| counter.fetch_add(by, Ordering::Relaxed);
        count(&self.copied.blocks, blocks.len() as u64);
        count(&self.copied.bytes, bytes);
        for (id, why) in lost {
            let path = self.source.path(run.file);
            let why = format!("{path}: its block {id}: {why}");
            lock(&self.copied.lost).insert(id, why);
        }
        let done = bytes + count(&self.done, bytes);
        self.progress.bytes(done, self.total);
        Ok(())
    }

    fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
    }

    /// Whether the copy has failed or was cancelled.
    fn has_failed(&self) -> bool {
        if self.progress.is_cancelled() {
            self.fail(StoreError::Cancelled.into());
        }
        lock(&self.failure).is_some()
    }
}
