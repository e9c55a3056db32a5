//! Entries of an index: blocks, segments and packs.

use tabane_storage::Id;

use crate::contents::{Codec, PackKind};

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLocation {
    /// Number of the segment in the [`Index`](crate::Index).
    pub segment: u32,
    /// Offset of the block in the decoded segment, in bytes.
    pub offset: u32,
    /// Length of the block in bytes.
    pub len: u32,
}

/// A segment in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Number of its pack in the [`Index`](crate::Index).
    pub pack: u32,
    /// Number of the segment in its pack.
    pub number: u32,
    /// Offset of the segment in the pack, in bytes.
    pub offset: u32,
    /// Length of the segment in the pack, in bytes.
    pub stored_len: u32,
    /// Length of the decoded segment, in bytes.
    pub raw_len: u32,
    /// Encoding of the segment.
    pub codec: Codec,
}

/// A pack in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackEntry {
    /// ID of the pack.
    pub id: Id,
    /// Salt of the pack's header.
    pub salt: [u8; 32],
    /// Kind of the pack.
    pub kind: PackKind,
    /// Length of the pack in bytes.
    pub len: u64,
}
