//! A run: the contents of some index objects in a file of the cache, from which a lookup reads one
//! page.
//!
//! A *table* has eight bytes for each block: bits 8 to 40 of its ID and its number, sorted by ID.
//! It is cut into *buckets* by the first bits of the ID, whose parts are about equal since IDs are
//! hashes. A bucket is read at its first lookup and stays in memory, so that later lookups of
//! missing blocks read nothing. For a match, the block's record is read and its whole ID compared.
//! Records are in the order of packs, since neighbours are looked up together.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::contents::{Codec, PackKind};
use crate::entries::{BlockLocation, PackEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::pages::{PageFile, PageKeys, Record, Section};
use tabane_storage::{ID_LEN, Id};

/// A pack, with where its segments and blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackRecord {
    pub id: Id,
    /// Of its contents: others may be said to be in the same pack.
    pub fingerprint: u64,
    pub salt: [u8; 32],
    pub len: u64,
    pub first_segment: u32,
    pub segments: u32,
    pub first_block: u32,
    pub blocks: u32,
    /// The number of a [`PackKind`].
    pub kind: u8,
}

/// A block, with the number of its segment.
#[derive(Clone, Copy, Debug)]
pub struct BlockRecord {
    pub id: Id,
    pub place: BlockLocation,
}

/// A place in the table: bits 8 to 40 of an ID, and the number of the block.
#[derive(Clone, Copy, Debug)]
pub struct TableEntry {
    pub key: u32,
    pub block: u32,
}

/// Says that an index object names a pack; both are numbers.
#[derive(Clone, Copy, Debug)]
pub struct Naming {
    pub source: u32,
    pub pack: u32,
}

/// What a run ends with.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Footer {
    /// By ID.
    pub packs: Section,
    /// By pack, then as in it.
    pub segments: Section,
    /// By pack, then as in it.
    pub blocks: Section,
    /// By key, for each first byte of an ID.
    pub table: Section,
    /// For each bucket the number of entries before it; at the end the number of all entries.
    pub starts: Section,
    /// Bits of an ID that choose its bucket: [`BUCKET_BITS_MIN`] to [`BUCKET_BITS_MAX`].
    pub bucket_bits: u32,
    /// IDs of the index objects.
    pub sources: Section,
    /// The packs that each index object names.
    pub namings: Section,
}

/// The fewest bits of an ID that choose its bucket.
pub const BUCKET_BITS_MIN: u32 = 8;

/// The most bits of an ID that choose its bucket.
pub const BUCKET_BITS_MAX: u32 = 24;

/// Bits 8 to 40 of an ID, as in [`TableEntry::key`].
pub fn key(id: &Id) -> u32 {
    u32::from_be_bytes([id.0[1], id.0[2], id.0[3], id.0[4]])
}

/// The bucket of an ID.
pub fn bucket(first: u8, key: u32, bits: u32) -> usize {
    let prefix = u32::from(first) << 24 | key >> 8;
    (prefix >> (32 - bits)) as usize
}

/// An open run.
pub struct Run {
    path: PathBuf,
    pages: PageFile,
    footer: Footer,
    starts: Vec<u32>,
    sources: Vec<Id>,
    buckets: Box<[OnceLock<Box<[TableEntry]>>]>,
    /// Packs that no current index object names, sorted.
    unnamed: Vec<u32>,
    /// Blocks of excluded packs, sorted.
    excluded: Vec<Range<u32>>,
    excluded_blocks: u32,
}

impl Run {
    /// Opens a run. Reads little of it.
    ///
    /// # Errors
    /// When it cannot be read; [`io::ErrorKind::InvalidData`] when it is damaged or of another
    /// repository.
    pub fn open(path: &Path, keys: &dyn PageKeys) -> io::Result<Self> {
        Self::of_file(File::open(path)?, path, keys)
    }

    /// As [`Run::open`], for a file that is open already.
    pub fn of_file(file: File, path: &Path, keys: &dyn PageKeys) -> io::Result<Self> {
        let (pages, footer) = PageFile::open(file, keys)?;
        let (footer, _) = postcard::take_from_bytes::<Footer>(&footer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let all = |section: Section| 0..section.count;
        let starts: Vec<u32> = pages
            .records(&footer.starts, all(footer.starts))
            .collect::<io::Result<_>>()?;
        let buckets = match footer.bucket_bits {
            BUCKET_BITS_MIN..=BUCKET_BITS_MAX => 1 << footer.bucket_bits,
            _ => 0,
        };
        if starts.len() != buckets + 1 {
            let text = "its buckets are not those that it says it has";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let sources = pages
            .records(&footer.sources, all(footer.sources))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            path: path.to_owned(),
            pages,
            footer,
            buckets: (0..buckets).map(|_| OnceLock::new()).collect(),
            starts,
            sources,
            unnamed: Vec::new(),
            excluded: Vec::new(),
            excluded_blocks: 0,
        })
    }

