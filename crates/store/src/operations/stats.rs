//! Sizes of snapshots, and of their blocks in the repository.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::access::browse::Browser;
use crate::access::repository::Repository;
use tabane_format::entry::{self, Entry, HardLink, Kind, Piece};
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_storage::Id;
use tabane_storage::ObjectKind;

/// Sizes of a set of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of snapshots.
    pub snapshots: u64,
    /// Files in all snapshots together; each name of an inode counts.
    pub files: u64,
    /// Directories, in all snapshots together.
    pub directories: u64,
    /// Links, devices and the like, in all snapshots together.
    pub others: u64,
    /// Bytes of restoring every snapshot: holes count, further names of an inode do not.
    pub restore_bytes: u64,
    /// Files with different contents.
    pub unique_files: u64,
    /// Bytes of these files without their holes.
    pub unique_file_bytes: u64,
    /// Bytes of holes among [`Stats::restore_bytes`], which take no room in the repository.
    pub hole_bytes: u64,
    /// Different blocks of files and directories.
    pub blocks: u64,
    /// Bytes of these blocks before compression.
    pub block_bytes: u64,
    /// Bytes of these blocks in the repository: their share of their segments.
    pub stored_bytes: u64,
}

impl Stats {
    /// Bytes of blocks before compression over their stored bytes.
    pub fn compression_ratio(&self) -> f64 {
        ratio(self.block_bytes, self.stored_bytes)
    }

    /// Bytes of files without holes over the bytes of their different blocks.
    pub fn deduplication_ratio(&self) -> f64 {
        let data = self.restore_bytes.saturating_sub(self.hole_bytes);
        ratio(data, self.block_bytes)
    }
}

/// Sizes of a whole repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepositoryStats {
    /// Number of objects: packs, index objects, snapshots, keys and the config.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Number of packs.
    pub packs: u64,
    /// Bytes of all packs.
    pub pack_bytes: u64,
    /// Bytes of the index objects.
    pub index_bytes: u64,
    /// Different blocks in the index, used by a snapshot or not.
    pub blocks: u64,
    /// Bytes of these blocks before compression.
    pub block_bytes: u64,
}

/// Sizes of a whole repository.
///
/// # Errors
/// When the storage fails.
pub fn of_repository(browser: &Browser, repository: &Repository) -> Result<RepositoryStats> {
    let mut stats = RepositoryStats::default();
    for kind in ObjectKind::ALL {
        let listed = match kind {
            ObjectKind::Config => {
                let config = tabane_storage::Name::CONFIG;
                let len = repository
                    .storage()
                    .stat(config)
                    .map_err(Error::storage("read", config))?;
                vec![(config.id, len)]
            }
            _ => repository.list(kind)?,
        };
        let bytes = listed.iter().map(|&(_, len)| len).sum::<u64>();
        stats.objects += listed.len() as u64;
        stats.object_bytes += bytes;
        match kind {
            ObjectKind::Pack => {
                stats.packs = listed.len() as u64;
                stats.pack_bytes = bytes;
            }
            ObjectKind::Index | ObjectKind::Unverified => stats.index_bytes += bytes,
            ObjectKind::Config
            | ObjectKind::Key
            | ObjectKind::Snapshot
            | ObjectKind::Pending
            | ObjectKind::Removal
            | ObjectKind::Client
            | ObjectKind::Target
            | ObjectKind::Set
            | ObjectKind::Deleted
            | ObjectKind::Copy
            | ObjectKind::Forgotten => {}
        }
    }
    for block in browser.index().blocks() {
        stats.blocks += 1;
        stats.block_bytes += u64::from(block?.1.len);
    }
    Ok(stats)
}

/// Sizes of some snapshots. A directory that several snapshots share is read once.
///
/// # Errors
/// When a directory cannot be read.
pub fn of_snapshots<'a>(
    browser: &mut Browser,
    repository: &Repository,
    snapshots: impl IntoIterator<Item = &'a Snapshot>,
) -> Result<Stats> {
    let mut counter = Counter {
        browser,
        repository,
        directories: HashMap::new(),
        contents: HashSet::new(),
        blocks: HashSet::new(),
        stats: Stats::default(),
    };
    for snapshot in snapshots {
        counter.snapshot(snapshot)?;
    }
    counter.finish()
}

/// Sums over a directory and everything below it.
#[derive(Default)]
struct Sums {
    files: u64,
    directories: u64,
    others: u64,
    /// Bytes of files with one name, and of their holes.
    bytes: u64,
    hole_bytes: u64,
    /// Inodes with several names, their bytes, and those of their holes.
    links: HashMap<HardLink, (u64, u64)>,
}

struct Counter<'a> {
    browser: &'a mut Browser,
    repository: &'a Repository,
    /// Sums of directories that were read, by content.
    directories: HashMap<Id, Rc<Sums>>,
    /// Contents of files.
    contents: HashSet<Id>,
    blocks: HashSet<Id>,
    stats: Stats,
}

/// A directory whose sums are being computed.
struct Level {
    content: Id,
    entries: std::vec::IntoIter<Entry>,
    sums: Sums,
}

