//! Contents of packs: the footer of a pack, and its part of an index object.

use serde::{Deserialize, Serialize};
use tabane_storage::Id;

use crate::error::{Error, Result};

/// Bytes of a block at most.
pub const BLOCK_LEN_MAX: u32 = 16 << 20;

/// A segment is closed when it holds this many bytes before compression.
pub const SEGMENT_LEN: usize = 512 << 10;

/// Bytes of a segment before compression, at most.
pub const SEGMENT_LEN_MAX: usize = SEGMENT_LEN + BLOCK_LEN_MAX as usize;

/// Packs that wait for an index object at most: indexed packs survive an interruption.
pub const PACKS_PER_INDEX: usize = 32;

/// Bytes of a pack before its first segment, if the master key sealed it.
pub const PACK_HEADER_LEN: usize = 40;

/// Bytes behind that header if a write-only key sealed the pack: the shared secret, encapsulated.
pub const ENCAPSULATION_LEN: usize = 32 + 1088;

/// Bytes of a pack behind its sealed footer: the footer's length.
pub const PACK_TRAILER_LEN: usize = 4;

/// Bytes that sealing adds to a segment, a footer or a page.
pub const TAG_LEN: usize = 16;

/// One object of the index: packs with their contents, in postcard's encoding.
pub type IndexSegment = Vec<(Id, PackContents)>;

/// Kinds of blocks. A pack holds one kind only, so that directories can be read without files
/// between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockKind {
    /// Contents of files.
    Data,
    /// Contents of directories.
    Tree,
}

/// Kinds of packs: what blocks a pack holds, and whether a write-only key sealed it. The format has
/// the numbers of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PackKind {
    /// Contents of files.
    Data,
    /// Contents of directories.
    Tree,
    /// Contents of files, sealed by a write-only key.
    WriterData,
    /// Contents of directories, sealed by a write-only key.
    WriterTree,
}

impl PackKind {
    /// The kind of packs of these blocks.
    pub fn new(blocks: BlockKind, is_of_writer: bool) -> Self {
        match (blocks, is_of_writer) {
            (BlockKind::Data, false) => Self::Data,
            (BlockKind::Tree, false) => Self::Tree,
            (BlockKind::Data, true) => Self::WriterData,
            (BlockKind::Tree, true) => Self::WriterTree,
        }
    }

    /// The kind of the blocks.
    pub fn blocks(self) -> BlockKind {
        match self {
            Self::Data | Self::WriterData => BlockKind::Data,
            Self::Tree | Self::WriterTree => BlockKind::Tree,
        }
    }

    /// Whether a write-only key sealed the pack.
    pub fn is_of_writer(self) -> bool {
        matches!(self, Self::WriterData | Self::WriterTree)
    }

    /// Bytes of the pack before its first segment.
    pub fn head_len(self) -> usize {
        if self.is_of_writer() {
            PACK_HEADER_LEN + ENCAPSULATION_LEN
        } else {
            PACK_HEADER_LEN
        }
    }
}

/// Encodings of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    /// Uncompressed.
    Stored,
    /// One Zstandard frame (RFC 8878).
    Zstd,
}

/// Contents of a pack: its footer, and its part of an index object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackContents {
    /// The salt of the pack's header, so that segments can be read without the header.
    pub salt: [u8; 32],
    /// Kind of the pack.
    pub kind: PackKind,
    /// Its segments, in order.
    pub segments: Vec<Segment>,
}

/// A run of blocks that is compressed and sealed as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Bytes in the pack, tag included.
    pub stored_len: u32,
    /// Encoding of the segment.
    pub codec: Codec,
    /// Digest and length in bytes of each block, in order.
    pub blocks: Vec<(Id, u32)>,
}

impl Segment {
    /// Bytes before compression.
    pub fn raw_len(&self) -> usize {
        self.blocks.iter().map(|&(_, len)| len as usize).sum()
    }
}

impl PackContents {
    /// Tells these contents from others, also where somebody chooses them: what is said of a pack
    /// may be wrong, and something else be said of it, too.
    pub fn fingerprint(&self) -> u64 {
        let bytes = postcard::to_stdvec(self).expect("contents are plain data");
        let id = tabane_storage::object_id(&[&bytes]);
        u64::from_le_bytes(*id.0.first_chunk().expect("an ID is longer"))
    }

    /// Where the last segment ends in the pack.
    fn segments_end(&self) -> u64 {
        self.kind.head_len() as u64 + self.segments_len()
    }

    /// Bytes of all segments as stored, tags included.
    pub fn segments_len(&self) -> u64 {
        let lens = self
            .segments
            .iter()
            .map(|segment| u64::from(segment.stored_len));
        lens.sum()
    }

    /// Bytes of the whole object.
    pub fn object_len(&self) -> u64 {
        let footer_len = postcard::to_stdvec(self)
            .expect("contents are plain data")
            .len();
        (footer_len + TAG_LEN + PACK_TRAILER_LEN) as u64 + self.segments_end()
    }

    /// Checks the limits that the format sets; `what` names the pack in errors.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn validate(&self, what: &str) -> Result<()> {
        let too_long = |segment: &Segment| {
            let raw_len = segment
                .blocks
                .iter()
                .map(|&(_, len)| u64::from(len))
                .sum::<u64>();
            segment.blocks.iter().any(|&(_, len)| len > BLOCK_LEN_MAX)
                || raw_len > SEGMENT_LEN_MAX as u64
                || (segment.stored_len as usize) < TAG_LEN
                || segment.stored_len as usize > SEGMENT_LEN_MAX + TAG_LEN
        };
        if self.segments.iter().any(too_long) || self.segments_end() > u64::from(u32::MAX) {
            return Err(Error::damaged(
                what,
                "its contents break the limits of the format",
            ));
        }
        Ok(())
    }
}
