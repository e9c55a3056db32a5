//! A repository: a storage, its keys and its configuration.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tabane_engine::{Algorithm, Digest};

use crate::access::early::EarlyLists;
use crate::access::from_copies::{self, Found};
use crate::access::memory::{Memory, Recalled};
use crate::access::nearby::Nearby;
use tabane_format::chunker::{Chunker, Chunking};
use tabane_format::config::{Config, parse_block_hash};
use tabane_format::copies;
use tabane_format::crypto::{
    FORMAT, HEADER_LEN, MasterKey, OBJECT_FORMAT, ObjectKey, format_of, parse_header,
};
use tabane_format::key::{self, KdfCost, Password, Unwrapped};
use tabane_format::keyring::{Keyring, Unsealed};
use tabane_format::writer_key::WriterId;
use tabane_format::{Error, Result};
use tabane_index::{Cache, PackEntry};
use tabane_storage::Id;
use tabane_storage::sync::{both, lock, try_each};
use tabane_storage::{Listed, Name, ObjectKind, Progress, Storage, StorageError, StorageErrorKind};
use tabane_storage::{OBJECT_LEN_MAX, object_id, random};

/// Options of a new repository.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InitOptions {
    /// The hash that names blocks.
    pub hash: Algorithm,
    /// The chunker's lengths.
    pub chunking: Chunking,
    /// The chunker secret of another repository, for the same cut points.
    pub chunker_secret: Option<Id>,
    /// Cost of guessing the password.
    pub kdf_cost: KdfCost,
    /// The format of the repository: 1 for programs that know no other.
    pub format: u8,
}

tabane_storage::setters!(InitOptions {
    set => hash: Algorithm,
    set => chunking: Chunking,
    into => chunker_secret: Option<Id>,
    set => kdf_cost: KdfCost,
    set => format: u8,
});

impl Default for InitOptions {
    fn default() -> Self {
        Self {
            hash: Algorithm::Sha256,
            chunking: Chunking::default(),
            chunker_secret: None,
            kdf_cost: KdfCost::default(),
            format: FORMAT,
        }
    }
}

/// An open repository. A clone is a cheap handle of the same one.
#[derive(Clone)]
pub struct Repository {
    opened: Arc<Opened>,
    cache: Option<Arc<Cache>>,
    nearby: Arc<Nearby>,
    memory: Option<Arc<Memory>>,
    progress: Arc<dyn Progress>,
}

/// State shared by all handles of a repository.
struct Opened {
    storage: Arc<dyn Storage>,
    keys: Keyring,
    /// Where the key and the config were found.
    found: Found,
    config: Config,
    chunker: Chunker,
    early: EarlyLists,
    /// Keys of packs that write-only keys sealed: to find one costs a read of the pack.
    pack_keys: Mutex<HashMap<Id, ObjectKey>>,
}

/// The most keys of packs that are kept.
const PACK_KEYS_MAX: usize = 1024;

