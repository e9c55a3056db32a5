//! A repository that is served: its folder, its rules, its quota.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tabane_storage::protocol::{Operation, SESSION_LEN, TAKE_BACK_MAX};
use tabane_storage::{
    Id, Listed, LocalStorage, Name, ObjectKind, Result, Role, Storage, StorageError,
    StorageErrorKind, object_id,
};

use crate::role::{self, Unless};

/// Time after which the bytes of a repository are counted anew: others may work in its folder.
const COUNT_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Sessions that are remembered of each client, and objects of each.
const SESSIONS_MAX: usize = 64;
const OWN_OBJECTS_MAX: usize = 4096;

/// Objects of a kind that says who is at work, unless an admin puts more: whoever prunes reads all
/// of them.
const TRANSIENT_MAX: usize = 1000;

/// As many of them fill the room of clients that only read: they cannot stop backups.
const TRANSIENT_OF_READERS_MAX: usize = TRANSIENT_MAX / 2;

/// Bytes of such an object, unless an admin puts it.
const TRANSIENT_LEN_MAX: u64 = 1 << 20;

/// The first bytes of a copy of the config or of a key, and their number.
const COPY_MAGIC: &[u8; 8] = b"TABANEY\x01";
const COPY_HEADER_LEN: usize = 9;

/// The name of a session: random bytes that only its client knows.
pub type SessionId = [u8; SESSION_LEN];

/// A client that sends a request.
#[derive(Clone, Debug)]
pub struct Who {
    /// The client's name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The repositories that there are for it; `None` for all.
    pub repositories: Option<Vec<String>>,
    /// Bytes that the repository may have after the client has added to it.
    pub quota: Option<u64>,
    /// Its session, if its request says one.
    pub session: Option<SessionId>,
}

impl Who {
    /// Whether there is this repository for the client.
    pub fn has(&self, repository: &str) -> bool {
        let own = self.repositories.as_ref();
        own.is_none_or(|own| own.iter().any(|name| name == repository))
    }
}

/// A repository in a folder. All methods block.
pub struct Repository {
    storage: LocalStorage,
    path: PathBuf,
    usage: Mutex<Option<Usage>>,
    sessions: Mutex<HashMap<(String, SessionId), Session>>,
}

/// Bytes of a repository.
struct Usage {
    bytes: u64,
    counted: Instant,
}

/// Room that an object was promised; given back when dropped.
pub struct Room {
    repository: Arc<Repository>,
    len: u64,
}

impl Room {
    /// The object is there.
    pub fn keep(mut self) {
        self.len = 0;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.repository.release(self.len);
    }
}

/// What a session has put.
struct Session {
    objects: HashMap<Name, Instant>,
    used: Instant,
}

