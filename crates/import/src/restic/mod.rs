//! Repositories of restic, versions 1 and 2.

mod blobs;
mod convert;
mod index;
mod key;
mod node;

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use tabane_storage::sync::try_each;
use tabane_storage::{Files, Id, Progress, StorageErrorKind};
use tabane_store::snapshot::Summary;
use tabane_store::{Repository, Snapshot};

use crate::error::{Error, Result};
use crate::import::import;
use crate::{Foreign, ImportOptions, Imported, Listing};
use blobs::Blobs;
use convert::Converter;
use index::Index;
use key::Key;

const PROGRAM: &str = "restic";

/// Bytes of an object without blobs at most, decompressed.
const OBJECT_LEN_MAX: u64 = 1 << 30;

/// A repository of restic.
pub struct Restic {
    files: Arc<dyn Files>,
    key: Key,
}

/// The file `config`.
#[derive(Deserialize)]
struct Config {
    version: u64,
}

/// A file in `snapshots/`.
#[derive(Deserialize)]
struct SnapshotFile {
    time: Timestamp,
    tree: Id,
    #[serde(default)]
    paths: Option<Vec<String>>,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    program_version: Option<String>,
    #[serde(default)]
    summary: Option<SummaryFile>,
}

#[derive(Deserialize)]
struct SummaryFile {
    backup_start: Timestamp,
    backup_end: Timestamp,
}

/// Reads a directory as an import does; returns the names of its entries, but for those that
/// cannot be entries.
///
/// # Errors
/// When the bytes are no directory.
pub fn read_tree(json: &[u8]) -> std::result::Result<Vec<Vec<u8>>, String> {
    let links: std::result::Result<node::Links, _> = serde_json::from_slice(json);
    let tree: node::Tree = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    links.map_err(|error| error.to_string())?;
    let name = |node: &node::Node| {
        let name = node.name().ok()?;
        let entry = node.entry(name).ok()?;
        let _ = node.owners();
        Some(entry.name)
    };
    Ok(tree.nodes.iter().filter_map(name).collect())
}

/// Reads a file of the index.
///
/// # Errors
/// What is wrong with the file.
pub fn read_index(json: &[u8]) -> std::result::Result<(), String> {
    Index::default().add(json)
}

impl Restic {
    /// Opens a repository with one of its passwords.
    ///
    /// # Errors
    /// [`Error::NoRepository`], [`Error::WrongPassword`], [`Error::UnknownVersion`], damage, or
    /// when the place fails.
    pub fn open(files: Arc<dyn Files>, password: &[u8]) -> Result<Self> {
        let mut sealed = files
            .read("config", None)
            .map_err(|error| match error.kind() {
                StorageErrorKind::NotFound | StorageErrorKind::NotADirectory => {
                    Error::NoRepository {
                        program: PROGRAM,
                        location: files.location(),
                    }
                }
                _ => Error::storage("config")(error),
            })?;
        let key_files = files.list("keys").map_err(Error::storage("keys"))?;
        // Other programs have a `config` too.
        if key_files.is_empty() {
            return Err(Error::NoRepository {
                program: PROGRAM,
                location: files.location(),
            });
        }
        let mut fault = None;
        for (path, _) in &key_files {
            let file = files.read(path, None).map_err(Error::storage(path))?;
            let key = match key::open_key_file(&file, password) {
                Ok(Some(key)) => key,
                Ok(None) => continue,
                Err(why) => {
                    fault.get_or_insert(Error::damaged(path, why));
                    continue;
                }
            };
            let plain = key
                .open(&mut sealed)
                .ok_or_else(|| Error::damaged("config", "it is not as it was written"))?;
            let config: Config =
                serde_json::from_slice(plain).map_err(|error| Error::damaged("config", error))?;
            if !(1..=2).contains(&config.version) {
                return Err(Error::UnknownVersion {
                    program: PROGRAM,
                    version: config.version,
                    known: "1 and 2",
                });
            }
            return Ok(Self { files, key });
        }
        Err(fault.unwrap_or_else(|| Error::WrongPassword {
            keys: key_files.len(),
            location: files.location(),
        }))
    }

    /// The location, for people.
    pub fn location(&self) -> String {
        self.files.location()
    }