impl Repository {
    /// Makes a new repository.
    ///
    /// # Errors
    /// [`Error::RepositoryExists`], [`Error::ConfigMissing`], [`Error::NotEmpty`], unusable
    /// options, or when the storage fails.
    pub fn init(
        storage: Arc<dyn Storage>,
        password: &Password,
        options: InitOptions,
    ) -> Result<Self> {
        let location = storage.location();
        match storage.stat(Name::CONFIG) {
            Ok(_) => return Err(Error::RepositoryExists(location)),
            Err(error) if is_absent(&error) => {}
            Err(source) => return Err(Error::storage("read", Name::CONFIG)(source)),
        }
        let exists = || storage.stat(Name::CONFIG).is_ok();
        match copies::read(&*storage) {
            Ok(copies) if copies.configs.is_empty() => {}
            // Another client has made the repository since the config was looked for.
            Ok(_) if exists() => return Err(Error::RepositoryExists(location)),
            Ok(_) => return Err(Error::ConfigMissing(location)),
            Err(Error::Storage { source, .. }) if is_absent(&source) => {}
            Err(error) => return Err(error),
        }
        if !(1..=FORMAT).contains(&options.format) {
            return Err(Error::NewerFormat {
                found: options.format,
                known: FORMAT,
            });
        }
        let config = Config {
            id: Id(random()),
            hash: parse_block_hash(options.hash.name()).map_err(Error::Invalid)?,
            chunking: options.chunking,
            chunker_secret: options.chunker_secret.unwrap_or_else(|| Id(random())),
            features: Vec::new(),
        };
        Chunker::new(config.chunking, &config.chunker_secret)?;
        if password.is_empty() {
            return Err(Error::Invalid(
                "the password is empty: choose one".to_owned(),
            ));
        }
        storage.create().map_err(|source| match source.kind() {
            // Another client was faster.
            StorageErrorKind::NotEmpty if exists() => Error::RepositoryExists(location.clone()),
            StorageErrorKind::NotEmpty => Error::NotEmpty(location.clone()),
            _ => Error::Storage {
                action: "create",
                what: format!("a repository at {location}"),
                source,
            },
        })?;
        // The config is written last: it makes the repository.
        let master = MasterKey::random();
        let json = serde_json::to_vec(&config).expect("a config is plain data");
        let sealed = master.seal_config(options.format, &json);
        let secret = Unwrapped::Master(master);
        let key = key::add(&*storage, &secret, password, options.kdf_cost)?;
        if let Err(source) = storage.put(Name::CONFIG, &[&sealed]) {
            // The key opens nothing; if it stays, `open` skips it.
            let _ = key::delete(&*storage, key);
            return Err(match source.kind() {
                StorageErrorKind::AlreadyExists => Error::RepositoryExists(location),
                _ => Error::storage("write", Name::CONFIG)(source),
            });
        }
        let found = Found {
            secret,
            key,
            config_name: Name::CONFIG,
            sealed_config: sealed,
            damaged: Vec::new(),
        };
        let repository = Self::new(storage, found, config, EarlyLists::default())?;
        repository.copy_config_and_keys()?;
        Ok(repository)
    }

    /// Why `storage`, which lacks `config`, is no repository: none was made, or its `config` is
    /// lost.
    pub fn absence(storage: &dyn Storage) -> Error {
        // Keys alone are what an interrupted creation leaves.
        match storage.list(ObjectKind::Index) {
            Ok(index) if !index.is_empty() => Error::ConfigMissing(storage.location()),
            _ => Error::NoRepository(storage.location()),
        }
    }

    /// Opens a repository with one of its passwords. If its config or keys are damaged or missing,
    /// their copies serve; see [`Repository::damaged`].
    ///
    /// # Errors
    /// [`Error::NoRepository`], [`Error::ConfigMissing`], [`Error::WrongPassword`],
    /// [`Error::NewerFormat`], damage, or when
    /// the storage fails.
    pub fn open(storage: Arc<dyn Storage>, password: &Password) -> Result<Self> {
        Self::open_with_memory(storage, password, None)
    }

    /// As [`Repository::open`]; the handle remembers what it sees, and compares. The password is
    /// tried first on the key that has opened the repository last with this memory.
    ///
    /// # Errors
    /// As [`Repository::open`].
    pub fn open_with_memory(
        storage: Arc<dyn Storage>,
        password: &Password,
        memory: Option<Memory>,
    ) -> Result<Self> {
        let early = EarlyLists::ask(&storage);
        let found = match Self::find_originals(&*storage, password, memory.as_ref()) {
            Ok(found) => found,
            Err(error) => from_copies::find(&*storage, password, error)?,
        };
        let config = match &found.secret {
            Unwrapped::Master(master) => {
                let sealed = found.sealed_config.clone();
                let json = master.open_object(ObjectKind::Config, sealed, "config")?;
                serde_json::from_slice(&json).map_err(|error| Error::damaged("config", error))?
            }
            Unwrapped::Writer(writer) => writer.config(),
        };
        let mut repository = Self::new(storage, found, config, early)?;
        repository.memory = memory.map(Arc::new);
        Ok(repository)
    }