    /// Path of the run's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// IDs of the index objects whose contents this run holds completely.
    pub fn sources(&self) -> &[Id] {
        &self.sources
    }

    /// Sizes and positions of the run's sections.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Number of blocks without those of excluded packs; a block in several packs counts several
    /// times.
    pub fn len(&self) -> u32 {
        self.footer
            .blocks
            .count
            .saturating_sub(self.excluded_blocks)
    }

    /// The first place of a block.
    pub fn find(&self, id: &Id) -> Result<Option<BlockLocation>> {
        self.places(id)?.next().transpose()
    }

    /// All places of a block.
    pub fn places(&self, id: &Id) -> Result<impl Iterator<Item = Result<BlockLocation>>> {
        let entries = self.matches(id)?;
        Ok(
            entries.filter_map(move |entry| match self.block(entry.block) {
                Ok(record) if record.id == *id => Some(Ok(record.place)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            }),
        )
    }

    /// Table entries with the key of this ID, without blocks of excluded packs.
    fn matches(&self, id: &Id) -> Result<impl Iterator<Item = &TableEntry> + Clone> {
        let key = key(id);
        let number = bucket(id.0[0], key, self.footer.bucket_bits);
        let entries = self.bucket(number)?;
        // Keys are spread evenly, so the key lies within a few entries of this guess.
        let rest = key << (self.footer.bucket_bits - 8);
        let guess = ((entries.len() as u64 * u64::from(rest)) >> 32) as usize;
        let first = first_from(entries, guess, key);
        let same = entries[first..]
            .iter()
            .take_while(move |entry| entry.key == key);
        Ok(same.filter(move |entry| !self.is_excluded(entry.block)))
    }

    fn bucket(&self, number: usize) -> Result<&[TableEntry]> {
        let bucket = &self.buckets[number];
        if let Some(entries) = bucket.get() {
            return Ok(entries);
        }
        let range = self.starts[number]..self.starts[number + 1];
        let entries: io::Result<Box<[TableEntry]>> =
            self.pages.records(&self.footer.table, range).collect();
        let entries = entries.map_err(|error| self.failed(error))?;
        Ok(bucket.get_or_init(|| entries))
    }

    fn block(&self, number: u32) -> Result<BlockRecord> {
        self.record(&self.footer.blocks, number)
    }

    /// A segment.
    pub fn segment(&self, number: u32) -> Result<SegmentEntry> {
        self.record(&self.footer.segments, number)
    }

    /// A pack.
    pub fn pack(&self, number: u32) -> Result<PackEntry> {
        let record: PackRecord = self.record(&self.footer.packs, number)?;
        Ok(record.into())
    }

    fn record<T: Record>(&self, section: &Section, number: u32) -> Result<T> {
        let read = self.pages.record(section, number);
        read.map_err(|error| self.failed(error))
    }

    /// Number of entries up to the end of this bucket.
    pub fn bucket_end(&self, bucket: u32) -> u32 {
        self.starts[bucket as usize + 1]
    }

    /// The first byte of the IDs of a bucket.
    pub fn first_byte(&self, bucket: u32) -> u8 {
        (bucket >> (self.footer.bucket_bits - 8)) as u8
    }

    /// All records of a section, in order.
    pub fn records<T: Record>(&self, section: &Section) -> impl Seek<T> {
        RunRecords {
            run: self,
            records: self.pages.records(section, 0..section.count),
        }
    }

    /// Blocks that count, in order.
    pub fn blocks(&self) -> impl Iterator<Item = Result<BlockRecord>> {
        let records = self.records::<BlockRecord>(&self.footer.blocks);
        let numbered = (0..).zip(records);
        numbered.filter_map(|(number, record)| (!self.is_excluded(number)).then_some(record))
    }

    /// Whether this block has one place only, so that there is no need to look.
    pub fn is_single(&self, id: &Id) -> Result<bool> {
        Ok(self.matches(id)?.nth(1).is_none())
    }

    /// Lets the blocks of packs not count for which this holds.
    pub fn exclude_packs(&mut self, is_excluded: impl Fn(&PackEntry) -> bool) -> Result<()> {
        for number in 0..self.footer.packs.count {
            let pack: PackRecord = self.record(&self.footer.packs, number)?;
            if is_excluded(&pack.into()) {
                self.exclude(&pack);
            }
        }
        self.sort_excluded();
        Ok(())
    }

    /// Lets those packs not count that no current index object names.
    pub fn exclude_unnamed(&mut self, current: &HashSet<Id>) -> Result<()> {
        let is_current: Vec<bool> = self
            .sources
            .iter()
            .map(|source| current.contains(source))
            .collect();
        let mut named = vec![false; self.footer.packs.count as usize];
        for naming in self.records::<Naming>(&self.footer.namings) {
            let naming = naming?;
            let named = named.get_mut(naming.pack as usize);
            let is_current = is_current.get(naming.source as usize);
            *named.ok_or(Error::CacheDamaged)? |= is_current.ok_or(Error::CacheDamaged)?;
        }
        self.unnamed = (0..self.footer.packs.count)
            .filter(|number| !named[*number as usize])
            .collect();
        for number in self.unnamed.clone() {
            let pack = self.record(&self.footer.packs, number)?;
            self.exclude(&pack);
        }
        self.sort_excluded();
        Ok(())
    }

    /// Whether a current index object names a pack, as far as [`Run::exclude_unnamed`] was told.
    pub fn is_named(&self, pack: u32) -> bool {
        self.unnamed.binary_search(&pack).is_err()
    }

    /// Whether blocks of some packs do not count.
    pub fn has_excluded(&self) -> bool {
        !self.excluded.is_empty()
    }

    fn exclude(&mut self, pack: &PackRecord) {
        if pack.blocks > 0 {
            self.excluded
                .push(pack.first_block..pack.first_block.saturating_add(pack.blocks));
        }
    }

    fn sort_excluded(&mut self) {
        self.excluded.sort_unstable_by_key(|range| range.start);
        self.excluded.dedup();
        let lens = self.excluded.iter().map(|range| range.end - range.start);
        self.excluded_blocks = lens.fold(0, u32::saturating_add);
    }

    fn is_excluded(&self, block: u32) -> bool {
        let behind = self.excluded.partition_point(|range| range.end <= block);
        self.excluded
            .get(behind)
            .is_some_and(|range| range.start <= block)
    }

    /// The segments of a pack.
    pub fn segments_of(&self, pack: &Id) -> Result<Option<Range<u32>>> {
        let found = self.find_packs(pack)?;
        // They are neighbours, as the packs are.
        Ok(found.first().zip(found.last()).map(|(first, last)| {
            first.first_segment..last.first_segment.saturating_add(last.segments)
        }))
    }

    /// What is said of a pack: once, if nobody lies.
    fn find_packs(&self, id: &Id) -> Result<Vec<PackRecord>> {
        let (mut low, mut high) = (0, self.footer.packs.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let pack: PackRecord = self.record(&self.footer.packs, middle)?;
            if pack.id < *id {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let mut found = Vec::new();
        for number in low..self.footer.packs.count {
            let pack: PackRecord = self.record(&self.footer.packs, number)?;
            if pack.id != *id {
                break;
            }
            found.push(pack);
        }
        Ok(found)
    }

    /// What a failed read means: a damaged run goes, so that the next one to come makes another.
    pub fn failed(&self, error: io::Error) -> Error {
        if is_damage(&error) {
            let _ = fs::remove_file(&self.path);
        }
        Error::Cache {
            path: self.path.display().to_string(),
            source: error,
        }
    }
}

/// The first entry that is not before `key`, looked for from `guess` on, which is near: so most
/// searches stay within one or two lines of the processor's cache.
fn first_from(entries: &[TableEntry], guess: usize, key: u32) -> usize {
    const NEAR_ENTRIES: usize = 64;
    let before = entries[..guess].iter().rev().take(NEAR_ENTRIES);
    let mut at = guess - before.take_while(|entry| entry.key >= key).count();
    if at == guess {
        let behind = entries[guess..].iter().take(NEAR_ENTRIES);
        at += behind.take_while(|entry| entry.key < key).count();
    }
    // Not near, since IDs are not always as random as they should be.
    let is_first = at == 0 || entries[at - 1].key < key;
    if is_first && entries.get(at).is_none_or(|entry| entry.key >= key) {
        at
    } else {
        entries.partition_point(|entry| entry.key < key)
    }
}

/// Whether an error says that a file of the cache is damaged.
pub fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

/// An iterator that can go elsewhere.
pub trait Seek<T>: Iterator<Item = Result<T>> {
    /// Goes on with this record.
    fn seek(&mut self, number: u32);
}

struct RunRecords<'a, T> {
    run: &'a Run,
    records: super::pages::Records<'a, T>,
}

impl<T: Record> Iterator for RunRecords<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let next = self.records.next()?;
        Some(next.map_err(|error| self.run.failed(error)))
    }
}

