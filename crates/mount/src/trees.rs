//! Directories of snapshots, and inode numbers of their entries.
//!
//! All entries of a directory get numbers in a row when it is first looked at, so a directory costs
//! a few bytes for good, and a file none. The entries themselves are kept for the directories that
//! were used last.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use fuser::INodeNo;
use tabane_store::Result;
use tabane_store::entry::{Entry, HardLink, Kind, Piece};
use tabane_store::segment_cache::SegmentCache;

/// Bytes that directories are kept in, about.
const KEPT_LEN: usize = 32 << 20;

/// A directory of a snapshot.
pub struct Directory {
    /// Inode number of the directory.
    pub inode: u64,
    /// The directory's entries, sorted by name.
    pub entries: Vec<Entry>,
    /// Number of the first entry.
    first: u64,
    /// Numbers of those entries that have an earlier name elsewhere.
    aliases: HashMap<usize, u64>,
    /// About how many bytes it takes.
    len: usize,
}

impl Directory {
    /// The inode number of an entry.
    pub fn inode_of(&self, at: usize) -> u64 {
        match self.aliases.get(&at) {
            Some(&inode) => inode,
            None => self.first + at as u64,
        }
    }

    /// Position of the entry with this name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let found = self
            .entries
            .binary_search_by(|entry| entry.name.as_slice().cmp(name));
        found.ok()
    }
}

/// The directories of all snapshots that were looked at.
pub struct Trees {
    cache: Arc<SegmentCache>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last number that was given.
    last: u64,
    /// Roots of snapshots.
    roots: HashMap<u64, Root>,
    /// Directories in the order of their first look-up, and so of their numbers.
    numbered: Vec<Numbered>,
    /// Position of a directory in `numbered`.
    places: HashMap<u64, usize>,
    links: HashMap<Link, Links>,
    kept: HashMap<u64, (Arc<Directory>, u64)>,
    kept_len: usize,
    clock: u64,
}

struct Root {
    content: Vec<Piece>,
    /// The directory that it is in.
    above: u64,
}

/// A directory whose entries have numbers.
struct Numbered {
    /// Inode number of the first entry.
    first: u64,
    /// Inode number of the directory.
    inode: u64,
    /// Inode number of the root of its snapshot.
    root: u64,
}

/// Names that belong together: inode numbers are used again, so the content is a part of it.
type Link = (u64, HardLink, u64);

struct Links {
    inode: u64,
    seen: u32,
}

impl Trees {
    /// Empty trees.
    pub fn new(cache: Arc<SegmentCache>) -> Self {
        let state = State {
            last: INodeNo::ROOT.0,
            ..State::default()
        };
        Self {
            cache,
            state: Mutex::new(state),
        }
    }

    /// A number for something else.
    pub fn new_number(&self) -> u64 {
        let mut state = self.lock();
        state.last += 1;
        state.last
    }

    /// Makes an inode number for the root of a snapshot with this content, in the directory
    /// `above`.
    pub fn add_root(&self, content: Vec<Piece>, above: u64) -> u64 {
        let mut state = self.lock();
        state.last += 1;
        let inode = state.last;
        state.roots.insert(inode, Root { content, above });
        inode
    }

    /// The number of the directory that a directory is in.
    pub fn above(&self, inode: u64) -> u64 {
        let state = self.lock();
        match state.roots.get(&inode) {
            Some(root) => root.above,
            None => state
                .holder(inode)
                .map_or(INodeNo::ROOT.0, |holder| holder.inode),
        }
    }

    /// The directory with this number; nothing if it is none.
    ///
    /// # Errors
    /// When it, or one above it, cannot be read.
    pub fn directory(&self, inode: u64) -> Result<Option<Arc<Directory>>> {
        // Climbs to a kept directory or the root, then reads downwards.
        let mut below = Vec::new();
        let mut at = inode;
        let mut directory = loop {
            let mut state = self.lock();
            if let Some(kept) = state.kept(at) {
                break kept;
            }
            if let Some(root) = state.roots.get(&at) {
                let content = root.content.clone();
                drop(state);
                break self.read(at, at, &content)?;
            }
            let Some(holder) = state.holder(at) else {
                return Ok(None);
            };
            below.push((at, at - holder.first, holder.root));
            at = holder.inode;
        };
        while let Some((inode, at, root)) = below.pop() {
            let Some(content) = directory
                .entries
                .get(at as usize)
                .and_then(Entry::directory)
            else {
                return Ok(None);
            };
            directory = self.read(inode, root, content)?;
        }
        Ok(Some(directory))
    }

