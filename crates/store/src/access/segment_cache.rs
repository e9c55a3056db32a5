//! A cache of decoded segments for many readers, which also decodes ahead.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use tabane_format::entry::{Entry, Piece};
use tabane_format::tree;
use tabane_format::{Error, Result};
use tabane_index::{BlockLocation, Index};
use tabane_storage::sync::lock;
use tabane_storage::{Id, StorageErrorKind};

/// Segments that may wait to be decoded ahead; beyond this number the oldest requests are dropped.
const QUEUED_SEGMENTS: usize = 64;

/// Segments that are decoded ahead when a pack is read in its order.
const AHEAD_IN_PACK: usize = 4;

/// Time before the index is reloaded again for a block that it lacks.
const RELOAD_PAUSE: Duration = Duration::from_secs(5);

/// Reads blocks for any number of threads, and keeps decoded segments for later reads.
///
/// Memory is bounded. The cache's threads, one a processor, decode segments that readers announce.
/// A block is compared with its digest when it is first read out of a decoded segment. If the index
/// lacks a block or its pack has vanished, since another client wrote or pruned, the index is
/// reloaded once.
pub struct SegmentCache {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    repository: Repository,
    loaded: RwLock<Loaded>,
    state: Mutex<State>,
    /// Signalled when a segment was decoded, or decoding failed.
    decoded: Condvar,
    /// Signalled when segments wait to be decoded ahead, or the cache is being dropped.
    asked: Condvar,
    /// Idle readers.
    readers: Mutex<Vec<BlockReader>>,
    limit: usize,
}

/// The loaded index.
#[derive(Clone)]
struct Loaded {
    index: Arc<Index>,
    /// Time of the last reload, if any.
    again: Option<Instant>,
    /// The repository is known to hold newer index objects.
    outdated: bool,
}

#[derive(Default)]
struct State {
    slots: HashMap<Place, Slot>,
    /// Bytes of all decoded segments.
    held: usize,
    /// Counts uses, to find the least recently used slot.
    clock: u64,
    ahead: VecDeque<Ahead>,
    closed: bool,
}

/// The pack of a segment, its number in it, and whether what is said of it is verified: something
/// else may be said of the same segment. They stay valid when the index is reloaded.
type Place = (Id, u32, bool);

enum Slot {
    /// A thread is decoding the segment.
    Decoding,
    Decoded {
        segment: Arc<Segment>,
        used: u64,
    },
}

struct Segment {
    raw: Vec<u8>,
    /// Blocks that were compared with their digests, with offset and length. Write-only keys may
    /// say different things of one segment.
    checked: Mutex<HashSet<(Id, u32, u32)>>,
}

impl Segment {
    /// The bytes of a block, if the segment is so long.
    fn part(&self, place: &BlockLocation) -> Option<&[u8]> {
        let start = place.offset as usize;
        self.raw.get(start..start + place.len as usize)
    }
}

/// A segment to decode ahead, and its announced blocks.
struct Ahead {
    index: Arc<Index>,
    number: u32,
    blocks: Vec<(Id, BlockLocation)>,
}

impl SegmentCache {
    /// An empty cache of at most `limit` bytes; reads the index.
    ///
    /// # Errors
    /// When the storage fails or the index is damaged.
    pub fn new(repository: &Repository, limit: usize) -> Result<Self> {
        let shared = Arc::new(Shared {
            repository: repository.clone(),
            loaded: RwLock::new(Loaded {
                index: Arc::new(repository.load_index()?),
                again: None,
                outdated: false,
            }),
            state: Mutex::default(),
            decoded: Condvar::new(),
            asked: Condvar::new(),
            readers: Mutex::default(),
            limit,
        });
        let count = std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = (0..count).map(|number| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("ahead {number}"))
                .spawn(move || shared.decode_ahead())
                .expect("the system can start a thread")
        });
        let threads = threads.collect();
        Ok(Self { shared, threads })
    }

    /// The most bytes that are kept.
    pub fn limit(&self) -> usize {
        self.shared.limit
    }

    /// Marks the index as outdated, since new snapshots may refer to blocks that it lacks.
    pub fn outdate(&self) {
        let mut loaded = self
            .shared
            .loaded
            .write()
            .expect("no panic under this lock");
        loaded.outdated = true;
    }

    /// Appends a part of a block, whose length is `len` bytes, to `out`.
    ///
    /// # Errors
    /// [`Error::MissingBlock`], or when the storage fails or the block is damaged.
    pub fn append(&self, block: Id, len: u32, part: Range<usize>, out: &mut Vec<u8>) -> Result<()> {
        let loaded = self.shared.loaded();
        match self
            .shared
            .append(&loaded.index, block, len, part.clone(), out)
        {
            Err(error) if may_be_elsewhere(&error) => match self.shared.reload(&loaded)? {
                Some(index) => self.shared.append(&index, block, len, part, out),
                None => Err(error),
            },
            result => result,
        }
    }

    /// The entries of a directory, sorted by name.
    ///
    /// # Errors
    /// When the storage fails, a block is missing or damaged.
    pub fn directory(&self, content: &[Piece]) -> Result<Vec<Entry>> {
        let mut bytes = Vec::new();
        for piece in content {
            let Piece::Block { id, len } = *piece else {
                return Err(Error::damaged("a directory", "it has a hole"));
            };
            self.append(id, len, 0..len as usize, &mut bytes)?;
        }
        tree::decode(&bytes)
    }

    /// Announces blocks that will be read soon, in this order; returns at once. Missing blocks are
    /// skipped.
    pub fn read_ahead(&self, blocks: impl IntoIterator<Item = (Id, u32)>) {
        let index = self.shared.loaded().index;
        let mut wanted: Vec<Ahead> = Vec::new();
        for (block, _) in blocks {
            let Ok(Some(location)) = index.find(&block) else {
                continue;
            };
            // Neighbours in a file are mostly neighbours in a segment, unless they were
            // deduplicated.
            let same = |ahead: &&mut Ahead| ahead.number == location.segment;
            match wanted.iter_mut().rev().take(4).find(same) {
                Some(ahead) => ahead.blocks.push((block, location)),
                None => wanted.push(Ahead {
                    index: Arc::clone(&index),
                    number: location.segment,
                    blocks: vec![(block, location)],
                }),
            }
        }
        self.shared.ask(wanted);
    }
}

