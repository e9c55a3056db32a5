//! Passwords: each wraps the master key, or a write-only key, in an object of its own.

use std::convert::Infallible;

use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::crypto::{MasterKey, OBJECT_FORMAT, ObjectKey, Secret, parse_header};
use crate::error::{Error, Result};
use crate::writer_key::{WriterId, WriterKey};
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

/// The format of the object of a write-only key.
const WRITER_KEY_FORMAT: u8 = 2;

/// What a password opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// Everything.
    #[default]
    Full,
    /// Nothing that is stored: it can back up.
    WriteOnly,
}

impl KeyKind {
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// What the object of a key holds, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyFile {
    format: u8,
    /// What the key opens.
    #[serde(default, skip_serializing_if = "KeyKind::is_full")]
    pub kind: KeyKind,
    /// Whose snapshots a write-only key makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<WriterId>,
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

/// What a password wraps or has opened.
#[derive(Clone)]
pub enum Unwrapped {
    /// The master key.
    Master(MasterKey),
    /// A write-only key.
    Writer(Box<WriterKey>),
}

impl Unwrapped {
    /// Checks that a config is of the same repository, as far as this can be told: a write-only key
    /// opens none.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::NewerFormat`].
    pub fn accepts_config(&self, sealed: &[u8]) -> Result<()> {
        match self {
            Self::Master(master) => master
                .open_object(ObjectKind::Config, sealed.to_vec(), "config")
                .map(drop),
            Self::Writer(_) => parse_header(ObjectKind::Config, sealed, "config").map(drop),
        }
    }

    /// The secret by which a storage can prove what it stored.
    pub fn storage_secret(&self) -> Secret {
        match self {
            Self::Master(master) => master.storage_secret(),
            Self::Writer(writer) => writer.storage.clone(),
        }
    }

    fn wrap(&self, wrapping: &ObjectKey) -> Vec<u8> {
        match self {
            Self::Master(master) => master.wrap(wrapping),
            Self::Writer(writer) => {
                let mut bytes = writer.to_bytes();
                wrapping.seal(0, &mut bytes, 0);
                std::mem::take(&mut *bytes)
            }
        }
    }
}

/// Adds a key that opens `secret` with `password`.
///
/// # Errors
/// When the storage fails, or for an empty password.
pub fn add(
    storage: &dyn Storage,
    secret: &Unwrapped,
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
    let host = crate::host::describe();
    let (format, kind, writer) = match secret {
        Unwrapped::Master(_) => (OBJECT_FORMAT, KeyKind::Full, None),
        Unwrapped::Writer(writer) => (WRITER_KEY_FORMAT, KeyKind::WriteOnly, Some(writer.id)),
    };
    let file = KeyFile {
        format,
        kind,
        writer,
        username: host.username,
        hostname: host.hostname,
        created: jiff::Timestamp::now(),
        kdf: KDF.to_owned(),
        cost,
        salt: hex::encode(salt),
        wrapped: hex::encode(secret.wrap(&wrapping)),
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
pub fn read_all(storage: &dyn Storage) -> Result<Vec<(Id, Result<Key>)>> {
    Ok(load_all(storage, &ids(storage)?))
}

/// Reads these keys, several at a time.
pub fn load_all(storage: &dyn Storage, ids: &[Id]) -> Vec<(Id, Result<Key>)> {
    let load = |&id: &Id| Ok::<_, Infallible>((id, load(storage, id)));
    try_each(ids, storage.connections(), load).unwrap_or_else(|never| match never {})
}

/// Tries the password on every key; returns what the first one wraps that `is_right`, and its ID.
/// Takes no more keys out of `keys` than it tries.
///
/// A key may open and yet not be right: an interrupted creation leaves a key of a master key that
/// nothing uses.
///
/// # Errors
/// [`Error::WrongPassword`] when none of those opens that can be read; [`Error::Damaged`] when none
/// can be read, or when what `is_right` looks at may be the reason.
pub fn open(
    storage: &dyn Storage,
    keys: impl IntoIterator<Item = (Id, Result<Key>)>,
    password: &Password,
    is_right: impl Fn(&Unwrapped) -> Result<()>,
) -> Result<(Unwrapped, Id)> {
    let mut closed = 0;
    // Of a key, and of what an open key leads to.
    let (mut damaged, mut failed) = (None, None);
    for (id, key) in keys {
        match key.and_then(|key| key.unwrap(password)) {
            Ok(Some(secret)) => match is_right(&secret) {
                Ok(()) => return Ok((secret, id)),
                Err(error) => failed = Some(error),
            },
            Ok(None) => closed += 1,
            Err(error @ Error::Damaged { .. }) => damaged = Some(error),
            Err(error) => failed = Some(error),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    if closed > 0 {
        return Err(Error::WrongPassword {
            keys: closed,
            location: storage.location(),
            damaged: damaged.map(Box::new),
        });
    }
    Err(damaged.unwrap_or(Error::NoKeys))
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
pub fn parse(id: Id, bytes: &[u8]) -> Result<Key> {
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

/// Deletes the object of a key.
pub fn delete(storage: &dyn Storage, id: Id) -> Result<()> {
    let name = Name::new(ObjectKind::Key, id);
    storage.delete(name).map_err(Error::storage("remove", name))
}

impl Key {
    /// What the key wraps; nothing if it has another password.
    pub fn unwrap(&self, password: &Password) -> Result<Option<Unwrapped>> {
        let name = Name::new(ObjectKind::Key, self.id);
        let file = &self.file;
        if file.format > WRITER_KEY_FORMAT {
            return Err(Error::NewerFormat {
                found: file.format,
                known: WRITER_KEY_FORMAT,
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
        let mut wrapped = Zeroizing::new(decode(&file.wrapped)?);
        Ok(match (file.kind, wrapping.open(0, &mut wrapped)) {
            (_, None) => None,
            (KeyKind::Full, Some(master)) => MasterKey::from_bytes(master).map(Unwrapped::Master),
            (KeyKind::WriteOnly, Some(bytes)) => {
                let writer = WriterKey::parse(bytes).map_err(|why| Error::damaged(name, why))?;
                Some(Unwrapped::Writer(Box::new(writer)))
            }
        })
    }
}

/// The names of all keys.
///
/// # Errors
/// When the storage cannot be listed.
pub fn ids(storage: &dyn Storage) -> Result<Vec<Id>> {
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
