//! Object lock: extends the locks of what snapshots need, and finds out what is locked for how
//! long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::Serialize;
use tabane_storage::sync::{lock, try_each};
use tabane_storage::{Id, Name, ObjectKind, StorageErrorKind};

use crate::access::private_file;
use crate::access::repository::Repository;
use tabane_format::{Error, Result};

/// Packs that are locked, by the days on which their locks end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Locked {
    /// The days, in UTC, with the number of packs and their bytes.
    pub until: BTreeMap<String, (u64, u64)>,
}

impl Locked {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    fn add(&mut self, until: SystemTime, len: u64) {
        // The lock may end at any time of that day.
        let day = Timestamp::try_from(until).map(|time| time.strftime("%F").to_string());
        let (packs, bytes) = self.until.entry(day.unwrap_or_default()).or_default();
        (*packs, *bytes) = (*packs + 1, *bytes + len);
    }
}

/// Asks a far storage already now whether it locks anything: of one that does not, this is known
/// then.
pub fn expect(repository: &Repository) {
    if repository.is_far() {
        // Of whatever object; what goes wrong is said when it is asked for.
        let _ = repository.storage().locked_until(Name::CONFIG);
    }
}

/// Takes those packs out of `packs` that are locked now, and adds them to `locked`; `len` gives the
/// bytes of a pack.
///
/// # Errors
/// When the storage fails.
pub fn take_locked(
    repository: &Repository,
    packs: &mut Vec<Id>,
    len: impl Fn(&Id) -> u64,
    locked: &mut Locked,
) -> Result<()> {
    let storage = repository.storage();
    let now = SystemTime::now();
    let until = try_each(packs, storage.connections(), |&pack| {
        let name = Name::new(ObjectKind::Pack, pack);
        match storage.locked_until(name) {
            Err(error) if error.kind() == StorageErrorKind::NotFound => Ok(None),
            until => until.map_err(Error::storage("read the lock of", name)),
        }
    })?;
    let mut until = until.into_iter();
    packs.retain(|pack| match until.next().expect("one for each") {
        Some(until) if until > now => {
            locked.add(until, len(pack));
            false
        }
        _ => true,
    });
    Ok(())
}

/// Locks these packs, and all that is needed to read them, for as long as the storage locks new
/// objects; returns the number of objects whose locks were extended. Without object lock, does
/// nothing.
///
/// # Errors
/// When the storage fails.
pub fn extend(repository: &Repository, packs: impl IntoIterator<Item = Id>) -> Result<u64> {
    let storage = repository.storage();
    let Some(lock_of) = storage.lock() else {
        return Ok(0);
    };
    let mut names: BTreeSet<Name> = packs
        .into_iter()
        .map(|pack| Name::new(ObjectKind::Pack, pack))
        .collect();
    names.insert(Name::CONFIG);
    let kinds = [
        ObjectKind::Key,
        ObjectKind::Copy,
        ObjectKind::Index,
        ObjectKind::Unverified,
        ObjectKind::Snapshot,
        ObjectKind::Forgotten,
    ];
    let listed = try_each(&kinds, storage.connections(), |&kind| repository.list(kind))?;
    for (kind, listed) in kinds.into_iter().zip(listed) {
        names.extend(listed.into_iter().map(|(id, _)| Name::new(kind, id)));
    }
    let known = Known::read(repository);
    let now = SystemTime::now();
    let (wanted, until) = (now + lock_of.period, now + lock_of.put_period());
    let names: Vec<Name> = names
        .into_iter()
        .filter(|name| known.until(name).is_none_or(|until| until < wanted))
        .collect();
    let learned = Mutex::new(known);
    let extended = try_each(&names, storage.connections(), |&name| {
        let failed = |error: tabane_storage::StorageError| Error::storage("lock", name)(error);
        let there = match storage.locked_until(name) {
            // Somebody has replaced it meanwhile.
            Err(error) if error.kind() == StorageErrorKind::NotFound => return Ok(0),
            there => there.map_err(failed)?,
        };
        let is_short = there.is_none_or(|there| there < wanted);
        if is_short {
            match storage.extend_lock(name, until) {
                Err(error) if error.kind() == StorageErrorKind::NotFound => return Ok(0),
                extended => extended.map_err(failed)?,
            }
        }
        let until = there.filter(|_| !is_short).unwrap_or(until);
        lock(&learned).learn(name, until);
        Ok::<u64, Error>(u64::from(is_short))
    })?;
    let known = learned.into_inner().expect("no panic under this lock");
    known.write(repository);
    Ok(extended.into_iter().sum())
}

/// What this machine knows of locks, so that it need not ask each time: seconds since 1970.
#[derive(Default)]
struct Known(BTreeMap<Name, u64>);

impl Known {
    /// Nothing without a cache.
    fn path(repository: &Repository) -> Option<PathBuf> {
        let folder = repository.cache()?.folder(repository.config().id);
        Some(folder.join("locks"))
    }

    fn read(repository: &Repository) -> Self {
        let bytes = Self::path(repository).and_then(|path| private_file::read(&path).ok());
        let known = bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        Self(known.unwrap_or_default())
    }

    fn until(&self, name: &Name) -> Option<SystemTime> {
        let seconds = self.0.get(name)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(*seconds))
    }

    fn learn(&mut self, name: Name, until: SystemTime) {
        let since = until.duration_since(SystemTime::UNIX_EPOCH);
        self.0
            .insert(name, since.map_or(0, |since| since.as_secs()));
    }

    fn write(mut self, repository: &Repository) {
        let Some(path) = Self::path(repository) else {
            return;
        };
        let now = SystemTime::now();
        self.0
            .retain(|_, until| SystemTime::UNIX_EPOCH + Duration::from_secs(*until) > now);
        let bytes = postcard::to_stdvec(&self.0).expect("names and numbers are plain data");
        // Without it, the storage is asked.
        let _ = private_file::write(&path, &bytes, false);
    }
}
