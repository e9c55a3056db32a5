//! Finds and lists entries of snapshots.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::access::segment_cache::SegmentCache;
use tabane_format::entry::{Entry, Flags, Kind, Piece, Time};
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_index::Index;
use tabane_storage::Id;

/// Reads what snapshots consist of: a [`Browser`] for one thread, a shared [`SegmentCache`] for
/// many.
pub trait TreeReader {
    /// The entries of a directory, sorted by name.
    ///
    /// # Errors
    /// When the storage fails, a block is missing or damaged.
    fn directory(&mut self, content: &[Piece]) -> Result<Vec<Entry>>;

    /// Reads a block of `len` bytes and appends it to `out`.
    ///
    /// # Errors
    /// When the storage fails, the block is missing, damaged or of another length.
    fn append_block(&mut self, block: Id, len: u32, out: &mut Vec<u8>) -> Result<()>;

    /// Hears which blocks will be read soon, in this order; may do nothing.
    fn read_ahead(&mut self, blocks: &mut dyn Iterator<Item = (Id, u32)>) {
        let _ = blocks;
    }
}

impl TreeReader for Browser {
    fn directory(&mut self, content: &[Piece]) -> Result<Vec<Entry>> {
        Self::directory(self, content)
    }

    fn append_block(&mut self, block: Id, len: u32, out: &mut Vec<u8>) -> Result<()> {
        let before = out.len();
        Self::append_block(self, block, out)?;
        if out.len() - before == len as usize {
            return Ok(());
        }
        let block = format!("block {block}");
        Err(Error::damaged(block, "it has another length"))
    }
}

impl TreeReader for Arc<SegmentCache> {
    fn directory(&mut self, content: &[Piece]) -> Result<Vec<Entry>> {
        SegmentCache::directory(self, content)
    }

    fn append_block(&mut self, block: Id, len: u32, out: &mut Vec<u8>) -> Result<()> {
        self.append(block, len, 0..len as usize, out)
    }

    fn read_ahead(&mut self, blocks: &mut dyn Iterator<Item = (Id, u32)>) {
        SegmentCache::read_ahead(self, blocks);
    }
}

/// Reads directories and files of a repository, for one thread.
pub struct Browser {
    index: Arc<Index>,
    reader: BlockReader,
}

impl Browser {
    /// A browser that loads the index.
    ///
    /// # Errors
    /// When the storage fails or the index is damaged.
    pub fn new(repository: &Repository) -> Result<Self> {
        let index = Arc::new(repository.load_index()?);
        Ok(Self::with_index(repository, index))
    }

    /// A browser that uses a loaded index.
    pub fn with_index(repository: &Repository, index: Arc<Index>) -> Self {
        Self {
            index,
            reader: BlockReader::new(repository),
        }
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The entries of a directory, sorted by name.
    ///
    /// # Errors
    /// When the storage fails, a block is missing or damaged.
    pub fn directory(&mut self, content: &[Piece]) -> Result<Vec<Entry>> {
        self.reader.read_directory(&self.index, content)
    }

    /// Reads a block and appends it to `out`.
    ///
    /// # Errors
    /// When the storage fails, the block is missing or damaged.
    pub fn append_block(&mut self, block: Id, out: &mut Vec<u8>) -> Result<()> {
        self.reader.append_block(&self.index, block, out)
    }

    /// The entry of a snapshot at `path`; for `/`, [`root`]. Symbolic links are not followed.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`], or when a directory cannot be read.
    pub fn find(&mut self, id: Id, snapshot: &Snapshot, path: &Path) -> Result<Entry> {
        find_with(self, id, snapshot, path)
    }
}

/// As [`Browser::find`], with another reader of directories.
///
/// # Errors
/// [`Error::NoSuchPath`], or what the reader fails with.
pub fn find_with(
    reader: &mut impl TreeReader,
    id: Id,
    snapshot: &Snapshot,
    path: &Path,
) -> Result<Entry> {
    let path = absolute(path);
    let mut entry = root(snapshot);
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let mut entries = match entry.directory() {
            Some(content) => reader.directory(content)?,
            None => Vec::new(),
        };
        let found = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name.as_bytes()));
        entry = match found {
            Ok(at) => entries.swap_remove(at),
            Err(_) => {
                return Err(Error::NoSuchPath {
                    path: path.display().to_string(),
                    snapshot: id.short(),
                });
            }
        };
    }
    Ok(entry)
}

