//! A target as one client sees it: it has its turns there, and what goes wrong is its own.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tabane_storage::sync::lock;
use tabane_storage::{Listed, Name, ObjectKind, Result, Storage, StorageError, StorageErrorKind};

use crate::plan::{Fault, Seat};
use crate::turns::Turns;

/// A change of an object.
#[derive(Clone)]
enum Change {
    Put(Name, Vec<u8>),
    Delete(Name),
}

impl Change {
    /// Nobody hears how it went.
    fn make(self, storage: &dyn Storage) {
        let _ = match self {
            Self::Put(name, bytes) => storage.put(name, &[&bytes]),
            Self::Delete(name) => storage.delete(name),
        };
    }
}

/// Changes that are still on their way.
#[derive(Default)]
pub struct OnTheirWay {
    changes: Mutex<Vec<Late>>,
    /// What clients have deleted.
    deleted: Mutex<BTreeSet<Name>>,
    /// What was put late, after somebody had deleted it.
    came_back: Mutex<BTreeSet<Name>>,
}

struct Late {
    /// Before which turn it takes effect.
    due: u32,
    storage: Arc<dyn Storage>,
    change: Change,
}

impl OnTheirWay {
    /// Lets those take effect whose turn has come.
    pub fn arrive(&self, turn: u32) {
        let mut all = lock(&self.changes);
        let arrived: Vec<Late> = all.extract_if(.., |late| late.due <= turn).collect();
        drop(all);
        for late in arrived {
            if let Change::Put(name, _) = &late.change
                && lock(&self.deleted).contains(name)
            {
                lock(&self.came_back).insert(*name);
            }
            late.change.make(&*late.storage);
        }
    }

    /// The snapshots that were put late, at any target, after somebody had deleted them.
    pub fn snapshots_come_back(&self) -> Vec<Name> {
        let came_back = lock(&self.came_back);
        let names = came_back.iter().copied();
        names
            .filter(|name| name.kind == ObjectKind::Snapshot)
            .collect()
    }
}

/// A client at a target. It counts operations over all of the client's commands.
pub struct Counted {
    /// Which client and target.
    pub seat: Seat,
    /// Operations so far.
    pub operations: AtomicU32,
    /// Faults of this client at this target.
    pub faults: Vec<Fault>,
}

/// What a client sees of a target in one command.
pub struct Target {
    /// The target itself.
    pub storage: Arc<dyn Storage>,
    /// The turns of all clients.
    pub turns: Arc<Turns>,
    /// The client at the target.
    pub counted: Arc<Counted>,
    /// Where late changes go.
    pub on_their_way: Arc<OnTheirWay>,
    /// Targets that answer nobody.
    pub off: Arc<Mutex<BTreeSet<usize>>>,
    /// Whether the client has met a fault.
    pub was_hit: Arc<AtomicBool>,
    /// Whether it is behind a network for the client.
    pub is_far: bool,
    /// Whether the client moves packs: it deletes none before all who listed them have ended that.
    pub moves: bool,
}

/// A client that lists packs while they are moved has ended that after so many operations.
const LISTING: u32 = 60;

/// What is heard of a target that was emptied and switched off.
pub const OFF: &str = "it is switched off";

/// What a dead client hears.
pub const DEAD: &str = "this client is dead";

impl Target {
    fn act<T>(
        &self,
        what: impl fmt::Display,
        change: Option<Change>,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let seat = self.counted.seat;
        let turn = self.turns.begin(seat.client);
        let operation = self.counted.operations.fetch_add(1, Ordering::Relaxed);
        let result = if turn.is_dead {
            Err(StorageError::new(StorageErrorKind::Permanent, DEAD))
        } else {
            self.meet(operation, turn.number, change, act)
        };
        let error = result.as_ref().err();
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        let Seat { client, target } = seat;
        self.turns.tell(format_args!(
            "{}: client {client}, target {target}, operation {operation}: {what}{error}",
            turn.number
        ));
        self.turns.end(client);
        result
    }

    /// Acts, or does what the faults of this operation say.
    fn meet<T>(
        &self,
        operation: u32,
        turn: u32,
        change: Option<Change>,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let unreachable = || StorageError::new(StorageErrorKind::Unreachable, "no answer");
        if lock(&self.off).contains(&self.counted.seat.target) {
            return Err(StorageError::new(StorageErrorKind::Unreachable, OFF));
        }
        let is_put = matches!(change, Some(Change::Put(..)));
        let later = |after: u32, change: Change| {
            let storage = Arc::clone(&self.storage);
            lock(&self.on_their_way.changes).push(Late {
                due: turn + after,
                storage,
                change,
            });
        };
        let hit = || self.was_hit.store(true, Ordering::Relaxed);
        for fault in &self.counted.faults {
            match (*fault, &change) {
                (
                    Fault::Behind {
                        turn: from, count, ..
                    },
                    _,
                ) if (from..from + count).contains(&turn) => {
                    hit();
                    return Err(unreachable());
                }
                (Fault::Away { at, count, .. }, _) if (at..at + count).contains(&operation) => {
                    hit();
                    return Err(unreachable());
                }
                (Fault::Full { at, count, .. }, _)
                    if is_put && (at..at + count).contains(&operation) =>
                {
                    hit();
                    return Err(StorageErrorKind::Full.into());
                }
                (Fault::Unheard { at, .. }, Some(_)) if at == operation => {
                    hit();
                    let _ = act();
                    return Err(unreachable());
                }
                (Fault::Late { at, after, .. }, Some(change)) if at == operation => {
                    hit();
                    later(after, change.clone());
                    return Err(unreachable());
                }
                (Fault::Twice { at, after, .. }, Some(change)) if at == operation => {
                    hit();
                    later(after, change.clone());
                    return act();
                }
                _ => {}
            }
        }
        act()
    }
}

impl Storage for Target {
    fn location(&self) -> String {
        self.storage.location()
    }

    /// A single connection, so that the seed decides the order.
    fn connections(&self) -> usize {
        1
    }

    fn is_far(&self) -> bool {
        self.is_far
    }

    fn learn_secret(&self, secret: &[u8; 32]) {
        self.storage.learn_secret(secret);
    }

    fn is_listed_as(&self, listed: u64, len: u64) -> bool {
        self.storage.is_listed_as(listed, len)
    }

    fn check_current(&self) -> Result<()> {
        self.storage.check_current()
    }

    fn create(&self) -> Result<()> {
        self.act("create", None, || self.storage.create())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        let change = Change::Put(name, parts.concat());
        self.act(format_args!("put {name}"), Some(change), || {
            self.storage.put(name, parts)
        })
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.act(format_args!("get {name}"), None, || {
            self.storage.get(name, range)
        })
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.act(format_args!("list {}", kind.name()), None, || {
            self.storage.list(kind)
        })
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.act(format_args!("stat {name}"), None, || {
            self.storage.stat(name)
        })
    }

    fn delete(&self, name: Name) -> Result<()> {
        if self.moves && name.kind == ObjectKind::Pack {
            self.turns.let_others_act(self.counted.seat.client, LISTING);
        }
        let change = Change::Delete(name);
        self.act(format_args!("delete {name}"), Some(change), || {
            lock(&self.on_their_way.deleted).insert(name);
            self.storage.delete(name)
        })
    }
}

/// Whether an object says what the target is: without it a person would have to replace the target.
pub fn is_own(name: Name) -> bool {
    matches!(name.kind, ObjectKind::Target | ObjectKind::Set)
}
