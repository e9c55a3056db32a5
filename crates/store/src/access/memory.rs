//! What this machine has seen of a repository, so that it notices when the repository comes back
//! older or has lost a snapshot.
//!
//! ```text
//! salt (32) · sealed: count, number, records, has_writers, at, snapshots
//! ```
//! A file for each repository and key, sealed with the key's own secret: nobody else can change
//! what it says. Whoever removes it makes the machine see the repository for the first time.
//!
//! Beside these, a file `key-<hash of the location>` names the key that has opened a repository
//! last. Each try of a password is slow on purpose, and a far key takes a round trip, so this key
//! is read and tried first.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tabane_storage::protocol::TAKE_BACK_MAX;
use tabane_storage::sync::both;
use tabane_storage::{Id, Listed, ObjectKind, Storage, object_id, random};
use zeroize::Zeroizing;

use crate::access::forgotten::{self, RECORD_AGE_MIN};
use crate::access::private_file;
use crate::access::repository::Repository;
use tabane_format::crypto::ObjectKey;
use tabane_format::{Error, Result};

const SALT_LEN: usize = 32;

/// A directory in which a machine remembers what it has seen of repositories.
#[derive(Clone, Debug)]
pub struct Memory {
    root: PathBuf,
    /// Whether a warning has said that it cannot be used.
    is_told: Arc<AtomicBool>,
}

/// What was seen of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    /// How often this was written.
    count: u64,
    /// The highest number of a record of removed snapshots.
    number: u64,
    /// The records.
    records: BTreeSet<Id>,
    /// Whether there are write-only keys.
    has_writers: bool,
    /// When this was written, by this machine's clock.
    at: Timestamp,
    /// The snapshots.
    snapshots: BTreeSet<Id>,
}

impl Seen {
    /// Whether the records of all that was removed since are still there.
    fn can_be_judged(&self, repository: &Repository, now: Timestamp) -> bool {
        repository.format() > 1 && now.duration_since(self.at) <= RECORD_AGE_MIN
    }
}

/// How a repository differs from what was seen before, though it should not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollback {
    /// Snapshots that were there, and that nobody has removed with a full key.
    pub missing: Vec<Id>,
    /// The highest number of a record of removed snapshots that was seen, and the highest one now.
    pub numbers: Option<(u64, u64)>,
    /// The config no longer says that there are write-only keys.
    pub lost_writers: bool,
    /// When the repository was last seen.
    pub seen: Option<Timestamp>,
}

/// What is to be remembered.
pub struct Recalled {
    /// How the repository differs from what was seen before.
    pub rollback: Rollback,
    now: Seen,
    path: PathBuf,
}

impl Rollback {
    /// Whether the repository is as it should be.
    pub fn is_none(&self) -> bool {
        self.missing.is_empty() && self.numbers.is_none() && !self.lost_writers
    }

    /// What is wrong, a sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let seen = match self.seen {
            Some(seen) => format!("on {}", seen.strftime("%F")),
            None => "before".to_owned(),
        };
        let missing = self.missing.iter().map(|id| {
            format!("snapshot {id} was there {seen} and is gone, and nobody removed it with a key")
        });
        let older = self.numbers.map(|(was, is)| {
            format!(
                "the repository is older than {seen}: it had record {was} of removed snapshots, \
                 and the latest is number {is} now"
            )
        });
        let writers = self.lost_writers.then(|| {
            format!(
                "the config is older than {seen}: it no longer says that there are write-only keys"
            )
        });
        missing.chain(older).chain(writers).collect()
    }
}

impl fmt::Display for Rollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentences().join("; "))
    }
}