impl<T: Record> Seek<T> for RunRecords<'_, T> {
    fn seek(&mut self, number: u32) {
        self.records.seek(number);
    }
}

impl From<PackRecord> for PackEntry {
    fn from(record: PackRecord) -> Self {
        Self {
            id: record.id,
            salt: record.salt,
            kind: match record.kind {
                0 => PackKind::Data,
                1 => PackKind::Tree,
                2 => PackKind::WriterData,
                _ => PackKind::WriterTree,
            },
            len: record.len,
        }
    }
}

/// Numbers one behind the other, little-endian.
fn put(out: &mut [u8], numbers: &[u32]) {
    for (bytes, number) in out.chunks_exact_mut(4).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

/// Undoes [`put`].
fn get<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let (numbers, _) = bytes.as_chunks();
    std::array::from_fn(|at| u32::from_le_bytes(numbers[at]))
}

/// Reads an ID, and what is behind it.
fn split_id(bytes: &[u8]) -> (Id, &[u8]) {
    let (id, rest) = bytes.split_first_chunk().expect("a record has an ID");
    (Id(*id), rest)
}

impl Record for u32 {
    const LEN: usize = 4;

    fn encode(&self, out: &mut [u8]) {
        put(out, &[*self]);
    }

    fn decode(bytes: &[u8]) -> Self {
        let [number] = get(bytes);
        number
    }
}

