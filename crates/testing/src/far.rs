//! Servers that are far away: a storage whose every operation takes a round trip, and a line of
//! TCP with a delay, a rate and faults.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tabane_storage::{Listed, Name, ObjectKind, Result, Storage};

/// An operation of a [`FarStorage`].
#[derive(Clone, Debug)]
pub struct Operation {
    /// What was asked for, as in `get snapshots/…`.
    pub what: String,
    /// When it began and ended, since the storage was made.
    pub time: Range<Duration>,
}

/// A storage whose every operation takes some time, and which writes down all of them.
///
/// From the list follows how many round trips a program made one behind the other, however many it
/// made side by side. Clones share everything.
#[derive(Clone)]
pub struct FarStorage {
    inner: Arc<dyn Storage>,
    latency: Duration,
    start: Instant,
    operations: Arc<Mutex<Vec<Operation>>>,
}

impl FarStorage {
    /// The storage `inner`, whose operations take `latency` longer.
    pub fn new(inner: Arc<dyn Storage>, latency: Duration) -> Self {
        Self {
            inner,
            latency,
            start: Instant::now(),
            operations: Arc::default(),
        }
    }

    /// All operations since the last call, in the order of their ends.
    pub fn take_operations(&self) -> Vec<Operation> {
        std::mem::take(&mut self.operations.lock().expect("nobody panics here"))
    }

    fn operate<T>(&self, what: impl FnOnce() -> String, act: impl FnOnce() -> T) -> T {
        let begin = self.start.elapsed();
        std::thread::sleep(self.latency);
        let done = act();
        let operation = Operation {
            what: what(),
            time: begin..self.start.elapsed(),
        };
        self.operations
            .lock()
            .expect("nobody panics here")
            .push(operation);
        done
    }
}

/// The longest series of operations each of which began after the end of the one before it: the
/// round trips in sequence.
///
/// Of operations that could have run side by side, and did not because the machine was busy, it
/// counts each, so it is an upper bound; the least of several tries comes closest.
pub fn in_sequence(operations: &[Operation]) -> Vec<&Operation> {
    let mut by_end: Vec<&Operation> = operations.iter().collect();
    by_end.sort_by_key(|operation| operation.time.end);
    let mut chain: Vec<&Operation> = Vec::new();
    for operation in by_end {
        if chain
            .last()
            .is_none_or(|last| last.time.end <= operation.time.start)
        {
            chain.push(operation);
        }
    }
    chain
}

impl Storage for FarStorage {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn connections(&self) -> usize {
        32
    }

    fn is_far(&self) -> bool {
        true
    }

    fn create(&self) -> Result<()> {
        self.operate(|| "create".to_owned(), || self.inner.create())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.operate(|| format!("put {name}"), || self.inner.put(name, parts))
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.operate(|| format!("get {name}"), || self.inner.get(name, range))
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.operate(|| format!("list {}", kind.name()), || self.inner.list(kind))
    }

    fn is_listed_as(&self, listed: u64, len: u64) -> bool {
        self.inner.is_listed_as(listed, len)
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.operate(|| format!("stat {name}"), || self.inner.stat(name))
    }

    fn delete(&self, name: Name) -> Result<()> {
        self.operate(|| format!("delete {name}"), || self.inner.delete(name))
    }
}
