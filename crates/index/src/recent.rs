//! The part of an index that is in memory.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::contents::PackContents;
use crate::entries::{BlockLocation, PackEntry, SegmentEntry};
use crate::error::{Error, Result};
use tabane_storage::Id;

/// Packs with what they hold, in memory. Numbers of packs and segments count from 0.
#[derive(Default)]
pub struct Recent {
    packs: Vec<PackEntry>,
    /// Fingerprints of the contents of packs, with the numbers of these.
    pack_numbers: HashMap<(Id, u64), u32>,
    segments: Vec<SegmentEntry>,
    blocks: HashMap<Id, BlockLocation>,
    /// Further places of blocks: few blocks have any.
    further: HashMap<Id, Vec<BlockLocation>>,
}

impl Recent {
    /// Adds what a pack holds, unless that is known already.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the contents break the limits of the format.
    pub fn add(&mut self, pack: Id, contents: &PackContents) -> Result<()> {
        contents.validate(&format!("the index of pack {}", pack.short()))?;
        let pack_number = self.packs.len() as u32;
        match self.pack_numbers.entry((pack, contents.fingerprint())) {
            Entry::Occupied(_) => return Ok(()),
            Entry::Vacant(entry) => entry.insert(pack_number),
        };
        self.packs.push(PackEntry {
            id: pack,
            salt: contents.salt,
            kind: contents.kind,
            len: contents.object_len(),
        });
        let mut offset = contents.kind.head_len() as u32;
        for (number, segment) in contents.segments.iter().enumerate() {
            let segment_number = self.segments.len() as u32;
            self.segments.push(SegmentEntry {
                pack: pack_number,
                number: number as u32,
                offset,
                stored_len: segment.stored_len,
                raw_len: segment.raw_len() as u32,
                codec: segment.codec,
            });
            offset = offset.checked_add(segment.stored_len).ok_or_else(|| {
                Error::damaged(format!("pack {}", pack.short()), "it is too long")
            })?;
            let mut at = 0;
            for &(id, len) in &segment.blocks {
                let location = BlockLocation {
                    segment: segment_number,
                    offset: at,
                    len,
                };
                self.add_place(id, location);
                at += len;
            }
        }
        Ok(())
    }

    /// Adds what another one has, except for what is known already and for `unwanted` packs.
    pub fn append(&mut self, other: &Self, unwanted: &HashSet<Id>) {
        let mut numbers: Vec<Option<u32>> = vec![None; other.packs.len()];
        let mut packs: Vec<_> = other.pack_numbers.iter().collect();
        packs.sort_unstable_by_key(|(_, number)| **number);
        for (&(id, fingerprint), &number) in packs {
            let new = self.packs.len() as u32;
            let is_known = self.pack_numbers.contains_key(&(id, fingerprint));
            if !is_known && !unwanted.contains(&id) {
                self.pack_numbers.insert((id, fingerprint), new);
                self.packs.push(other.packs[number as usize]);
                numbers[number as usize] = Some(new);
            }
        }
        let mut moved = Vec::with_capacity(other.segments.len());
        for segment in &other.segments {
            let pack = numbers[segment.pack as usize];
            moved.push(pack.map(|_| self.segments.len() as u32));
            self.segments
                .extend(pack.map(|pack| SegmentEntry { pack, ..*segment }));
        }
        for (id, place) in other.blocks() {
            let further = other.further.get(&id).into_iter().flatten();
            for place in std::iter::once(&place).chain(further) {
                let Some(segment) = moved[place.segment as usize] else {
                    continue;
                };
                self.add_place(id, BlockLocation { segment, ..*place });
            }
        }
    }

    fn add_place(&mut self, block: Id, place: BlockLocation) {
        match self.blocks.entry(block) {
            Entry::Vacant(entry) => {
                entry.insert(place);
            }
            Entry::Occupied(_) => self.further.entry(block).or_default().push(place),
        }
    }

    /// The first place of a block.
    pub fn find(&self, block: &Id) -> Option<BlockLocation> {
        self.blocks.get(block).copied()
    }

    /// All places of a block, in the order of their insertion.
    pub fn places(&self, block: &Id) -> impl Iterator<Item = BlockLocation> {
        let further = self.further.get(block).into_iter().flatten();
        self.find(block).into_iter().chain(further.copied())
    }

    /// Removes the places in packs for which this holds; blocks that no other pack has are
    /// forgotten.
    pub fn exclude_packs(&mut self, is_excluded: impl Fn(&PackEntry) -> bool) {
        let excluded: HashSet<u32> = (0..)
            .zip(&self.packs)
            .filter(|(_, pack)| is_excluded(pack))
            .map(|(number, _)| number)
            .collect();
        if excluded.is_empty() {
            return;
        }
        let segments = &self.segments;
        let stays =
            |place: &BlockLocation| !excluded.contains(&segments[place.segment as usize].pack);
        self.further.retain(|_, places| {
            places.retain(stays);
            !places.is_empty()
        });
        let further = &mut self.further;
        self.blocks.retain(|id, place| {
            if !stays(place) {
                let Entry::Occupied(mut places) = further.entry(*id) else {
                    return false;
                };
                *place = places.get_mut().remove(0);
                if places.get().is_empty() {
                    places.remove();
                }
            }
            true
        });
        self.blocks.shrink_to(2 * self.blocks.len());
    }

    /// A segment.
    pub fn segment(&self, number: u32) -> Option<SegmentEntry> {
        self.segments.get(number as usize).copied()
    }

    /// How many segments there are.
    pub fn segments(&self) -> u32 {
        self.segments.len() as u32
    }

    /// A pack.
    pub fn pack(&self, number: u32) -> Option<PackEntry> {
        self.packs.get(number as usize).copied()
    }

    /// All packs.
    pub fn packs(&self) -> &[PackEntry] {
        &self.packs
    }

    /// All blocks, each with its first place.
    pub fn blocks(&self) -> impl Iterator<Item = (Id, BlockLocation)> {
        self.blocks.iter().map(|(id, location)| (*id, *location))
    }

    /// Number of different blocks.
    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }
}
