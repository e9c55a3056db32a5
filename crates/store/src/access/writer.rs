//! Writes blocks into packs, each block once.
//!
//! Every worker has its own [`Encoder`] and fills its own packs; all share a [`Writer`], which
//! knows the stored blocks, writes finished packs in the background and indexes them once they are
//! durable.
//!
//! A writer may have further repositories that name blocks alike. A block is then compressed once,
//! together with others that the same repositories lack, and sealed for each of these.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tabane_engine::Digest;

use crate::access::examine::{Checksum, Examiner};
use crate::access::known_blocks::KnownBlocks;
use crate::access::reader::BlockReader;
use crate::access::removal;
use crate::access::repository::Repository;
use crate::access::uploads::{Failure, Uploads};
use tabane_format::compress::{Compression, Compressor};
use tabane_format::entry::{Entry, Piece};
use tabane_format::pack::{
    BlockKind, Codec, PACK_BLOCKS_MAX, PACK_LEN, PACKS_PER_INDEX, PackContents, PackKind,
    PackWriter, SEGMENT_LEN,
};
use tabane_format::tree;
use tabane_format::{Error, Result};
use tabane_index::{Index, IndexSegment};
use tabane_storage::Id;
use tabane_storage::object_id;
use tabane_storage::sync::{both, lock};
use tabane_storage::{Name, ObjectKind};

use crate::access::buffers::Buffers;

/// The most packs that wait to be written: more would only hold memory.
const WAITING_PACKS_MAX: usize = 2;

/// The most packs that are written at a time: more would only hold memory.
const UPLOADS_MAX: usize = 6;

/// Blocks that wait for an index object at most: each takes 36 bytes of memory.
const UNINDEXED_BLOCKS_MAX: usize = 128 << 10;

/// Blocks of this run whose places are kept in memory, rather than in the local cache, and take
/// some 100 bytes each.
const BLOCKS_IN_MEMORY_MAX: usize = 128 << 10;

/// An index object is written at the latest when a pack has waited this long: over a slow line, a
/// backup may write few packs before it is interrupted.
const INDEX_EVERY: Duration = Duration::from_secs(60);

/// The most repositories of a writer.
pub const REPOSITORIES_MAX: usize = u32::BITS as usize;

/// An encoder has at most this many open segments, of half a megabyte each: with more repositories
/// than three, the sets of those that lack a block may be many.
const OPEN_SEGMENTS_MAX: usize = 16;

/// State shared by all encoders of a run.
pub struct Writer {
    /// One for each repository.
    uploaders: Vec<Uploader>,
}

/// Writes the packs of one repository.
struct Uploader {
    shared: Arc<Shared>,
    /// Nothing in a dry run.
    uploads: Option<Uploads<FinishedPack>>,
}

/// Some repositories of a writer: a bit for each.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Repositories(u32);

struct Shared {
    repository: Repository,
    dry_run: bool,
    blocks: KnownBlocks,
    unindexed: Mutex<Unindexed>,
    /// Packs that were handed over to be written, and that no index object names yet.
    handed_over: AtomicUsize,
    /// Index objects of this run that are not in the local cache; `None` if there is none.
    indexed: Mutex<Option<Indexed>>,
    failure: Failure<Error>,
    counters: Counters,
    /// Bytes of packs.
    buffers: Buffers,
    /// Stored blocks, new ones and others; nothing unless it was asked for.
    used: Mutex<Option<HashSet<Id>>>,
}

#[derive(Default)]
struct Counters {
    added_bytes: AtomicU64,
    duplicate_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    blocks_new: AtomicU64,
    blocks_duplicate: AtomicU64,
}

/// Index objects with what they say.
#[derive(Default)]
struct Indexed {
    objects: Vec<(Id, IndexSegment)>,
    blocks: usize,
}

/// Packs that no index object names yet.
#[derive(Default)]
struct Unindexed {
    packs: Vec<(Id, PackContents)>,
    blocks: usize,
    /// Time at which the first of these packs was stored.
    since: Option<Instant>,
}

