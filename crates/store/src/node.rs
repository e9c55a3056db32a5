//! What a snapshot remembers of one file, directory, link or device.

use serde::{Deserialize, Serialize};

use crate::id::Id;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Name within its directory: any bytes but `/` and NUL.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Permission, set-id and sticky bits (`st_mode & 0o7777`).
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of content or attributes: only compared, never restored.
    pub ctime: Time,
    /// Last access; only stored on request, since it changes without the file changing.
    pub atime: Option<Time>,
    /// Inode number: only compared, never restored.
    pub inode: u64,
    /// Present when the source had other names for the same inode.
    pub hard_link: Option<HardLink>,
    /// Extended attributes (POSIX ACLs and capabilities are among them), sorted by name.
    pub xattrs: Vec<Xattr>,
    /// What it is, and its content.
    pub kind: Kind,
}

/// Seconds and nanoseconds since 1970-01-01T00:00:00Z, as in `struct timespec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub s: i64,
    /// Nanoseconds within the second, 0..1_000_000_000.
    pub ns: u32,
}

/// Names of one snapshot that share a `HardLink` are one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HardLink {
    /// `st_dev` of the source.
    pub device: u64,
    /// `st_ino` of the source.
    pub inode: u64,
}

/// One extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xattr {
    /// Full name with its namespace, as `user.comment`.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Value; may be empty.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// The kinds of file, each with what only it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file; `content` adds up to `size` bytes.
    File {
        /// Length in bytes, holes included.
        size: u64,
        /// The pieces in order.
        content: Vec<Piece>,
    },
    /// A directory; its content is a list of [`Node`]s (see [`crate::tree`]).
    Directory {
        /// The pieces in order; never a hole.
        content: Vec<Piece>,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points: any bytes but NUL.
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// A character device (`st_rdev`, split).
    CharDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A block device (`st_rdev`, split).
    BlockDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A Unix socket; restored as a socket nobody listens on.
    Socket,
}

/// A run of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// Bytes that are stored.
    Block {
        /// Digest of the bytes.
        id: Id,
        /// How many, at most [`crate::chunker::BLOCK_LEN_MAX`].
        len: u32,
    },
    /// Zeros that the source had as a hole, and that are a hole again when restored.
    Hole {
        /// How many.
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
}

impl Node {
    /// Bytes of a regular file; 0 for everything else.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size, .. } => size,
            _ => 0,
        }
    }

    /// The content of a directory, if it is one.
    pub fn directory(&self) -> Option<&[Piece]> {
        match &self.kind {
            Kind::Directory { content } => Some(content),
            _ => None,
        }
    }

    /// The blocks of a file or directory.
    pub fn blocks(&self) -> impl Iterator<Item = (Id, u32)> + '_ {
        let pieces: &[Piece] = match &self.kind {
            Kind::File { content, .. } | Kind::Directory { content } => content,
            _ => &[],
        };
        pieces.iter().filter_map(|piece| match *piece {
            Piece::Block { id, len } => Some((id, len)),
            Piece::Hole { .. } => None,
        })
    }
}
