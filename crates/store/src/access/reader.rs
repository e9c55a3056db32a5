//! Reads blocks out of packs.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use tabane_engine::Pool;

use crate::access::nearby::Window;
use crate::access::repository::Repository;
use tabane_format::entry::{Entry, Piece};
use tabane_format::pack::{Codec, SegmentReader, open_stored};
use tabane_format::tree;
use tabane_format::{Error, Result};
use tabane_index::{BlockKind, BlockLocation, Index};
use tabane_storage::Id;
use tabane_storage::{Name, ObjectKind};

/// Number of workers that read: one a processor, or one a connection of the storage if it allows
/// more.
pub(crate) fn workers(repository: &Repository) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    processors.max(repository.storage().connections())
}

/// A pool with this [number](workers) of workers.
pub(crate) fn pool<W: Send + 'static>(
    repository: &Repository,
    state: impl FnMut() -> W,
) -> Pool<W> {
    let workers = workers(repository);
    Pool::new(
        std::iter::repeat_with(state).take(workers).collect(),
        workers,
    )
}

/// Whether segment `b` begins where segment `a` of the same pack ends.
fn are_neighbours(index: &Index, a: u32, b: u32) -> bool {
    let (Ok(a), Ok(b)) = (index.segment(a), index.segment(b)) else {
        return false;
    };
    a.pack == b.pack && a.offset.checked_add(a.stored_len) == Some(b.offset)
}

/// The windows of the pack that has this segment, all of them or only one, with their ranges in the
/// pack.
fn windows(
    index: &Index,
    number: u32,
    only: Option<Window>,
) -> Result<BTreeMap<Window, Range<u32>>> {
    let segment = index.segment(number)?;
    let pack = index.pack(segment.pack)?.id;
    let mut windows = BTreeMap::new();
    // Segments of a pack have consecutive numbers.
    let mut next = number.checked_sub(segment.number);
    while let Some(number) = next {
        let segment = index.segment(number)?;
        let window = Window::of(pack, segment.offset);
        let end = segment.offset + segment.stored_len;
        if only.is_none_or(|only| only == window) {
            let range = windows.entry(window).or_insert(segment.offset..end);
            range.end = end;
        }
        next = index.following(number)?;
    }
    Ok(windows)
}

fn fetch_window(repository: &Repository, window: Window, range: Range<u32>) -> Result<Arc<[u8]>> {
    repository.nearby().window(window, || {
        let name = Name::new(ObjectKind::Pack, window.pack);
        let range = u64::from(range.start)..u64::from(range.end);
        let read = repository.storage().get(name, Some(range));
        read.map_err(Error::storage("read", name))
    })
}

fn read_window_ahead(repository: &Repository, window: Window, range: Range<u32>) {
    let repository = repository.clone();
    // Whoever needs the window meets the same error, or reads it without a thread.
    let _ = std::thread::Builder::new()
        .name("window ahead".to_owned())
        .spawn(move || drop(fetch_window(&repository, window, range)));
}

/// Decoded segments kept by a reader: the next blocks are usually neighbours.
const CACHED_SEGMENTS: usize = 16;

/// A decoded segment: its pack, its number there, and whether what was said of it is verified.
/// Something else may be said of the same segment, so that it decodes to other bytes.
type Cached = (Id, u32, bool);

/// Reads blocks, one caller at a time; make one for each thread.
pub struct BlockReader {
    repository: Repository,
    segments: SegmentReader,
    /// Decoded segments, the latest used at the back.
    cache: VecDeque<(Cached, Arc<[u8]>)>,
    /// All directories of a tree are wanted, not only some.
    is_of_trees: bool,
}

impl BlockReader {
    /// A reader with an empty cache.
    pub fn new(repository: &Repository) -> Self {
        Self {
            repository: repository.clone(),
            segments: SegmentReader::default(),
            cache: VecDeque::new(),
            is_of_trees: false,
        }
    }

    /// A reader of whole trees: where the storage is far, it reads directories ahead.
    pub fn of_trees(repository: &Repository) -> Self {
        Self {
            is_of_trees: true,
            ..Self::new(repository)
        }
    }

