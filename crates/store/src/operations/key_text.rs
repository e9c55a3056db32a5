//! Keys on paper: a key and the config go out as a text, and come back where they were lost. The
//! text of a write-only key has no config, which that key does not open.

use crate::access::repository::Repository;
use std::sync::Arc;
use tabane_format::copies;
use tabane_format::key::{self, KeyKind, Password, Unwrapped};
use tabane_format::key_text::KeyText;
use tabane_format::keyring::Keyring;
use tabane_format::{Error, Result};
use tabane_storage::{Id, Name, ObjectKind, Storage, StorageErrorKind, object_id};

/// How many objects of a kind are tried to find out whose they are: some may be damaged.
const TRIED_OBJECTS: usize = 10;

/// What [`Repository::import_key`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedKey {
    /// The key of the text.
    pub key: Id,
    /// The repository, by the ID in its config.
    pub repository: Id,
    /// What was damaged or missing and is mended, a sentence each.
    pub mended: Vec<String>,
}

impl Repository {
    /// A key and the config as lines of text, for paper. The text opens the repository together
    /// with the key's password, and only with it.
    ///
    /// # Errors
    /// When the key cannot be read.
    pub fn export_key(&self, id: Id) -> Result<Vec<String>> {
        let kind = key::load(self.storage(), id)?.file.kind;
        let name = Name::new(ObjectKind::Key, id);
        let key = self.storage().get(name, None);
        let text = KeyText {
            config: match kind {
                KeyKind::Full => self.sealed_config().to_vec(),
                KeyKind::WriteOnly => Vec::new(),
            },
            key: key.map_err(Error::storage("read", name))?,
        };
        Ok(text.lines())
    }

    /// Brings back the key of a text that [`Repository::export_key`] made, and the config where
    /// that is damaged or missing. `password` is that of the key.
    ///
    /// # Errors
    /// [`Error::KeyText`] when the text has a mistake, does not open with the password, or is that
    /// of another repository; then nothing is changed. When the storage fails.
    pub fn import_key(
        storage: Arc<dyn Storage>,
        text: &str,
        password: &Password,
    ) -> Result<ImportedKey> {
        let text = KeyText::parse(text)?;
        let key = key::parse(object_id(&[&text.key]), &text.key)?;
        let closed = || Error::KeyText("its key opens with another password".to_owned());
        let secret = key.unwrap(password)?.ok_or_else(closed)?;
        let config = match &secret {
            Unwrapped::Writer(writer) => writer.config(),
            Unwrapped::Master(master) => {
                let sealed = text.config.clone();
                let json = master.open_object(ObjectKind::Config, sealed, "the key text")?;
                serde_json::from_slice(&json)
                    .map_err(|error| Error::damaged("the key text", error))?
            }
        };
        let mut mended = Vec::new();
        let has_config = has_config(&*storage, &secret)?;
        let keyring = Keyring::new(secret, false);
        if !has_config && !is_of(&*storage, &keyring, key.id)? {
            return Err(Error::KeyText(format!(
                "it is of the repository {}, and at {} is none or another; nothing was changed",
                config.id.short(),
                storage.location()
            )));
        }
        if let Err(error) = key::load(&*storage, key.id) {
            let name = Name::new(ObjectKind::Key, key.id);
            let (put, what) = if error.is_not_found() {
                (storage.put(name, &[&text.key]), "missing")
            } else {
                (storage.replace(name, &[&text.key]), "damaged")
            };
            put.map_err(Error::storage("write", name))?;
            mended.push(format!("key {} is {what}", key.id.short()));
        }
        if !has_config && !text.config.is_empty() {
            let replaced = storage.replace(Name::CONFIG, &[&text.config]);
            replaced.map_err(Error::storage("write", Name::CONFIG))?;
            mended.push("config is damaged or missing".to_owned());
        }
        let opened = Self::open(storage, password)?;
        if !opened.is_write_only() {
            mended.extend(opened.repair_config()?);
        }
        Ok(ImportedKey {
            key: key.id,
            repository: config.id,
            mended,
        })
    }
}

/// Whether the config, or a copy of it, is one of this key. A write-only key cannot tell.
fn has_config(storage: &dyn Storage, secret: &Unwrapped) -> Result<bool> {
    if let Unwrapped::Writer(_) = secret {
        return Ok(false);
    }
    let opens = |sealed: Vec<u8>| secret.accepts_config(&sealed).is_ok();
    if storage.get(Name::CONFIG, None).is_ok_and(opens) {
        return Ok(true);
    }
    Ok(copies::read(storage)?.configs.into_values().any(opens))
}

/// Whether a repository that has no config that opens with a key is one of it nonetheless: it has
/// the key, or objects that open with it.
fn is_of(storage: &dyn Storage, keyring: &Keyring, key: Id) -> Result<bool> {
    if key::ids(storage)?.contains(&key) {
        return Ok(true);
    }
    for kind in [ObjectKind::Index, ObjectKind::Snapshot] {
        let listed = match storage.list(kind) {
            Ok(listed) => listed,
            Err(error) if error.kind() == StorageErrorKind::NotFound => continue,
            Err(source) => {
                return Err(Error::Storage {
                    action: "list",
                    what: kind.name().to_owned(),
                    source,
                });
            }
        };
        let opens = |id: Id| {
            let bytes = storage.get(Name::new(kind, id), None).ok();
            bytes.is_some_and(|bytes| keyring.open(kind, bytes, "an object").is_ok())
        };
        if listed
            .iter()
            .take(TRIED_OBJECTS)
            .any(|object| opens(object.id))
        {
            return Ok(true);
        }
    }
    Ok(false)
}
