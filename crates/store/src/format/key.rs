//! Passwords: each wraps the master key once, in an object of its own.

use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};
use crate::format::crypto::{MasterKey, ObjectKey};
use tabane_storage::Id;
use tabane_storage::sync::try_each;
use tabane_storage::{Name, ObjectKind, Storage, StorageErrorKind};
use tabane_storage::{object_id, random};

/// A password, made by `Password::new(b"…".to_vec())`; wiped from memory when dropped.
pub type Password = Zeroizing<Vec<u8>>;

/// Cost of Argon2id (RFC 9106): memory in KiB, passes, lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KdfCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl KdfCost {
    /// The least that Argon2 allows: for tests and measurements, whose passwords protect nothing.
    pub const WEAKEST: Self = Self {
        memory_kib: 8,
        passes: 1,
        lanes: 1,
    };
}

impl Default for KdfCost {
    /// RFC 9106's second recommendation, 64 MiB and 3 passes, with one lane.
    fn default() -> Self {
        Self {
            memory_kib: 64 * 1024,
            passes: 3,
            lanes: 1,
        }
    }
}

/// No key of a repository may ask for more memory or time than this: a hostile one could.
const COST_MAX: KdfCost = KdfCost {
    memory_kib: 4 * 1024 * 1024,
    passes: 64,
    lanes: 64,
};

/// What the object of a key holds, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyFile {
    format: u8,
    /// Who added it.
    pub username: String,
    /// Where.
    pub hostname: String,
    /// When.
    pub created: jiff::Timestamp,
    kdf: String,
    cost: KdfCost,
    salt: String,
    wrapped: String,
}

const KDF: &str = "argon2id";

/// A key's object and its name.
#[derive(Clone, Debug)]
pub struct Key {
    /// Name of its object.
    pub id: Id,
    /// Its contents.
    pub file: KeyFile,
}

/// Adds a key that opens `master` with `password`.
///
/// # Errors
/// When the storage fails, or for an empty password.
pub(crate) fn add(
    storage: &dyn Storage,
    master: &MasterKey,
    password: &Password,
    cost: KdfCost,
) -> Result<Id> {
    if password.is_empty() {
        return Err(Error::Invalid(
            "the password is empty: choose one".to_owned(),
        ));
    }
    let salt: [u8; 16] = random();
    let wrapping = stretch(password, &salt, cost)?;
    let host = crate::format::host::describe();
    let file = KeyFile {
        format: crate::format::crypto::OBJECT_FORMAT,
        username: host.username,
        hostname: host.hostname,
        created: jiff::Timestamp::now(),
        kdf: KDF.to_owned(),
        cost,
        salt: hex::encode(salt),
        wrapped: hex::encode(master.wrap(&wrapping)),
    };
    let bytes = serde_json::to_vec_pretty(&file).expect("a key file is plain data");
    let name = Name::new(ObjectKind::Key, object_id(&[&bytes]));
    storage
        .put(name, &[&bytes])
        .map_err(Error::storage("write", name))?;
    Ok(name.id)
}

/// Keys that can be read, and those that cannot.
#[derive(Debug, Default)]
pub struct Listing {
    /// Oldest first.
    pub keys: Vec<Key>,
    /// Why the others cannot be read.
    pub damaged: Vec<Error>,
}

/// All keys. Those that cannot be read don't hide the others.
///
/// # Errors
/// When the storage cannot be listed.
pub fn list(storage: &dyn Storage) -> Result<Listing> {
    let mut listing = Listing::default();
    for (_, key) in read_all(storage)? {
        match key {
            Ok(key) => listing.keys.push(key),
            Err(error) => listing.damaged.push(error),
        }
    }
    listing.keys.sort_by_key(|key| (key.file.created, key.id));
    Ok(listing)
}

/// Reads all keys, several at a time. Those that cannot be read don't hide the others.
///
/// # Errors
/// When the storage cannot be listed.
pub(crate) fn read_all(storage: &dyn Storage) -> Result<Vec<(Id, Result<Key>)>> {
    let ids = ids(storage)?;
    let load = |&id: &Id| Ok::<_, Error>((id, load(storage, id)));
    try_each(&ids, storage.connections(), load)
}

