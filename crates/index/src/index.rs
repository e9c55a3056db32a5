//! The index: finds the place of each block.
//!
//! Most blocks are in *runs*, files of the [cache](crate::Cache); the others in memory.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use tabane_storage::Id;

use crate::contents::{IndexSegment, PackContents};
use crate::entries::{BlockLocation, PackEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::recent::Recent;
use crate::run::{PackRecord, Run};

/// All blocks of a repository.
///
/// Packs and segments have consecutive numbers: the runs come first, the index in memory last.
#[derive(Default)]
pub struct Index {
    parts: Vec<Part>,
    recent: Recent,
    removals: BTreeSet<Id>,
    condemned: HashSet<Id>,
    /// Segments in runs that are in condemned packs, sorted.
    condemned_in_runs: Vec<Range<u32>>,
}

/// A run, and the numbers of packs and segments before it.
struct Part {
    run: Run,
    packs: u32,
    segments: u32,
}

impl Index {
    /// An empty index as of these removals, which name the packs in `condemned`.
    pub fn as_of(removals: BTreeSet<Id>, condemned: HashSet<Id>) -> Self {
        Self {
            removals,
            condemned,
            ..Self::default()
        }
    }

    /// IDs of the removals that the index takes into account.
    pub fn removals(&self) -> &BTreeSet<Id> {
        &self.removals
    }

    /// Adds the contents of a pack. A known pack is skipped; a known block keeps its first place as
    /// the one that is found.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the contents break the limits of the format.
    pub fn add(&mut self, pack: Id, contents: &PackContents) -> Result<()> {
        self.recent.add(pack, contents)
    }

    /// Adds the contents of an index object.
    ///
    /// # Errors
    /// As [`Index::add`].
    pub fn add_all(&mut self, packs: &IndexSegment) -> Result<()> {
        let mut packs = packs.iter();
        packs.try_for_each(|(pack, contents)| self.add(*pack, contents))
    }

    /// Adds runs to an index that has none.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub(crate) fn with_runs(mut self, runs: Vec<Run>) -> Result<Self> {
        self.set_runs(runs)?;
        Ok(self)
    }

    /// Takes all runs out; their blocks are unknown until [`Index::set_runs`].
    pub(crate) fn take_runs(&mut self) -> Vec<Run> {
        let parts = std::mem::take(&mut self.parts);
        parts.into_iter().map(|part| part.run).collect()
    }

    /// Sets the runs, the longest first: it answers most look-ups.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub(crate) fn set_runs(&mut self, mut runs: Vec<Run>) -> Result<()> {
        runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
        self.parts.clear();
        self.condemned_in_runs.clear();
        for run in runs {
            let (packs, segments) = self.in_runs();
            for pack in &self.condemned {
                if let Some(range) = run.segments_of(pack)? {
                    let range = segments + range.start..segments + range.end;
                    self.condemned_in_runs.push(range);
                }
            }
            self.parts.push(Part {
                run,
                packs,
                segments,
            });
        }
        let ranges = &mut self.condemned_in_runs;
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        Ok(())
    }

    /// Forgets the places in these packs that are in memory, since runs have them now.
    pub(crate) fn forget_recent(&mut self, packs: &HashSet<Id>) {
        self.recent.exclude_packs(packs);
    }

    /// Removes these packs' places of blocks; blocks of other packs stay known.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn exclude_packs(&mut self, packs: &HashSet<Id>) -> Result<()> {
        for part in &mut self.parts {
            part.run.exclude_packs(packs)?;
        }
        self.recent.exclude_packs(packs);
        Ok(())
    }

    /// Finds a block; returns a place in a condemned pack only if no other pack has the block.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn find(&self, block: &Id) -> Result<Option<BlockLocation>> {
        let mut condemned = None;
        for part in &self.parts {
            for place in part.run.places(block)? {
                let place = part.number(place?);
                if !self.is_condemned(place)? {
                    return Ok(Some(place));
                }
                condemned = condemned.or(Some(place));
            }
        }
        for place in self.recent.places(block) {
            let place = self.number(place);
            if !self.is_condemned(place)? {
                return Ok(Some(place));
            }
            condemned = condemned.or(Some(place));
        }
        Ok(condemned)
    }

    /// Whether a block is in a pack that stays.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn keeps(&self, block: &Id) -> Result<bool> {
        match self.find(block)? {
            None => Ok(false),
            Some(place) => Ok(!self.is_condemned(place)?),
        }
    }

    /// Whether a pack is condemned.
    pub fn condemns(&self, pack: &Id) -> bool {
        self.condemned.contains(pack)
    }

    /// Whether a place is in a condemned pack: readers may use it, new snapshots must not.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn is_condemned(&self, place: BlockLocation) -> Result<bool> {
        if place.segment >= self.in_runs().1 {
            return Ok(
                !self.condemned.is_empty() && self.condemned.contains(&self.pack_of(place)?.id)
            );
        }
        let ranges = &self.condemned_in_runs;
        let behind = ranges.partition_point(|range| range.end <= place.segment);
        Ok(ranges
            .get(behind)
            .is_some_and(|range| range.start <= place.segment))
    }

    /// The pack of a place.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn pack_of(&self, place: BlockLocation) -> Result<PackEntry> {
        self.pack(self.segment(place.segment)?.pack)
    }

    /// All places of a block, first the one that [`Index::find`] returns.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn places(&self, block: &Id) -> Result<Vec<BlockLocation>> {
        let mut places = Vec::new();
        for part in &self.parts {
            for place in part.run.places(block)? {
                places.push(part.number(place?));
            }
        }
        let recent = self.recent.places(block);
        places.extend(recent.map(|place| self.number(place)));
        Ok(places)
    }

    /// The segment with this number.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn segment(&self, number: u32) -> Result<SegmentEntry> {
        let (packs, segment) = match self.part_of_segment(number) {
            Some(part) => (part.packs, part.run.segment(number - part.segments)?),
            None => {
                let (packs, segments) = self.in_runs();
                let segment = self.recent.segment(number - segments);
                (packs, segment.ok_or(Error::CacheDamaged)?)
            }
        };
        Ok(SegmentEntry {
            pack: packs.saturating_add(segment.pack),
            ..segment
        })
    }

    /// The next segment of the same pack, if any.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn following(&self, number: u32) -> Result<Option<u32>> {
        let next = number + 1;
        let end = match self.part_of_segment(number) {
            Some(part) => part.segments_end(),
            None => self.in_runs().1 + self.recent.segments(),
        };
        if next >= end || self.segment(next)?.pack != self.segment(number)?.pack {
            return Ok(None);
        }
        Ok(Some(next))
    }

    /// The part with this segment; `None` for segments in memory.
    fn part_of_segment(&self, number: u32) -> Option<&Part> {
        let part = self.parts.iter().rfind(|part| part.segments <= number)?;
        (number < part.segments_end()).then_some(part)
    }

    /// The pack with this number.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn pack(&self, number: u32) -> Result<PackEntry> {
        match self.parts.iter().rfind(|part| part.packs <= number) {
            Some(part) if number < part.packs_end() => part.run.pack(number - part.packs),
            _ => {
                let pack = self.recent.pack(number - self.in_runs().0);
                pack.ok_or(Error::CacheDamaged)
            }
        }
    }

    /// All packs, in no order; a pack of several index objects may come several times.
    pub fn packs(&self) -> impl Iterator<Item = Result<PackEntry>> {
        let in_runs = self.parts.iter().flat_map(|part| {
            let records = part.run.records::<PackRecord>(&part.run.footer().packs);
            records.map(|record| Ok(record?.into()))
        });
        in_runs.chain(self.recent.packs().iter().copied().map(Ok))
    }

    /// All blocks, each once, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = Result<(Id, BlockLocation)>> {
        let in_runs = self.parts.iter().enumerate().flat_map(move |(at, part)| {
            part.run.blocks().filter_map(move |record| {
                let found = record.and_then(|record| {
                    let is_first = self.is_first(at, &record.id, record.place)?;
                    Ok(is_first.then(|| (record.id, part.number(record.place))))
                });
                found.transpose()
            })
        });
        let recent = self.recent.blocks().filter_map(|(id, place)| {
            let known = self
                .parts
                .iter()
                .map(|part| part.run.find(&id))
                .find(|found| !matches!(found, Ok(None)));
            match known {
                Some(Err(error)) => Some(Err(error)),
                Some(Ok(_)) => None,
                None => Some(Ok((id, self.number(place)))),
            }
        });
        in_runs.chain(recent)
    }

    /// Whether a block of a part has no place before this one.
    fn is_first(&self, at: usize, id: &Id, place: BlockLocation) -> Result<bool> {
        for part in &self.parts[..at] {
            if part.run.find(id)?.is_some() {
                return Ok(false);
            }
        }
        let run = &self.parts[at].run;
        Ok(run.is_single(id)? || run.find(id)? == Some(place))
    }

    /// Number of blocks. A block in several runs or packs may count several times.
    pub fn len(&self) -> u64 {
        let in_runs = self.parts.iter().map(|part| u64::from(part.run.len()));
        in_runs.sum::<u64>() + self.recent.len()
    }

    /// Whether no block is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers of packs and segments in runs.
    fn in_runs(&self) -> (u32, u32) {
        let last = self.parts.last();
        last.map_or((0, 0), |last| (last.packs_end(), last.segments_end()))
    }

    /// Converts a place of [`Recent`] to the segment numbers of the index.
    fn number(&self, place: BlockLocation) -> BlockLocation {
        BlockLocation {
            segment: self.in_runs().1 + place.segment,
            ..place
        }
    }
}

impl Part {
    fn packs_end(&self) -> u32 {
        self.packs + self.run.footer().packs.count
    }

    fn segments_end(&self) -> u32 {
        self.segments + self.run.footer().segments.count
    }

    /// Converts a place of the run to the segment numbers of the index.
    fn number(&self, place: BlockLocation) -> BlockLocation {
        BlockLocation {
            segment: self.segments.saturating_add(place.segment),
            ..place
        }
    }
}