    /// Reads segments, bypassing the cache. Neighbours in a pack are read by one request, since
    /// requests to remote storages are slow. The results are in the order of `numbers`.
    pub fn read_segments(&mut self, index: &Index, numbers: &[u32]) -> Vec<Result<Vec<u8>>> {
        let mut read = Vec::with_capacity(numbers.len());
        for run in numbers.chunk_by(|&a, &b| are_neighbours(index, a, b)) {
            match self.read_run(index, run) {
                Ok(segments) => read.extend(segments),
                // Some of the segments may be intact.
                Err(_) if run.len() > 1 => {
                    read.extend(run.iter().map(|&number| self.read_segment(index, number)));
                }
                Err(error) => read.push(Err(error)),
            }
        }
        read
    }

    /// Reads a segment, bypassing the cache of decoded segments.
    ///
    /// # Errors
    /// When the storage fails or the segment is damaged.
    pub fn read_segment(&mut self, index: &Index, number: u32) -> Result<Vec<u8>> {
        if self.repository.is_far()
            && index.pack(index.segment(number)?.pack)?.kind.blocks() == BlockKind::Tree
            && let Some(segment) = self.read_in_window(index, number)?
        {
            return Ok(segment);
        }
        self.read_run(index, &[number])?
            .pop()
            .expect("one result for each number")
    }

    /// Reads a segment of directories out of its window; `None` if what was kept of the window is
    /// damaged.
    fn read_in_window(&mut self, index: &Index, number: u32) -> Result<Option<Vec<u8>>> {
        let segment = index.segment(number)?;
        let pack = index.pack(segment.pack)?;
        let window = Window::of(pack.id, segment.offset);
        let nearby = self.repository.nearby();
        let only = (!nearby.begins_ahead(window, self.is_of_trees)).then_some(window);
        let windows = windows(index, number, only)?;
        let range = windows[&window].clone();
        for (other, range) in windows {
            if other != window && !nearby.is_at_hand(other) {
                read_window_ahead(&self.repository, other, range);
            }
        }
        let start = range.start;
        let key = self.repository.pack_key(&pack, None)?;
        let bytes = fetch_window(&self.repository, window, range)?;
        let from = (segment.offset - start) as usize;
        let sealed = bytes.get(from..from + segment.stored_len as usize);
        let opened = sealed.map(|sealed| {
            let (place, raw_len) = (segment.number as usize, segment.raw_len as usize);
            let what = || Name::new(ObjectKind::Pack, pack.id).to_string();
            self.segments
                .open(&key, place, segment.codec, raw_len, sealed, what)
        });
        match opened {
            Some(Ok(raw)) => Ok(Some(raw)),
            _ => {
                nearby.drop_window(window);
                Ok(None)
            }
        }
    }

    /// Reads contiguous segments of a pack.
    fn read_run(&mut self, index: &Index, numbers: &[u32]) -> Result<Vec<Result<Vec<u8>>>> {
        let segments = numbers.iter().map(|&number| index.segment(number));
        let segments = segments.collect::<tabane_index::Result<Vec<_>>>()?;
        let (first, last) = (&segments[0], &segments[segments.len() - 1]);
        let pack = index.pack(first.pack)?;
        let name = Name::new(ObjectKind::Pack, pack.id);
        let end = u64::from(last.offset) + u64::from(last.stored_len);
        // The key of a writer's pack is in front of its first segment: then one read gets both.
        let is_at_head = first.offset as usize == pack.kind.head_len();
        let wants_head = pack.kind.is_of_writer()
            && is_at_head
            && self.repository.known_pack_key(pack.id).is_none();
        let from = if wants_head {
            0
        } else {
            u64::from(first.offset)
        };
        let mut sealed = self
            .repository
            .storage()
            .get(name, Some(from..end))
            .map_err(Error::storage("read", name))?;
        let key = self
            .repository
            .pack_key(&pack, wants_head.then_some(&sealed[..]))?;
        if wants_head {
            sealed.drain(..pack.kind.head_len());
        }
        let start = u64::from(first.offset);
        let reader = &mut self.segments;
        let mut open = |mut rest: &[u8]| -> Vec<Result<Vec<u8>>> {
            let opened = segments.iter().map(|segment| {
                let (part, behind) = rest.split_at(segment.stored_len as usize);
                rest = behind;
                let (number, raw_len) = (segment.number as usize, segment.raw_len as usize);
                reader.open(&key, number, segment.codec, raw_len, part, || {
                    name.to_string()
                })
            });
            opened.collect()
        };
        let mut opened = match segments[..] {
            // The buffer of its own is the result.
            [only] if only.codec == Codec::Stored => {
                let (number, raw_len) = (only.number as usize, only.raw_len as usize);
                vec![open_stored(&key, number, raw_len, sealed, || {
                    name.to_string()
                })]
            }
            _ => open(&sealed),
        };
        if opened.iter().any(Result::is_err) {
            // Targets of a set may have changed the bytes: compute them from other targets.
            self.repository
                .storage()
                .get_otherwise(name, start..end, &mut |sealed| {
                    let other = open(sealed);
                    let is_right = other.iter().all(Result::is_ok);
                    if is_right {
                        opened = other;
                    }
                    is_right
                });
        }
        Ok(opened)
    }

