//! Writes a run from index objects, other runs, or both.
//!
//! Input and output are sequential, so memory holds only a few numbers a pack.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io;

use crate::contents::{IndexSegment, PackContents};
use crate::entries::{BlockLocation, SegmentEntry};
use crate::error::{Error, Result};
use crate::pages::{PageKeys, PageWriter};
use crate::run::{
    BUCKET_BITS_MAX, BUCKET_BITS_MIN, BlockRecord, Footer, Naming, PackRecord, Run, Seek,
    TableEntry, bucket, key,
};
use tabane_storage::Id;

/// Approximate entries of a bucket: few enough to be read for a single lookup, many enough to make
/// buckets few.
const BUCKET_ENTRIES: u32 = 256;

/// The result of reading runs and writing one.
pub type Merged<T> = std::result::Result<T, Failure>;

/// Failures of writing a run.
#[derive(Debug)]
pub enum Failure {
    /// The input cannot be read.
    Read(Error),
    /// The cache cannot be written.
    Write(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Input of a merge.
pub trait Input {
    /// Index objects, current or not.
    fn sources(&self) -> &[Id];

    /// Packs by ID.
    fn packs(&self) -> Box<dyn Iterator<Item = Result<PackRecord>> + '_>;

    /// Whether the pack with this number counts.
    fn counts(&self, pack: u32) -> bool;

    /// Segments of all packs.
    fn segments(&self) -> Box<dyn Seek<SegmentEntry> + '_>;

    /// Blocks of all packs.
    fn blocks(&self) -> Box<dyn Seek<BlockRecord> + '_>;

    /// The first 40 bits of the ID of each block, and its number; sorted.
    fn table(&self) -> Box<dyn Iterator<Item = Result<(u64, u32)>> + '_>;

    /// Pairs of an index object and a pack that it names.
    fn namings(&self) -> Box<dyn Iterator<Item = Result<Naming>> + '_>;
}

impl Input for Run {
    fn sources(&self) -> &[Id] {
        Run::sources(self)
    }

    fn packs(&self) -> Box<dyn Iterator<Item = Result<PackRecord>> + '_> {
        Box::new(self.records(&self.footer().packs))
    }

    fn counts(&self, pack: u32) -> bool {
        self.is_named(pack)
    }

    fn segments(&self) -> Box<dyn Seek<SegmentEntry> + '_> {
        Box::new(self.records(&self.footer().segments))
    }

    fn blocks(&self) -> Box<dyn Seek<BlockRecord> + '_> {
        Box::new(self.records(&self.footer().blocks))
    }

    fn table(&self) -> Box<dyn Iterator<Item = Result<(u64, u32)>> + '_> {
        let entries = self.records::<TableEntry>(&self.footer().table);
        let (mut bucket, mut number) = (0, 0);
        Box::new(entries.map(move |entry| {
            let entry = entry?;
            while number >= self.bucket_end(bucket) {
                bucket += 1;
            }
            number += 1;
            let first = u64::from(self.first_byte(bucket));
            Ok((first << 32 | u64::from(entry.key), entry.block))
        }))
    }

    fn namings(&self) -> Box<dyn Iterator<Item = Result<Naming>> + '_> {
        Box::new(self.records(&self.footer().namings))
    }
}

/// The contents of some index objects, in memory.
pub struct Batch {
    sources: Vec<Id>,
    packs: Vec<PackRecord>,
    segments: Vec<SegmentEntry>,
    blocks: Vec<BlockRecord>,
    table: Vec<(u64, u32)>,
    namings: Vec<Naming>,
}

