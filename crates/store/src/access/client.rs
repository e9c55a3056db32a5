//! Records of clients at work: each client keeps an object in the storage as long as it works.
//!
//! No snapshot's safety rests on these records: [`crate::access::removal`] keeps snapshots whole
//! without them. But a prune that knows of a running backup spares the packs that the backup may
//! need, and a second prune does not repeat the work of the first. A dead client shows by its
//! process if it ran on this machine, otherwise by its object, which is not renewed. All times come
//! from the storage's own clock, so the clocks of clients do not matter.

use std::convert::Infallible;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::access::listing::{READ_ATTEMPTS_MAX, unsteady};
use crate::access::repository::Repository;
use tabane_format::host;
use tabane_format::{Error, Result};
use tabane_storage::Id;
use tabane_storage::sync::{lock, try_each};
use tabane_storage::{Listed, Name, ObjectKind};

/// A client renews its object this often.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// A client on another machine counts as dead when its object is older than this. A laptop may
/// sleep for a night and go on.
const SILENCE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Kinds of work of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Writes blocks and a snapshot: a backup, or another command that makes snapshots.
    Backup,
    /// Reads blocks for a long time.
    Restore,
    /// Removes packs and index objects that no snapshot needs.
    Prune,
}

/// What this process has announced, and not withdrawn.
static ANNOUNCED: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// A client's record of itself, stored as sealed JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The kind of work.
    pub purpose: Purpose,
    /// Name of the client's machine.
    pub hostname: String,
    /// Name of the client's user.
    pub username: String,
    /// The client's process ID.
    pub pid: u32,
    /// Names the boot and the namespace to which the process ID belongs; `None` where the system
    /// names neither.
    pub pid_space: Option<String>,
    /// The start of the client, by the clock of the storage; `None` until the first renewal.
    pub since: Option<Timestamp>,
}

/// A client whose record is in the storage.
#[derive(Clone, Debug)]
pub struct Seen {
    /// ID of the client's object.
    pub id: Id,
    /// The client's record; `None` if it cannot be read.
    pub client: Option<Client>,
    /// Time of the object's last renewal, by the clock of the storage.
    pub modified: SystemTime,
}

impl Seen {
    /// The start of the client, by the clock of the storage.
    pub fn since(&self) -> SystemTime {
        let told = self.client.as_ref().and_then(|client| client.since);
        told.map_or(self.modified, |since| since.into())
    }

    /// Whether the client has crashed; `now` is by the clock of the storage.
    pub fn is_dead(&self, now: SystemTime) -> bool {
        let silent = now.duration_since(self.modified);
        if silent.is_ok_and(|silent| silent > SILENCE_MAX) {
            return true;
        }
        self.client.as_ref().is_some_and(|client| {
            client.pid_space.is_some()
                && client.pid_space == pid_space()
                && i32::try_from(client.pid)
                    .ok()
                    .and_then(rustix::process::Pid::from_raw)
                    .is_none_or(|pid| {
                        rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
                    })
        })
    }

    /// Whether both are records of one client, which renews its own under other IDs.
    fn is_of_same(&self, other: &Self) -> bool {
        match (&self.client, &other.client) {
            (Some(one), Some(other)) => {
                let since = other.since;
                Client {
                    since,
                    ..one.clone()
                } == *other
            }
            _ => self.id == other.id,
        }
    }
}

/// Announces this process until it is dropped.
pub struct Presence {
    shared: Arc<Shared>,
    /// Dropping the sender stops the thread.
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
}

struct Shared {
    repository: Repository,
    said: Mutex<Said>,
}

/// What a client has said of itself.
struct Said {
    /// ID of the newest object; `None` before the first.
    id: Option<Id>,
    /// The record in it.
    client: Client,
}

