//! Entries of snapshots: files, directories, links and devices.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
pub use tabane_files::{Flags, HardLink, Time, Xattr};

use tabane_storage::{Id, object_id};

/// An entry of a directory; the contents of files and directories are pieces.
///
/// A file's pieces add up to its size. A directory's pieces hold a list of entries (see
/// [`crate::tree`]), and none is a hole.
pub type Entry = tabane_files::Entry<Vec<Piece>>;

/// An entry as found on disk.
pub type Found = tabane_files::read::Found<Vec<Piece>>;

/// The kinds of file with their own fields; the content of a regular file is a list of pieces.
pub type Kind = tabane_files::Kind<Vec<Piece>>;

/// A run of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// Bytes that are stored.
    Block {
        /// Digest of the bytes.
        id: Id,
        /// Length in bytes, at most [`crate::chunker::BLOCK_LEN_MAX`].
        len: u32,
    },
    /// Zeros that the source had as a hole, and that are a hole again when restored.
    Hole {
        /// Length in bytes.
        len: u64,
    },
}

impl Piece {
    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        match *self {
            Self::Block { len, .. } => u64::from(len),
            Self::Hole { len } => len,
        }
    }

    /// ID of the block; `None` for a hole.
    pub fn block(&self) -> Option<Id> {
        match *self {
            Self::Block { id, .. } => Some(id),
            Self::Hole { .. } => None,
        }
    }
}

/// A moment as the time of a file, of which the nanoseconds are never negative.
pub fn time(time: Timestamp) -> Time {
    let nanoseconds = time.as_nanosecond();
    Time {
        s: nanoseconds.div_euclid(1_000_000_000) as i64,
        ns: nanoseconds.rem_euclid(1_000_000_000) as u32,
    }
}

/// The blocks of a file or directory.
pub fn blocks(entry: &Entry) -> impl Iterator<Item = (Id, u32)> + Clone + '_ {
    let pieces: &[Piece] = match &entry.kind {
        Kind::File { content, .. } | Kind::Directory { content } => content,
        _ => &[],
    };
    pieces.iter().filter_map(|piece| match *piece {
        Piece::Block { id, len } => Some((id, len)),
        Piece::Hole { .. } => None,
    })
}

/// One ID for the content of a directory: that of its block, if it has one.
pub fn content_id(content: &[Piece]) -> Id {
    let ids: Vec<Id> = content.iter().filter_map(Piece::block).collect();
    match &ids[..] {
        [id] => *id,
        ids => object_id(&ids.iter().map(|id| &id.0[..]).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_not_negative_before_1970() {
        let before: Timestamp = "1969-12-31T23:59:58.25Z".parse().expect("a time");
        let expected = Time {
            s: -2,
            ns: 250_000_000,
        };
        assert_eq!(time(before), expected);
    }
}
