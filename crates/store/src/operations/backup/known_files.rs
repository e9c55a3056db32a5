//! What a client with a write-only key remembers of its last snapshot, which it cannot read: of
//! each file whatever shows that it has not changed, and the IDs of its blocks.
//!
//! ```text
//! salt (32) · directory … directory · index · length of the index (8)
//! ```
//! Directories and index are sealed under a key of this writer, each directory as the part of its
//! offset, the index as part 0. Names are masked, and neither extended attributes nor targets of
//! links are kept: whoever steals the key and this file learns no name of what was deleted since.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tabane_storage::{Id, random};
use zeroize::Zeroizing;

use crate::access::private_file::{self, TEMPORARY};
use crate::access::repository::Repository;
use tabane_format::crypto::{ObjectKey, TAG_LEN};
use tabane_format::entry::{Entry, Kind, Piece, Time};
use tabane_format::tree;
use tabane_format::{Error, Result};

const SALT_LEN: usize = 32;

/// Length of the length at the end, in bytes.
const TRAILER_LEN: u64 = 8;

/// Age from which a temporary file counts as left behind by a dead process.
const TEMPORARY_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A masked name, content or entry.
pub type Masked = [u8; 16];

/// Hides names, and tells entries and contents apart, with a key for each.
pub struct Mask {
    names: MaskKey,
    entries: MaskKey,
    contents: MaskKey,
}

struct MaskKey(Zeroizing<[u8; 32]>);

/// The secrets of one file.
struct Secrets {
    key: ObjectKey,
    mask: Arc<Mask>,
}

/// An entry as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownEntry {
    name: Masked,
    pub mtime: Time,
    pub ctime: Time,
    pub inode: u64,
    /// Whether it has extended attributes, which are then read again.
    pub has_xattrs: bool,
    pub kind: KnownKind,
    /// The whole entry, for a source of the backup.
    whole: Option<Masked>,
}

/// The content of a remembered entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KnownKind {
    File { size: u64, content: Vec<Piece> },
    Directory { content: Vec<Piece> },
    Other,
}

/// What a file says of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub snapshot: Id,
    pub start: Timestamp,
    pub total_bytes: u64,
    /// The content of `/`.
    pub root: Vec<Piece>,
}

#[derive(Serialize, Deserialize)]
struct Index {
    about: About,
    /// Masked contents of directories; offset and length of what is remembered of each.
    directories: Vec<(Masked, u64, u32)>,
}

/// Reads what is remembered of a snapshot.
pub struct KnownFiles {
    file: File,
    secrets: Secrets,
    about: About,
    directories: HashMap<Masked, (u64, u32)>,
}

/// Writes what is to be remembered of a snapshot.
pub struct KnownFilesWriter {
    /// Nothing after [`KnownFilesWriter::finish`].
    temporary: Option<PathBuf>,
    path: PathBuf,
    file: BufWriter<File>,
    secrets: Secrets,
    at: u64,
    directories: HashMap<Masked, (u64, u32)>,
    failed: Option<io::Error>,
}

impl Mask {
    /// Masks a name.
    pub fn name(&self, name: &[u8]) -> Masked {
        self.names.mask(name)
    }

    /// Masks a whole entry.
    pub fn whole(&self, entry: &Entry) -> Masked {
        self.entries
            .mask(&tree::encode(std::slice::from_ref(entry)))
    }

    fn content(&self, content: &[Piece]) -> Masked {
        let bytes = postcard::to_stdvec(content).expect("a content is plain data");
        self.contents.mask(&bytes)
    }
}

impl MaskKey {
    /// BLAKE3 with a key: for a name it takes a fifth of the time of HMAC-SHA-256.
    fn mask(&self, bytes: &[u8]) -> Masked {
        let hash = blake3::keyed_hash(&self.0, bytes);
        *hash.as_bytes().first_chunk().expect("the hash is longer")
    }
}

impl Secrets {
    fn new(repository: &Repository, salt: &[u8]) -> Self {
        let derive = |info: &[u8]| {
            let mut key = Zeroizing::new([0; 32]);
            repository.keys().derive_local(salt, info, &mut *key);
            key
        };
        Self {
            key: ObjectKey::new(&derive(b"tabane/2 known files")),
            mask: Arc::new(Mask {
                names: MaskKey(derive(b"tabane/2 known files names")),
                entries: MaskKey(derive(b"tabane/2 known files entries")),
                contents: MaskKey(derive(b"tabane/2 known files contents")),
            }),
        }
    }
}

/// The file for backups of these paths of this host; nothing without a cache.
fn path(repository: &Repository, hostname: &str, paths: &[String]) -> Option<PathBuf> {
    let cache = repository.cache()?;
    let writer = repository.writer()?;
    let identity = postcard::to_stdvec(&(hostname, paths)).expect("texts are plain data");
    // Whoever lists the folder learns no names.
    let name = Secrets::new(repository, b"name").mask.name(&identity);
    let folder = cache.folder(repository.config().id);
    Some(
        folder
            .join(format!("{writer}-files"))
            .join(hex::encode(name)),
    )
}

impl KnownFiles {
    /// Opens what is remembered of the last snapshot of these paths. Nothing if there is none, or
    /// if it is damaged.
    pub fn open(repository: &Repository, hostname: &str, paths: &[String]) -> Option<Self> {
        let path = path(repository, hostname, paths)?;
        Self::open_file(repository, &path).ok()
    }