impl Batch {
    /// Sorts index objects into a batch.
    ///
    /// # Errors
    /// [`Error::Damaged`] when contents break the limits of the format.
    pub fn new(objects: Vec<(Id, IndexSegment)>) -> Result<Self> {
        let mut sources = Vec::with_capacity(objects.len());
        let mut named: Vec<(Id, u32, PackContents)> = Vec::new();
        for (source, packs) in objects {
            let number = sources.len() as u32;
            sources.push(source);
            named.extend(
                packs
                    .into_iter()
                    .map(|(id, contents)| (id, number, contents)),
            );
        }
        named.sort_by_cached_key(|(id, source, contents)| (*id, contents.fingerprint(), *source));
        let mut batch = Self {
            sources,
            packs: Vec::new(),
            segments: Vec::new(),
            blocks: Vec::new(),
            table: Vec::new(),
            namings: Vec::new(),
        };
        for (id, source, contents) in named {
            let fingerprint = contents.fingerprint();
            let is_same = |last: &PackRecord| (last.id, last.fingerprint) == (id, fingerprint);
            if !batch.packs.last().is_some_and(is_same) {
                batch.add(id, fingerprint, &contents)?;
            }
            let pack = batch.packs.len() as u32 - 1;
            batch.namings.push(Naming { source, pack });
        }
        let keys = batch.blocks.iter().map(|block| first_40_bits(&block.id));
        batch.table = keys.zip(0..).collect();
        batch.table.sort_unstable();
        Ok(batch)
    }

    fn add(&mut self, id: Id, fingerprint: u64, contents: &PackContents) -> Result<()> {
        contents.validate(&format!("the index of pack {}", id.short()))?;
        let (first_segment, first_block) = (self.segments.len() as u32, self.blocks.len() as u32);
        let pack = self.packs.len() as u32;
        let mut offset = contents.kind.head_len() as u32;
        for (number, segment) in contents.segments.iter().enumerate() {
            let place = self.segments.len() as u32;
            self.segments.push(SegmentEntry {
                pack,
                number: number as u32,
                offset,
                stored_len: segment.stored_len,
                raw_len: segment.raw_len() as u32,
                codec: segment.codec,
            });
            offset = offset
                .checked_add(segment.stored_len)
                .ok_or_else(|| Error::damaged(format!("pack {}", id.short()), "it is too long"))?;
            let mut at = 0;
            for &(id, len) in &segment.blocks {
                let place = BlockLocation {
                    segment: place,
                    offset: at,
                    len,
                };
                self.blocks.push(BlockRecord { id, place });
                at += len;
            }
        }
        self.packs.push(PackRecord {
            id,
            fingerprint,
            salt: contents.salt,
            len: contents.object_len(),
            first_segment,
            segments: self.segments.len() as u32 - first_segment,
            first_block,
            blocks: self.blocks.len() as u32 - first_block,
            kind: contents.kind as u8,
        });
        Ok(())
    }

    /// Number of blocks.
    pub fn len(&self) -> u32 {
        self.blocks.len() as u32
    }
}

fn first_40_bits(id: &Id) -> u64 {
    u64::from(id.0[0]) << 32 | u64::from(key(id))
}

impl Input for Batch {
    fn sources(&self) -> &[Id] {
        &self.sources
    }

    fn packs(&self) -> Box<dyn Iterator<Item = Result<PackRecord>> + '_> {
        Box::new(self.packs.iter().copied().map(Ok))
    }

    fn counts(&self, _pack: u32) -> bool {
        true
    }

    fn segments(&self) -> Box<dyn Seek<SegmentEntry> + '_> {
        Box::new(Slice::of(&self.segments))
    }

    fn blocks(&self) -> Box<dyn Seek<BlockRecord> + '_> {
        Box::new(Slice::of(&self.blocks))
    }

    fn table(&self) -> Box<dyn Iterator<Item = Result<(u64, u32)>> + '_> {
        Box::new(self.table.iter().copied().map(Ok))
    }

    fn namings(&self) -> Box<dyn Iterator<Item = Result<Naming>> + '_> {
        Box::new(self.namings.iter().copied().map(Ok))
    }
}

/// Records in memory.
struct Slice<'a, T> {
    all: &'a [T],
    rest: std::slice::Iter<'a, T>,
}

