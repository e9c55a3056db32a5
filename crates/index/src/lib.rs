//! Where each block of a repository is.
//!
//! An [`Index`] knows which packs there are, and which segment of which pack has each block. A
//! [`Cache`] keeps it on the local disk in sealed pages, with eight bytes a block in memory at
//! most, and reads from the repository only what is new: through the trait [`IndexObjects`], so
//! that it needs no repository to be tested or measured.

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
    BLOCK_LEN_MAX, BlockKind, Codec, IndexSegment, PACK_HEADER_LEN, PACK_TRAILER_LEN,
    PACKS_PER_INDEX, PackContents, SEGMENT_LEN, SEGMENT_LEN_MAX, Segment, TAG_LEN,
};
pub use entries::{BlockLocation, PackEntry, SegmentEntry};
pub use error::{Error, Result};
pub use index::Index;
pub use objects::{IndexObjects, Removed};
pub use pages::{PageKey, PageKeys};