    fn open_file(repository: &Repository, path: &Path) -> io::Result<Self> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut salt = [0; SALT_LEN];
        file.read_exact_at(&mut salt, 0)?;
        let secrets = Secrets::new(repository, &salt);
        let mut trailer = [0; TRAILER_LEN as usize];
        let end = len.checked_sub(TRAILER_LEN).ok_or_else(damaged)?;
        file.read_exact_at(&mut trailer, end)?;
        let start = end.checked_sub(u64::from_le_bytes(trailer));
        let start = start.filter(|start| *start >= SALT_LEN as u64);
        let start = start.ok_or_else(damaged)?;
        let mut index = vec![0; (end - start) as usize];
        file.read_exact_at(&mut index, start)?;
        let index = secrets.key.open(0, &mut index).ok_or_else(damaged)?;
        let index: Index = postcard::from_bytes(index).map_err(|_| damaged())?;
        let directories = index.directories.into_iter();
        Ok(Self {
            file,
            secrets,
            about: index.about,
            directories: directories
                .map(|(content, offset, len)| (content, (offset, len)))
                .collect(),
        })
    }

    /// What it is about.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Masks names as in the directories.
    pub fn mask(&self) -> &Arc<Mask> {
        &self.secrets.mask
    }

    /// The entries of the directory with this content, by masked names; none if it is unknown.
    pub fn directory(&self, content: &[Piece]) -> Vec<KnownEntry> {
        let known = self.directories.get(&self.secrets.mask.content(content));
        let read = known.and_then(|&(offset, len)| {
            let mut sealed = vec![0; len as usize];
            self.file.read_exact_at(&mut sealed, offset).ok()?;
            let bytes = self.secrets.key.open(offset, &mut sealed)?;
            postcard::from_bytes(bytes).ok()
        });
        // Files below an unknown directory are read again.
        read.unwrap_or_default()
    }
}

/// The entry of this name.
pub fn find<'a>(entries: &'a [KnownEntry], mask: &Mask, name: &[u8]) -> Option<&'a KnownEntry> {
    let name = mask.name(name);
    let at = entries.binary_search_by_key(&name, |entry| entry.name);
    at.ok().map(|at| &entries[at])
}

impl KnownEntry {
    /// The whole entry, masked.
    pub fn whole(&self) -> Option<Masked> {
        self.whole
    }
}

impl KnownFilesWriter {
    /// Begins to write for a backup of these paths; nothing without a cache, or if it cannot be
    /// written to.
    pub fn create(repository: &Repository, hostname: &str, paths: &[String]) -> Option<Self> {
        let path = path(repository, hostname, paths)?;
        let created = Self::create_at(repository, path);
        if let Err(error) = &created {
            let text = format!("the next backup reads all files again: {error}");
            repository.progress().note(&text);
        }
        created.ok()
    }

    fn create_at(repository: &Repository, path: PathBuf) -> io::Result<Self> {
        remove_leftovers(path.parent().expect("it is below the cache"));
        let (file, temporary) = private_file::create_beside(&path)?;
        let mut file = BufWriter::with_capacity(256 << 10, file);
        let salt: [u8; SALT_LEN] = random();
        file.write_all(&salt)?;
        Ok(Self {
            temporary: Some(temporary),
            path,
            file,
            secrets: Secrets::new(repository, &salt),
            at: SALT_LEN as u64,
            directories: HashMap::new(),
            failed: None,
        })
    }

    /// Remembers a directory; `sources` are the names of entries that are sources of the backup.
    pub fn directory(&mut self, content: &[Piece], entries: &[Entry], sources: &[Vec<u8>]) {
        let known = self.secrets.mask.content(content);
        if self.failed.is_some() || self.directories.contains_key(&known) {
            return;
        }
        let mask = &self.secrets.mask;
        let stored = entries.iter().map(|entry| KnownEntry {
            name: mask.name(&entry.name),
            mtime: entry.mtime,
            ctime: entry.ctime,
            inode: entry.inode,
            has_xattrs: !entry.xattrs.is_empty(),
            kind: match &entry.kind {
                Kind::File { size, content } => KnownKind::File {
                    size: *size,
                    content: content.clone(),
                },
                Kind::Directory { content } => KnownKind::Directory {
                    content: content.clone(),
                },
                _ => KnownKind::Other,
            },
            whole: sources.contains(&entry.name).then(|| mask.whole(entry)),
        });
        let mut stored: Vec<KnownEntry> = stored.collect();
        stored.sort_by_key(|entry| entry.name);
        let mut bytes = postcard::to_stdvec(&stored).expect("entries are plain data");
        self.secrets.key.seal(self.at, &mut bytes, 0);
        if let Err(error) = self.file.write_all(&bytes) {
            self.failed = Some(error);
            return;
        }
        self.directories
            .insert(known, (self.at, bytes.len() as u32));
        self.at += bytes.len() as u64;
    }

    /// Puts the file into its place.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn finish(mut self, about: About) -> Result<()> {
        let path = self.path.clone();
        self.try_finish(about).map_err(Error::path("write", path))
    }

    fn try_finish(&mut self, about: About) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let directories = self.directories.iter();
        let index = Index {
            about,
            directories: directories
                .map(|(known, &(at, len))| (*known, at, len))
                .collect(),
        };
        let mut bytes = postcard::to_stdvec(&index).expect("an index is plain data");
        bytes.reserve_exact(TAG_LEN);
        self.secrets.key.seal(0, &mut bytes, 0);
        self.file.write_all(&bytes)?;
        self.file.write_all(&(bytes.len() as u64).to_le_bytes())?;
        self.file.flush()?;
        // Not synced: a file that a crash of the machine left unfinished does not open.
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for KnownFilesWriter {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > TEMPORARY_AGE);
        if is_temporary && modified.is_ok_and(is_old) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