impl Presence {
    /// Announces that this process works on `repository`.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn announce(repository: &Repository, purpose: Purpose) -> Result<Self> {
        let presence = Self::new(repository, purpose);
        presence.ensure()?;
        Ok(presence)
    }

    /// A presence that is announced by [`Presence::ensure`].
    pub(crate) fn new(repository: &Repository, purpose: Purpose) -> Self {
        let host = host::describe();
        let client = Client {
            purpose,
            hostname: host.hostname,
            username: host.username,
            pid: std::process::id(),
            pid_space: pid_space(),
            since: None,
        };
        let shared = Arc::new(Shared {
            repository: repository.clone(),
            said: Mutex::new(Said { id: None, client }),
        });
        lock(&ANNOUNCED).push(Arc::downgrade(&shared));
        let (sender, receiver) = channel();
        let renewed = Arc::clone(&shared);
        let renew = move || {
            while receiver.recv_timeout(RENEWAL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A failed renewal is tried again long before other clients take this process for
                // dead.
                let _ = renewed.renew();
            }
        };
        let thread = std::thread::Builder::new()
            .name("presence".to_owned())
            .spawn(renew);
        Self {
            shared,
            renewal: thread.ok().map(|thread| (sender, thread)),
        }
    }

    /// Announces this process, unless it has been; returns the ID of its newest object.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn ensure(&self) -> Result<Id> {
        let mut said = lock(&self.shared.said);
        if let Some(id) = said.id {
            return Ok(id);
        }
        let repository = &self.shared.repository;
        // model: groups/put-record
        let id = put(repository, &said.client)?;
        said.id = Some(id);
        // Whoever changes the storage waits for those whose records it sees afterwards.
        let current = repository.storage().check_current();
        current.map_err(Error::storage("write", Name::new(ObjectKind::Client, id)))?;
        Ok(id)
    }

    /// All other clients, and the time by the clock of the storage, about that of this client's
    /// object.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn others(&self) -> Result<(Vec<Seen>, SystemTime)> {
        let repository = &self.shared.repository;
        for _ in 0..READ_ATTEMPTS_MAX {
            let listed = repository.list_steadily(ObjectKind::Client)?;
            let seen = read_listed(repository, listed.clone());
            if let Some(others) = self.others_of(seen, &listed)? {
                return Ok(others);
            }
        }
        Err(unsteady(ObjectKind::Client.name()))
    }

    /// As [`Presence::others`], of all clients that were `seen` and a list of them; `None` if it
    /// lacks this client, which has announced itself again then.
    ///
    /// # Errors
    /// When the storage fails.
    pub(crate) fn others_of(
        &self,
        mut seen: Vec<Seen>,
        listed: &[Listed],
    ) -> Result<Option<(Vec<Seen>, SystemTime)>> {
        let id = self.ensure()?;
        let Some(own) = listed.iter().find(|object| object.id == id) else {
            // Another client has taken this process for dead and removed its object.
            self.shared.renew()?;
            return Ok(None);
        };
        seen.retain(|seen| seen.id != id);
        Ok(Some((seen, own.modified)))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.renewal.take() {
            drop(sender);
            let _ = thread.join();
        }
        self.shared.withdraw();
        lock(&ANNOUNCED).retain(|announced| !announced.ptr_eq(&Arc::downgrade(&self.shared)));
    }
}

impl Shared {
    fn renew(&self) -> Result<()> {
        let (id, mut client) = {
            let said = lock(&self.said);
            (said.id, said.client.clone())
        };
        if client.since.is_none() {
            let listed = self.repository.list_with_times(ObjectKind::Client)?;
            let own = listed.iter().find(|object| Some(object.id) == id);
            client.since = own.and_then(|own| Timestamp::try_from(own.modified).ok());
        }
        let new = put(&self.repository, &client)?;
        *lock(&self.said) = Said {
            id: Some(new),
            client,
        };
        if let Some(id) = id {
            // The object is gone if another client took this process for dead.
            self.delete(id);
        }
        Ok(())
    }

    /// Removes the object, if there is one. One that stays is recognised as a dead client's.
    fn withdraw(&self) {
        let id = lock(&self.said).id;
        if let Some(id) = id {
            self.delete(id);
        }
    }

    fn delete(&self, id: Id) {
        let name = Name::new(ObjectKind::Client, id);
        let _ = self.repository.storage().delete(name);
    }
}

