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
    /// Unverified packs in memory.
    unverified: HashSet<Id>,
}

/// A run, and the numbers of packs and segments before it.
struct Part {
    run: Run,
    packs: u32,
    segments: u32,
    /// Whether its packs are known to hold what the run says.
    is_verified: bool,
}

/// How far a place of a block can be relied upon, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    UnverifiedAndCondemned,
    Unverified,
    /// Verified: what somebody says of other packs must not let blocks go with this one.
    Condemned,
    Full,
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

    /// Adds the contents of a pack, unless they are known. A known block keeps its first place as
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

    /// Adds what another index has that nobody has verified: its packs are used for blocks that no
    /// other pack has, and no block counts as kept for being there.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn add_unverified(&mut self, other: Self) -> Result<()> {
        self.append(other, false)
    }

    /// Adds what another index has, with the same removals.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn add_index(&mut self, other: Self) -> Result<()> {
        self.append(other, true)
    }

    fn append(&mut self, other: Self, is_verified: bool) -> Result<()> {
        for part in other.parts {
            self.add_run(part.run, is_verified)?;
        }
        let mut unwanted = HashSet::new();
        if !is_verified {
            // Of packs that are verified, nothing else is true.
            unwanted.extend(self.recent.packs().iter().map(|pack| pack.id));
            let new = other.recent.packs().iter().map(|pack| pack.id);
            self.unverified
                .extend(new.filter(|id| !unwanted.contains(id)));
        }
        self.recent.append(&other.recent, &unwanted);
        Ok(())
    }

    /// Adds verified runs to an index that has none.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub(crate) fn with_runs(mut self, runs: Vec<Run>) -> Result<Self> {
        self.set_runs(runs.into_iter().map(|run| (run, true)).collect())?;
        Ok(self)
    }

    /// Takes all runs out, with whether they are verified; their blocks are unknown until
    /// [`Index::set_runs`].
    pub(crate) fn take_runs(&mut self) -> Vec<(Run, bool)> {
        let parts = std::mem::take(&mut self.parts);
        parts
            .into_iter()
            .map(|part| (part.run, part.is_verified))
            .collect()
    }

    /// Sets the runs, the longest first: it answers most look-ups.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub(crate) fn set_runs(&mut self, mut runs: Vec<(Run, bool)>) -> Result<()> {
        runs.sort_by_key(|(run, _)| std::cmp::Reverse(run.len()));
        self.parts.clear();
        self.condemned_in_runs.clear();
        runs.into_iter()
            .try_for_each(|(run, is_verified)| self.add_run(run, is_verified))
    }

    fn add_run(&mut self, run: Run, is_verified: bool) -> Result<()> {
        let (packs, segments) = self.in_runs();
        for pack in &self.condemned {
            if let Some(range) = run.segments_of(pack)? {
                let range = segments + range.start..segments + range.end;
                self.condemned_in_runs.push(range);
            }
        }
        let ranges = &mut self.condemned_in_runs;
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| range.start);
        self.parts.push(Part {
            run,
            packs,
            segments,
            is_verified,
        });
        Ok(())
    }

    /// Forgets the places in these packs that are in memory, since runs have them now.
    pub(crate) fn forget_recent(&mut self, packs: &HashSet<Id>) {
        self.recent.exclude_packs(|pack| packs.contains(&pack.id));
    }

    /// Removes the places of blocks in packs for which this holds; blocks of other packs stay
    /// known.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn exclude_packs(&mut self, is_excluded: impl Fn(&PackEntry) -> bool) -> Result<()> {
        for part in &mut self.parts {
            part.run.exclude_packs(&is_excluded)?;
        }
        self.recent.exclude_packs(is_excluded);
        Ok(())
    }

    /// Finds a block, preferably in a pack that is verified and stays, then in a condemned one that
    /// is verified; in one that nobody has verified only if no other pack has the block.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn find(&self, block: &Id) -> Result<Option<BlockLocation>> {
        Ok(self.best(block)?.map(|(place, _)| place))
    }

    /// As [`Index::find`], preferably a place where the block has this length: packs that nobody
    /// has verified may be said to have another one.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn find_of_len(&self, block: &Id, len: u32) -> Result<Option<BlockLocation>> {
        let found = self.find(block)?;
        if found.is_none_or(|place| place.len == len) {
            return Ok(found);
        }
        let places = self.places(block)?;
        Ok(places.into_iter().find(|place| place.len == len).or(found))
    }

    /// The place of a block that can be relied upon most.
    fn best(&self, block: &Id) -> Result<Option<(BlockLocation, Trust)>> {
        let mut best: Option<(BlockLocation, Trust)> = None;
        let mut take = |place: BlockLocation| -> Result<bool> {
            let trust = self.trust(place)?;
            if best.is_none_or(|(_, found)| found < trust) {
                best = Some((place, trust));
            }
            Ok(trust == Trust::Full)
        };
        for part in &self.parts {
            for place in part.run.places(block)? {
                if take(part.number(place?))? {
                    return Ok(best);
                }
            }
        }
        for place in self.recent.places(block) {
            if take(self.number(place))? {
                return Ok(best);
            }
        }
        Ok(best)
    }

    fn trust(&self, place: BlockLocation) -> Result<Trust> {
        Ok(
            match (self.is_verified(place.segment)?, self.is_condemned(place)?) {
                (true, false) => Trust::Full,
                (true, true) => Trust::Condemned,
                (false, false) => Trust::Unverified,
                (false, true) => Trust::UnverifiedAndCondemned,
            },
        )
    }

    /// Whether a block is in a pack that is verified and stays.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn keeps(&self, block: &Id) -> Result<bool> {
        let best = self.best(block)?;
        Ok(best.is_some_and(|(_, trust)| trust == Trust::Full))
    }

    /// Whether the pack of this segment is known to hold what the index says.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn is_verified(&self, segment: u32) -> Result<bool> {
        match self.part_of_segment(segment) {
            Some(part) => Ok(part.is_verified),
            None => {
                let unverified = &self.unverified;
                let pack = || self.pack(self.segment(segment)?.pack);
                Ok(unverified.is_empty() || !unverified.contains(&pack()?.id))
            }
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

    /// All places of a block.
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