impl Unindexed {
    fn is_due(&self) -> bool {
        let waited = self.since.map(|since| since.elapsed());
        self.packs.len() >= PACKS_PER_INDEX
            || self.blocks >= UNINDEXED_BLOCKS_MAX
            || waited.is_some_and(|time| time >= INDEX_EVERY)
    }
}

/// Packs of this process that it cannot count on.
#[derive(Default, PartialEq, Eq)]
struct Removed {
    /// They are gone.
    gone: HashSet<Id>,
    /// They exist, and a removal names them.
    condemned: HashSet<Id>,
}

/// Counts of a [`Writer`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Bytes of new blocks.
    pub added_bytes: u64,
    /// Bytes of files' blocks that the repository had already.
    pub duplicate_bytes: u64,
    /// Bytes of the packs with the new blocks.
    pub stored_bytes: u64,
    /// New blocks.
    pub blocks_new: u64,
    /// Blocks that the repository had already.
    pub blocks_duplicate: u64,
}

/// Bundles, compresses and packs the new blocks of one worker.
pub struct Encoder {
    kind: BlockKind,
    compressor: Compressor,
    /// Open segments, of which no two take the same blocks.
    open: Vec<OpenSegment>,
    /// One for each repository.
    packers: Vec<Packer>,
    /// Reads packs back before they are stored; `None` without verification.
    verifier: Option<Examiner>,
}

/// Fills the packs of an encoder for one repository.
struct Packer {
    shared: Arc<Shared>,
    uploads: Option<SyncSender<FinishedPack>>,
    pack: Option<PackWriter>,
    /// Of the pack's encoded segments; none without verification.
    digests: Vec<Digest>,
    reader: BlockReader,
}

/// A pack that waits to be written.
struct FinishedPack {
    bytes: Vec<u8>,
    contents: PackContents,
}

struct OpenSegment {
    /// The repositories that lack the blocks.
    lacking: Repositories,
    /// Whether the blocks are worth compressing.
    compress: bool,
    raw: Vec<u8>,
    blocks: Vec<(Id, u32)>,
    /// Of the blocks as they came in; of none without verification.
    checksum: Checksum,
}

impl Writer {
    /// A writer into `repository`, whose blocks are in `index`. With `dry_run` it only counts.
    pub fn new(repository: &Repository, index: Index, dry_run: bool) -> Self {
        Self {
            uploaders: vec![Uploader::new(repository, index, dry_run)],
        }
    }

    /// Writes into a further repository, too, which must name blocks as the first one does. If it
    /// fails, the others go on.
    pub fn also(mut self, repository: &Repository, index: Index) -> Self {
        let dry_run = self.first().dry_run;
        let uploader = Uploader::new(repository, index, dry_run);
        self.uploaders.push(uploader);
        self
    }

    fn first(&self) -> &Shared {
        &self.uploaders[0].shared
    }

    /// An encoder for blocks of one kind.
    pub fn encoder(&self, kind: BlockKind, compression: Compression) -> Encoder {
        let packer = |uploader: &Uploader| Packer {
            shared: Arc::clone(&uploader.shared),
            uploads: uploader.uploads.as_ref().map(Uploads::queue),
            pack: None,
            digests: Vec::new(),
            reader: BlockReader::new(&uploader.shared.repository),
        };
        Encoder {
            kind,
            compressor: Compressor::new(compression),
            open: Vec::new(),
            packers: self.uploaders.iter().map(packer).collect(),
            verifier: Some(Examiner::default()),
        }
    }

    /// Whether all these blocks are stored, in every repository, in packs that no removal names.
    pub fn has_all(&self, blocks: impl IntoIterator<Item = Id, IntoIter: Clone>) -> bool {
        let blocks = blocks.into_iter();
        let mut uploaders = self.uploaders.iter();
        uploaders.all(|uploader| uploader.shared.has_all(blocks.clone()))
    }

