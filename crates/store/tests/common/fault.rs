//! A storage that fails, or kills the process, at a chosen operation.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::abort;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tabane_storage::{Listed, LocalStorage, Name, ObjectKind, Storage};

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails.
    FailOnce,
    /// This operation and every later one fail.
    FailFrom,
    /// The process dies before the operation.
    KillBefore,
    /// The process dies after the operation.
    KillAfter,
    /// The process dies while it writes, with nothing, half or all of the object in a file below
    /// `tmp/`. Counts writes only. For storages in directories.
    Tear,
    /// It leaves a part of the object under its final name, which no storage should, and every
    /// later operation fails. Counts writes only.
    Cut,
}

impl Fault {
    /// What a repository in any place must bear.
    pub const ALL: [Self; 5] = [
        Self::FailOnce,
        Self::FailFrom,
        Self::KillBefore,
        Self::KillAfter,
        Self::Tear,
    ];

    pub fn kills(self) -> bool {
        matches!(self, Self::KillBefore | Self::KillAfter | Self::Tear)
    }

    pub fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == name);
        found.expect("the name of a fault")
    }
}

/// A storage with a fault at its `at`-th operation, from 1.
pub struct FaultyStorage<S = LocalStorage> {
    inner: S,
    fault: Fault,
    at: u64,
    done: Arc<AtomicU64>,
}

impl FaultyStorage {
    /// In a directory.
    pub fn new(root: PathBuf, fault: Fault, at: u64) -> Self {
        Self::over(LocalStorage::new(root), fault, at, Arc::default())
    }
}

impl<S: Storage> FaultyStorage<S> {
    /// Over any storage. Several that share `done` have the fault together.
    pub fn over(inner: S, fault: Fault, at: u64, done: Arc<AtomicU64>) -> Self {
        Self {
            inner,
            fault,
            at,
            done,
        }
    }

    /// Operations so far, those that failed included.
    pub fn done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    fn act<T>(&self, act: impl FnOnce() -> tabane_storage::Result<T>) -> tabane_storage::Result<T> {
        match self.fault {
            Fault::Tear => return act(),
            Fault::Cut if self.done.load(Ordering::SeqCst) >= self.at => return Err(injected()),
            Fault::Cut => return act(),
            _ => {}
        }
        let number = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::FailOnce if number == self.at => Err(injected()),
            Fault::FailFrom if number >= self.at => Err(injected()),
            Fault::KillBefore if number == self.at => abort(),
            Fault::KillAfter if number == self.at => {
                let _done = act();
                abort();
            }
            _ => act(),
        }
    }

    fn tear(&self, parts: &[&[u8]]) {
        let number = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        if number != self.at {
            return;
        }
        let bytes = parts.concat();
        let len = match number % 3 {
            0 => 0,
            1 => bytes.len() / 2,
            _ => bytes.len(),
        };
        let root = self.inner.location();
        let temporary = Path::new(&root).join("tmp").join(format!("{number:032x}"));
        std::fs::write(temporary, &bytes[..len]).expect("write what is torn");
        abort();
    }

    fn cut(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        let number = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        if number < self.at {
            return self.inner.put(name, parts);
        }
        if number == self.at {
            let bytes = parts.concat();
            let len = [0, 64, (bytes.len() / 2) | 1, bytes.len() - 1][number as usize % 4];
            let _done = self.inner.put(name, &[&bytes[..len.min(bytes.len() - 1)]]);
        }
        Err(injected())
    }
}

fn injected() -> tabane_storage::StorageError {
    tabane_storage::StorageError::new(
        tabane_storage::StorageErrorKind::Permanent,
        "injected fault",
    )
}

impl<S: Storage> Storage for FaultyStorage<S> {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn create(&self) -> tabane_storage::Result<()> {
        self.act(|| self.inner.create())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        match self.fault {
            Fault::Tear => self.tear(parts),
            Fault::Cut => return self.cut(name, parts),
            _ => {}
        }
        self.act(|| self.inner.put(name, parts))
    }

    fn learn_secret(&self, secret: &[u8; 32]) {
        self.inner.learn_secret(secret);
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        self.act(|| self.inner.get(name, range))
    }

    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        self.act(|| self.inner.list(kind))
    }

    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        self.act(|| self.inner.stat(name))
    }

    fn delete(&self, name: Name) -> tabane_storage::Result<()> {
        self.act(|| self.inner.delete(name))
    }
}
