//! The step from format 1 to format 2, in place; and the copies of config and keys that format 2
//! has.
//!
//! Directories and packs stay as they are: format 2 reads those of format 1. What changes is the
//! config, which tells older programs to leave the repository alone. Its copy is durable before it
//! is replaced, and serves until the new one is there: so the program may be killed at any moment.

use crate::access::repository::Repository;
use tabane_format::config::Config;
use tabane_format::copies::{self, Original};
use tabane_format::crypto::{FORMAT, format_of};
use tabane_format::key;
use tabane_format::{Error, Result};
use tabane_storage::{Id, Name, ObjectKind, StorageErrorKind, object_id};

impl Repository {
    /// Brings the repository to the latest format; false if it has that. Older programs can no
    /// longer open it then.
    ///
    /// # Errors
    /// When the storage fails, or a target of it is missing: it would keep the old config. The
    /// repository can be used then, and is to be migrated again: that mends such a target.
    pub fn migrate(&self) -> Result<bool> {
        self.keys().need_master("migrating the repository")?;
        let storage = self.storage();
        let failed = |source| Error::Storage {
            action: "migrate",
            what: "the repository".to_owned(),
            source,
        };
        storage.make_folders().map_err(failed)?;
        let config = self.newest_config()?;
        copies::put(storage, &Original::Config(&config))?;
        self.copy_keys()?;
        // Even where this is the latest format: a target may have been lost in the middle of a
        // migration, and have come back with the old config.
        self.put_config(&config)?;
        Ok(self.sealed_config() != config)
    }

    /// The config in the latest format: that of a migration that was interrupted, if there was one.
    fn newest_config(&self) -> Result<Vec<u8>> {
        if let Some(newest) = self.newest_copied_config()? {
            return Ok(newest);
        }
        if self.format() == FORMAT {
            return Ok(self.sealed_config().to_vec());
        }
        let json = serde_json::to_vec(self.config()).expect("a config is plain data");
        let master = self.keys().need_master("migrating the repository")?;
        Ok(master.seal_config(FORMAT, &json))
    }