impl Memory {
    /// What is remembered below the directory `root`, which is made when needed.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            is_told: Arc::default(),
        }
    }

    /// Where machines remember by default: `$XDG_STATE_HOME/tabane`, else `~/.local/state/tabane`;
    /// nothing where the environment names no place.
    pub fn default_root() -> Option<PathBuf> {
        let folder = |name| std::env::var_os(name).map(PathBuf::from);
        // Relative paths are to be passed over (XDG Base Directory Specification).
        folder("XDG_STATE_HOME")
            .filter(|root| root.is_absolute())
            .or_else(|| Some(folder("HOME")?.join(".local/state")))
            .filter(|root| root.is_absolute())
            .map(|root| root.join("tabane"))
    }

    fn key_path(&self, storage: &dyn Storage) -> PathBuf {
        let location = object_id(&[storage.location().as_bytes()]);
        self.root.join(format!("key-{location}"))
    }

    /// The key that has opened the repository at this place last, if that is noted. It may be gone.
    pub(crate) fn last_key(&self, storage: &dyn Storage) -> Option<Id> {
        let noted = private_file::read(&self.key_path(storage)).ok()?;
        str::from_utf8(&noted).ok()?.parse().ok()
    }

    /// Notes that this key has opened the repository.
    pub(crate) fn note_key(&self, storage: &dyn Storage, key: Id) {
        let noted = key.to_string();
        let _ = private_file::write(&self.key_path(storage), noted.as_bytes(), false);
    }

    fn path(&self, repository: &Repository) -> PathBuf {
        let id = repository.config().id;
        self.root.join(match repository.writer() {
            None => format!("seen-{id}"),
            Some(writer) => format!("seen-{id}-{writer}"),
        })
    }

    fn read(&self, repository: &Repository) -> Option<Seen> {
        let path = self.path(repository);
        let bytes = match private_file::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    note(repository, &path, &error);
                }
                return None;
            }
        };
        let seen = bytes
            .split_first_chunk::<SALT_LEN>()
            .and_then(|(salt, sealed)| {
                let mut sealed = sealed.to_vec();
                let opened = key(repository, salt).open(0, &mut sealed)?.to_vec();
                postcard::from_bytes(&opened).ok()
            });
        if seen.is_none() {
            note(repository, &path, &"it is damaged, or of another key");
        }
        seen
    }

    /// The highest number of a record that was seen; 0 if none was.
    pub(crate) fn number(&self, repository: &Repository) -> u64 {
        self.read(repository).map_or(0, |seen| seen.number)
    }

    /// Fails if a listing lacks snapshots that were seen before, and that nobody has removed: what
    /// they need must not go.
    ///
    /// # Errors
    /// [`Error::SnapshotLost`]; when the storage fails.
    pub(crate) fn want_all(
        &self,
        repository: &Repository,
        is_listed: impl Fn(&Id) -> bool,
    ) -> Result<()> {
        let before = self.read(repository).unwrap_or_default();
        let missing = before.snapshots.iter().filter(|id| !is_listed(id));
        let mut missing: Vec<Id> = missing.copied().collect();
        if missing.is_empty() || !before.can_be_judged(repository, Timestamp::now()) {
            return Ok(());
        }
        for record in forgotten::read(repository)?.values() {
            missing.retain(|id| !record.snapshots.contains_key(id));
        }
        let rollback = Rollback {
            missing,
            seen: Some(before.at),
            ..Rollback::default()
        };
        let first = rollback.sentences().into_iter().next();
        first.map_or(Ok(()), |first| Err(Error::SnapshotLost(first)))
    }

    /// Remembers that these snapshots are no longer there, and the record that says so, with its
    /// number.
    pub(crate) fn forget(
        &self,
        repository: &Repository,
        snapshots: &[Id],
        record: Option<(Id, u64)>,
    ) {
        if let Some(mut now) = self.read(repository) {
            now.count += 1;
            if let Some((record, number)) = record {
                now.records.insert(record);
                now.number = now.number.max(number);
            }
            now.snapshots.retain(|id| !snapshots.contains(id));
            let recalled = Recalled {
                rollback: Rollback::default(),
                now,
                path: self.path(repository),
            };
            recalled.remember(repository, None);
        }
    }

    /// Compares the repository with what was seen of it before.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn recall(&self, repository: &Repository) -> Result<Recalled> {
        let before = self.read(repository);
        let is_first = before.is_none();
        let before = before.unwrap_or_default();
        let list = |kind| repository.list_with_times(kind);
        let list_records = || list(ObjectKind::Forgotten);
        // A snapshot counts as seen when it is confirmed: it was listed, then no pending object
        // that is older than it, and is still there. Of a server it must be so old that a client
        // that may only add can no longer take it back: whoever stole its key could otherwise make
        // a forged snapshot look lost.
        let list_snapshots = || {
            let first = match repository.first_list(ObjectKind::Snapshot) {
                Some(first) => first,
                None => list(ObjectKind::Snapshot)?,
            };
            let pending = list(ObjectKind::Pending)?;
            Ok::<_, Error>((first, pending, list(ObjectKind::Snapshot)?))
        };
        let (lists, records) = both(repository.is_far(), list_snapshots, list_records);
        let (first, pending, listed) = lists?;
        let oldest = pending.iter().map(|pending| pending.modified).min();
        let there: BTreeSet<Id> = listed.iter().map(|listed| listed.id).collect();
        // The server's clock may be ahead.
        let times = first.iter().chain(&pending).map(|listed| listed.modified);
        let latest = times.fold(SystemTime::now(), SystemTime::max);
        let is_confirmed = |snapshot: &&Listed| {
            let is_older = |oldest: SystemTime| snapshot.modified < oldest;
            let age = latest.duration_since(snapshot.modified);
            oldest.is_none_or(is_older)
                && there.contains(&snapshot.id)
                && age.is_ok_and(|age| age >= TAKE_BACK_MAX)
        };
        let mut now = Seen {
            count: before.count + 1,
            number: before.number,
            records: records?.iter().map(|record| record.id).collect(),
            has_writers: repository.config().has_writers() || before.has_writers,
            at: Timestamp::now(),
            snapshots: first
                .iter()
                .filter(is_confirmed)
                .map(|one| one.id)
                .collect(),
        };
        let mut rollback = Rollback {
            lost_writers: before.has_writers && !repository.config().has_writers(),
            seen: (!is_first).then_some(before.at),
            ..Rollback::default()
        };
        now.snapshots.extend(before.snapshots.intersection(&there));
        let mut missing: BTreeSet<Id> = before.snapshots.difference(&there).copied().collect();
        if !missing.is_empty() || now.records != before.records {
            // Listed after the snapshots: a record is there before its snapshots are deleted.
            let records = forgotten::read(repository)?;
            now.records = records.keys().copied().collect();
            let number = records
                .values()
                .map(|record| record.number)
                .max()
                .unwrap_or(0);
            if number < before.number {
                rollback.numbers = Some((before.number, number));
            }
            now.number = number.max(before.number);
            for id in records.values().flat_map(|record| record.snapshots.keys()) {
                missing.remove(id);
            }
        }
        if !before.can_be_judged(repository, now.at) {
            missing.clear();
        }
        now.snapshots.extend(&missing);
        rollback.missing = missing.into_iter().collect();
        Ok(Recalled {
            rollback,
            now,
            path: self.path(repository),
        })
    }
}