    fn find_originals(
        storage: &dyn Storage,
        password: &Password,
        memory: Option<&Memory>,
    ) -> Result<Found> {
        let is_far = storage.is_far();
        let last = memory.and_then(|memory| memory.last_key(storage));
        let read_last = || last.map(|id| (id, key::load(storage, id)));
        let (sealed, (ids, last_key)) = both(
            is_far,
            || storage.get(Name::CONFIG, None),
            || both(is_far, || key::ids(storage), read_last),
        );
        let sealed = sealed.map_err(|source| {
            if !is_absent(&source) {
                return Error::storage("read", Name::CONFIG)(source);
            }
            Self::absence(storage)
        })?;
        // A newer format is reported before a password is tried.
        parse_header(ObjectKind::Config, &sealed, "config")?;
        let is_right = |secret: &Unwrapped| secret.accepts_config(&sealed);
        let ids = ids?;
        let last_key = last_key.filter(|(id, _)| ids.contains(id));
        let others: Vec<Id> = ids.into_iter().filter(|id| Some(*id) != last).collect();
        let load_others = || key::load_all(storage, &others);
        let keys = last_key
            .into_iter()
            .chain(std::iter::once_with(load_others).flatten());
        let (secret, key) = key::open(storage, keys, password, is_right)?;
        if let Some(memory) = memory.filter(|_| last != Some(key)) {
            memory.note_key(storage, key);
        }
        Ok(Found {
            secret,
            key,
            config_name: Name::CONFIG,
            sealed_config: sealed,
            damaged: Vec::new(),
        })
    }

    /// The format of the repository: 1, or 2 if it was made by this program or migrated. What
    /// format 1 has not is not written into a repository that has it.
    pub fn format(&self) -> u8 {
        format_of(&self.opened.found.sealed_config)
    }

    /// What was wrong with the config and the keys, so that copies of them had to be used.
    pub fn damaged(&self) -> &[String] {
        &self.opened.found.damaged
    }

    /// The config as it is stored.
    pub(crate) fn sealed_config(&self) -> &[u8] {
        &self.opened.found.sealed_config
    }

    fn new(
        storage: Arc<dyn Storage>,
        found: Found,
        config: Config,
        early: EarlyLists,
    ) -> Result<Self> {
        if let Some(feature) = config.unknown_feature() {
            return Err(Error::UnknownFeature(feature.to_owned()));
        }
        storage.learn_secret(&found.secret.storage_secret().0);
        Ok(Self {
            opened: Arc::new(Opened {
                storage,
                keys: Keyring::new(found.secret.clone(), config.has_writers()),
                found,
                chunker: Chunker::new(config.chunking, &config.chunker_secret)?,
                config,
                early,
                pack_keys: Mutex::default(),
            }),
            cache: None,
            nearby: Arc::default(),
            memory: None,
            progress: Arc::new(()),
        })
    }

    /// The same repository after its config was replaced.
    pub(crate) fn with_config(&self, config: Config, sealed: Vec<u8>) -> Result<Self> {
        let old = &self.opened.found;
        let found = Found {
            secret: old.secret.clone(),
            key: old.key,
            config_name: Name::CONFIG,
            sealed_config: sealed,
            damaged: Vec::new(),
        };
        Ok(Self {
            cache: self.cache.clone(),
            nearby: Arc::clone(&self.nearby),
            memory: self.memory.clone(),
            progress: self.progress.clone(),
            ..Self::new(
                Arc::clone(&self.opened.storage),
                found,
                config,
                EarlyLists::default(),
            )?
        })
    }

    /// Checks that the repository still exists and was not replaced by another one.
    ///
    /// # Errors
    /// [`Error::RepositoryGone`]; when the storage fails.
    pub(crate) fn verify_presence(&self) -> Result<()> {
        let expected = &self.opened.found.sealed_config;
        let name = self.opened.found.config_name;
        let whole = match name.kind {
            ObjectKind::Copy => copies::with_prefix(expected),
            _ => expected.clone(),
        };
        match self.opened.storage.get(name, None) {
            Ok(bytes) if bytes == whole => Ok(()),
            Ok(bytes) if self.opens_config(&bytes) => Err(Error::MigratedMeanwhile),
            Err(error) if !is_absent(&error) => Err(Error::storage("read", name)(error)),
            _ => Err(Error::RepositoryGone(self.opened.storage.location())),
        }
    }

    /// Whether this is a config of this repository, perhaps of another format.
    pub(crate) fn opens_config(&self, sealed: &[u8]) -> bool {
        self.opened.found.secret.accepts_config(sealed).is_ok()
    }