impl<'a, T> Slice<'a, T> {
    fn of(all: &'a [T]) -> Self {
        let rest = all.iter();
        Self { all, rest }
    }
}

impl<T: Copy> Iterator for Slice<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        self.rest.next().copied().map(Ok)
    }
}

impl<T: Copy> Seek<T> for Slice<'_, T> {
    fn seek(&mut self, number: u32) {
        self.rest = self.all[number as usize..].iter();
    }
}

/// A number of something that is left out.
const NONE: u32 = u32::MAX;

/// A pack that is taken over.
struct Kept {
    input: usize,
    old: PackRecord,
    first_segment: u32,
}

/// What becomes of the packs of an input, in their order.
#[derive(Default)]
struct Moved {
    /// The new number of each, or [`NONE`].
    packs: Vec<u32>,
    /// The old number of the first block of each.
    old_blocks: Vec<u32>,
    /// The new one, or [`NONE`].
    new_blocks: Vec<u32>,
}

impl Moved {
    /// The new number of a block, unless it is left out.
    fn block(&self, old: u32) -> Result<Option<u32>> {
        let before = self.old_blocks.partition_point(|first| *first <= old);
        let pack = before.checked_sub(1).ok_or(Error::CacheDamaged)?;
        match self.new_blocks[pack] {
            NONE => Ok(None),
            first => first
                .checked_add(old - self.old_blocks[pack])
                .map(Some)
                .ok_or(Error::CacheDamaged),
        }
    }
}