    /// All snapshots, oldest first, without their roots.
    ///
    /// # Errors
    /// When the place fails.
    pub fn snapshots(&self) -> Result<Listing> {
        let files = self.list("snapshots")?;
        let read = try_each(&files, self.files.connections(), |path| {
            let snapshot = self.read_snapshot(path);
            match snapshot {
                Err(error @ Error::Damaged { .. }) => Ok(Err(error)),
                snapshot => snapshot.map(Ok),
            }
        })?;
        Ok(read.into_iter().collect())
    }

    /// Imports snapshots into `to`. Each becomes a snapshot whose
    /// [`original`](Snapshot::original) is restic's ID; those that are there already are passed
    /// over, so that an import that was interrupted goes on. Files stay cut where restic has cut
    /// them, so each blob becomes one block.
    ///
    /// Every blob is compared with its hash, and every file with its length. What is lost is
    /// reported to `progress`, counted in the snapshot's [`Summary::errors`] and left out; that is
    /// no error.
    ///
    /// # Errors
    /// When a place fails; [`tabane_store::Error::Cancelled`]. Blocks that were stored stay, and
    /// the next import finds them.
    pub fn import(
        self,
        options: ImportOptions,
        to: &Repository,
        snapshots: &[Foreign],
        progress: Arc<dyn Progress>,
    ) -> Result<Imported> {
        let index = self.read_index()?;
        if index.is_empty() && !snapshots.is_empty() {
            let why = "it names nothing; have the program that made the repository repair it";
            return Err(Error::damaged("index", why));
        }
        let blobs = Blobs {
            files: self.files,
            key: self.key,
            index,
        };
        let mut converter = Converter::new(Arc::new(blobs));
        import(&mut converter, options, to, snapshots, &progress)
    }

    fn read_snapshot(&self, path: &str) -> Result<Foreign> {
        let id = id_of(path).ok_or_else(|| Error::damaged(path, "its name is no ID"))?;
        let json = self.read_object(path)?;
        let file: SnapshotFile =
            serde_json::from_slice(&json).map_err(|error| Error::damaged(path, error))?;
        let mut paths = file.paths.unwrap_or_default();
        paths.sort();
        let (start, end) = match file.summary {
            Some(summary) => (summary.backup_start, summary.backup_end),
            None => (file.time, file.time),
        };
        let snapshot = Snapshot {
            time: file.time,
            hostname: file.hostname,
            username: file.username,
            paths,
            tags: file.tags.unwrap_or_default(),
            description: None,
            retention: None,
            parent: None,
            original: Some(id),
            changes: 0,
            writer: None,
            root: Vec::new(),
            owners: None,
            program_version: file.program_version.unwrap_or_else(|| PROGRAM.to_owned()),
            summary: Summary {
                start,
                end,
                ..Summary::default()
            },
        };
        Ok(Foreign {
            id,
            snapshot,
            tree: file.tree,
        })
    }

    fn read_index(&self) -> Result<Index> {
        let files = self.list("index")?;
        let objects = try_each(&files, self.files.connections(), |path| {
            self.read_object(path)
        })?;
        let mut index = Index::default();
        for (path, json) in files.iter().zip(objects) {
            index.add(&json).map_err(|why| Error::damaged(path, why))?;
        }
        Ok(index)
    }

    /// The paths of the objects in a folder.
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let listed = self.files.list(folder).map_err(Error::storage(folder))?;
        let objects = listed.into_iter().map(|(path, _)| path);
        // Others are what an interrupted upload leaves.
        Ok(objects.filter(|path| id_of(path).is_some()).collect())
    }

    /// Reads an object that has no blobs.
    fn read_object(&self, path: &str) -> Result<Vec<u8>> {
        let sealed = self.files.read(path, None);
        let mut sealed = sealed.map_err(Error::storage(path))?;
        let plain = self
            .key
            .open(&mut sealed)
            .ok_or_else(|| Error::damaged(path, "it is not as it was written"))?;
        match plain {
            // The first byte tells the version of what follows; JSON has none.
            [2, compressed @ ..] => {
                let mut bytes = Vec::new();
                let copied = zstd::Decoder::new(&*compressed).and_then(|decoder| {
                    let mut limited = std::io::Read::take(decoder, OBJECT_LEN_MAX);
                    std::io::copy(&mut limited, &mut bytes)
                });
                copied.map_err(|error| Error::damaged(path, error))?;
                Ok(bytes)
            }
            plain => Ok(plain.to_vec()),
        }
    }
}

/// The ID at the end of a path.
fn id_of(path: &str) -> Option<Id> {
    path.rsplit('/').next()?.parse().ok()
}
