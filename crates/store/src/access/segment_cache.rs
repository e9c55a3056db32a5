//! A cache of decoded segments for many readers, which also decodes ahead.

use std::collections::{HashMap, HashSet, VecDeque, hash_map};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, lock};
use tabane_format::entry::{Entry, Piece};
use tabane_format::tree;
use tabane_format::{Error, Result};
use tabane_index::{BlockLocation, Index};
use tabane_storage::{Id, StorageErrorKind};

/// Segments that may wait to be decoded ahead; beyond this number the oldest requests are dropped.
const QUEUED_SEGMENTS: usize = 64;

/// Segments that are decoded ahead when a pack is read in its order.
const AHEAD_IN_PACK: usize = 4;

/// The most segments that a thread decodes at a time: together their blocks, about four each, fill
/// the lanes of a digest.
const DECODED_TOGETHER_MAX: usize = 4;

/// Time before the index is reloaded again for a block that it lacks.
const RELOAD_PAUSE: Duration = Duration::from_secs(5);

/// Reads blocks for any number of threads, and keeps decoded segments for later reads.
///
/// Memory is bounded. The cache's threads, one a processor, decode segments that readers announce,
/// some at a time, and compare the announced blocks with their digests, all side by side. Any other
/// block is compared when it is first read out of a decoded segment. If the index lacks a block or
/// its pack has vanished, since another client wrote or pruned, the index is reloaded once.
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
    /// A thread is decoding the segment, and may check its blocks.
    Decoding,
    Decoded {
        segment: Arc<Segment>,
        used: u64,
    },
}

struct Segment {
    raw: Vec<u8>,
    checked: Mutex<Checked>,
}

/// Blocks of a segment that were compared with their digests, with offset and length. Write-only
/// keys may say different things of one segment.
type Checked = HashSet<(Id, u32, u32)>;

/// The bytes of a block in a segment, if that is so long.
fn part<'a>(raw: &'a [u8], location: &BlockLocation) -> Option<&'a [u8]> {
    let start = location.offset as usize;
    raw.get(start..start + location.len as usize)
}

/// A segment to decode ahead, and its announced blocks.
struct Ahead {
    place: Place,
    index: Arc<Index>,
    number: u32,
    blocks: HashMap<Id, BlockLocation>,
}