impl Record for Id {
    const LEN: usize = ID_LEN;

    fn encode(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Self {
        split_id(bytes).0
    }
}

impl Record for Naming {
    const LEN: usize = 8;

    fn encode(&self, out: &mut [u8]) {
        put(out, &[self.source, self.pack]);
    }

    fn decode(bytes: &[u8]) -> Self {
        let [source, pack] = get(bytes);
        Self { source, pack }
    }
}

impl Record for TableEntry {
    const LEN: usize = 8;

    fn encode(&self, out: &mut [u8]) {
        put(out, &[self.key, self.block]);
    }

    fn decode(bytes: &[u8]) -> Self {
        let [key, block] = get(bytes);
        Self { key, block }
    }
}

impl Record for BlockRecord {
    const LEN: usize = ID_LEN + 12;

    fn encode(&self, out: &mut [u8]) {
        let BlockLocation {
            segment,
            offset,
            len,
        } = self.place;
        out[..ID_LEN].copy_from_slice(&self.id.0);
        put(&mut out[ID_LEN..], &[segment, offset, len]);
    }

    fn decode(bytes: &[u8]) -> Self {
        let (id, rest) = split_id(bytes);
        let [segment, offset, len] = get(rest);
        let place = BlockLocation {
            segment,
            offset,
            len,
        };
        Self { id, place }
    }
}

impl Record for SegmentEntry {
    const LEN: usize = 21;

    fn encode(&self, out: &mut [u8]) {
        let lens = [self.offset, self.stored_len, self.raw_len];
        put(&mut out[..8], &[self.pack, self.number]);
        put(&mut out[8..20], &lens);
        out[20] = u8::from(self.codec == Codec::Zstd);
    }

    fn decode(bytes: &[u8]) -> Self {
        let [pack, number, offset, stored_len, raw_len] = get(bytes);
        let codec = match bytes[20] {
            0 => Codec::Stored,
            _ => Codec::Zstd,
        };
        Self {
            pack,
            number,
            offset,
            stored_len,
            raw_len,
            codec,
        }
    }
}

impl Record for PackRecord {
    const LEN: usize = ID_LEN + 32 + 8 + 16 + 1 + 8;

    fn encode(&self, out: &mut [u8]) {
        out[..32].copy_from_slice(&self.id.0);
        out[32..64].copy_from_slice(&self.salt);
        out[64..72].copy_from_slice(&self.len.to_le_bytes());
        let numbers = [
            self.first_segment,
            self.segments,
            self.first_block,
            self.blocks,
        ];
        put(&mut out[72..88], &numbers);
        out[88] = self.kind;
        out[89..].copy_from_slice(&self.fingerprint.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let (id, rest) = split_id(bytes);
        let (Id(salt), rest) = split_id(rest);
        let (len, rest) = rest.split_first_chunk().expect("a record has a length");
        let [first_segment, segments, first_block, blocks] = get(rest);
        Self {
            id,
            salt,
            len: u64::from_le_bytes(*len),
            first_segment,
            segments,
            first_block,
            blocks,
            kind: bytes[88],
            fingerprint: u64::from_le_bytes(*bytes.last_chunk().expect("a record ends with it")),
        }
    }
}
