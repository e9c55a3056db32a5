//! A storage in a directory that fails, or kills the process, at a chosen operation.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::process::abort;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tabane_store::storage::{Listed, LocalStorage, Name, ObjectKind, Storage};

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails.
    FailOnce,
    /// It fails, and so does every later one.
    FailFrom,
    /// The process dies before it.
    KillBefore,
    /// The process dies after it.
    KillAfter,
    /// The process dies while it writes, with nothing, half or all of the object in a file below `tmp/`.
    /// Counts writes only.
    Tear,
}

impl Fault {
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

/// A [`LocalStorage`] with a fault at its `at`-th operation, from 1.
pub struct FaultyStorage {
    inner: LocalStorage,
    root: PathBuf,
    fault: Fault,
    at: u64,
    done: Arc<AtomicU64>,
}

impl FaultyStorage {
    pub fn new(root: PathBuf, fault: Fault, at: u64) -> Self {
        Self {
            inner: LocalStorage::new(&root),
            root,
            fault,
            at,
            done: Arc::default(),
        }
    }

    /// Operations so far, those that failed included.
    pub fn done(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    fn act<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.fault == Fault::Tear {
            return act();
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
        let temporary = self.root.join("tmp").join(format!("{number:032x}"));
        std::fs::write(temporary, &bytes[..len]).expect("write what is torn");
        abort();
    }
}

fn injected() -> io::Error {
    io::Error::other("injected fault")
}

impl Storage for FaultyStorage {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn create(&self) -> io::Result<()> {
        self.act(|| self.inner.create())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> io::Result<()> {
        if self.fault == Fault::Tear {
            self.tear(parts);
        }
        self.act(|| self.inner.put(name, parts))
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        self.act(|| self.inner.get(name, range))
    }

    fn list(&self, kind: ObjectKind) -> io::Result<Vec<Listed>> {
        self.act(|| self.inner.list(kind))
    }

    fn stat(&self, name: Name) -> io::Result<u64> {
        self.act(|| self.inner.stat(name))
    }

    fn delete(&self, name: Name) -> io::Result<()> {
        self.act(|| self.inner.delete(name))
    }
}
