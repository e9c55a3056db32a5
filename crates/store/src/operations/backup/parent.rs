//! The parent of a backup: the snapshot with which it compares files.

use std::sync::Arc;

use jiff::Timestamp;
use tabane_storage::Id;

use super::known_files::{self, KnownEntry, KnownFiles, KnownKind, Mask, Masked};
use tabane_format::entry::{Entry, Kind, Piece, Time, Xattr};
use tabane_format::snapshot::Snapshot;

/// The snapshot with which a backup compares files.
pub enum ParentFiles {
    /// There is none.
    None,
    /// It is read from the repository.
    Snapshot(Id, Box<Snapshot>),
    /// It was made with the same write-only key, and this machine remembers it.
    Known(Box<KnownFiles>),
}

/// The entries of one directory of the parent.
pub enum Listing {
    /// As they are stored, sorted by name.
    Tree(Vec<Entry>),
    /// As they are remembered.
    Known(Vec<KnownEntry>, Arc<Mask>),
}

/// A file of the parent.
pub struct KnownFile<'a> {
    pub size: u64,
    pub mtime: Time,
    pub ctime: Time,
    pub inode: u64,
    pub content: &'a [Piece],
    /// Nothing if they have to be read again.
    pub xattrs: Option<&'a [Xattr]>,
}

/// A whole entry of the parent.
pub enum Whole {
    Entry(Box<Entry>),
    Masked(Masked, Arc<Mask>),
}

impl ParentFiles {
    /// ID of the snapshot.
    pub fn id(&self) -> Option<Id> {
        match self {
            Self::None => None,
            Self::Snapshot(id, _) => Some(*id),
            Self::Known(known) => Some(known.about().snapshot),
        }
    }

    /// When its backup began.
    pub fn start(&self) -> Option<Timestamp> {
        match self {
            Self::None => None,
            Self::Snapshot(_, snapshot) => Some(snapshot.summary.start),
            Self::Known(known) => Some(known.about().start),
        }
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Snapshot(_, snapshot) => Some(snapshot.summary.total_bytes),
            Self::Known(known) => Some(known.about().total_bytes),
        }
    }

    /// The content of `/`.
    pub fn root(&self) -> &[Piece] {
        match self {
            Self::None => &[],
            Self::Snapshot(_, snapshot) => &snapshot.root,
            Self::Known(known) => &known.about().root,
        }
    }

    /// Whether it is a snapshot of these paths.
    pub fn is_of(&self, paths: &[String]) -> bool {
        match self {
            Self::None => false,
            Self::Snapshot(_, snapshot) => snapshot.paths == paths,
            Self::Known(_) => true,
        }
    }
}

impl Listing {
    /// A directory that the parent does not have.
    pub fn empty() -> Self {
        Self::Tree(Vec::new())
    }

    fn in_tree(entries: &[Entry], name: &[u8]) -> Option<usize> {
        let at = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
        at.ok()
    }

    /// The entries as they are stored; none of what is only remembered.
    pub fn entries(&self) -> &[Entry] {
        match self {
            Self::Tree(entries) => entries,
            Self::Known(..) => &[],
        }
    }

    /// The entry of this name as it is stored.
    pub fn entry(&self, name: &[u8]) -> Option<&Entry> {
        let entries = self.entries();
        Self::in_tree(entries, name).map(|at| &entries[at])
    }

    /// Whether there is an entry of this name.
    pub fn has(&self, name: &[u8]) -> bool {
        match self {
            Self::Tree(entries) => Self::in_tree(entries, name).is_some(),
            Self::Known(entries, mask) => known_files::find(entries, mask, name).is_some(),
        }
    }

    /// The file of this name.
    pub fn file(&self, name: &[u8]) -> Option<KnownFile<'_>> {
        match self {
            Self::Tree(entries) => {
                let entry = &entries[Self::in_tree(entries, name)?];
                let Kind::File { size, content } = &entry.kind else {
                    return None;
                };
                Some(KnownFile {
                    size: *size,
                    mtime: entry.mtime,
                    ctime: entry.ctime,
                    inode: entry.inode,
                    content,
                    xattrs: Some(&entry.xattrs),
                })
            }
            Self::Known(entries, mask) => {
                let entry = known_files::find(entries, mask, name)?;
                let KnownKind::File { size, content } = &entry.kind else {
                    return None;
                };
                Some(KnownFile {
                    size: *size,
                    mtime: entry.mtime,
                    ctime: entry.ctime,
                    inode: entry.inode,
                    content,
                    xattrs: (!entry.has_xattrs).then_some(&[]),
                })
            }
        }
    }

    /// The content of the directory of this name.
    pub fn directory(&self, name: &[u8]) -> Option<&[Piece]> {
        match self {
            Self::Tree(entries) => {
                let content = entries[Self::in_tree(entries, name)?].directory();
                content.map(Vec::as_slice)
            }
            Self::Known(entries, mask) => match &known_files::find(entries, mask, name)?.kind {
                KnownKind::Directory { content } => Some(content),
                _ => None,
            },
        }
    }

    /// The whole entry of this name.
    pub fn whole(&self, name: &[u8]) -> Option<Whole> {
        match self {
            Self::Tree(entries) => {
                let at = Self::in_tree(entries, name)?;
                Some(Whole::Entry(Box::new(entries[at].clone())))
            }
            Self::Known(entries, mask) => {
                let whole = known_files::find(entries, mask, name)?.whole()?;
                Some(Whole::Masked(whole, Arc::clone(mask)))
            }
        }
    }
}

impl Whole {
    /// Whether this is the same entry.
    pub fn is(&self, entry: &Entry) -> bool {
        match self {
            Self::Entry(known) => **known == *entry,
            Self::Masked(known, mask) => mask.whole(entry) == *known,
        }
    }
}