/// The directory `/` of a snapshot. Snapshots keep no attributes of it: it gets those of a
/// directory for everyone.
pub fn root(snapshot: &Snapshot) -> Entry {
    Entry {
        name: Vec::new(),
        mode: 0o755,
        uid: 0,
        gid: 0,
        mtime: Time::default(),
        ctime: Time::default(),
        atime: None,
        inode: 0,
        hard_link: None,
        xattrs: Vec::new(),
        flags: Flags::default(),
        kind: Kind::Directory {
            content: snapshot.root.clone(),
        },
    }
}

/// Normalises a path for lookup in a snapshot: from `/` on, without `.` and `..`.
pub fn absolute(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

/// What restic calls a kind of file: `file`, `dir`, `symlink`, `chardev`, `dev`, `fifo`, `socket`.
pub fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::File { .. } => "file",
        Kind::Directory { .. } => "dir",
        Kind::Symlink { .. } => "symlink",
        Kind::CharDevice { .. } => "chardev",
        Kind::BlockDevice { .. } => "dev",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
    }
}

/// An entry and its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// Path of the entry, from `/` on.
    pub path: PathBuf,
    /// The entry.
    pub entry: Entry,
}

/// Everything below a directory: each directory comes before its entries, which are sorted by name.
///
/// ```no_run
/// # fn example(repository: &tabane_store::Repository) -> tabane_store::Result<()> {
/// use tabane_store::browse::{Browser, Walk, root};
///
/// let (_, snapshot) = repository.find_snapshot("latest", &Default::default())?;
/// let mut browser = Browser::new(repository)?;
/// let mut walk = Walk::below("/".as_ref(), &root(&snapshot));
/// while let Some(entry) = walk.next(&mut browser)? {
///     println!("{}", entry.path.display());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Walk {
    /// Directories on the way to the current entry, each with its path and the entries left to
    /// visit.
    levels: Vec<(PathBuf, std::vec::IntoIter<Entry>)>,
    /// The directory to enter next.
    pending: Option<(PathBuf, Vec<Piece>)>,
}

impl Walk {
    /// A walk through everything below `entry`, whose path is `path`; the walk leaves out `entry`
    /// itself.
    pub fn below(path: &Path, entry: &Entry) -> Self {
        let content = entry.directory().cloned();
        Self {
            levels: Vec::new(),
            pending: content.map(|content| (path.to_owned(), content)),
        }
    }

    /// The next entry.
    ///
    /// # Errors
    /// When a directory cannot be read; the next call skips it.
    pub fn next(&mut self, reader: &mut impl TreeReader) -> Result<Option<PathEntry>> {
        if let Some((path, content)) = self.pending.take() {
            let entries = reader.directory(&content)?;
            self.levels.push((path, entries.into_iter()));
        }
        while let Some((path, entries)) = self.levels.last_mut() {
            let Some(entry) = entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = path.join(OsStr::from_bytes(&entry.name));
            if let Some(content) = entry.directory() {
                self.pending = Some((path.clone(), content.to_vec()));
            }
            return Ok(Some(PathEntry { path, entry }));
        }
        Ok(None)
    }

    /// Does not enter the directory that [`Walk::next`] returned last.
    pub fn skip_contents(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_looked_up_from_the_root() {
        for (given, looked_up) in [
            ("", "/"),
            ("/", "/"),
            ("a/b", "/a/b"),
            ("/a/./b/", "/a/b"),
            ("../a/../b", "/b"),
        ] {
            assert_eq!(absolute(Path::new(given)), Path::new(looked_up), "{given}");
        }
    }
}