    /// The copy of a config of this repository that is of a later step than the one in use: a later
    /// format, or with write-only keys.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn newest_copied_config(&self) -> Result<Option<Vec<u8>>> {
        let Ok(master) = self.keys().need_master("comparing configs") else {
            return Ok(None);
        };
        let step = |sealed: &[u8]| {
            let json = master.open_object(ObjectKind::Config, sealed.to_vec(), "config");
            let config: Config = serde_json::from_slice(&json.ok()?).ok()?;
            Some((format_of(sealed), config.features.len()))
        };
        let own = step(self.sealed_config());
        let copies = copies::read(self.storage())?.configs.into_values();
        let newer = copies.filter(|sealed| format_of(sealed) <= FORMAT && step(sealed) > own);
        Ok(newer.max_by_key(|sealed| step(sealed)))
    }

    pub(crate) fn put_config(&self, config: &[u8]) -> Result<()> {
        let replaced = self.storage().replace(Name::CONFIG, &[config]);
        replaced.map_err(Error::storage("write", Name::CONFIG))
    }

    /// Makes the copies that a repository of format 2 should have and has not.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn copy_config_and_keys(&self) -> Result<()> {
        if self.format() > 1 {
            copies::put(self.storage(), &Original::Config(self.sealed_config()))?;
            self.copy_keys()?;
        }
        Ok(())
    }

    fn copy_keys(&self) -> Result<()> {
        for id in key::ids(self.storage())? {
            let name = Name::new(ObjectKind::Key, id);
            match self.storage().get(name, None) {
                Ok(bytes) if object_id(&[&bytes]) == id => {
                    copies::put(self.storage(), &Original::Key(&bytes))?;
                }
                // What is damaged is not copied.
                Ok(_) => {}
                Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                Err(error) => return Err(Error::storage("read", name)(error)),
            }
        }
        Ok(())
    }

    /// Whether a migration was begun and did not get to its end, or a part of the storage has
    /// missed it.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn is_migrated_in_part(&self) -> Result<bool> {
        Ok(self.newest_copied_config()?.is_some())
    }

    /// What is wrong with the config, the keys and their copies, a sentence each.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn faults_of_config_and_keys(&self) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        self.compare_copies(|fault, _| {
            faults.push(fault);
            Ok(())
        })?;
        Ok(faults)
    }

    /// Mends the config, the keys and their copies, each with the help of the other; returns what
    /// was wrong.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn repair_config(&self) -> Result<Vec<String>> {
        self.keys().need_master("repairing the config")?;
        let mut faults = Vec::new();
        self.compare_copies(|fault, mend| {
            faults.push(fault);
            mend.run(self)
        })?;
        Ok(faults)
    }

    fn compare_copies(&self, mut found: impl FnMut(String, Mend) -> Result<()>) -> Result<()> {
        let storage = self.storage();
        let config = self.sealed_config();
        match storage.get(Name::CONFIG, None) {
            Ok(bytes) if bytes == config => {}
            Ok(bytes) if self.opens_config(&bytes) => return Err(Error::MigratedMeanwhile),
            Err(error) if error.kind() != StorageErrorKind::NotFound => {
                return Err(Error::storage("read", Name::CONFIG)(error));
            }
            result => {
                let what = if result.is_ok() { "damaged" } else { "missing" };
                found(format!("config is {what}"), Mend::Config(config))?;
            }
        }
        if self.format() == 1 {
            for id in key::ids(storage)? {
                if let Err(error) = key::load(storage, id) {
                    found(error.to_string(), Mend::Nothing)?;
                }
            }
            return Ok(());
        }
        let copies = copies::read(storage)?;
        for (id, error) in &copies.damaged {
            found(error.to_string(), Mend::DamagedCopy(*id))?;
        }
        let copy = copies::name_of(&Original::Config(config));
        if !copies.configs.contains_key(&copy.id) {
            let fault = "config has no copy that is whole".to_owned();
            found(fault, Mend::Copy(Original::Config(config)))?;
        }
        let ids = key::ids(storage)?;
        for &id in &ids {
            let name = Name::new(ObjectKind::Key, id);
            match (key::load(storage, id), copies.keys.get(&id)) {
                (Ok(_), Some(_)) => {}
                (Ok(_), None) => {
                    let bytes = storage.get(name, None);
                    let bytes = bytes.map_err(Error::storage("read", name))?;
                    let fault = format!("{name} has no copy that is whole");
                    found(fault, Mend::Copy(Original::Key(&bytes)))?;
                }
                (Err(error), Some((_, bytes))) => found(error.to_string(), Mend::Key(id, bytes))?,
                (Err(error), None) => found(error.to_string(), Mend::Nothing)?,
            }
        }
        for (id, (_, bytes)) in copies.keys.iter().filter(|(id, _)| !ids.contains(id)) {
            let fault = format!("{} is missing", Name::new(ObjectKind::Key, *id));
            found(fault, Mend::Key(*id, bytes))?;
        }
        Ok(())
    }
}

/// What to do about a fault.
enum Mend<'a> {
    /// Put the config in its place.
    Config(&'a [u8]),
    /// Put a key in its place.
    Key(Id, &'a [u8]),
    /// Make a copy.
    Copy(Original<'a>),
    /// Remove a copy.
    DamagedCopy(Id),
    /// Nothing can be done: a key is lost.
    Nothing,
}

impl Mend<'_> {
    fn run(self, repository: &Repository) -> Result<()> {
        let storage = repository.storage();
        match self {
            Self::Config(config) => repository.put_config(config),
            Self::Key(id, bytes) => {
                let name = Name::new(ObjectKind::Key, id);
                let replaced = storage.replace(name, &[bytes]);
                replaced.map_err(Error::storage("write", name))
            }
            Self::Copy(original) => copies::put(storage, &original),
            Self::DamagedCopy(id) => repository.delete_if_there(Name::new(ObjectKind::Copy, id)),
            Self::Nothing => Ok(()),
        }
    }
}