impl Counter<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<()> {
        let sums = self.directory(&snapshot.root)?;
        self.stats.snapshots += 1;
        self.stats.files += sums.files;
        self.stats.directories += sums.directories;
        self.stats.others += sums.others;
        // Holes may have any length, so their sum may exceed 64 bits.
        let own = (sums.bytes, sums.hole_bytes);
        for &(bytes, holes) in sums.links.values().chain([&own]) {
            let stats = &mut self.stats;
            stats.restore_bytes = stats.restore_bytes.saturating_add(bytes);
            stats.hole_bytes = stats.hole_bytes.saturating_add(holes);
        }
        Ok(())
    }

    fn directory(&mut self, content: &[Piece]) -> Result<Rc<Sums>> {
        let mut levels = Vec::new();
        let mut done = self.enter(content, &mut levels)?;
        while let Some(level) = levels.last_mut() {
            if let Some(sums) = done.take() {
                level.sums.add(&sums);
            }
            match level.entries.next() {
                Some(entry) => match entry.directory() {
                    Some(content) => {
                        level.sums.directories += 1;
                        done = self.enter(content, &mut levels)?;
                    }
                    None => self.entry(&entry, &mut level.sums)?,
                },
                None => {
                    if let Some(level) = levels.pop() {
                        let sums = Rc::new(level.sums);
                        self.directories.insert(level.content, Rc::clone(&sums));
                        done = Some(sums);
                    }
                }
            }
        }
        Ok(done.unwrap_or_default())
    }

    /// Returns the known sums of a directory, or enters it.
    fn enter(&mut self, content: &[Piece], levels: &mut Vec<Level>) -> Result<Option<Rc<Sums>>> {
        let id = self.content_id(content);
        if let Some(known) = self.directories.get(&id) {
            return Ok(Some(Rc::clone(known)));
        }
        let entries = self.browser.directory(content)?;
        self.use_blocks(content)?;
        levels.push(Level {
            content: id,
            entries: entries.into_iter(),
            sums: Sums::default(),
        });
        Ok(None)
    }

    fn entry(&mut self, entry: &Entry, sums: &mut Sums) -> Result<()> {
        let Kind::File { size, content } = &entry.kind else {
            sums.others += 1;
            return Ok(());
        };
        sums.files += 1;
        let data = entry::blocks(entry).map(|(_, len)| u64::from(len)).sum();
        let holes = size.saturating_sub(data);
        match entry.hard_link {
            Some(link) => {
                sums.links.insert(link, (*size, holes));
            }
            None => {
                sums.bytes = sums.bytes.saturating_add(*size);
                sums.hole_bytes = sums.hole_bytes.saturating_add(holes);
            }
        }
        if self.contents.insert(self.content_id(content)) {
            self.stats.unique_files += 1;
            self.stats.unique_file_bytes += data;
            self.use_blocks(content)?;
        }
        Ok(())
    }

    fn use_blocks(&mut self, content: &[Piece]) -> Result<()> {
        for piece in content {
            if let Piece::Block { id, .. } = *piece
                && self.blocks.insert(id)
                && self.browser.index().find(&id)?.is_none()
            {
                return Err(Error::MissingBlock(id));
            }
        }
        Ok(())
    }

    /// One ID for a content of any number of pieces.
    fn content_id(&self, content: &[Piece]) -> Id {
        if let [Piece::Block { id, .. }] = content {
            return *id;
        }
        let mut bytes = Vec::with_capacity(content.len() * 33);
        for piece in content {
            match piece {
                Piece::Block { id, .. } => {
                    bytes.push(1);
                    bytes.extend_from_slice(&id.0);
                }
                Piece::Hole { len } => {
                    bytes.push(0);
                    bytes.extend_from_slice(&len.to_le_bytes());
                }
            }
        }
        self.repository.config().hash.digest(&bytes).into()
    }

    fn finish(mut self) -> Result<Stats> {
        let index = self.browser.index();
        let mut used_of_segment: HashMap<u32, u64> = HashMap::new();
        for id in &self.blocks {
            let Some(place) = index.find(id)? else {
                continue;
            };
            self.stats.block_bytes += u64::from(place.len);
            *used_of_segment.entry(place.segment).or_default() += u64::from(place.len);
        }
        self.stats.blocks = self.blocks.len() as u64;
        for (number, used) in used_of_segment {
            let segment = index.segment(number)?;
            let share = u128::from(used) * u128::from(segment.stored_len);
            self.stats.stored_bytes += (share / u128::from(segment.raw_len.max(1))) as u64;
        }
        Ok(self.stats)
    }
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.directories += other.directories;
        self.others += other.others;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.hole_bytes = self.hole_bytes.saturating_add(other.hole_bytes);
        self.links
            .extend(other.links.iter().map(|(link, bytes)| (*link, *bytes)));
    }
}

fn ratio(numerator: u64, denominator: u64) -> f64 {
    match denominator {
        0 => 1.0,
        _ => numerator as f64 / denominator as f64,
    }
}