    /// Whether the storage has an object of this name.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn has(&self, name: Name) -> Result<bool> {
        match self.opened.storage.stat(name) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == StorageErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::storage("read", name)(error)),
        }
    }

    /// Uses a local cache: of the index and, if the storage is far, of directories, snapshots and
    /// removals.
    pub fn with_cache(mut self, cache: Cache) -> Self {
        if self.is_far() {
            self.nearby = Arc::new(Nearby::new(cache.folder(self.opened.config.id)));
        }
        self.cache = Some(Arc::new(cache));
        self
    }

    /// A handle that takes directories, snapshots and removals from the storage, not from the local
    /// cache.
    pub(crate) fn without_local_copies(&self) -> Self {
        Self {
            nearby: Arc::default(),
            ..self.clone()
        }
    }

    /// What is kept on this machine.
    pub(crate) fn nearby(&self) -> &Nearby {
        &self.nearby
    }

    /// Whether the storage is behind a network.
    pub(crate) fn is_far(&self) -> bool {
        self.opened.storage.is_far()
    }

    /// A handle whose operations report to `progress`.
    pub fn with_progress(&self, progress: impl Progress + 'static) -> Self {
        Self {
            progress: Arc::new(progress),
            ..self.clone()
        }
    }

    /// The receiver of reports.
    pub(crate) fn progress(&self) -> &Arc<dyn Progress> {
        &self.progress
    }

    /// Whether this handle uses a local cache.
    pub fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Clears the cached index, which names missing packs, so that the next backup stores their
    /// blocks again.
    pub(crate) fn forget_cached(&self) {
        if let Some(cache) = &self.cache {
            cache.forget(self.opened.config.id);
        }
    }

    /// The storage of the objects.
    pub fn storage(&self) -> &dyn Storage {
        &*self.opened.storage
    }

    /// What opens and seals objects.
    pub(crate) fn keys(&self) -> &Keyring {
        &self.opened.keys
    }

    /// Whether the repository was opened with a write-only key: it can be backed up to, and nothing
    /// that is stored can be read.
    pub fn is_write_only(&self) -> bool {
        self.writer().is_some()
    }

    /// The write-only key that opened the repository, if it is one.
    pub fn writer(&self) -> Option<WriterId> {
        self.keys().writer().map(|writer| writer.id)
    }

    /// A handle that remembers what it sees, and compares.
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = Some(Arc::new(memory));
        self
    }

    pub(crate) fn memory(&self) -> Option<&Memory> {
        self.memory.as_deref()
    }

    /// Compares the repository with what this machine has seen before; nothing without a memory.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn recall(&self) -> Result<Option<Recalled>> {
        let memory = self.memory.as_ref();
        memory.map(|memory| memory.recall(self)).transpose()
    }

    /// The highest number of a record of removed snapshots that this machine has seen.
    pub(crate) fn remembered_number(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.number(self))
    }

    /// The cache of this handle, if any.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.cache.as_deref()
    }

    /// The key of a pack. For one of a write-only key, the pack is read unless `head` has its
    /// beginning.
    ///
    /// # Errors
    /// [`Error::WriteOnly`]; when the storage fails or the pack is damaged.
    pub(crate) fn pack_key(&self, pack: &PackEntry, head: Option<&[u8]>) -> Result<ObjectKey> {
        let name = Name::new(ObjectKind::Pack, pack.id);
        if !pack.kind.is_of_writer() {
            let master = self.keys().need_master(&format!("reading {name}"))?;
            return Ok(master.object_key(ObjectKind::Pack, &pack.salt));
        }
        if let Some(key) = self.known_pack_key(pack.id) {
            return Ok(key);
        }
        let key = match head {
            Some(head) => self.keys().pack_key(head, &name.to_string())?,
            None => {
                let head = Some(0..pack.kind.head_len() as u64);
                let head = self.storage().get(name, head);
                let head = head.map_err(Error::storage("read", name))?;
                self.keys().pack_key(&head, &name.to_string())?
            }
        };
        let mut known = lock(&self.opened.pack_keys);
        if known.len() >= PACK_KEYS_MAX {
            known.clear();
        }
        known.insert(pack.id, key.clone());
        Ok(key)
    }

    /// The key of a pack of a write-only key, if it was derived before.
    pub(crate) fn known_pack_key(&self, pack: Id) -> Option<ObjectKey> {
        lock(&self.opened.pack_keys).get(&pack).cloned()
    }

    /// ID of the key that the password opened.
    pub fn key(&self) -> Id {
        self.opened.found.key
    }

    /// Adds a password with this cost of guessing; returns the ID of its key.
    ///
    /// # Errors
    /// [`Error::PasswordInUse`]; an unusable cost, an empty password, or when the storage fails.
    pub fn add_key(&self, password: &Password, cost: KdfCost) -> Result<Id> {
        self.need_new(password)?;
        self.add_key_of(&self.keys().secret(), password, cost)
    }

    /// Fails if a key has this password. With one password for a full and a write-only key, it
    /// would be left to chance what the password may do.
    ///
    /// # Errors
    /// [`Error::PasswordInUse`], or when the storage fails.
    pub(crate) fn need_new(&self, password: &Password) -> Result<()> {
        for key in key::list(self.storage())?.keys {
            // A hostile one opens with nothing.
            if let Ok(Some(_)) = key.unwrap(password) {
                return Err(Error::PasswordInUse(key.id));
            }
        }
        Ok(())
    }

    /// Adds a password for `secret`; returns the ID of its key.
    pub(crate) fn add_key_of(
        &self,
        secret: &Unwrapped,
        password: &Password,
        cost: KdfCost,
    ) -> Result<Id> {
        let id = key::add(self.storage(), secret, password, cost)?;
        self.copy_config_and_keys()?;
        Ok(id)
    }

    /// Removes a key. The key that opened the repository is refused, so that the last key stays.
    ///
    /// # Errors
    /// [`Error::KeyInUse`], [`Error::WriteOnly`], or when the storage fails.
    pub fn remove_key(&self, id: Id) -> Result<()> {
        if id == self.opened.found.key {
            return Err(Error::KeyInUse(id));
        }
        self.keys().need_master("removing another key")?;
        self.delete_key(id)
    }

    /// Changes the password of the key that opened the repository; returns the ID of the new key.
    /// What an interrupted change has left is completed.
    ///
    /// # Errors
    /// [`Error::PasswordInUse`]; an unusable cost, an empty password, or when the storage fails.
    pub fn change_password(&self, password: &Password, cost: KdfCost) -> Result<Id> {
        let added = match self.add_key(password, cost) {
            Err(Error::PasswordInUse(other)) if self.is_alike(other)? => {
                self.copy_config_and_keys()?;
                other
            }
            added => added?,
        };
        key::load(self.storage(), added)?;
        self.delete_key(self.key())?;
        Ok(added)
    }

    /// Whether a key is another than the one that opened the repository, and of the same kind.
    fn is_alike(&self, other: Id) -> Result<bool> {
        let own = key::load(self.storage(), self.key())?;
        let other = key::load(self.storage(), other)?;
        let of = |key: &key::Key| (key.file.kind, key.file.writer);
        Ok(own.id != other.id && of(&own) == of(&other))
    }

    /// The copy goes first: if it were left, it would stand for a key that was lost.
    fn delete_key(&self, id: Id) -> Result<()> {
        if self.format() > 1 {
            let copies = copies::read(self.storage())?;
            if let Some((copy, _)) = copies.keys.get(&id) {
                self.delete_if_there(Name::new(ObjectKind::Copy, *copy))?;
            }
        }
        key::delete(self.storage(), id)
    }

    /// The settings that are fixed for the repository's life.
    pub fn config(&self) -> &Config {
        &self.opened.config
    }

    /// The repository's chunker.
    #[doc(hidden)]
    pub fn chunker(&self) -> &Chunker {
        &self.opened.chunker
    }

    /// Whether bytes with this digest are the block of this name.
    #[doc(hidden)]
    pub fn is_block(&self, block: &Id, digest: &Digest) -> bool {
        block.0.starts_with(digest.as_ref())
    }

    /// The objects of a kind with their lengths in bytes, sorted by ID.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn list(&self, kind: ObjectKind) -> Result<Vec<(Id, u64)>> {
        let listed = self.list_with_times(kind)?;
        Ok(listed
            .into_iter()
            .map(|object| (object.id, object.len))
            .collect())
    }

    /// The objects of a kind, sorted by ID.
    ///
    /// # Errors
    /// When the storage fails.
    #[doc(hidden)]
    pub fn list_with_times(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        let mut listed = self
            .opened
            .storage
            .list(kind)
            .map_err(|source| Error::Storage {
                action: "list",
                what: format!("{} in {}", kind.name(), self.opened.storage.location()),
                source,
            })?;
        for object in &mut listed {
            // Lengths that a place makes up add up, too.
            object.len = object.len.min(OBJECT_LEN_MAX + 1);
        }
        listed.sort_by_key(|object| object.id);
        Ok(listed)
    }

    /// Seals and writes an object of one part; returns its name.
    ///
    /// # Errors
    /// When the storage fails.
    #[doc(hidden)]
    pub fn put_sealed(&self, kind: ObjectKind, payload: &[u8]) -> Result<Id> {
        let sealed = self.keys().seal(kind, payload)?;
        let name = Name::new(kind, object_id(&[&sealed]));
        self.opened
            .storage
            .put(name, &[&sealed])
            .map_err(Error::storage("write", name))?;
        self.nearby.keep_object(name, &sealed);
        Ok(name.id)
    }

    /// Reads an object of one part, checks it against its name and opens it.
    ///
    /// # Errors
    /// When the storage fails, the object is damaged, or only other keys open it.
    #[doc(hidden)]
    pub fn get_sealed(&self, kind: ObjectKind, id: Id) -> Result<Vec<u8>> {
        Ok(self.get_opened(kind, id)?.payload)
    }

    /// As [`Repository::get_sealed`], also telling who sealed it.
    pub(crate) fn get_opened(&self, kind: ObjectKind, id: Id) -> Result<Unsealed> {
        let sealed = self.get_object(kind, id)?;
        self.open_object(Name::new(kind, id), sealed)
    }

    /// Opens an object whose bytes match its name. So it is not damaged: what does not open was put
    /// there by somebody without the key for it.
    pub(crate) fn open_object(&self, name: Name, sealed: Vec<u8>) -> Result<Unsealed> {
        match self.keys().open(name.kind, sealed, &name.to_string()) {
            Err(Error::Damaged { .. } | Error::NewerFormat { .. } | Error::OfStripedSet(_)) => {
                Err(Error::Foreign(name.to_string()))
            }
            opened => opened,
        }
    }

    /// Whether a write-only key sealed an object.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn is_sealed_by_writer(&self, name: Name) -> Result<bool> {
        let header = self.storage().get(name, Some(0..HEADER_LEN as u64));
        let header = header.map_err(Error::storage("read", name))?;
        Ok(format_of(&header) != OBJECT_FORMAT)
    }

    /// Reads an object as it is stored, and checks it against its name.
    pub(crate) fn get_object(&self, kind: ObjectKind, id: Id) -> Result<Vec<u8>> {
        let name = Name::new(kind, id);
        let is_right = |sealed: &Vec<u8>| object_id(&[sealed]) == id;
        if let Some(kept) = self.nearby.object(name).filter(is_right) {
            return Ok(kept);
        }
        // Not kept, or damaged, and then it is replaced.
        let read = self.opened.storage.get(name, None);
        let sealed = read.map_err(Error::storage("read", name))?;
        if !is_right(&sealed) {
            return Err(Error::damaged(name, "its bytes do not match its name"));
        }
        self.nearby.keep_object(name, &sealed);
        Ok(sealed)
    }

    /// Asks a far storage already now for what it takes to remove snapshots.
    pub fn expect_to_remove_snapshots(&self) {
        let opened = &self.opened;
        opened
            .early
            .ask_also(&opened.storage, ObjectKind::Forgotten);
    }

    /// The list of a kind as it was when the repository was opened, if it is far.
    pub(crate) fn first_list(&self, kind: ObjectKind) -> Option<Vec<Listed>> {
        self.opened.early.first(kind)
    }

    /// A list that may have been made at any time since the repository was opened.
    pub(crate) fn list_early(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        match self.opened.early.take(kind) {
            Some(mut listed) => {
                listed.sort_by_key(|object| object.id);
                Ok(listed)
            }
            None => self.list_with_times(kind),
        }
    }

    /// Deletes an object; a missing one is no error.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn delete_if_there(&self, name: Name) -> Result<()> {
        match self.opened.storage.delete(name) {
            Err(error) if error.kind() != StorageErrorKind::NotFound => {
                Err(Error::storage("remove", name)(error))
            }
            _ => Ok(()),
        }
    }

    /// Deletes objects, several at a time; a missing one is no error.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn delete_all_if_there(&self, names: &[Name]) -> Result<()> {
        let connections = self.opened.storage.connections();
        try_each(names, connections, |&name| self.delete_if_there(name)).map(drop)
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.storage().location();
        f.debug_tuple("Repository").field(&location).finish()
    }
}

/// Whether an error of reading `config` means that there is no repository.
fn is_absent(error: &StorageError) -> bool {
    matches!(
        error.kind(),
        StorageErrorKind::NotFound | StorageErrorKind::NotADirectory
    )
}
