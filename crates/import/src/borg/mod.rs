//! Repositories of borg 1.x.

mod compress;
mod convert;
mod item;
mod key;
mod msgpack;
mod segments;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use tabane_storage::{Files, Id, Progress, StorageErrorKind};
use tabane_store::chunker::BLOCK_LEN_MAX;
use tabane_store::snapshot::Summary;
use tabane_store::{Algorithm, Repository, Snapshot};

use crate::copy::{Place, Source};
use crate::error::{Error, Result, Sound};
use crate::import::import;
use crate::{Foreign, ImportOptions, Imported, Listing};
use convert::Converter;
use key::{Key, Mode};
use msgpack::Value;
use segments::Segments;

const PROGRAM: &str = "borg";

/// Bytes of a chunk without contents of files at most.
const CHUNK_LEN_MAX: usize = 256 << 20;

/// The chunk that names all archives.
const MANIFEST: Id = Id([0; 32]);

/// A repository of borg that was found, and not unlocked yet.
pub struct LockedBorg {
    files: Arc<dyn Files>,
    segments: Segments,
    /// The ID of the repository, in hexadecimal digits.
    id: String,
    /// The key in the repository itself, if it is there.
    key: Option<String>,
    mode: Mode,
}

/// A repository of borg.
pub struct Borg {
    chunks: Arc<Chunks>,
    manifest: Value,
}

/// What is needed to read chunks.
struct Chunks {
    files: Arc<dyn Files>,
    segments: Segments,
    key: Key,
}

impl LockedBorg {
    /// Finds a repository.
    ///
    /// # Errors
    /// [`Error::NoRepository`], [`Error::UnknownVersion`], damage, or when the place fails.
    pub fn find(files: Arc<dyn Files>) -> Result<Self> {
        let config = files
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
        let config = parse_config(&String::from_utf8_lossy(&config));
        let version = config.get("version").and_then(|text| text.parse().ok());
        match (version, config.get("segments_per_dir")) {
            (Some(1), Some(_)) => {}
            (Some(version), _) => {
                return Err(Error::UnknownVersion {
                    program: PROGRAM,
                    version,
                    known: "1",
                });
            }
            _ => {
                return Err(Error::NoRepository {
                    program: PROGRAM,
                    location: files.location(),
                });
            }
        }
        let segments = Segments::read(&*files)?;
        let manifest = segments.chunk(&*files, &MANIFEST)?;
        let manifest = manifest.map_err(|why| Error::damaged("the manifest", why))?;
        let mode = manifest.first().and_then(|code| Mode::of(*code));
        let unknown = || Error::damaged("the manifest", "its protection is not known");
        Ok(Self {
            mode: mode.ok_or_else(unknown)?,
            id: config.get("id").cloned().unwrap_or_default(),
            key: config.get("key").filter(|key| !key.is_empty()).cloned(),
            files,
            segments,
        })
    }

    /// Whether a passphrase is needed.
    pub fn needs_passphrase(&self) -> bool {
        self.mode != Mode::Plain
    }

    /// The ID of the repository, if its key is not in it: a key file begins with `BORG_KEY` and
    /// this ID.
    pub fn needs_key_file(&self) -> Option<&str> {
        (self.needs_passphrase() && self.key.is_none()).then_some(&self.id)
    }

    /// Unlocks it with a passphrase, and with the text of a key file if the key is not in it.
    ///
    /// # Errors
    /// [`Error::WrongPassword`], damage, or when the place fails.
    pub fn unlock(self, passphrase: &[u8], key_file: Option<&str>) -> Result<Borg> {
        let from_file = key_file
            .and_then(|text| text.split_once('\n'))
            .map(|(_, key)| key);
        let text = from_file.or(self.key.as_deref()).unwrap_or_default();
        let key = Key::open(text, passphrase, self.mode);
        let key = key.map_err(|why| Error::damaged("the key", why))?;
        let Some(key) = key else {
            return Err(Error::WrongPassword {
                keys: 1,
                location: self.files.location(),
            });
        };
        let chunks = Chunks {
            files: self.files,
            segments: self.segments,
            key,
        };
        let manifest = chunks.value(&MANIFEST)?;
        let manifest = manifest.map_err(|why| Error::damaged("the manifest", why))?;
        if manifest.int("version") != Some(1) {
            return Err(Error::damaged("the manifest", "its version is not known"));
        }
        Ok(Borg {
            chunks: Arc::new(chunks),
            manifest,
        })
    }
}

impl Borg {
    /// The location, for people.
    pub fn location(&self) -> String {
        self.chunks.files.location()
    }

    /// All archives, oldest first, without their roots and paths, and what of the repository is
    /// damaged. The name of an archive is a tag, its comment a description.
    ///
    /// # Errors
    /// When the place fails.
    pub fn snapshots(&self) -> Result<Listing> {
        let archives = self.manifest.map("archives").iter();
        let damage = self.chunks.segments.damage().iter();
        let damage = damage.map(|(path, why)| Ok(Err(Error::damaged(path, why))));
        archives
            .map(|(name, archive)| self.snapshot(name, archive))
            .chain(damage)
            .collect()
    }