impl Drop for SegmentCache {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.asked.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn loaded(&self) -> Loaded {
        self.loaded
            .read()
            .expect("no panic under this lock")
            .clone()
    }

    /// Reloads the index, unless another thread has done so since `seen`; `None` if a reload a
    /// moment ago did not help.
    fn reload(&self, seen: &Loaded) -> Result<Option<Arc<Index>>> {
        let mut loaded = self.loaded.write().expect("no panic under this lock");
        if !Arc::ptr_eq(&loaded.index, &seen.index) {
            return Ok(Some(Arc::clone(&loaded.index)));
        }
        let a_moment_ago = |again: Instant| again.elapsed() < RELOAD_PAUSE;
        if !loaded.outdated && loaded.again.is_some_and(a_moment_ago) {
            return Ok(None);
        }
        *loaded = Loaded {
            index: Arc::new(self.repository.load_index()?),
            again: Some(Instant::now()),
            outdated: false,
        };
        Ok(Some(Arc::clone(&loaded.index)))
    }

    fn append(
        &self,
        index: &Arc<Index>,
        block: Id,
        len: u32,
        part: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let location = index.find(&block)?.ok_or(Error::MissingBlock(block))?;
        let read = |location: BlockLocation| {
            if location.len != len {
                let block = format!("block {block}");
                return Err(Error::damaged(block, "it has another length"));
            }
            let (segment, was_there) = self.segment(index, location.segment)?;
            if !was_there {
                self.go_on_in_pack(index, location.segment)?;
            }
            self.check(&segment, &[(block, location)])?;
            Ok(segment)
        };
        let (segment, location) = match read(location) {
            Ok(segment) => (segment, location),
            // The block may have a second place.
            Err(error) => index
                .places(&block)?
                .into_iter()
                .filter(|place| *place != location)
                .find_map(|place| Some((read(place).ok()?, place)))
                .ok_or(error)?,
        };
        let start = location.offset as usize;
        out.extend_from_slice(&segment.raw[start + part.start..start + part.end]);
        Ok(())
    }

    /// Returns a decoded segment, and whether it was cached. Waits if another thread is decoding
    /// it.
    fn segment(&self, index: &Index, number: u32) -> Result<(Arc<Segment>, bool)> {
        let place = place(index, number)?;
        let mut state = self.lock();
        loop {
            state.clock += 1;
            let now = state.clock;
            match state.slots.get_mut(&place) {
                Some(Slot::Decoded { segment, used }) => {
                    *used = now;
                    return Ok((Arc::clone(segment), true));
                }
                Some(Slot::Decoding) => {
                    state = self.decoded.wait(state).expect("no panic under this lock");
                }
                None => break,
            }
        }
        state.slots.insert(place, Slot::Decoding);
        drop(state);
        let idle = lock(&self.readers).pop();
        let mut reader = idle.unwrap_or_else(|| BlockReader::new(&self.repository));
        let raw = reader.read_segment(index, number);
        lock(&self.readers).push(reader);
        let mut state = self.lock();
        let result = match raw {
            Ok(raw) => Ok((state.keep(place, raw, self.limit), false)),
            Err(error) => {
                state.slots.remove(&place);
                Err(error)
            }
        };
        drop(state);
        self.decoded.notify_all();
        result
    }

