//! Write-only keys: how a repository gets the first one.
//!
//! Packs and snapshots stay as they are. Index objects and removals are made anew, so that such
//! keys can read them, and signed, so that these keys cannot make any. Programs that do not know
//! such keys leave the repository alone from then on, since its config names the feature.

use crate::access::removal;
use crate::access::repository::Repository;
use crate::operations::prune;
use tabane_engine::Algorithm;
use tabane_format::config::WRITE_ONLY;
use tabane_format::copies::{self, Original};
use tabane_format::crypto::FORMAT;
use tabane_format::key::{self, KdfCost, Key, KeyKind, Password, Unwrapped};
use tabane_format::{Error, Result};
use tabane_storage::Id;

impl Repository {
    /// Adds a key that can back up and read nothing; returns its ID. The first one of a repository
    /// replaces its config and all index objects. Other clients that are at work end with an error
    /// then, and this handle with the next operation: open the repository again.
    ///
    /// # Errors
    /// [`Error::NoWriteOnlyKeys`] for a repository that cannot have such keys,
    /// [`Error::WriteOnly`]; when the storage fails, or a target of it is missing. Nothing is lost
    /// then; add the key again.
    pub fn add_write_only_key(&self, password: &Password, cost: KdfCost) -> Result<Id> {
        self.keys().as_master("adding a write-only key")?;
        self.need_new(password)?;
        let repository = self.with_writers()?;
        // Also what an interrupted attempt has left as it was.
        removal::sign(&repository)?;
        prune::sign_index(&repository)?;
        let master = repository.keys().as_master("adding a write-only key")?;
        let writer = master.new_writer(repository.config());
        repository.add_key_of(&Unwrapped::Writer(Box::new(writer)), password, cost)
    }

    /// The same repository, whose config says that it has write-only keys.
    fn with_writers(&self) -> Result<Self> {
        let keys = key::list(self.storage())?.keys;
        let is_write_only = |key: &Key| key.file.kind == KeyKind::WriteOnly;
        if self.config().has_writers() && keys.iter().any(is_write_only) {
            return Ok(self.clone());
        }
        if self.format() < FORMAT {
            let why = "its format is too old";
            return Err(Error::NoWriteOnlyKeys(why));
        }
        if self.config().hash == Algorithm::Sha1 {
            let why = "its blocks are named by SHA-1, so that known blocks have to be read";
            return Err(Error::NoWriteOnlyKeys(why));
        }
        let mut config = self.config().clone();
        if !config.has_writers() {
            config.features.push(WRITE_ONLY.to_owned());
        }
        let sealed = match self.newest_copied_config()? {
            // That of an interrupted attempt.
            Some(sealed) => sealed,
            None if self.config().has_writers() => self.sealed_config().to_vec(),
            None => {
                let json = serde_json::to_vec(&config).expect("a config is plain data");
                let master = self.keys().need_master("replacing the config")?;
                master.seal_config(FORMAT, &json)
            }
        };
        // In the order of a migration. A target may have been lost in the middle of an attempt, so
        // the config is put again before the first key is there.
        copies::put(self.storage(), &Original::Config(&sealed))?;
        self.put_config(&sealed)?;
        if sealed != self.sealed_config() {
            self.delete_if_there(copies::name_of(&Original::Config(self.sealed_config())))?;
        }
        self.with_config(config, sealed)
    }
}