/// Tries the password on every key; returns the first master key that `is_right`, and the key that
/// it opened.
///
/// A key may open and yet not be right: an interrupted creation leaves a key of a master key that
/// nothing uses.
///
/// # Errors
/// [`Error::WrongPassword`] when none opens; [`Error::Damaged`] when one that cannot be read, or
/// what `is_right`
/// looks at, may be the reason.
pub(crate) fn open(
    storage: &dyn Storage,
    keys: Vec<(Id, Result<Key>)>,
    password: &Password,
    is_right: impl Fn(&MasterKey) -> Result<()>,
) -> Result<(MasterKey, Id)> {
    if keys.is_empty() {
        return Err(Error::NoKeys);
    }
    let count = keys.len();
    let mut damaged = None;
    for (id, key) in keys {
        let opened = key.and_then(|key| match key.unwrap(password)? {
            Some(master) => is_right(&master).map(|()| Some(master)),
            None => Ok(None),
        });
        match opened {
            Ok(Some(master)) => return Ok((master, id)),
            Ok(None) => {}
            Err(error) => damaged = Some(error),
        }
    }
    Err(damaged.unwrap_or_else(|| Error::WrongPassword {
        keys: count,
        location: storage.location(),
    }))
}

/// Reads one key and checks it against its name.
///
/// # Errors
/// When the storage fails or the key is damaged.
pub fn load(storage: &dyn Storage, id: Id) -> Result<Key> {
    let name = Name::new(ObjectKind::Key, id);
    let bytes = storage
        .get(name, None)
        .map_err(Error::storage("read", name))?;
    if object_id(&[&bytes]) != id {
        return Err(Error::damaged(name, "its bytes do not match its name"));
    }
    parse(id, &bytes)
}

/// Reads the bytes of the key of this name.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn parse(id: Id, bytes: &[u8]) -> Result<Key> {
    let name = Name::new(ObjectKind::Key, id);
    let file = serde_json::from_slice(bytes).map_err(|error| Error::damaged(name, error))?;
    Ok(Key { id, file })
}

/// The key whose ID begins with `prefix`.
///
/// # Errors
/// [`Error::NoKey`], [`Error::AmbiguousKey`], or when the storage fails.
pub fn find(storage: &dyn Storage, prefix: &str) -> Result<Id> {
    let mut matching = ids(storage)?;
    matching.retain(|id| !prefix.is_empty() && id.has_prefix(prefix));
    match matching[..] {
        [] => Err(Error::NoKey(prefix.to_owned())),
        [id] => Ok(id),
        _ => Err(Error::AmbiguousKey(prefix.to_owned())),
    }
}

pub(crate) fn delete(storage: &dyn Storage, id: Id) -> Result<()> {
    let name = Name::new(ObjectKind::Key, id);
    storage.delete(name).map_err(Error::storage("remove", name))
}

impl Key {
    pub(crate) fn unwrap(&self, password: &Password) -> Result<Option<MasterKey>> {
        let name = Name::new(ObjectKind::Key, self.id);
        let file = &self.file;
        if file.format > crate::format::crypto::OBJECT_FORMAT {
            return Err(Error::NewerFormat {
                found: file.format,
                known: crate::format::crypto::OBJECT_FORMAT,
            });
        }
        if file.kdf != KDF {
            return Err(Error::damaged(name, format!("unknown KDF {:?}", file.kdf)));
        }
        let KdfCost {
            memory_kib,
            passes,
            lanes,
        } = file.cost;
        if memory_kib > COST_MAX.memory_kib || passes > COST_MAX.passes || lanes > COST_MAX.lanes {
            return Err(Error::damaged(name, "its KDF would cost too much"));
        }
        let decode = |text: &str| hex::decode(text).map_err(|error| Error::damaged(name, error));
        let wrapping = stretch(password, &decode(&file.salt)?, file.cost)?;
        Ok(MasterKey::unwrap(&wrapping, decode(&file.wrapped)?))
    }
}

/// The names of all keys.
///
/// # Errors
/// When the storage cannot be listed.
pub(crate) fn ids(storage: &dyn Storage) -> Result<Vec<Id>> {
    let listed = match storage.list(ObjectKind::Key) {
        // The folder itself is lost.
        Err(error) if error.kind() == StorageErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(|source| Error::Storage {
            action: "list",
            what: "keys".to_owned(),
            source,
        })?,
    };
    let mut ids: Vec<Id> = listed.into_iter().map(|object| object.id).collect();
    ids.sort();
    Ok(ids)
}

fn stretch(password: &Password, salt: &[u8], cost: KdfCost) -> Result<ObjectKey> {
    let invalid = |error| Error::Invalid(format!("cannot use these Argon2id parameters: {error}"));
    let params =
        Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).map_err(invalid)?;
    let mut key = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password, salt, &mut key)
        .map_err(invalid)?;
    let wrapping = ObjectKey::new(&key);
    key.zeroize();
    Ok(wrapping)
}
