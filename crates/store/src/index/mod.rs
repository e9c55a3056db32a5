//! Where each block is.

mod recent;

use std::collections::{BTreeSet, HashSet};

use crate::error::Result;
use crate::id::Id;
use crate::pack::{BlockKind, Codec, PackContents};
use crate::removal::Removals;

use recent::Recent;

/// One object of the index: packs with what they hold, in postcard's encoding.
pub type IndexSegment = Vec<(Id, PackContents)>;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Number of the segment in the [`Index`].
    pub segment: u32,
    /// Where the block begins in the decoded segment, in bytes.
    pub offset: u32,
    /// Length of the block in bytes.
    pub len: u32,
}

/// A segment that the index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Number of its pack in the [`Index`].
    pub pack: u32,
    /// Its place among the segments of its pack.
    pub number: u32,
    /// Where it begins in the pack, in bytes.
    pub offset: u32,
    /// Its length in the pack, in bytes.
    pub stored_len: u32,
    /// Its length when decoded, in bytes.
    pub raw_len: u32,
    /// How it is encoded.
    pub codec: Codec,
}

/// A pack that the index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackEntry {
    /// Its name.
    pub id: Id,
    /// The salt of its header.
    pub salt: [u8; 32],
    /// What its blocks are for.
    pub kind: BlockKind,
}

/// All blocks of a repository.
#[derive(Default)]
pub struct Index {
    recent: Recent,
    removals: BTreeSet<Id>,
    condemned: HashSet<Id>,
}

impl Index {
    /// An empty index that takes these removals into account.
    pub fn as_of(removals: &Removals) -> Self {
        Self {
            removals: removals.names(),
            condemned: removals.condemned(),
            ..Self::default()
        }
    }

    /// The removals that it takes into account: see [`crate::removal`].
    pub fn removals(&self) -> &BTreeSet<Id> {
        &self.removals
    }

    /// Adds what a pack holds. A pack that is known already is passed over; of a block that is known already the
    /// first place stays the one that is found.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) when the contents break the limits of the format.
    pub fn add(&mut self, pack: Id, contents: &PackContents) -> Result<()> {
        self.recent.add(pack, contents)
    }

    /// Makes unknown what these packs hold, unless it is in another pack too.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn exclude_packs(&mut self, packs: &HashSet<Id>) -> Result<()> {
        self.recent.exclude_packs(packs);
        Ok(())
    }

    /// Where a block is, if it is anywhere. In a pack that is about to be removed only if it is in no other.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn find(&self, block: &Id) -> Result<Option<Location>> {
        let first = self.recent.find(block);
        if self.condemned.is_empty() {
            return Ok(first);
        }
        for place in self.recent.places(block) {
            if !self.is_condemned(place)? {
                return Ok(Some(place));
            }
        }
        Ok(first)
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

    /// Whether a place is in a pack that is about to be removed: it can be read, but must not be relied on.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn is_condemned(&self, place: Location) -> Result<bool> {
        Ok(!self.condemned.is_empty() && self.condemned.contains(&self.pack_of(place)?.id))
    }

    /// The pack that a place is in.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn pack_of(&self, place: Location) -> Result<PackEntry> {
        self.pack(self.segment(place.segment)?.pack)
    }

    /// All places where a block is, the one that [`Index::find`] returns first.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn places(&self, block: &Id) -> Result<Vec<Location>> {
        Ok(self.recent.places(block).collect())
    }

    /// The segment with this number.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn segment(&self, number: u32) -> Result<SegmentEntry> {
        Ok(self.recent.segment(number))
    }

    /// The segment that comes behind this one in the same pack, if there is one.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn following(&self, number: u32) -> Result<Option<u32>> {
        Ok(self.recent.following(number))
    }

    /// The pack with this number.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub fn pack(&self, number: u32) -> Result<PackEntry> {
        Ok(self.recent.pack(number))
    }

    /// All blocks, each once, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = Result<(Id, Location)>> {
        self.recent.blocks().map(Ok)
    }

    /// Number of blocks.
    pub fn len(&self) -> u64 {
        self.recent.len()
    }

    /// Whether no block is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