/// Removes the records of this process, which is about to end, from all repositories.
pub fn withdraw() {
    // Not kept locked: an end in good order goes on meanwhile.
    let announced = std::mem::take(&mut *lock(&ANNOUNCED));
    for shared in announced.iter().filter_map(Weak::upgrade) {
        shared.withdraw();
    }
}

/// The clients that have announced themselves.
///
/// # Errors
/// When the storage fails.
pub fn list(repository: &Repository) -> Result<Vec<Seen>> {
    Ok(read_listed(
        repository,
        repository.list_steadily(ObjectKind::Client)?,
    ))
}

/// The clients that are listed.
pub(crate) fn read_listed(repository: &Repository, listed: Vec<Listed>) -> Vec<Seen> {
    let connections = repository.storage().connections();
    let seen = try_each(&listed, connections, |object| {
        Ok::<_, Infallible>(Seen {
            id: object.id,
            client: read(repository, object.id).ok(),
            modified: object.modified,
        })
    });
    seen.unwrap_or_else(|never| match never {})
}

/// The result of [`Repository::forget_dead_clients`].
#[derive(Debug)]
pub struct Forgotten {
    /// Clients whose records were removed.
    pub removed: Vec<Seen>,
    /// Clients that may be alive.
    pub left: Vec<Seen>,
}

impl Repository {
    /// Removes the records of clients that crashed; `all` includes clients that may be alive.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn forget_dead_clients(&self, all: bool) -> Result<Forgotten> {
        let own = Presence::announce(self, Purpose::Restore)?;
        let (seen, now) = own.others()?;
        let (removed, left): (Vec<Seen>, Vec<Seen>) =
            seen.into_iter().partition(|seen| all || seen.is_dead(now));
        for seen in &removed {
            let name = Name::new(ObjectKind::Client, seen.id);
            match self.storage().delete(name) {
                Err(error) if error.kind() != tabane_storage::StorageErrorKind::NotFound => {
                    return Err(Error::storage("remove", name)(error));
                }
                _ => {}
            }
        }
        Ok(Forgotten { removed, left })
    }

    /// Returns when all clients that are at work now have ended, or are dead. As long as some are
    /// left, `pause` gets them, and says how it goes on.
    ///
    /// # Errors
    /// When the storage fails, or `pause` ends it.
    pub fn wait_for_clients(&self, mut pause: impl FnMut(&[Seen]) -> Result<()>) -> Result<()> {
        // model: groups/wait-for-clients
        let mut left = self.forget_dead_clients(false)?.left;
        while !left.is_empty() {
            pause(&left)?;
            let mut now = self.forget_dead_clients(false)?.left;
            now.retain(|seen| left.iter().any(|before| before.is_of_same(seen)));
            left = now;
        }
        Ok(())
    }
}

fn put(repository: &Repository, client: &Client) -> Result<Id> {
    let json = serde_json::to_vec(client).expect("a client is plain data");
    repository.put_sealed(ObjectKind::Client, &json)
}

fn read(repository: &Repository, id: Id) -> Result<Client> {
    let json = repository.get_sealed(ObjectKind::Client, id)?;
    serde_json::from_slice(&json)
        .map_err(|error| Error::damaged(Name::new(ObjectKind::Client, id), error))
}

/// Processes of the same boot and the same namespace can see each other.
fn pid_space() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim_end(), namespace.display()))
}

#[cfg(test)]
mod tests {
    use tabane_format::key::KdfCost;
    use tabane_testing::memory::MemoryStorage;

    use super::*;
    use crate::access::repository::InitOptions;