    /// Reads a segment, through the cache.
    fn cached_segment(
        &mut self,
        index: &Index,
        number: u32,
        is_verified: bool,
    ) -> Result<Arc<[u8]>> {
        let segment = index.segment(number)?;
        let wanted: Cached = (index.pack(segment.pack)?.id, segment.number, is_verified);
        let found = self.cache.iter().position(|(cached, _)| *cached == wanted);
        let entry = match found.and_then(|at| self.cache.remove(at)) {
            Some(entry) => entry,
            None => {
                let raw = self.read_segment(index, number)?;
                if self.cache.len() == CACHED_SEGMENTS {
                    self.cache.pop_front();
                }
                (wanted, raw.into())
            }
        };
        let raw = Arc::clone(&entry.1);
        self.cache.push_back(entry);
        Ok(raw)
    }

    /// Reads a block and appends it to `out`; if a place is damaged, its other places are tried.
    ///
    /// # Errors
    /// [`Error::MissingBlock`], or when the storage fails or the block is damaged.
    pub fn append_block(&mut self, index: &Index, block: Id, out: &mut Vec<u8>) -> Result<()> {
        let location = index.find(&block)?.ok_or(Error::MissingBlock(block))?;
        let (segment, range) = match self.block_at(index, block, location) {
            Ok(found) => found,
            Err(error) => index
                .places(&block)?
                .into_iter()
                .filter(|place| *place != location)
                .find_map(|place| self.block_at(index, block, place).ok())
                .ok_or(error)?,
        };
        out.extend_from_slice(&segment[range]);
        Ok(())
    }

    /// The segment of a place of a block, and where the block is in it. Of a pack that nobody has
    /// verified, or that its writer may have put anew since, the block is compared with its digest.
    fn block_at(
        &mut self,
        index: &Index,
        block: Id,
        place: BlockLocation,
    ) -> Result<(Arc<[u8]>, Range<usize>)> {
        let is_verified = index.is_verified(place.segment)?;
        let segment = self.cached_segment(index, place.segment, is_verified)?;
        let range = place.offset as usize..(place.offset + place.len) as usize;
        if !is_verified || index.pack_of(place)?.kind.is_of_writer() {
            // The segment may have been read by what else is said of the same pack.
            let bytes = segment.get(range.clone()).unwrap_or_default();
            let digest = self.repository.config().hash.digest(bytes);
            if !self.repository.is_block(&block, &digest) || bytes.len() != range.len() {
                let block = format!("block {block}");
                return Err(Error::damaged(block, "its bytes do not match its digest"));
            }
        }
        Ok((segment, range))
    }

    /// Reads a directory.
    ///
    /// # Errors
    /// When the storage fails, a block is missing or damaged.
    pub fn read_directory(&mut self, index: &Index, content: &[Piece]) -> Result<Vec<Entry>> {
        tree::decode(&self.read_content(index, content)?)
    }

    /// Reads a content that has no holes, as that of a directory.
    ///
    /// # Errors
    /// As [`BlockReader::append_block`]; [`Error::Damaged`] when a block has another length than
    /// its piece.
    pub fn read_content(&mut self, index: &Index, content: &[Piece]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in content {
            let Piece::Block { id, len } = *piece else {
                return Err(Error::damaged("a directory", "it has a hole"));
            };
            let start = bytes.len();
            self.append_block(index, id, &mut bytes)?;
            if bytes.len() - start != len as usize {
                return Err(Error::damaged(
                    format!("block {id}"),
                    "it has another length",
                ));
            }
        }
        Ok(bytes)
    }
}
