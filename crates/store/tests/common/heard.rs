//! Storages in memory: one that calls a test before each operation, and one with a coarse clock.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tabane_storage::{Listed, Name, ObjectKind, Storage};
use tabane_store::Repository;

use super::memory::MemoryStorage;
use super::{forward, open};

/// Calls `hear` before each operation; an error of `hear` becomes that of the operation.
pub struct Heard<F> {
    inner: MemoryStorage,
    hear: Mutex<F>,
    /// Whether the storage counts as far.
    pub is_far: bool,
}

impl<F> Heard<F>
where
    F: FnMut(&str, ObjectKind) -> tabane_storage::Result<()> + Send + 'static,
{
    pub fn new(inner: &MemoryStorage, hear: F) -> Self {
        Self {
            inner: inner.clone(),
            hear: Mutex::new(hear),
            is_far: false,
        }
    }

    pub fn open(inner: &MemoryStorage, hear: F) -> Arc<Repository> {
        open(Self::new(inner, hear))
    }

    fn hear(&self, what: &str, kind: ObjectKind) -> tabane_storage::Result<&MemoryStorage> {
        (self.hear.lock().unwrap())(what, kind).map(|()| &self.inner)
    }
}

impl<F> Storage for Heard<F>
where
    F: FnMut(&str, ObjectKind) -> tabane_storage::Result<()> + Send + 'static,
{
    forward!(location, create);

    fn is_far(&self) -> bool {
        self.is_far
    }
    fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        self.hear("put", name.kind)?.put(name, parts)
    }
    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        self.hear("get", name.kind)?.get(name, range)
    }
    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        self.hear("list", kind)?.list(kind)
    }
    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        self.hear("stat", name.kind)?.stat(name)
    }
    fn delete(&self, name: Name) -> tabane_storage::Result<()> {
        self.hear("delete", name.kind)?.delete(name)
    }
}

/// An error by which a test ends an operation.
pub fn ended<T>() -> tabane_storage::Result<T> {
    Err(tabane_storage::StorageError::new(
        tabane_storage::StorageErrorKind::Permanent,
        "this operation is ended",
    ))
}

/// A storage that lists times in whole seconds, as many do.
#[derive(Clone, Default)]
pub struct BySeconds {
    pub inner: MemoryStorage,
}

impl Storage for BySeconds {
    forward!(location, create, put, get, stat, delete);

    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        let mut listed = self.inner.list(kind)?;
        for object in &mut listed {
            let since = object.modified.duration_since(SystemTime::UNIX_EPOCH);
            let part = since.expect("the clock begins in 1970").subsec_nanos();
            object.modified -= Duration::from_nanos(part.into());
        }
        Ok(listed)
    }
}