    /// A renewal puts a new record in the place of the old one. The new record says when the client
    /// began, which was the time of the first.
    #[test]
    fn a_renewed_record_says_when_its_client_began() {
        let storage = MemoryStorage::default();
        let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST);
        let password = b"password".to_vec().into();
        let repository = Repository::init(Arc::new(storage.clone()), &password, options).unwrap();
        let hour = Duration::from_secs(3600);
        let mut presences = Vec::new();
        for _ in 0..3 {
            presences.push(Presence::announce(&repository, Purpose::Backup).unwrap());
            storage.wait(hour);
        }
        for presence in &presences {
            let find = || {
                let id = presence.ensure().unwrap();
                let seen = list(&repository).unwrap();
                seen.into_iter().find(|seen| seen.id == id).unwrap()
            };
            let first = find();
            assert_eq!(first.client.as_ref().unwrap().since, None);
            for _ in 0..2 {
                storage.wait(hour);
                let before = find();
                presence.shared.renew().unwrap();
                let renewed = find();
                assert!(renewed.modified >= before.modified + hour);
                assert_eq!(renewed.since(), first.modified);
                let expected = Client {
                    since: Some(first.modified.try_into().unwrap()),
                    ..first.client.clone().unwrap()
                };
                assert_eq!(renewed.client, Some(expected));
            }
            assert_eq!(list(&repository).unwrap().len(), 3);
        }
        drop(presences);
        assert_eq!(list(&repository).unwrap().len(), 0);
    }

    /// Process IDs mean nothing across boots and namespaces.
    #[test]
    fn the_space_of_process_ids_names_boot_and_namespace() {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok();
        let both = boot.zip(namespace);
        let expected = both.map(|(boot, namespace)| {
            let boot = boot.lines().next().unwrap().to_owned();
            format!("{boot} {}", namespace.display())
        });
        assert_eq!(pid_space(), expected);
    }

    #[test]
    fn a_client_that_renews_its_record_is_the_same() {
        let seen = |id: u8, pid: Option<u32>, since: Option<i64>| Seen {
            id: Id([id; 32]),
            client: pid.map(|pid| Client {
                purpose: Purpose::Backup,
                hostname: "host".to_owned(),
                username: "user".to_owned(),
                pid,
                pid_space: None,
                since: since.map(|since| Timestamp::from_second(since).unwrap()),
            }),
            modified: SystemTime::UNIX_EPOCH,
        };
        let first = seen(1, Some(7), None);
        assert!(first.is_of_same(&seen(2, Some(7), Some(5))));
        assert!(!first.is_of_same(&seen(2, Some(8), None)));
        let unreadable = seen(1, None, None);
        assert!(unreadable.is_of_same(&seen(1, None, None)));
        assert!(!unreadable.is_of_same(&seen(2, None, None)));
        assert!(!unreadable.is_of_same(&seen(2, Some(7), None)));
    }

    /// Dead is whose process of this machine has ended, or who was silent for a day.
    #[test]
    fn the_dead_are_told_from_those_who_cannot_be_seen() {
        let now = SystemTime::now();
        let is_dead = |pid: u32, pid_space: Option<&str>, silent: Duration| {
            let seen = Seen {
                id: Id([1; 32]),
                client: Some(Client {
                    purpose: Purpose::Backup,
                    hostname: String::new(),
                    username: String::new(),
                    pid,
                    pid_space: pid_space.map(str::to_owned),
                    since: None,
                }),
                modified: now - silent,
            };
            seen.is_dead(now)
        };
        let here = pid_space();
        let (own, none) = (std::process::id(), i32::MAX as u32);
        let second = Duration::from_secs(1);
        for pid in [own, none] {
            assert!(!is_dead(pid, None, SILENCE_MAX), "{pid}");
            assert!(!is_dead(pid, Some("elsewhere"), SILENCE_MAX), "{pid}");
            assert!(is_dead(pid, here.as_deref(), SILENCE_MAX + second), "{pid}");
            assert!(is_dead(pid, None, SILENCE_MAX + second), "{pid}");
        }
        assert!(!is_dead(own, here.as_deref(), SILENCE_MAX));
        if here.is_some() {
            assert!(is_dead(none, here.as_deref(), Duration::ZERO));
            assert!(is_dead(u32::MAX, here.as_deref(), Duration::ZERO));
        }
        let unreadable = |silent| Seen {
            id: Id([1; 32]),
            client: None,
            modified: now - silent,
        };
        assert!(!unreadable(SILENCE_MAX).is_dead(now));
        assert!(unreadable(SILENCE_MAX + second).is_dead(now));
    }
}