    /// The packs of each repository in which known blocks were found: none unless its new objects
    /// are locked.
    pub fn used_packs(&self) -> Vec<HashSet<Id>> {
        let uploaders = self.uploaders.iter();
        uploaders
            .map(|uploader| uploader.shared.blocks.used_packs())
            .collect()
    }

    /// Runs `read` with the index of the first repository as it is now.
    pub fn with_index<T>(&self, read: impl FnOnce(&Index) -> T) -> T {
        read(&self.first().blocks.index())
    }

    /// From now on, remembers the blocks that are stored or were there already.
    pub fn record_used(&self) {
        lock(&self.first().used).get_or_insert_default();
    }

    /// The blocks that were remembered.
    pub fn take_used(&self) -> HashSet<Id> {
        lock(&self.first().used).take().unwrap_or_default()
    }

    /// Waits until all packs are durable and indexed. All encoders must have been flushed and
    /// dropped.
    ///
    /// # Errors
    /// The first failure of any encoder or upload.
    pub fn finish(self) -> Result<Written> {
        self.finish_each().swap_remove(0)
    }

    /// As [`Writer::finish`], with a result for each repository.
    pub fn finish_each(self) -> Vec<Result<Written>> {
        let finished = self.uploaders.into_iter().map(Uploader::finish);
        finished.collect()
    }
}

impl Uploader {
    fn new(repository: &Repository, index: Index, dry_run: bool) -> Self {
        let mut blocks = KnownBlocks::new(index, repository.config().hash, dry_run);
        if repository.storage().lock().is_some() {
            // Their locks are to be extended.
            blocks = blocks.note_packs();
        }
        let shared = Arc::new(Shared {
            repository: repository.clone(),
            dry_run,
            blocks,
            unindexed: Mutex::default(),
            handed_over: AtomicUsize::new(0),
            indexed: Mutex::new(repository.has_cache().then(Indexed::default)),
            failure: Failure::default(),
            counters: Counters::default(),
            buffers: Buffers::default(),
            used: Mutex::default(),
        });
        let uploads = (!dry_run).then(|| {
            let at_once = repository.storage().connections().min(UPLOADS_MAX);
            let shared = Arc::clone(&shared);
            Uploads::start(at_once, WAITING_PACKS_MAX, move |pack| {
                shared.failure.attempt(|| shared.upload(pack));
            })
        });
        Self { shared, uploads }
    }

    fn finish(self) -> Result<Written> {
        let Self { shared, uploads } = self;
        let wait = || {
            if let Some(uploads) = uploads {
                uploads.finish();
            }
        };
        let is_far = shared.repository.is_far();
        let looked = if is_far && shared.handed_over.load(Ordering::Relaxed) > 0 {
            let (looked, ()) = both(true, || shared.look(), wait);
            Some(looked)
        } else {
            wait();
            None
        };
        if let Some(error) = shared.failure.take() {
            return Err(error);
        }
        shared.write_index(looked)?;
        if let Some(indexed) = lock(&shared.indexed).take().filter(|_| is_far) {
            shared.repository.cache_index(indexed.objects);
        }
        Ok(shared.written())
    }
}

impl Repositories {
    fn insert(&mut self, number: usize) {
        self.0 |= 1 << number;
    }

