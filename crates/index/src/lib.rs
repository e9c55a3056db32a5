//! The index of a repository: the place of each block.
//!
//! An [`Index`] knows all packs, and the pack and segment of each block. A [`Cache`] keeps the
//! index on the local disk in sealed pages, with at most eight bytes a block in memory, and reads
//! only new index objects from the repository: through the trait [`IndexObjects`], so that tests
//! and measurements need no repository.

#![forbid(unsafe_code)]

mod cache;
mod contents;
mod entries;
mod error;
mod index;
mod merge;
mod objects;
mod pages;
mod recent;
mod run;

pub use cache::{Cache, Cached};
pub use contents::{
    BLOCK_LEN_MAX, BlockKind, Codec, ENCAPSULATION_LEN, IndexSegment, PACK_HEADER_LEN,
    PACK_TRAILER_LEN, PACKS_PER_INDEX, PackContents, PackKind, SEGMENT_LEN, SEGMENT_LEN_MAX,
    Segment, TAG_LEN,
};
pub use entries::{BlockLocation, PackEntry, SegmentEntry};
pub use error::{Error, Result};
pub use index::Index;
pub use objects::{IndexObjects, Removed};
pub use pages::{PageKey, PageKeys};