impl Repository {
    /// The repository in this folder, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self {
            storage: LocalStorage::new(&path),
            path,
            usage: Mutex::default(),
            sessions: Mutex::default(),
        }
    }

    /// The storage of its objects.
    pub fn storage(&self) -> &LocalStorage {
        &self.storage
    }

    /// Its folder.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Bytes of all objects, if they have been counted.
    pub fn known_bytes(&self) -> Option<u64> {
        lock(&self.usage).as_ref().map(|usage| usage.bytes)
    }

    /// Checks that a client may do this.
    ///
    /// # Errors
    /// [`StorageErrorKind::Unauthorized`], with the role that it takes.
    pub fn permit(&self, who: &Who, operation: Operation) -> Result<()> {
        let (needed, exception) = role::needed(operation);
        if who.role >= needed {
            return Ok(());
        }
        let mut why = "";
        if let Some((_, unless)) = exception.filter(|(role, _)| who.role >= *role) {
            let holds = match (unless, operation) {
                (Unless::Own, Operation::Delete(name)) => self.is_own(who, name),
                // A copy is compared with its original when its bytes are there.
                (Unless::New, Operation::Put(name)) if name.kind == ObjectKind::Copy => true,
                (Unless::New, _) => self.is_new()?,
                _ => false,
            };
            if holds {
                return Ok(());
            }
            why = match unless {
                Unless::Own => ", which was not put in this session,",
                Unless::New => " in a repository that exists",
            };
        }
        let text = format!(
            "the client {} has the role {}, and {}{why} takes the role {needed}",
            who.name,
            who.role,
            role::describe(operation)
        );
        Err(StorageError::new(StorageErrorKind::Unauthorized, text))
    }

    /// Whether there is nothing yet that a new config could hide.
    fn is_new(&self) -> Result<bool> {
        let is_absent = |error: &StorageError| {
            matches!(
                error.kind(),
                StorageErrorKind::NotFound | StorageErrorKind::NotADirectory
            )
        };
        match self.storage.stat(Name::CONFIG) {
            Ok(_) => return Ok(false),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
        let kinds = [
            ObjectKind::Copy,
            ObjectKind::Snapshot,
            ObjectKind::Index,
            ObjectKind::Unverified,
            ObjectKind::Pack,
        ];
        for kind in kinds {
            match self.storage.list(kind) {
                Ok(listed) if listed.is_empty() => {}
                Ok(_) => return Ok(false),
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Whether names of objects are not hashes of their bytes, since the folder is one target of
    /// several.
    fn is_target(&self) -> bool {
        self.storage.stat(Name::TARGET).is_ok()
    }

    /// Checks what can be known of a put before its bytes, and takes room for them.
    ///
    /// # Errors
    /// [`StorageErrorKind::AlreadyExists`]; [`StorageErrorKind::Full`] beyond the quota;
    /// [`StorageErrorKind::Invalid`].
    pub fn expect(self: &Arc<Self>, who: &Who, name: Name, len: u64) -> Result<Room> {
        if self.storage.stat(name).is_ok() {
            return Err(StorageErrorKind::AlreadyExists.into());
        }
        let is_transient = matches!(name.kind, ObjectKind::Client | ObjectKind::Pending);
        if is_transient && who.role < Role::Admin {
            if len > TRANSIENT_LEN_MAX && name.kind == ObjectKind::Client {
                let text = "it is too long for what it is";
                return Err(StorageError::new(StorageErrorKind::Invalid, text));
            }
            let there = self
                .storage
                .list(name.kind)
                .map_or(0, |listed| listed.len());
            let most = match who.role {
                Role::Read => TRANSIENT_OF_READERS_MAX,
                _ => TRANSIENT_MAX,
            };
            if there >= most {
                let text = format!(
                    "there are {there} objects of clients at work in {}: somebody with the role \
                     admin must remove those of dead ones",
                    name.kind.name()
                );
                return Err(StorageError::new(StorageErrorKind::Full, text));
            }
        }
        // What frees space says first what it is about to remove.
        let frees_space = !matches!(
            name.kind,
            ObjectKind::Pack | ObjectKind::Unverified | ObjectKind::Snapshot
        );
        let quota = who.quota.filter(|_| who.role < Role::Admin || !frees_space);
        self.reserve(quota, len)?;
        Ok(Room {
            repository: Arc::clone(self),
            len,
        })
    }

    /// Takes room for an object from the quota.
    fn reserve(&self, quota: Option<u64>, len: u64) -> Result<()> {
        let mut usage = lock(&self.usage);
        let Some(quota) = quota else {
            if let Some(usage) = &mut *usage {
                usage.bytes += len;
            }
            return Ok(());
        };
        let counted = match &mut *usage {
            Some(usage) if usage.counted.elapsed() < COUNT_INTERVAL => usage,
            _ => usage.insert(self.count()?),
        };
        if counted.bytes.saturating_add(len) > quota {
            let text = format!(
                "the quota of {quota} bytes is used up: the repository has {}, and {len} are to be \
                 added",
                counted.bytes
            );
            return Err(StorageError::new(StorageErrorKind::Full, text));
        }
        counted.bytes += len;
        Ok(())
    }

    /// Gives room back to the quota.
    fn release(&self, len: u64) {
        if let Some(usage) = &mut *lock(&self.usage) {
            usage.bytes = usage.bytes.saturating_sub(len);
        }
    }

    fn count(&self) -> Result<Usage> {
        let counted = Instant::now();
        let mut bytes = 0;
        for kind in ObjectKind::ALL {
            match self.storage.list(kind) {
                Ok(listed) => bytes += listed.iter().map(|object| object.len).sum::<u64>(),
                Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Usage { bytes, counted })
    }

    /// Checks that the bytes of an object have its name.
    ///
    /// # Errors
    /// [`StorageErrorKind::Invalid`].
    pub fn check_name(&self, name: Name, hash: Id) -> Result<()> {
        let is_hash = match name.kind {
            ObjectKind::Config | ObjectKind::Target => false,
            // Named by what was deleted.
            ObjectKind::Deleted => false,
            ObjectKind::Set => true,
            _ => !self.is_target(),
        };
        if !is_hash || name.id == hash {
            return Ok(());
        }
        let text = format!("the name of {name} is not the BLAKE3 of its bytes");
        Err(StorageError::new(StorageErrorKind::Invalid, text))
    }

    /// Checks what a client may put of the objects that only the making of a repository writes.
    ///
    /// # Errors
    /// [`StorageErrorKind::Unauthorized`].
    pub fn check_copy(&self, who: &Who, name: Name, bytes: &[u8]) -> Result<()> {
        if name.kind != ObjectKind::Copy || who.role >= Role::Admin {
            return Ok(());
        }
        let original = bytes.get(COPY_HEADER_LEN..).unwrap_or_default();
        let is_of_original = bytes.starts_with(COPY_MAGIC)
            && match bytes.get(COPY_MAGIC.len()) {
                Some(b'C') => {
                    let config = self.storage.get(Name::CONFIG, None);
                    config.is_ok_and(|config| config == original)
                }
                Some(b'K') => {
                    let key = Name::new(ObjectKind::Key, object_id(&[original]));
                    self.storage.stat(key).is_ok()
                }
                _ => false,
            };
        if is_of_original {
            return Ok(());
        }
        let text = format!(
            "the client {} has the role {}, and writing a copy of what is not there takes the role \
             admin",
            who.name, who.role
        );
        Err(StorageError::new(StorageErrorKind::Unauthorized, text))
    }

    /// Remembers that a session has put an object, which no earlier one can take back then.
    pub fn remember(&self, who: &Who, name: Name) {
        let mut sessions = lock(&self.sessions);
        for session in sessions.values_mut() {
            session.objects.remove(&name);
        }
        let is_taken_back = matches!(
            role::needed(Operation::Delete(name)),
            (_, Some((_, Unless::Own)))
        );
        let Some(session) = who.session.filter(|_| is_taken_back) else {
            return;
        };
        let now = Instant::now();
        let key = (who.name.clone(), session);
        if !sessions.contains_key(&key) {
            let of_client = sessions.iter().filter(|((name, _), _)| *name == who.name);
            let mut of_client: Vec<_> = of_client.collect();
            of_client.sort_unstable_by_key(|(_, session)| session.used);
            if of_client.len() >= SESSIONS_MAX {
                let oldest = of_client[0].0.clone();
                sessions.remove(&oldest);
            }
        }
        let session = sessions.entry(key).or_insert_with(|| Session {
            objects: HashMap::new(),
            used: now,
        });
        session.used = now;
        if session.objects.len() < OWN_OBJECTS_MAX {
            session.objects.insert(name, now);
        }
    }

    fn is_own(&self, who: &Who, name: Name) -> bool {
        let Some(session) = who.session else {
            return false;
        };
        let sessions = lock(&self.sessions);
        let put = sessions
            .get(&(who.name.clone(), session))
            .and_then(|session| session.objects.get(&name));
        put.is_some_and(|put| {
            matches!(name.kind, ObjectKind::Client | ObjectKind::Pending)
                || put.elapsed() < TAKE_BACK_MAX
        })
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`]; when it cannot be deleted.
    pub fn delete(&self, who: &Who, name: Name) -> Result<()> {
        let len = self.storage.stat(name)?;
        self.storage.delete(name)?;
        self.release(len);
        if let Some(session) = who.session {
            let mut sessions = lock(&self.sessions);
            if let Some(session) = sessions.get_mut(&(who.name.clone(), session)) {
                session.objects.remove(&name);
            }
        }
        Ok(())
    }

    /// Lists objects.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.storage.list(kind)
    }
}

/// Locks a mutex under which nothing panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}
