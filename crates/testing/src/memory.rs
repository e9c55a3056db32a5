//! A storage in memory, whose objects can be tampered with, and whose clock is set by hand.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tabane_storage::{Listed, Name, ObjectKind, Storage, StorageErrorKind};

/// Objects by their names.
pub type Objects = BTreeMap<Name, Vec<u8>>;

/// Objects in memory; clones share them.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: Objects,
    times: BTreeMap<Name, Duration>,
    /// Goes on a little with every object that is put.
    clock: Duration,
}

impl MemoryStorage {
    /// A storage of these objects.
    pub fn new(objects: Objects) -> Self {
        let state = State {
            objects,
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// All objects.
    pub fn objects(&self) -> Objects {
        self.0.lock().unwrap().objects.clone()
    }

    /// Puts these objects in the place of all.
    pub fn set_all(&self, objects: Objects) {
        self.0.lock().unwrap().objects = objects;
    }

    /// Puts an object, or other bytes in its place.
    pub fn set(&self, name: Name, bytes: Vec<u8>) {
        self.0.lock().unwrap().objects.insert(name, bytes);
    }

    /// Removes an object, if it is there.
    pub fn remove(&self, name: Name) {
        self.0.lock().unwrap().objects.remove(&name);
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        self.0.lock().unwrap().clock += time;
    }
}

impl Storage for MemoryStorage {
    fn location(&self) -> String {
        "memory".to_owned()
    }

    fn create(&self) -> tabane_storage::Result<()> {
        Ok(())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> tabane_storage::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.objects.contains_key(&name) {
            return Err(StorageErrorKind::AlreadyExists.into());
        }
        state.objects.insert(name, parts.concat());
        state.clock += Duration::from_millis(1);
        let now = state.clock;
        state.times.insert(name, now);
        Ok(())
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
        let state = self.0.lock().unwrap();
        let bytes = state.objects.get(&name).ok_or(StorageErrorKind::NotFound)?;
        part_of(bytes, range)
    }

    fn list(&self, kind: ObjectKind) -> tabane_storage::Result<Vec<Listed>> {
        let state = self.0.lock().unwrap();
        let of_kind = state.objects.iter().filter(|(name, _)| name.kind == kind);
        let listed = of_kind.map(|(name, bytes)| Listed {
            id: name.id,
            len: bytes.len() as u64,
            modified: SystemTime::UNIX_EPOCH + state.times.get(name).copied().unwrap_or_default(),
        });
        Ok(listed.collect())
    }

    fn stat(&self, name: Name) -> tabane_storage::Result<u64> {
        let state = self.0.lock().unwrap();
        let bytes = state.objects.get(&name).ok_or(StorageErrorKind::NotFound)?;
        Ok(bytes.len() as u64)
    }

    fn delete(&self, name: Name) -> tabane_storage::Result<()> {
        let removed = self.0.lock().unwrap().objects.remove(&name);
        removed.map(|_| ()).ok_or(StorageErrorKind::NotFound.into())
    }
}

/// A range of an object, or all of it.
///
/// # Errors
/// [`StorageErrorKind::PastEnd`] when it ends before the range does.
pub fn part_of(bytes: &[u8], range: Option<Range<u64>>) -> tabane_storage::Result<Vec<u8>> {
    let range = range.unwrap_or(0..bytes.len() as u64);
    let part = bytes.get(range.start as usize..range.end as usize);
    Ok(part.ok_or(StorageErrorKind::PastEnd)?.to_vec())
}
