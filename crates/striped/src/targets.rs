//! The targets of a set: which of them answer, and asking several at once.

use std::sync::{Arc, Mutex};
use std::thread;

use tabane_storage::sync::lock;
use tabane_storage::{Event, EventKind, Id, Notice, Storage, StorageError, StorageErrorKind};

/// A target of the set.
pub struct Target {
    /// Names it.
    pub id: Id,
    /// Where it is, or was when it was last seen.
    pub url: String,
    /// Nothing where no place that was given holds it.
    storage: Option<Arc<dyn Storage>>,
    /// Why it is not used, if it is not.
    down: Mutex<Option<String>>,
}

impl Target {
    /// One that answers.
    pub fn new(id: Id, url: String, storage: Arc<dyn Storage>) -> Self {
        Self {
            id,
            url,
            storage: Some(storage),
            down: Mutex::default(),
        }
    }

    /// One that does not.
    pub fn absent(id: Id, url: String, why: String) -> Self {
        Self {
            id,
            url,
            storage: None,
            down: Mutex::new(Some(why)),
        }
    }

    /// Why it is not used, if it is not.
    pub fn why_down(&self) -> Option<String> {
        lock(&self.down).clone()
    }
}

/// All targets of the set. They are numbered in the order of the description.
pub struct Targets {
    all: Vec<Target>,
    notice: Notice,
}

impl Targets {
    /// These.
    pub fn new(all: Vec<Target>, notice: Notice) -> Self {
        Self { all, notice }
    }

    /// All, in use or not.
    pub fn all(&self) -> &[Target] {
        &self.all
    }

    /// The number of the target with this ID.
    pub fn position(&self, id: Id) -> Option<usize> {
        self.all.iter().position(|target| target.id == id)
    }

    /// The storage of a target, if it is in use.
    pub fn storage(&self, number: usize) -> Option<&dyn Storage> {
        let target = &self.all[number];
        match *lock(&target.down) {
            None => target.storage.as_deref(),
            Some(_) => None,
        }
    }

    /// Whether a target is in use.
    pub fn is_up(&self, number: usize) -> bool {
        self.storage(number).is_some()
    }

    /// The targets in use.
    pub fn up(&self) -> Vec<usize> {
        (0..self.all.len())
            .filter(|&number| self.is_up(number))
            .collect()
    }

    /// Tells the person something.
    pub fn tell(&self, event: &Event) {
        (self.notice)(event);
    }

    /// Leaves a target alone from now on, since it failed.
    pub fn give_up(&self, number: usize, error: &StorageError) {
        let target = &self.all[number];
        use StorageErrorKind::{Retryable, SessionOver, Unreachable};
        let why = match (error.kind(), error.object()) {
            // It is all the same which object was wanted.
            (Retryable | SessionOver | Unreachable, _) | (_, None) => error.to_string(),
            (_, Some(object)) => format!("{object}: {error}"),
        };
        if lock(&target.down).replace(why.clone()).is_none() {
            let text = format!("target {} fails ({why}): going on without it", target.url);
            let kind = EventKind::TargetFails;
            self.tell(&Event { kind, text });
        }
    }

    /// An error of a target that ends the operation, with the target's name.
    pub fn blame(&self, number: usize, error: &StorageError) -> StorageError {
        let text = format!("target {}: {error}", self.all[number].url);
        StorageError::new(error.kind(), text)
    }

    /// Does something with each of these targets that is in use, with all at once; the results in
    /// their order.
    pub fn each<T: Send>(
        &self,
        numbers: &[usize],
        act: impl Fn(usize, &dyn Storage) -> T + Sync,
    ) -> Vec<(usize, T)> {
        let act = &|number: usize| Some((number, act(number, self.storage(number)?)));
        let Some((&first, others)) = numbers.split_first() else {
            return Vec::new();
        };
        thread::scope(|scope| {
            let threads: Vec<_> = others
                .iter()
                .map(|&number| scope.spawn(move || act(number)))
                .collect();
            // A thread costs more than many an operation: this one does its part.
            let first = act(first);
            let others = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            [first].into_iter().chain(others).flatten().collect()
        })
    }
}
