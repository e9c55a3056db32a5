//! A storage in memory on which each client waits, before each operation that a model has, until
//! the test lets it go on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use tabane_storage::sync::lock;
use tabane_storage::{
    Id, Listed, Name, ObjectKind, Result, Storage, StorageError, StorageErrorKind,
};
use tabane_testing::memory::part_of;

/// The kinds of objects that the model has. A repository without write-only keys has nothing that
/// is unverified.
pub const KINDS: [ObjectKind; 5] = [
    ObjectKind::Removal,
    ObjectKind::Pending,
    ObjectKind::Snapshot,
    ObjectKind::Index,
    ObjectKind::Pack,
];

const HOUR: Duration = Duration::from_secs(3600);
/// The storage's clock when the first object is put.
const BEGIN: Duration = HOUR;
/// Later than anything is put.
const LATE: Duration = HOUR.saturating_mul(10);
/// When a client has put its own record, by what it is told: nothing that it sees is younger.
const NOW: Duration = HOUR.saturating_mul(11);

/// Lists that are asked for while a repository is opened: of snapshots, removals, index objects
/// and keys.
const EARLY_LISTS: usize = 4;

/// How long something that would let a client go on can take, on a busy machine.
const PATIENCE_MAX: Duration = Duration::from_secs(2);

/// An operation that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Put { name: Name, is_cold: bool },
    List(ObjectKind),
    Find(Name),
    Read(Name),
    Delete(Name),
}

/// Whose record a client sees beside its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    Nobody,
    BeganEarlier,
    BeganLater,
}

/// What a test and the clients share.
#[derive(Default)]
pub struct Stage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Name, Object>,
    clients: Vec<Client>,
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// A client's record that others are shown.
    phantom: Option<Id>,
    is_over: bool,
}

#[derive(Clone)]
struct Object {
    bytes: Arc<[u8]>,
    put: SystemTime,
}

struct Client {
    is_on: bool,
    has_ended: bool,
    early_lists: usize,
    /// What was there when it listed, so that a list and what is read of it are of one moment.
    listed: BTreeMap<Name, Object>,
    record: Option<Id>,
    other: Other,
    /// Packs that it waits for before it reads them.
    sources: BTreeSet<Id>,
}

struct Waiting {
    client: usize,
    operation: Operation,
    is_granted: bool,
}

impl Stage {
    /// A client more; it waits for nothing before [`Stage::begin`]. Returns its number.
    pub fn add(self: &Arc<Self>) -> (usize, Seat) {
        let mut state = lock(&self.state);
        state.clients.push(Client {
            is_on: false,
            has_ended: false,
            early_lists: 0,
            listed: BTreeMap::new(),
            record: None,
            other: Other::Nobody,
            sources: BTreeSet::new(),
        });
        let client = state.clients.len() - 1;
        let stage = Arc::clone(self);
        (client, Seat { stage, client })
    }

    /// From now on a client waits before each operation that the model has; but for the lists that
    /// were asked for when it opened the repository, which have to be there.
    pub fn begin(&self, client: usize) {
        let mut state = lock(&self.state);
        while state.clients[client].early_lists < EARLY_LISTS {
            state = self.changed.wait(state).expect("nobody panics here");
        }
        state.clients[client].is_on = true;
    }

    /// Says that a client takes no more steps.
    pub fn end(&self, client: usize) {
        lock(&self.state).clients[client].has_ended = true;
        self.changed.notify_all();
    }

    /// Lets all operations fail from now on.
    pub fn is_over(&self) {
        lock(&self.state).is_over = true;
        self.changed.notify_all();
    }

    /// Says whom a client sees beside itself from now on.
    pub fn show(&self, client: usize, other: Other) {
        lock(&self.state).clients[client].other = other;
    }

    /// Says that a client reads these packs next.
    pub fn hold_reads(&self, client: usize, sources: BTreeSet<Id>) {
        lock(&self.state).clients[client].sources = sources;
    }

    /// A client reads packs as they are now, and no longer as they were when it listed them.
    pub fn let_read(&self, client: usize) {
        let mut state = lock(&self.state);
        let client = &mut state.clients[client];
        client.sources.clear();
        client
            .listed
            .retain(|name, _| name.kind != ObjectKind::Pack);
    }

    /// The record that others are shown.
    pub fn set_phantom(&self) {
        let mut state = lock(&self.state);
        let mut records = state
            .objects
            .keys()
            .filter(|name| name.kind == ObjectKind::Client);
        state.phantom = records.next().map(|name| name.id);
    }

    /// The objects of a kind.
    pub fn names(&self, kind: ObjectKind) -> BTreeSet<Id> {
        let state = lock(&self.state);
        let of_kind = state.objects.keys().filter(|name| name.kind == kind);
        of_kind.map(|name| name.id).collect()
    }

    /// Waits until a client waits for an operation that is wanted; returns that. Or an account of
    /// what it does instead.
    pub fn wait(
        &self,
        client: usize,
        wanted: impl Fn(Operation) -> bool,
    ) -> std::result::Result<(u64, Operation), String> {
        let mut state = lock(&self.state);
        loop {
            let of_client = |state: &State| -> Vec<(u64, Operation)> {
                let waiting = state.waiting.iter();
                let waiting = waiting.filter(|(_, one)| one.client == client && !one.is_granted);
                waiting
                    .map(|(&number, one)| (number, one.operation))
                    .collect()
            };
            let waiting = of_client(&state);
            if let Some(found) = waiting.iter().find(|(_, operation)| wanted(*operation)) {
                return Ok(*found);
            }
            if state.clients[client].has_ended {
                return Err("it has ended".to_owned());
            }
            let (guard, timeout) = self
                .changed
                .wait_timeout(state, PATIENCE_MAX)
                .expect("nobody panics under this lock");
            state = guard;
            if timeout.timed_out() && of_client(&state) == waiting {
                let operations = waiting.iter().map(|(_, operation)| operation);
                return Err(format!("it waits for {:?}", operations.collect::<Vec<_>>()));
            }
        }
    }

