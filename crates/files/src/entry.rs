//! Attributes of a file, directory, link or device.

use serde::{Deserialize, Serialize};

use crate::flags::Flags;

/// An entry of a directory, with contents of type `C`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<C = ()> {
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
    /// File flags, of files and directories alone. No part of the entry's own encoding: most
    /// entries have none.
    #[serde(skip)]
    pub flags: Flags,
    /// The kind of file, with its content.
    pub kind: Kind<C>,
}

/// Seconds and nanoseconds since 1970-01-01T00:00:00Z, as in `struct timespec`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub s: i64,
    /// Nanoseconds within the second, 0..1_000_000_000.
    pub ns: u32,
}

/// Names in one tree that share a `HardLink` are one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HardLink {
    /// `st_dev` of the source.
    pub device: u64,
    /// `st_ino` of the source.
    pub inode: u64,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xattr {
    /// Full name with its namespace, as `user.comment`.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
    /// Value; may be empty.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// The kinds of file with their own fields. `C` is the caller's type for contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind<C = ()> {
    /// A regular file.
    File {
        /// Length in bytes, holes included.
        size: u64,
        /// The caller's representation of the file's bytes.
        content: C,
    },
    /// A directory.
    Directory {
        /// Whatever is kept of its entries.
        content: C,
    },
    /// A symbolic link.
    Symlink {
        /// The link's target: any bytes but NUL.
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
    /// A Unix socket; restored as a socket without a listener.
    Socket,
}

impl<C> Entry<C> {
    /// Bytes of a regular file; 0 for everything else.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size, .. } => size,
            _ => 0,
        }
    }

    /// The content of a directory; `None` for other kinds.
    pub fn directory(&self) -> Option<&C> {
        match &self.kind {
            Kind::Directory { content } => Some(content),
            _ => None,
        }
    }
}
