//! Copies of the config and of keys: without these small objects nothing opens.
//!
//! ```text
//! TABANE Y 1 (8) · kind: C or K (1) · the object's bytes
//! ```

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use tabane_storage::sync::try_each;
use tabane_storage::{Id, Name, ObjectKind, Storage, StorageErrorKind, object_id};

const PREFIX: &[u8; 8] = b"TABANEY\x01";
const CONFIG: u8 = b'C';
const KEY: u8 = b'K';

/// What copies there are.
#[derive(Debug, Default)]
pub struct Copies {
    /// Configs, with the names of their copies: one, unless a migration was interrupted.
    pub configs: BTreeMap<Id, Vec<u8>>,
    /// Keys by their own IDs, with the names of their copies and their bytes.
    pub keys: BTreeMap<Id, (Id, Vec<u8>)>,
    /// Copies that are damaged, with the reason.
    pub damaged: Vec<(Id, Error)>,
}

impl Copies {
    /// Whether there is none that is whole.
    pub fn is_empty(&self) -> bool {
        self.configs.is_empty() && self.keys.is_empty()
    }
}

/// Whose copy it is, and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Original<'a> {
    /// The config.
    Config(&'a [u8]),
    /// A key.
    Key(&'a [u8]),
}

/// Reads the bytes of a copy; nothing if they are none.
pub fn parse(bytes: &[u8]) -> Option<Original<'_>> {
    let (&kind, original) = bytes.strip_prefix(PREFIX)?.split_first()?;
    match kind {
        CONFIG => Some(Original::Config(original)),
        KEY => Some(Original::Key(original)),
        _ => None,
    }
}

fn parts<'a>(original: &Original<'a>) -> [&'a [u8]; 3] {
    match original {
        Original::Config(bytes) => [PREFIX, &[CONFIG], bytes],
        Original::Key(bytes) => [PREFIX, &[KEY], bytes],
    }
}

/// The bytes of the copy of a config.
pub fn with_prefix(config: &[u8]) -> Vec<u8> {
    parts(&Original::Config(config)).concat()
}

/// The name of the copy of an object.
pub fn name_of(original: &Original<'_>) -> Name {
    Name::new(ObjectKind::Copy, object_id(&parts(original)))
}

/// Makes a copy, unless there is one.
///
/// # Errors
/// When the storage fails.
pub fn put(storage: &dyn Storage, original: &Original<'_>) -> Result<()> {
    let name = name_of(original);
    match storage.put(name, &parts(original)) {
        Err(error) if error.kind() != StorageErrorKind::AlreadyExists => {
            Err(Error::storage("write", name)(error))
        }
        _ => Ok(()),
    }
}

/// Reads all copies.
///
/// # Errors
/// When the storage fails.
pub fn read(storage: &dyn Storage) -> Result<Copies> {
    let listed = storage.list(ObjectKind::Copy);
    let listed = listed.map_err(|source| Error::Storage {
        action: "list",
        what: ObjectKind::Copy.name().to_owned(),
        source,
    })?;
    let mut copies = Copies::default();
    let ids: Vec<Id> = listed.into_iter().map(|listed| listed.id).collect();
    let read = try_each(&ids, storage.connections(), |&id| {
        let name = Name::new(ObjectKind::Copy, id);
        match storage.get(name, None) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == StorageErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::storage("read", name)(error)),
        }
    })?;
    for (id, bytes) in ids.into_iter().zip(read) {
        let Some(bytes) = bytes else { continue };
        let name = Name::new(ObjectKind::Copy, id);
        let original = parse(&bytes).filter(|_| object_id(&[&bytes]) == id);
        match original {
            Some(Original::Config(config)) => {
                copies.configs.insert(id, config.to_vec());
            }
            Some(Original::Key(key)) => {
                copies.keys.insert(object_id(&[key]), (id, key.to_vec()));
            }
            None => {
                let why = "its bytes do not match its name";
                copies.damaged.push((id, Error::damaged(name, why)));
            }
        }
    }
    Ok(copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_whose_it_is() {
        for original in [Original::Config(b"config"), Original::Key(b"{}")] {
            let bytes = parts(&original).concat();
            assert_eq!(parse(&bytes), Some(original));
            assert!((0..9).all(|at| parse(&bytes[..at]).is_none()));
        }
        assert_ne!(
            name_of(&Original::Config(b"x")),
            name_of(&Original::Key(b"x"))
        );
    }
}