    /// Waits until a client has ended.
    pub fn wait_for_end(&self, client: usize) -> std::result::Result<(), String> {
        match self.wait(client, |_| false) {
            Err(why) if why == "it has ended" => Ok(()),
            Err(why) => Err(why),
            Ok(_) => unreachable!("nothing is wanted"),
        }
    }

    /// Lets a client do what it waits for, and returns when that is done.
    pub fn grant(&self, number: u64) {
        let mut state = lock(&self.state);
        if let Some(waiting) = state.waiting.get_mut(&number) {
            waiting.is_granted = true;
        }
        self.changed.notify_all();
        while state.waiting.contains_key(&number) {
            state = self.changed.wait(state).expect("nobody panics here");
        }
    }
}

/// The storage as one client sees it.
#[derive(Clone)]
pub struct Seat {
    stage: Arc<Stage>,
    client: usize,
}

fn over() -> StorageError {
    StorageError::new(StorageErrorKind::Permanent, "the play is over")
}

impl Seat {
    /// Does something when its turn has come.
    fn act<T>(
        &self,
        operation: Operation,
        act: impl FnOnce(&mut State, usize) -> Result<T>,
    ) -> Result<T> {
        let (stage, client) = (&self.stage, self.client);
        let mut state: MutexGuard<'_, State> = lock(&stage.state);
        let number = state.next;
        let waits = state.clients[client].is_on
            && match operation {
                Operation::Read(name) => state.clients[client].sources.contains(&name.id),
                Operation::Put { name, .. } | Operation::Find(name) | Operation::Delete(name) => {
                    KINDS.contains(&name.kind)
                }
                Operation::List(kind) => KINDS.contains(&kind),
            };
        if waits {
            state.next += 1;
            let waiting = Waiting {
                client,
                operation,
                is_granted: false,
            };
            state.waiting.insert(number, waiting);
            stage.changed.notify_all();
            while !state.is_over && !state.waiting[&number].is_granted {
                state = stage.changed.wait(state).expect("nobody panics here");
            }
        }
        let done = if state.is_over && state.clients[client].is_on {
            Err(over())
        } else {
            act(&mut state, client)
        };
        state.waiting.remove(&number);
        stage.changed.notify_all();
        done
    }

    fn put_as(&self, name: Name, parts: &[&[u8]], is_cold: bool) -> Result<()> {
        self.act(Operation::Put { name, is_cold }, |state, client| {
            if state.objects.contains_key(&name) {
                return Err(StorageErrorKind::AlreadyExists.into());
            }
            let put = BEGIN + Duration::from_millis(state.objects.len() as u64 + state.next);
            let object = Object {
                bytes: parts.concat().into(),
                put: SystemTime::UNIX_EPOCH + put,
            };
            state.objects.insert(name, object);
            if name.kind == ObjectKind::Client {
                state.clients[client].record = Some(name.id);
            }
            Ok(())
        })
    }
}

impl Storage for Seat {
    fn location(&self) -> String {
        "stage".to_owned()
    }

    fn connections(&self) -> usize {
        32
    }

    fn is_far(&self) -> bool {
        true
    }

    fn create(&self) -> Result<()> {
        Ok(())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.put_as(name, parts, false)
    }

    fn put_cold(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.put_as(name, parts, true)
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.act(Operation::Read(name), |state, client| {
            let client = &state.clients[client];
            let listed = client.listed.get(&name);
            let listed = listed.filter(|_| !client.sources.contains(&name.id));
            let object = listed.or_else(|| state.objects.get(&name));
            let bytes = &object.ok_or(StorageErrorKind::NotFound)?.bytes;
            part_of(bytes, range)
        })
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.act(Operation::List(kind), |state, client| {
            let State {
                objects, clients, ..
            } = state;
            let client = &mut clients[client];
            client.early_lists += usize::from(!client.is_on);
            let mut listed = Vec::new();
            for (name, object) in objects.iter().filter(|(name, _)| name.kind == kind) {
                let mut modified = object.put;
                if kind == ObjectKind::Client && client.is_on {
                    let since = if client.record == Some(name.id) {
                        NOW
                    } else if state.phantom != Some(name.id) {
                        continue;
                    } else {
                        match client.other {
                            Other::Nobody => continue,
                            Other::BeganEarlier => Duration::from_secs(1),
                            Other::BeganLater => LATE,
                        }
                    };
                    modified = SystemTime::UNIX_EPOCH + since;
                }
                if client.is_on {
                    client.listed.insert(*name, object.clone());
                }
                let len = object.bytes.len() as u64;
                listed.push(Listed {
                    id: name.id,
                    len,
                    modified,
                });
            }
            Ok(listed)
        })
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.act(Operation::Find(name), |state, _| {
            let object = state.objects.get(&name);
            Ok(object.ok_or(StorageErrorKind::NotFound)?.bytes.len() as u64)
        })
    }

    fn delete(&self, name: Name) -> Result<()> {
        self.act(Operation::Delete(name), |state, _| {
            let removed = state.objects.remove(&name);
            removed.map(drop).ok_or(StorageErrorKind::NotFound.into())
        })
    }
}