    /// Decodes the next segments ahead if the segment before this one was read too: the reader then
    /// follows the pack's order.
    fn go_on_in_pack(&self, index: &Arc<Index>, mut number: u32) -> Result<()> {
        let (pack, at, is_verified) = place(index, number)?;
        let before = (pack, at.wrapping_sub(1), is_verified);
        let in_order = at > 0 && self.lock().slots.contains_key(&before);
        let mut wanted = Vec::new();
        while in_order
            && wanted.len() < AHEAD_IN_PACK
            && let Some(next) = index.following(number)?
        {
            number = next;
            wanted.push(Ahead {
                index: Arc::clone(index),
                number,
                blocks: Vec::new(),
            });
        }
        self.ask(wanted);
        Ok(())
    }

    /// Compares unchecked blocks with their digests, side by side.
    fn check(&self, segment: &Segment, blocks: &[(Id, BlockLocation)]) -> Result<()> {
        let mut unchecked = blocks.to_vec();
        {
            let checked = lock(&segment.checked);
            let is_checked =
                |&(id, at): &(Id, BlockLocation)| checked.contains(&(id, at.offset, at.len));
            unchecked.retain(|block| !is_checked(block));
        }
        if unchecked.is_empty() {
            return Ok(());
        }
        let messages: Vec<&[u8]> = unchecked
            .iter()
            .map(|(block, location)| {
                let short = || Error::damaged(format!("block {block}"), "its segment is too short");
                segment.part(location).ok_or_else(short)
            })
            .collect::<Result<_>>()?;
        let digests = self.repository.config().hash.digest_many(&messages);
        for ((block, location), digest) in unchecked.iter().zip(&digests) {
            if !self.repository.is_block(block, digest) {
                return Err(Error::damaged(
                    format!("block {block}"),
                    "its bytes do not match its digest",
                ));
            }
            lock(&segment.checked).insert((*block, location.offset, location.len));
        }
        Ok(())
    }

    fn ask(&self, wanted: Vec<Ahead>) {
        let mut state = self.lock();
        for ahead in wanted {
            let Ok(place) = place(&ahead.index, ahead.number) else {
                continue;
            };
            let queued = |other: &Ahead| {
                ahead.number == other.number && Arc::ptr_eq(&ahead.index, &other.index)
            };
            if state.slots.contains_key(&place) || state.ahead.iter().any(queued) {
                continue;
            }
            if state.ahead.len() == QUEUED_SEGMENTS {
                state.ahead.pop_front();
            }
            state.ahead.push_back(ahead);
            self.asked.notify_one();
        }
    }

    /// Decodes announced segments until the cache is dropped.
    fn decode_ahead(&self) {
        let mut state = self.lock();
        while !state.closed {
            let Some(ahead) = state.ahead.pop_front() else {
                state = self.asked.wait(state).expect("no panic under this lock");
                continue;
            };
            let there = place(&ahead.index, ahead.number)
                .is_ok_and(|place| state.slots.contains_key(&place));
            drop(state);
            if !there {
                // Errors are ignored: the reader that needs the segment meets the same error.
                let _ = self
                    .segment(&ahead.index, ahead.number)
                    .and_then(|(segment, _)| self.check(&segment, &ahead.blocks));
            }
            state = self.lock();
        }
    }
}

impl State {
    /// Puts a segment into its slot, and makes room for it.
    fn keep(&mut self, place: Place, raw: Vec<u8>, limit: usize) -> Arc<Segment> {
        self.held += raw.len();
        while self.held > limit {
            let oldest = self
                .slots
                .iter()
                .filter_map(|(place, slot)| match slot {
                    Slot::Decoded { used, .. } => Some((*used, *place)),
                    Slot::Decoding => None,
                })
                .min();
            let Some((_, oldest)) = oldest else { break };
            if let Some(Slot::Decoded { segment, .. }) = self.slots.remove(&oldest) {
                self.held -= segment.raw.len();
            }
        }
        let segment = Arc::new(Segment {
            raw,
            checked: Mutex::default(),
        });
        self.clock += 1;
        let slot = Slot::Decoded {
            segment: Arc::clone(&segment),
            used: self.clock,
        };
        self.slots.insert(place, slot);
        segment
    }
}

fn place(index: &Index, number: u32) -> Result<Place> {
    let segment = index.segment(number)?;
    let pack = index.pack(segment.pack)?.id;
    Ok((pack, segment.number, index.is_verified(number)?))
}

/// Whether a newer index may lead to the block.
fn may_be_elsewhere(error: &Error) -> bool {
    match error {
        Error::MissingBlock(_) => true,
        Error::Storage { source, .. } => source.kind() == StorageErrorKind::NotFound,
        _ => false,
    }
}
