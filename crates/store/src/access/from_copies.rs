//! Opens a repository whose config or keys are damaged or missing, with the help of their copies.

use std::collections::BTreeSet;

use tabane_format::copies::{self, Copies};
use tabane_format::crypto::{FORMAT, format_of};
use tabane_format::key::{self, Key, Password, Unwrapped};
use tabane_format::{Error, Result};
use tabane_storage::{Id, Name, ObjectKind, Storage, StorageErrorKind};

/// What opens a repository.
pub struct Found {
    pub secret: Unwrapped,
    /// The key that the password opened.
    pub key: Id,
    /// Where the config is: its own object, or a copy.
    pub config_name: Name,
    /// The config as it is stored, without what a copy has before it.
    pub sealed_config: Vec<u8>,
    /// What is wrong with the config and the keys, a sentence each.
    pub damaged: Vec<String>,
}

/// A key that is sound.
struct Candidate {
    key: Key,
    /// Whether it was read from a copy, since the original is not sound.
    is_copy: bool,
}

/// Whether a copy may help where the originals fail in this way.
fn may_be_damage(error: &Error) -> bool {
    match error {
        Error::NoRepository(_)
        | Error::ConfigMissing(_)
        | Error::NoKeys
        | Error::WrongPassword { .. }
        | Error::NewerFormat { .. }
        | Error::Damaged { .. } => true,
        // As a bad sector of a disk is.
        Error::Storage { source, .. } => source.kind() == StorageErrorKind::Permanent,
        _ => false,
    }
}

/// Looks for a key that `password` opens and a config that the key opens, among originals and
/// copies. `error` is why the originals alone do not open.
///
/// # Errors
/// The same where copies are of no help; [`Error::WrongPassword`] if they are, and the password is
/// that of none of them.
pub fn find(storage: &dyn Storage, password: &Password, error: Error) -> Result<Found> {
    if !may_be_damage(&error) {
        return Err(error);
    }
    // Where they cannot be read either, the reason is that of the originals.
    let Ok(copies) = copies::read(storage) else {
        return Err(error);
    };
    // Whoever writes a config of a newer format makes its copy first. So where no copy has such a
    // format, the byte that says so is damaged.
    let is_newer = |config: &Vec<u8>| format_of(config) > FORMAT;
    if copies.is_empty() || copies.configs.values().any(is_newer) {
        return Err(error);
    }
    let Ok((mut keys, mut damaged)) = keys(storage, &copies) else {
        return Err(error);
    };
    if let Error::WrongPassword { .. } = error {
        // It was tried on all that are sound.
        keys.retain(|candidate| candidate.is_copy);
    }
    let mut configs = Vec::new();
    match storage.get(Name::CONFIG, None) {
        Ok(bytes) => configs.push((Name::CONFIG, bytes)),
        Err(error) if error.kind() == StorageErrorKind::NotFound => {
            damaged.push("config is missing".to_owned());
        }
        Err(error) => damaged.push(format!("config cannot be read: {error}")),
    }
    let copied = copies.configs.into_iter();
    configs.extend(copied.map(|(id, bytes)| (Name::new(ObjectKind::Copy, id), bytes)));
    let (mut closed, mut is_opened) = (0, false);
    for Candidate { key, .. } in keys {
        let secret = match key.unwrap(password) {
            Ok(Some(secret)) => secret,
            Ok(None) => {
                closed += 1;
                continue;
            }
            // One that is hostile or of a newer format says nothing about the others.
            Err(_) => continue,
        };
        is_opened = true;
        let mut readable = configs
            .iter()
            .filter(|(_, sealed)| secret.accepts_config(sealed).is_ok());
        let Some((name, sealed)) = readable.next() else {
            continue;
        };
        if *name != Name::CONFIG && configs[0].0 == Name::CONFIG {
            damaged.push("config is damaged".to_owned());
        }
        return Ok(Found {
            key: key.id,
            config_name: *name,
            sealed_config: sealed.clone(),
            secret,
            damaged,
        });
    }
    let is_of_keys = match &error {
        Error::NoKeys => true,
        Error::Damaged { what, .. } => what.starts_with("keys/"),
        _ => false,
    };
    if is_of_keys && closed > 0 && !is_opened {
        let damaged = Some(error).filter(|error| !matches!(error, Error::NoKeys));
        return Err(Error::WrongPassword {
            keys: closed,
            location: storage.location(),
            damaged: damaged.map(Box::new),
        });
    }
    Err(error)
}

/// All keys that are sound, originals first; and what is wrong with the others, a sentence each.
fn keys(storage: &dyn Storage, copies: &Copies) -> Result<(Vec<Candidate>, Vec<String>)> {
    let (mut keys, mut damaged) = (Vec::new(), Vec::new());
    let (mut sound, mut listed) = (BTreeSet::new(), BTreeSet::new());
    for id in key::ids(storage)? {
        listed.insert(id);
        match key::load(storage, id) {
            Ok(key) => {
                sound.insert(id);
                keys.push(Candidate {
                    key,
                    is_copy: false,
                });
            }
            Err(error) => damaged.push(error.to_string()),
        }
    }
    for (id, (_, bytes)) in &copies.keys {
        if sound.contains(id) {
            continue;
        }
        if !listed.contains(id) {
            damaged.push(format!("{} is missing", Name::new(ObjectKind::Key, *id)));
        }
        keys.extend(key::parse(*id, bytes).map(|key| Candidate { key, is_copy: true }));
    }
    Ok((keys, damaged))
}