impl Recalled {
    /// Remembers what was seen, and a snapshot that was made since. If that is impossible, a
    /// warning says so.
    pub(crate) fn remember(mut self, repository: &Repository, made: Option<Id>) {
        self.now.snapshots.extend(made);
        if let Err(error) = self.write(repository) {
            note(repository, &self.path, &error);
        }
    }

    fn write(&self, repository: &Repository) -> io::Result<()> {
        let salt: [u8; SALT_LEN] = random();
        let mut bytes = salt.to_vec();
        bytes.extend(postcard::to_stdvec(&self.now).expect("it is plain data"));
        key(repository, &salt).seal(0, &mut bytes, SALT_LEN);
        private_file::write(&self.path, &bytes, true)
    }
}

fn key(repository: &Repository, salt: &[u8]) -> ObjectKey {
    let mut key = Zeroizing::new([0; 32]);
    let keys = repository.keys();
    keys.derive_local(salt, b"tabane/2 memory", &mut *key);
    ObjectKey::new(&key)
}

fn note(repository: &Repository, path: &Path, why: &dyn fmt::Display) {
    let is_told = repository
        .memory()
        .is_some_and(|memory| memory.is_told.swap(true, Relaxed));
    if !is_told {
        let what = "what this machine has seen of the repository cannot be compared or remembered";
        repository
            .progress()
            .warning(path, &format!("{what}: {why}"));
    }
}

impl Repository {
    /// How the repository differs from what this machine has seen before; nothing if it remembers
    /// nothing.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn compare_with_memory(&self) -> Result<Option<Rollback>> {
        Ok(self.recall()?.map(|recalled| recalled.rollback))
    }

    /// Records that these snapshots, which are gone, were removed on purpose: clients that have
    /// seen them no longer report them, nor that the repository is older than they remember.
    ///
    /// # Errors
    /// [`Error::WriteOnly`], [`Error::SnapshotThere`]; when the storage fails.
    pub fn give_up_snapshots(&self, snapshots: &[Id]) -> Result<()> {
        self.keys().need_master("giving up snapshots")?;
        for &id in snapshots {
            if self.has(tabane_storage::Name::new(ObjectKind::Snapshot, id))? {
                return Err(Error::SnapshotThere(id));
            }
        }
        forgotten::record_next(self, snapshots)?;
        if let Some(mut recalled) = self.recall()? {
            recalled.now.has_writers = self.config().has_writers();
            recalled.remember(self, None);
        }
        Ok(())
    }
}
