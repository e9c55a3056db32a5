//! What an index knows of blocks, segments and packs.

use tabane_storage::Id;

use crate::contents::{BlockKind, Codec};

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLocation {
    /// Number of the segment in the [`Index`](crate::Index).
    pub segment: u32,
    /// Where the block begins in the decoded segment, in bytes.
    pub offset: u32,
    /// Length of the block in bytes.
    pub len: u32,
}

/// A segment that the index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Number of its pack in the [`Index`](crate::Index).
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
    /// Its length in bytes.
    pub len: u64,
}