    fn contains(self, number: usize) -> bool {
        self.0 & 1 << number != 0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Shared {
    fn written(&self) -> Written {
        let counters = &self.counters;
        Written {
            added_bytes: counters.added_bytes.load(Ordering::Relaxed),
            duplicate_bytes: counters.duplicate_bytes.load(Ordering::Relaxed),
            stored_bytes: counters.stored_bytes.load(Ordering::Relaxed),
            blocks_new: counters.blocks_new.load(Ordering::Relaxed),
            blocks_duplicate: counters.blocks_duplicate.load(Ordering::Relaxed),
        }
    }

    /// Whether all these blocks are stored in packs that no removal names, or need not be, since
    /// the repository has failed.
    fn has_all(&self, blocks: impl Iterator<Item = Id>) -> bool {
        self.failure.has_failed() || self.blocks.has_all(blocks)
    }

    fn upload(&self, FinishedPack { bytes, contents }: FinishedPack) -> Result<()> {
        let id = object_id(&[&bytes]);
        let name = Name::new(ObjectKind::Pack, id);
        // model: removal/writer/put-pack
        let storage = self.repository.storage();
        // Directories are read by every backup.
        let put = match contents.kind.blocks() {
            BlockKind::Data => storage.put_cold(name, &[&bytes]),
            BlockKind::Tree => storage.put(name, &[&bytes]),
        };
        put.map_err(Error::storage("write", name))?;
        // A write-only key does not read what it has written.
        if contents.kind == PackKind::Tree {
            self.repository.nearby().keep_pack(id, &bytes, &contents);
        }
        let stored = &self.counters.stored_bytes;
        stored.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.buffers.give(bytes);
        self.blocks.stored(id, &contents)?;
        let is_due = {
            let mut unindexed = lock(&self.unindexed);
            unindexed.blocks += blocks_of(&contents);
            unindexed.packs.push((id, contents));
            unindexed.since.get_or_insert_with(Instant::now);
            unindexed.is_due()
        };
        if is_due {
            self.write_index(None)
        } else {
            Ok(())
        }
    }

    /// Whether no packs were condemned since the index was loaded.
    fn is_known(&self) -> Result<bool> {
        let known = self.blocks.index().removals().clone();
        // model: removal/writer/list-removals
        Ok(removal::names(&self.repository)? == known)
    }

    /// As [`Shared::is_known`]. Fails if the repository is gone.
    fn look(&self) -> Result<bool> {
        let repository = &self.repository;
        let is_there = || repository.verify_presence();
        let (is_known, is_there) = both(repository.is_far(), || self.is_known(), is_there);
        // An index object in another repository at the same place could not be opened there.
        is_there?;
        is_known
    }

    /// Writes an index object if packs wait for one. `looked` is what [`Shared::look`] said a
    /// moment ago.
    ///
    /// # Errors
    /// [`Error::RemovedMeanwhile`] when some of these packs are condemned or deleted: an index
    /// object would promise lost blocks.
    fn write_index(&self, looked: Option<Result<bool>>) -> Result<()> {
        let mut waiting = std::mem::take(&mut *lock(&self.unindexed)).packs;
        self.handed_over.fetch_sub(waiting.len(), Ordering::Relaxed);
        if waiting.is_empty() {
            return Ok(());
        }
        let is_known = looked.unwrap_or_else(|| self.look())?;
        if !is_known && self.look_for(&waiting)? != Removed::default() {
            return Err(Error::RemovedMeanwhile);
        }
        // model: removal/writer/put-index
        let object = self.repository.put_index_segment(&waiting)?;
        let removed = if self.is_known()? {
            Removed::default()
        } else {
            self.look_for(&waiting)?
        };
        if removed == Removed::default() {
            return self.note_indexed(object.id, waiting);
        }
        // Another client may rely already on packs that exist, condemned or not, so an index object
        // must go on naming them. No client relies on a pack that is gone: the prune that deleted
        // it had looked at everything that snapshots need.
        if !removed.gone.is_empty() {
            waiting.retain(|(pack, _)| !removed.gone.contains(pack));
            if !waiting.is_empty() {
                // model: removal/writer/put-rest
                self.repository.write_index_segment(&waiting)?;
            }
            // model: removal/writer/delete-index
            self.repository.delete_if_there(object)?;
        }
        Err(Error::RemovedMeanwhile)
    }

    /// Keeps what an index object says for the local cache, and moves it there when it is much.
    fn note_indexed(&self, object: Id, packs: IndexSegment) -> Result<()> {
        let mut indexed = lock(&self.indexed);
        let Some(noted) = indexed.as_mut() else {
            return Ok(());
        };
        noted.blocks += packs
            .iter()
            .map(|(_, contents)| blocks_of(contents))
            .sum::<usize>();
        noted.objects.push((object, packs));
        if noted.blocks < BLOCKS_IN_MEMORY_MAX {
            return Ok(());
        }
        let objects = std::mem::take(noted).objects;
        self.repository
            .fold_index(&mut self.blocks.index_mut(), objects)
    }

    /// The unindexed packs that a prune has condemned or deleted. A prune does so when it takes
    /// this process for dead, after a long stop.
    fn look_for(&self, packs: &[(Id, PackContents)]) -> Result<Removed> {
        let repository = &self.repository;
        // Read before the packs are listed: a removal outlives the packs that it names.
        // model: removal/writer/read-removals
        let condemned = repository.read_removals()?.condemned();
        let mut removed = Removed::default();
        for (pack, _) in packs {
            // model: removal/writer/find-pack
            if !repository.has(Name::new(ObjectKind::Pack, *pack))? {
                removed.gone.insert(*pack);
            } else if condemned.contains(pack) {
                removed.condemned.insert(*pack);
            }
        }
        Ok(removed)
    }
}

fn blocks_of(contents: &PackContents) -> usize {
    let segments = contents.segments.iter();
    segments.map(|segment| segment.blocks.len()).sum()
}

/// Packs the remaining blocks of several encoders together.
///
/// # Errors
/// As [`Encoder::flush`].
pub fn flush(encoders: Vec<Encoder>) -> Result<()> {
    let mut encoders = encoders.into_iter();
    let Some(mut first) = encoders.next() else {
        return Ok(());
    };
    for encoder in encoders {
        first.absorb(encoder)?;
    }
    first.flush()
}

impl Encoder {
    fn first(&self) -> &Shared {
        &self.packers[0].shared
    }

    /// Stores new blocks; returns all blocks as pieces of a content.
    ///
    /// # Errors
    /// When this or any other part of the run has failed.
    pub fn store(&mut self, blocks: &[&[u8]], digests: Vec<Digest>) -> Result<Vec<Piece>> {
        let claimed = self.claim(blocks, &digests)?;
        if let Some(used) = lock(&self.first().used).as_mut() {
            used.extend(claimed.iter().map(|(id, _)| id));
        }
        for (number, packer) in self.packers.iter().enumerate() {
            let (mut new, mut added, mut duplicate) = (0, 0, 0);
            for (block, (_, lacking)) in blocks.iter().zip(&claimed) {
                if lacking.contains(number) {
                    new += 1;
                    added += block.len() as u64;
                } else if self.kind == BlockKind::Data {
                    duplicate += block.len() as u64;
                }
            }
            let count = |counter: &AtomicU64, by| counter.fetch_add(by, Ordering::Relaxed);
            let counters = &packer.shared.counters;
            count(&counters.added_bytes, added);
            count(&counters.duplicate_bytes, duplicate);
            count(&counters.blocks_new, new);
            count(&counters.blocks_duplicate, claimed.len() as u64 - new);
        }
        let mut pieces = Vec::with_capacity(blocks.len());
        for (block, (id, lacking)) in blocks.iter().zip(claimed) {
            let len = block.len() as u32;
            pieces.push(Piece::Block { id, len });
            self.add(id, block, lacking)?;
        }
        Ok(pieces)
    }

    /// For each block its ID, and the repositories for which this encoder is the one to store it.
    fn claim(&mut self, blocks: &[&[u8]], digests: &[Digest]) -> Result<Vec<(Id, Repositories)>> {
        let mut claimed: Vec<(Id, Repositories)> = Vec::new();
        for (number, packer) in self.packers.iter_mut().enumerate() {
            if number > 0 && packer.shared.failure.has_failed() {
                continue;
            }
            let shared = &packer.shared;
            let claims = match shared.blocks.claim(blocks, digests, &mut packer.reader) {
                Err(error) if number > 0 => {
                    shared.failure.note(error);
                    continue;
                }
                claims => claims?,
            };
            claimed.resize(claims.len(), Default::default());
            for ((id, lacking), (found, is_new)) in claimed.iter_mut().zip(claims) {
                *id = found;
                if is_new {
                    lacking.insert(number);
                }
            }
        }
        Ok(claimed)
    }

    /// Cuts a directory into blocks and stores those that are new.
    ///
    /// # Errors
    /// As [`Encoder::store`].
    pub fn store_directory(&mut self, entries: &[Entry]) -> Result<Vec<Piece>> {
        let repository = &self.first().repository;
        let bytes = tree::encode(entries);
        let mut rest = bytes.as_slice();
        let blocks: Vec<&[u8]> = repository
            .chunker()
            .blocks(&bytes, true)
            .map(|len| {
                let (block, behind) = rest.split_at(len);
                rest = behind;
                block
            })
            .collect();
        let digests = repository.config().hash.digest_many(&blocks);
        self.store(&blocks, digests)
    }

    /// Stores a block under its ID, unless this run has stored it.
    ///
    /// # Errors
    /// As [`Encoder::store`].
    pub fn copy(&mut self, id: Id, block: &[u8]) -> Result<()> {
        let mut lacking = Repositories::default();
        for (number, Packer { shared, .. }) in self.packers.iter().enumerate() {
            if shared.blocks.claim_copy(id)? {
                lacking.insert(number);
            }
        }
        self.add(id, block, lacking)
    }

    /// Adds a block to the packs of the repositories that lack it.
    fn add(&mut self, id: Id, block: &[u8], lacking: Repositories) -> Result<()> {
        if lacking.is_empty() {
            return Ok(());
        }
        let compress = self.compressor.wants(block);
        let at = self.open_segment(lacking, compress)?;
        let segment = &mut self.open[at];
        if self.verifier.is_some() {
            segment.checksum.add(block);
        }
        segment.raw.extend_from_slice(block);
        segment.blocks.push((id, block.len() as u32));
        if segment.raw.len() >= SEGMENT_LEN {
            self.close_segment(at)?;
        }
        Ok(())
    }

    /// The number of the open segment that takes such blocks.
    fn open_segment(&mut self, lacking: Repositories, compress: bool) -> Result<usize> {
        let takes = |open: &OpenSegment| open.lacking == lacking && open.compress == compress;
        if let Some(at) = self.open.iter().position(takes) {
            return Ok(at);
        }
        if self.open.len() == OPEN_SEGMENTS_MAX {
            let len = |&at: &usize| self.open[at].raw.len();
            let longest = (0..self.open.len()).max_by_key(len).expect("some are open");
            self.close_segment(longest)?;
            self.open.swap_remove(longest);
        }
        self.open.push(OpenSegment::new(lacking, compress));
        Ok(self.open.len() - 1)
    }

    fn close_segment(&mut self, at: usize) -> Result<()> {
        let segment = &mut self.open[at];
        if segment.blocks.is_empty() {
            return Ok(());
        }
        let (codec, encoded) = if segment.compress {
            self.compressor.encode(&segment.raw)
        } else {
            (Codec::Stored, segment.raw.as_slice())
        };
        let blocks = std::mem::take(&mut segment.blocks);
        let checksum = std::mem::take(&mut segment.checksum);
        let numbers = (0..self.packers.len()).filter(|&number| segment.lacking.contains(number));
        let numbers: Vec<usize> = numbers.collect();
        let mut digest = None;
        if let Some(verifier) = &mut self.verifier {
            let verified = verifier.verify_segment(codec, encoded, segment.raw.len(), &checksum);
            digest = Some(verified.map_err(|why| Error::NotReadBack { why })?);
        }
        for &number in &numbers {
            self.packers[number].push(self.kind, codec, encoded, blocks.clone(), digest);
        }
        segment.raw.clear();
        for number in numbers {
            if self.packers[number].is_full() {
                self.upload(number)?;
            }
        }
        Ok(())
    }

    /// Hands the open pack of a repository, if any, to the threads that write.
    fn upload(&mut self, number: usize) -> Result<()> {
        let packer = &mut self.packers[number];
        let shared = &packer.shared;
        let digests = std::mem::take(&mut packer.digests);
        let pack = packer.pack.take();
        if shared.failure.has_failed() {
            if number > 0 {
                return Ok(());
            }
            // The failed part has recorded its error; this one only ends the run.
            return Err(Error::Interrupted("another part of the run has failed"));
        }
        let Some(pack) = pack else {
            return Ok(());
        };
        let key = pack.key().clone();
        let (bytes, contents) = pack.finish();
        let Some(uploads) = &packer.uploads else {
            // A dry run.
            let stored = &shared.counters.stored_bytes;
            stored.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            shared.buffers.give(bytes);
            return Ok(());
        };
        if let Some(verifier) = &mut self.verifier {
            verifier
                .verify_pack(&key, &bytes, &contents, &digests)
                .map_err(|why| Error::NotReadBack { why })?;
        }
        let pack = FinishedPack { bytes, contents };
        shared.handed_over.fetch_add(1, Ordering::Relaxed);
        uploads.send(pack).expect("uploads are taken until the end");
        Ok(())
    }

    fn upload_all(&mut self) -> Result<()> {
        (0..self.packers.len()).try_for_each(|number| self.upload(number))
    }

    /// Stores packs without reading them back. By default each pack is first decrypted,
    /// decompressed and hashed again, which catches flipped bits in memory and errors of the
    /// processor since the first hash.
    pub fn without_verification(mut self) -> Self {
        self.verifier = None;
        self
    }

    /// Takes over the open segments of another encoder, so that a small run makes few packs.
    ///
    /// # Errors
    /// As [`Encoder::store`].
    pub fn absorb(&mut self, mut other: Self) -> Result<()> {
        for segment in &other.open {
            if self.verifier.is_some() && !segment.checksum.fits(&segment.raw) {
                let why = "an open segment does not match its checksum".to_owned();
                return Err(Error::NotReadBack { why });
            }
            let mut rest = segment.raw.as_slice();
            for &(id, len) in &segment.blocks {
                let (block, behind) = rest.split_at(len as usize);
                self.add(id, block, segment.lacking)?;
                rest = behind;
            }
        }
        other.upload_all()
    }

    /// Packs and uploads all remaining blocks.
    ///
    /// # Errors
    /// As [`Encoder::store`].
    pub fn flush(mut self) -> Result<()> {
        for at in 0..self.open.len() {
            self.close_segment(at)?;
        }
        self.upload_all()
    }

    /// Ends the run with an error, which [`Writer::finish`] returns.
    pub fn fail(&self, error: Error) {
        self.first().failure.note(error);
    }

    /// Whether the run has failed.
    pub fn has_failed(&self) -> bool {
        self.first().failure.has_failed()
    }
}

impl Packer {
    fn push(
        &mut self,
        kind: BlockKind,
        codec: Codec,
        encoded: &[u8],
        blocks: Vec<(Id, u32)>,
        digest: Option<Digest>,
    ) {
        let shared = &self.shared;
        let pack = self.pack.get_or_insert_with(|| {
            PackWriter::new(shared.repository.keys(), kind, shared.buffers.take())
        });
        pack.push(codec, encoded, blocks);
        self.digests.extend(digest);
    }

    fn is_full(&self) -> bool {
        let full = |pack: &PackWriter| pack.len() >= PACK_LEN || pack.blocks() >= PACK_BLOCKS_MAX;
        self.pack.as_ref().is_some_and(full)
    }
}

impl OpenSegment {
    fn new(lacking: Repositories, compress: bool) -> Self {
        Self {
            lacking,
            compress,
            raw: Vec::new(),
            blocks: Vec::new(),
            checksum: Checksum::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::access::repository::InitOptions;
    use tabane_format::key::{KdfCost, Password};
    use tabane_storage::{LocalStorage, Storage};

    fn init(place: &Path) -> (Arc<LocalStorage>, Repository) {
        let storage = Arc::new(LocalStorage::new(place.join("repository")));
        let options = InitOptions {
            kdf_cost: KdfCost::WEAKEST,
            ..InitOptions::default()
        };
        let password: Password = b"password".to_vec().into();
        let repository = Repository::init(storage.clone(), &password, options).unwrap();
        (storage, repository)
    }

    /// Stores a few blocks that `fault` damages before they are encoded; returns the run's result
    /// and the number of packs.
    fn store_with(
        compression: Compression,
        fault: impl FnOnce(&mut Encoder),
        verify: bool,
    ) -> (Result<Written>, usize) {
        let dir = tempfile::tempdir().unwrap();
        let (storage, repository) = init(dir.path());
        let writer = Writer::new(&repository, Index::default(), false);
        let mut encoder = writer.encoder(BlockKind::Data, compression);
        if !verify {
            encoder = encoder.without_verification();
        }
        let blocks = [b"some text ".repeat(9000), b"other text".repeat(5000)];
        let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        let digests = repository.config().hash.digest_many(&blocks);
        encoder.store(&blocks, digests).unwrap();
        fault(&mut encoder);
        let flushed = encoder.flush();
        let written = writer.finish();
        let packs = storage.list(ObjectKind::Pack).unwrap().len();
        (flushed.and(written), packs)
    }

    #[test]
    fn a_bit_that_flips_after_hashing_is_found_before_anything_is_stored() {
        for compression in [Compression::AUTO, Compression::Off] {
            let flip = |encoder: &mut Encoder| {
                let is_compressed = compression != Compression::Off;
                let mut open = encoder.open.iter_mut();
                let segment = open.find(|segment| segment.compress == is_compressed);
                segment.expect("it has the blocks").raw[100_000] ^= 4;
            };
            let (error, packs) = store_with(compression, flip, true);
            let error = error.unwrap_err();
            assert!(matches!(error, Error::NotReadBack { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("does not match its checksum") && text.contains("memory"),
                "{text}"
            );
            assert_eq!(packs, 0);
            // Proves the test: without verification the damage goes unnoticed.
            let (written, packs) = store_with(compression, flip, false);
            assert!(written.is_ok() && packs == 1);
        }
        let (written, packs) = store_with(Compression::AUTO, |_| (), true);
        assert!(written.is_ok() && packs == 1);
    }

    #[test]
    fn a_run_with_many_blocks_names_packs_before_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (storage, repository) = init(dir.path());
        let writer = Writer::new(&repository, Index::default(), false);
        let mut encoder = writer.encoder(BlockKind::Data, Compression::Off);
        let numbers: Vec<_> = (0..2 * UNINDEXED_BLOCKS_MAX + 1)
            .map(usize::to_le_bytes)
            .collect();
        let store_all = |encoder: &mut Encoder| {
            for bundle in numbers.chunks(1024) {
                let bundle: Vec<&[u8]> = bundle.iter().map(|number| &number[..]).collect();
                let digests = repository.config().hash.digest_many(&bundle);
                encoder.store(&bundle, digests).unwrap();
            }
        };
        store_all(&mut encoder);
        // They are known wherever they are named.
        store_all(&mut encoder);
        encoder.flush().unwrap();
        let written = writer.finish().unwrap();
        let counts = [written.blocks_new, written.blocks_duplicate];
        assert_eq!(counts, [numbers.len() as u64; 2]);
        let objects = storage.list(ObjectKind::Index).unwrap().len();
        assert!(objects > 1, "all packs are named at the end");
    }

    #[test]
    fn a_flip_anywhere_in_a_finished_pack_is_found() {
        let compression = Compression::AUTO;
        let mut pack = None;
        let steal = |encoder: &mut Encoder| {
            (0..encoder.open.len()).for_each(|at| encoder.close_segment(at).unwrap());
            let packer = &mut encoder.packers[0];
            let digests = std::mem::take(&mut packer.digests);
            let taken = packer.pack.take();
            pack = taken.map(|pack| (pack.key().clone(), pack.finish(), digests));
        };
        store_with(compression, steal, true).0.unwrap();
        let (key, (mut bytes, contents), digests) = pack.expect("there was an open segment");
        let mut examiner = Examiner::default();
        let mut test = |bytes: &[u8]| examiner.verify_pack(&key, bytes, &contents, &digests);
        test(&bytes).unwrap();
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(test(&bytes).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
    }
}