impl Ahead {
    fn new(index: &Arc<Index>, number: u32) -> Result<Self> {
        Ok(Self {
            place: place(index, number)?,
            index: Arc::clone(index),
            number,
            blocks: HashMap::new(),
        })
    }
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
        let count = thread::available_parallelism().map_or(1, |count| count.get());
        let threads = (0..count).map(|number| {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
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

    /// Fills `out` with the bytes of a block from `start` on if its segment is decoded: that waits
    /// for nothing but a digest. Returns whether it did; [`SegmentCache::append`] says why not.
    pub fn copy_decoded(&self, block: Id, len: u32, start: usize, out: &mut [u8]) -> bool {
        let index = self.shared.loaded().index;
        let Ok(Some(location)) = index.find(&block) else {
            return false;
        };
        let Ok(Some(segment)) = self.shared.decoded(&index, location.segment) else {
            return false;
        };
        if location.len != len || self.shared.check(&segment, block, location).is_err() {
            return false;
        }
        let start = location.offset as usize + start;
        out.copy_from_slice(&segment.raw[start..start + out.len()]);
        true
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

    /// Whether the index has two blocks in one segment.
    pub fn are_in_one_segment(&self, block: Id, other: Id) -> bool {
        let index = self.shared.loaded().index;
        let segment = |block| index.find(block).ok().flatten().map(|found| found.segment);
        segment(&block).is_some_and(|found| segment(&other) == Some(found))
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
            if let Some(ahead) = wanted.iter_mut().rev().take(4).find(same) {
                ahead.blocks.insert(block, location);
            } else if let Ok(mut ahead) = Ahead::new(&index, location.segment) {
                ahead.blocks.insert(block, location);
                wanted.push(ahead);
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
            self.check(&segment, block, location)?;
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

    /// A segment, if it is decoded.
    fn decoded(&self, index: &Index, number: u32) -> Result<Option<Arc<Segment>>> {
        Ok(self.lock().decoded(&place(index, number)?))
    }

    /// Returns a decoded segment, and whether it was cached. Waits if another thread is decoding
    /// it.
    fn segment(&self, index: &Index, number: u32) -> Result<(Arc<Segment>, bool)> {
        let place = place(index, number)?;
        let mut state = self.lock();
        while state.slots.contains_key(&place) {
            if let Some(segment) = state.decoded(&place) {
                return Ok((segment, true));
            }
            state = self.decoded.wait(state).expect("no panic under this lock");
        }
        state.slots.insert(place, Slot::Decoding);
        drop(state);
        let raw = self.decode(&[place], || {
            self.with_reader(|reader| reader.read_segment(index, number))
        });
        let result = self.lock().end(place, raw, Checked::new(), self.limit);
        self.decoded.notify_all();
        Ok((result?, false))
    }

    /// Runs `decode`. If that panics, empties the slots of the segments that it was to decode, for
    /// which others wait.
    fn decode<R>(&self, places: &[Place], decode: impl FnOnce() -> R) -> R {
        catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
            let mut state = self.lock();
            for place in places {
                state.slots.remove(place);
            }
            drop(state);
            self.decoded.notify_all();
            resume_unwind(panic)
        })
    }

    fn with_reader<R>(&self, read: impl FnOnce(&mut BlockReader) -> R) -> R {
        let idle = lock(&self.readers).pop();
        let mut reader = idle.unwrap_or_else(|| BlockReader::new(&self.repository));
        let result = read(&mut reader);
        lock(&self.readers).push(reader);
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
            wanted.push(Ahead::new(index, number)?);
        }
        self.ask(wanted);
        Ok(())
    }

    /// Compares a block with its digest, unless that was done.
    fn check(&self, segment: &Segment, block: Id, location: BlockLocation) -> Result<()> {
        let key = (block, location.offset, location.len);
        if lock(&segment.checked).contains(&key) {
            return Ok(());
        }
        let damaged = |what| Error::damaged(format!("block {block}"), what);
        let bytes =
            part(&segment.raw, &location).ok_or_else(|| damaged("its segment is too short"))?;
        let digest = self.repository.config().hash.digest(bytes);
        if !self.repository.is_block(&block, &digest) {
            return Err(damaged("its bytes do not match its digest"));
        }
        lock(&segment.checked).insert(key);
        Ok(())
    }

    fn ask(&self, wanted: Vec<Ahead>) {
        let mut state = self.lock();
        for ahead in wanted {
            if state.slots.contains_key(&ahead.place) {
                continue;
            }
            let queued = |other: &&mut Ahead| {
                ahead.number == other.number && Arc::ptr_eq(&ahead.index, &other.index)
            };
            if let Some(other) = state.ahead.iter_mut().find(queued) {
                other.blocks.extend(ahead.blocks);
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
            let taken = state.take();
            if taken.is_empty() {
                state = self.asked.wait(state).expect("no panic under this lock");
                continue;
            }
            drop(state);
            let places: Vec<Place> = taken.iter().map(|ahead| ahead.place).collect();
            self.decode(&places, || self.decode_together(taken));
            state = self.lock();
        }
    }

    /// Decodes segments of one index, and compares all their announced blocks side by side. Errors
    /// are ignored: the reader that needs the segment or the block meets the same error.
    fn decode_together(&self, segments: Vec<Ahead>) {
        let index = &segments[0].index;
        let numbers: Vec<u32> = segments.iter().map(|segment| segment.number).collect();
        let read = self.with_reader(|reader| {
            // One request for all saves time where the storage is far; elsewhere a segment is
            // decoded while its bytes are in the processor's cache. Directories come alone, and if
            // they are far, out of their windows.
            if numbers.len() > 1 && self.repository.is_far() {
                reader.read_segments(index, &numbers)
            } else {
                let read = |&number| reader.read_segment(index, number);
                numbers.iter().map(read).collect()
            }
        });
        let (mut announced, mut messages) = (Vec::new(), Vec::new());
        for (at, (segment, raw)) in segments.iter().zip(&read).enumerate() {
            let raw = raw.as_ref().map_or(&[][..], |raw| raw);
            for (block, location) in &segment.blocks {
                if let Some(bytes) = part(raw, location) {
                    announced.push((at, block, location));
                    messages.push(bytes);
                }
            }
        }
        let digests = self.repository.config().hash.digest_many(&messages);
        let mut checked = vec![Checked::new(); segments.len()];
        for ((at, block, location), digest) in announced.into_iter().zip(&digests) {
            if self.repository.is_block(block, digest) {
                checked[at].insert((*block, location.offset, location.len));
            }
        }
        let mut state = self.lock();
        for ((segment, raw), checked) in segments.iter().zip(read).zip(checked) {
            let _ = state.end(segment.place, raw, checked, self.limit);
        }
        drop(state);
        self.decoded.notify_all();
    }
}

impl State {
    /// A segment, if it is decoded; it counts as used.
    fn decoded(&mut self, place: &Place) -> Option<Arc<Segment>> {
        let Slot::Decoded { segment, used } = self.slots.get_mut(place)? else {
            return None;
        };
        self.clock += 1;
        *used = self.clock;
        Some(Arc::clone(segment))
    }

    /// Takes the next segments to decode together; none if none waits.
    fn take(&mut self) -> Vec<Ahead> {
        let mut taken: Vec<Ahead> = Vec::new();
        // Without announced blocks there is nothing to digest together.
        let fits = |next: &Ahead, taken: &[Ahead]| {
            taken.first().is_none_or(|first| {
                taken.len() < DECODED_TOGETHER_MAX
                    && Arc::ptr_eq(&first.index, &next.index)
                    && !first.blocks.is_empty()
                    && !next.blocks.is_empty()
            })
        };
        while let Some(next) = self.ahead.pop_front_if(|next| fits(next, &taken)) {
            if let hash_map::Entry::Vacant(slot) = self.slots.entry(next.place) {
                slot.insert(Slot::Decoding);
                taken.push(next);
            }
        }
        taken
    }

    /// Ends the decoding of a segment: puts it into its slot and makes room for it, or empties the
    /// slot.
    ///
    /// # Errors
    /// That of `raw`.
    fn end(
        &mut self,
        place: Place,
        raw: Result<Vec<u8>>,
        checked: Checked,
        limit: usize,
    ) -> Result<Arc<Segment>> {
        let raw = raw.inspect_err(|_| {
            self.slots.remove(&place);
        })?;
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
            checked: Mutex::new(checked),
        });
        self.clock += 1;
        let slot = Slot::Decoded {
            segment: Arc::clone(&segment),
            used: self.clock,
        };
        self.slots.insert(place, slot);
        Ok(segment)
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