    /// An archive of the manifest, or why it cannot be read; an error when the place fails.
    fn snapshot(&self, name: &Value, archive: &Value) -> Result<Result<Foreign>> {
        let name = match name {
            Value::Bytes(name) => String::from_utf8_lossy(name).into_owned(),
            _ => String::new(),
        };
        let what = format!("archive {name}");
        let id = archive.bytes("id").and_then(|id| id.try_into().ok());
        let Some(id) = id.map(Id) else {
            return Ok(Err(Error::damaged(what, "it has no ID")));
        };
        let archive = self.chunks.value(&id)?;
        let snapshot = archive.and_then(|archive| describe(id, name, &archive));
        let snapshot = snapshot.map_err(|why| Error::damaged(what, why));
        Ok(snapshot.map(|snapshot| Foreign {
            id,
            snapshot,
            tree: id,
        }))
    }

    /// Imports archives into `to`, as [`Restic::import`](crate::Restic::import) does snapshots.
    ///
    /// # Errors
    /// As there.
    pub fn import(
        self,
        options: ImportOptions,
        to: &Repository,
        snapshots: &[Foreign],
        progress: Arc<dyn Progress>,
    ) -> Result<Imported> {
        let mut converter = Converter::new(self.chunks);
        import(&mut converter, options, to, snapshots, &progress)
    }
}

impl Chunks {
    /// The bytes of a chunk without contents of files. `Ok(Err(…))` says why it is lost.
    fn bytes(&self, id: &Id) -> Result<Sound> {
        let sealed = self.segments.chunk(&*self.files, id)?;
        Ok(sealed.and_then(|mut sealed| {
            let mut bytes = Vec::new();
            let plain = self.key.open_chunk(&mut sealed)?;
            compress::decompress(plain, CHUNK_LEN_MAX, &mut bytes)?;
            if *id == MANIFEST || self.key.ids(&[&bytes]) == [*id] {
                Ok(bytes)
            } else {
                Err(format!("chunk {id} does not match its ID"))
            }
        }))
    }

    /// The only value in a chunk.
    fn value(&self, id: &Id) -> Result<Sound<Value>> {
        Ok(self.bytes(id)?.and_then(|bytes| Value::only(&bytes)))
    }
}

impl Source for Chunks {
    fn files(&self) -> &dyn Files {
        &*self.files
    }

    fn place(&self, id: &Id, attempt: usize) -> Option<Place> {
        self.segments.find(id).filter(|_| attempt == 0)
    }

    fn path(&self, file: u32) -> String {
        self.segments.path(file)
    }

    fn open(&self, _: &Id, _: &Place, sealed: &mut [u8], out: &mut Vec<u8>) -> Sound<()> {
        let plain = self.key.open_chunk(sealed)?;
        // One more, to tell what is too long.
        compress::decompress(plain, BLOCK_LEN_MAX as usize + 1, out)
    }

    fn ids(&self, blocks: &[&[u8]]) -> Vec<Id> {
        self.key.ids(blocks)
    }

    fn hash(&self) -> Option<Algorithm> {
        match self.key {
            Key::Plain => Some(Algorithm::Sha256),
            Key::Keyed(_) => None,
        }
    }
}

/// What an archive says of itself.
fn describe(id: Id, name: String, archive: &Value) -> Sound<Snapshot> {
    let time = |key: &str| archive.text(key).and_then(|text| read_time(&text));
    let start = time("time").ok_or("it has no time")?;
    let comment = archive
        .text("comment")
        .filter(|comment| !comment.is_empty());
    Ok(Snapshot {
        time: start,
        hostname: archive.text("hostname").unwrap_or_default(),
        username: archive.text("username").unwrap_or_default(),
        paths: Vec::new(),
        tags: vec![name],
        description: comment,
        retention: None,
        parent: None,
        original: Some(id),
        changes: 0,
        writer: None,
        root: Vec::new(),
        owners: None,
        program_version: PROGRAM.to_owned(),
        summary: Summary {
            start,
            end: time("time_end").unwrap_or(start),
            ..Summary::default()
        },
    })
}

/// Reads `2026-01-02T03:04:05.678901`, which is of UTC, or the same with an offset.
fn read_time(text: &str) -> Option<Timestamp> {
    let with_offset = text.parse().ok();
    with_offset.or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

/// The settings of an INI file of one section; a value goes on where a line begins with a space.
fn parse_config(text: &str) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if line.starts_with(char::is_whitespace) {
            let value: &mut String = settings.entry(last.clone()).or_default();
            *value += line.trim();
        } else if let Some((key, value)) = line.split_once('=') {
            last = key.trim().to_owned();
            settings.insert(last.clone(), value.trim().to_owned());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_times_are_read_as_borg_writes_them() {
        let text = "[repository]\nversion = 1\nid = 2de4\nkey = hqlh\n\tIGja\n\tfm+=\n";
        let settings = parse_config(text);
        assert_eq!(settings["version"], "1");
        assert_eq!(settings["key"], "hqlhIGjafm+=");
        let utc = read_time("2026-01-02T03:04:05.678901").expect("a time");
        assert_eq!(utc.to_string(), "2026-01-02T03:04:05.678901Z");
        let offset = read_time("2026-01-02T03:04:05+01:00").expect("a time");
        assert_eq!(offset.to_string(), "2026-01-02T02:04:05Z");
        assert_eq!(read_time("yesterday"), None);
    }
}
