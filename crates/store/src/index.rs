//! Where each block is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::crypto::HEADER_LEN;
use crate::error::{Error, Result};
use crate::id::Id;
use crate::pack::{BlockKind, Codec, PackContents};

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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub struct PackEntry {
    /// Its name.
    pub id: Id,
    /// The salt of its header.
    pub salt: [u8; 32],
    /// What its blocks are for.
    pub kind: BlockKind,
}

/// All blocks of a repository, in memory.
#[derive(Default)]
pub struct Index {
    packs: Vec<PackEntry>,
    pack_numbers: HashMap<Id, u32>,
    segments: Vec<SegmentEntry>,
    blocks: HashMap<Id, Location>,
}

impl Index {
    /// Adds what a pack holds. A pack that is known already is passed over; of a block that is known already the
    /// first place stays.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the contents break the limits of the format.
    pub fn add(&mut self, pack: Id, contents: &PackContents) -> Result<()> {
        contents.validate(&format!("the index of pack {}", pack.short()))?;
        let pack_number = self.packs.len() as u32;
        match self.pack_numbers.entry(pack) {
            Entry::Occupied(_) => return Ok(()),
            Entry::Vacant(entry) => entry.insert(pack_number),
        };
        self.packs.push(PackEntry {
            id: pack,
            salt: contents.salt,
            kind: contents.kind,
        });
        let mut offset = HEADER_LEN as u32;
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
                self.blocks.entry(id).or_insert(Location {
                    segment: segment_number,
                    offset: at,
                    len,
                });
                at += len;
            }
        }
        Ok(())
    }

    /// Where a block is, if it is anywhere.
    pub fn find(&self, block: &Id) -> Option<Location> {
        self.blocks.get(block).copied()
    }

    /// The segment with this number.
    pub fn segment(&self, number: u32) -> &SegmentEntry {
        &self.segments[number as usize]
    }

    /// The pack with this number.
    pub fn pack(&self, number: u32) -> &PackEntry {
        &self.packs[number as usize]
    }

    /// All blocks, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = (&Id, &Location)> {
        self.blocks.iter()
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether no block is known.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}