    /// The entry with this number: the directory that has it, and where.
    ///
    /// # Errors
    /// When the directory, or one above it, cannot be read.
    pub fn entry(&self, inode: u64) -> Result<Option<(Arc<Directory>, usize)>> {
        let Some((holder, at)) = self
            .lock()
            .holder(inode)
            .map(|holder| (holder.inode, (inode - holder.first) as usize))
        else {
            return Ok(None);
        };
        let directory = self.directory(holder)?;
        Ok(directory
            .filter(|directory| at < directory.entries.len())
            .map(|directory| (directory, at)))
    }

    /// Number of an entry's names seen so far; at least two if it has several.
    pub fn links(&self, directory: &Directory, at: usize) -> u32 {
        let entry = &directory.entries[at];
        let Some(link) = entry.hard_link else {
            return 1;
        };
        let state = self.lock();
        let root = state.places.get(&directory.inode);
        let root = root.map_or(0, |&place| state.numbered[place].root);
        let links = state.links.get(&(root, link, fingerprint(&entry.kind)));
        links.map_or(2, |links| links.seen.max(2))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    fn read(&self, inode: u64, root: u64, content: &[Piece]) -> Result<Arc<Directory>> {
        let entries = self.cache.directory(content)?;
        let mut state = self.lock();
        if let Some(kept) = state.kept(inode) {
            return Ok(kept);
        }
        let place = state.places.get(&inode).copied();
        let first = match place {
            Some(place) => state.numbered[place].first,
            None => {
                let first = state.last + 1;
                state.last += entries.len() as u64;
                let numbered = Numbered { first, inode, root };
                state.numbered.push(numbered);
                let place = state.numbered.len() - 1;
                state.places.insert(inode, place);
                first
            }
        };
        let mut aliases = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            let Some(link) = entry.hard_link else {
                continue;
            };
            let own = first + at as u64;
            let links = state
                .links
                .entry((root, link, fingerprint(&entry.kind)))
                .or_insert(Links {
                    inode: own,
                    seen: 0,
                });
            // Counted once, however often the directory is read.
            links.seen += u32::from(place.is_none());
            if links.inode != own {
                aliases.insert(at, links.inode);
            }
        }
        let directory = Arc::new(Directory {
            inode,
            len: entries.iter().map(len).sum(),
            entries,
            first,
            aliases,
        });
        state.keep(&directory);
        Ok(directory)
    }
}

impl State {
    /// The directory that has the entry with this number.
    fn holder(&self, inode: u64) -> Option<&Numbered> {
        // An empty directory takes no number, so that several may begin at the same one: the last
        // of them has the entry.
        let behind = self
            .numbered
            .partition_point(|numbered| numbered.first <= inode);
        self.numbered.get(behind.checked_sub(1)?)
    }

    fn kept(&mut self, inode: u64) -> Option<Arc<Directory>> {
        self.clock += 1;
        let (directory, used) = self.kept.get_mut(&inode)?;
        *used = self.clock;
        Some(Arc::clone(directory))
    }

    fn keep(&mut self, directory: &Arc<Directory>) {
        self.clock += 1;
        self.kept_len += directory.len;
        let entry = (Arc::clone(directory), self.clock);
        self.kept.insert(directory.inode, entry);
        if self.kept_len <= KEPT_LEN {
            return;
        }
        // The older half at once, so that looking for it is rare.
        let mut uses: Vec<(u64, u64)> = self
            .kept
            .iter()
            .map(|(inode, (_, used))| (*used, *inode))
            .collect();
        uses.sort_unstable();
        uses.pop();
        for (_, inode) in uses {
            if self.kept_len <= KEPT_LEN / 2 {
                break;
            }
            if let Some((directory, _)) = self.kept.remove(&inode) {
                self.kept_len -= directory.len;
            }
        }
    }
}

/// About how many bytes an entry takes.
fn len(entry: &Entry) -> usize {
    let pieces = match &entry.kind {
        Kind::File { content, .. } | Kind::Directory { content } => content.len(),
        _ => 0,
    };
    let xattrs = entry.xattrs.iter();
    let xattrs: usize = xattrs
        .map(|xattr| xattr.name.len() + xattr.value.len())
        .sum();
    size_of::<Entry>() + entry.name.len() + pieces * size_of::<Piece>() + xattrs
}

/// Differs for what cannot be one inode.
fn fingerprint(kind: &Kind) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(kind).hash(&mut hasher);
    match kind {
        Kind::File { content, .. } | Kind::Directory { content } => {
            for piece in content {
                match piece {
                    Piece::Block { id, .. } => id.hash(&mut hasher),
                    Piece::Hole { len } => len.hash(&mut hasher),
                }
            }
        }
        Kind::Symlink { target } => target.hash(&mut hasher),
        Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
            (major, minor).hash(&mut hasher);
        }
        Kind::Fifo | Kind::Socket => {}
    }
    hasher.finish()
}