/// Writes what the inputs have, as far as index objects name it that are `current`, as one run.
///
/// # Errors
/// When an input cannot be read or the run cannot be written.
pub fn merge(
    file: File,
    keys: &dyn PageKeys,
    inputs: &[&dyn Input],
    current: &HashSet<Id>,
) -> Merged<()> {
    let mut writer = PageWriter::new(file, keys)?;

    let (mut kept, mut blocks_count): (Vec<Kept>, u32) = (Vec::new(), 0);
    let mut segments_count = 0;
    let mut moved: Vec<Moved> = inputs.iter().map(|_| Moved::default()).collect();
    for next in Sorted::new(inputs.iter().map(|input| input.packs()))? {
        let (pack, input) = next?;
        let number = moved[input].packs.len() as u32;
        let is_same =
            |last: &Kept| (last.old.id, last.old.fingerprint) == (pack.id, pack.fingerprint);
        let again = kept.last().is_some_and(is_same);
        let counts = inputs[input].counts(number);
        let (new_number, new_block) = match (counts, again) {
            (false, _) => (NONE, NONE),
            (true, true) => (kept.len() as u32 - 1, NONE),
            (true, false) => (kept.len() as u32, blocks_count),
        };
        moved[input].packs.push(new_number);
        moved[input].old_blocks.push(pack.first_block);
        moved[input].new_blocks.push(new_block);
        if new_block == NONE {
            continue;
        }
        writer.push(&PackRecord {
            first_segment: segments_count,
            first_block: blocks_count,
            ..pack
        })?;
        kept.push(Kept {
            input,
            old: pack,
            first_segment: segments_count,
        });
        let sum = |count: u32, more: u32| count.checked_add(more).ok_or(Error::CacheDamaged);
        segments_count = sum(segments_count, pack.segments)?;
        blocks_count = sum(blocks_count, pack.blocks)?;
    }
    let packs = writer.end_section()?;

    let mut readers: Vec<_> = inputs.iter().map(|input| input.segments()).collect();
    for (number, pack) in (0..).zip(&kept) {
        let reader = &mut readers[pack.input];
        reader.seek(pack.old.first_segment);
        for segment in reader.take(pack.old.segments as usize) {
            writer.push(&SegmentEntry {
                pack: number,
                ..segment?
            })?;
        }
    }
    let segments = writer.end_section()?;

    let mut readers: Vec<_> = inputs.iter().map(|input| input.blocks()).collect();
    for pack in &kept {
        let reader = &mut readers[pack.input];
        reader.seek(pack.old.first_block);
        for block in reader.take(pack.old.blocks as usize) {
            let mut block = block?;
            let in_pack = block.place.segment.checked_sub(pack.old.first_segment);
            let moved = in_pack.and_then(|in_pack| pack.first_segment.checked_add(in_pack));
            block.place.segment = moved.ok_or(Error::CacheDamaged)?;
            writer.push(&block)?;
        }
    }
    let blocks = writer.end_section()?;

    let bucket_bits = (blocks_count / BUCKET_ENTRIES)
        .checked_ilog2()
        .unwrap_or(0)
        .clamp(BUCKET_BITS_MIN, BUCKET_BITS_MAX);
    let mut starts = vec![0_u32; (1 << bucket_bits) + 1];
    for next in Sorted::new(inputs.iter().map(|input| input.table()))? {
        let ((bits, old), input) = next?;
        if let Some(block) = moved[input].block(old)? {
            let key = bits as u32;
            writer.push(&TableEntry { key, block })?;
            starts[bucket((bits >> 32) as u8, key, bucket_bits) + 1] += 1;
        }
    }
    let table = writer.end_section()?;

    let mut sum = 0;
    for start in &starts {
        sum += start;
        writer.push(&sum)?;
    }
    let starts = writer.end_section()?;

    // Several inputs may have the same source: it keeps its first number.
    let mut numbers: HashMap<Id, u32> = HashMap::new();
    for source in inputs.iter().flat_map(|input| input.sources()) {
        let number = numbers.len() as u32;
        if current.contains(source)
            && let Entry::Vacant(new) = numbers.entry(*source)
        {
            new.insert(number);
            writer.push(source)?;
        }
    }
    let sources = writer.end_section()?;

    for (input, moved) in inputs.iter().zip(&moved) {
        for naming in input.namings() {
            let naming = naming?;
            let source = input.sources().get(naming.source as usize);
            let pack = moved.packs.get(naming.pack as usize);
            let (source, &pack) = source.zip(pack).ok_or(Error::CacheDamaged)?;
            if let Some(&source) = numbers.get(source).filter(|_| pack != NONE) {
                writer.push(&Naming { source, pack })?;
            }
        }
    }
    let namings = writer.end_section()?;

    let footer = postcard::to_stdvec(&Footer {
        packs,
        segments,
        blocks,
        table,
        starts,
        bucket_bits,
        sources,
        namings,
    });
    writer.finish(&footer.expect("a footer is plain data"))?;
    Ok(())
}

type Items<'a, T> = Box<dyn Iterator<Item = Result<T>> + 'a>;

/// What several sorted inputs have, sorted, each with the number of its input.
struct Sorted<'a, T> {
    inputs: Vec<Items<'a, T>>,
    heads: BinaryHeap<Reverse<(T, usize)>>,
}

impl<'a, T: Ord + Copy> Sorted<'a, T> {
    fn new(inputs: impl Iterator<Item = Items<'a, T>>) -> Result<Self> {
        let mut inputs: Vec<_> = inputs.collect();
        let mut heads = BinaryHeap::new();
        for (number, input) in inputs.iter_mut().enumerate() {
            if let Some(head) = input.next() {
                heads.push(Reverse((head?, number)));
            }
        }
        Ok(Self { inputs, heads })
    }
}

impl<T: Ord + Copy> Iterator for Sorted<'_, T> {
    type Item = Result<(T, usize)>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut head = self.heads.peek_mut()?;
        let Reverse(next) = *head;
        match self.inputs[next.1].next() {
            Some(Ok(item)) => head.0.0 = item,
            Some(Err(error)) => return Some(Err(error)),
            None => {
                PeekMut::pop(head);
            }
        }
        Some(Ok(next))
    }
}
