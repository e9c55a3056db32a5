//! A storage in memory, whose objects can be tampered with.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tabane_store::storage::{Listed, Name, ObjectKind, Storage};

pub type Objects = BTreeMap<Name, Vec<u8>>;

/// Objects in memory; clones share them.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<Mutex<Objects>>);

impl MemoryStorage {
    pub fn new(objects: Objects) -> Self {
        Self(Arc::new(Mutex::new(objects)))
    }

    pub fn objects(&self) -> Objects {
        self.0.lock().unwrap().clone()
    }

    pub fn set(&self, name: Name, bytes: Vec<u8>) {
        self.0.lock().unwrap().insert(name, bytes);
    }

    pub fn remove(&self, name: Name) {
        self.0.lock().unwrap().remove(&name);
    }
}

impl Storage for MemoryStorage {
    fn location(&self) -> String {
        "memory".to_owned()
    }

    fn create(&self) -> io::Result<()> {
        Ok(())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> io::Result<()> {
        let mut objects = self.0.lock().unwrap();
        if objects.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        objects.insert(name, parts.concat());
        Ok(())
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        let objects = self.0.lock().unwrap();
        let bytes = objects.get(&name).ok_or(io::ErrorKind::NotFound)?;
        match range {
            None => Ok(bytes.clone()),
            Some(range) => bytes
                .get(range.start as usize..range.end as usize)
                .map(<[u8]>::to_vec)
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn list(&self, kind: ObjectKind) -> io::Result<Vec<Listed>> {
        let objects = self.0.lock().unwrap();
        let of_kind = objects.iter().filter(|(name, _)| name.kind == kind);
        Ok(of_kind
            .map(|(name, bytes)| Listed {
                id: name.id,
                len: bytes.len() as u64,
                modified: SystemTime::UNIX_EPOCH,
            })
            .collect())
    }

    fn stat(&self, name: Name) -> io::Result<u64> {
        let objects = self.0.lock().unwrap();
        let bytes = objects.get(&name).ok_or(io::ErrorKind::NotFound)?;
        Ok(bytes.len() as u64)
    }

    fn delete(&self, name: Name) -> io::Result<()> {
        let removed = self.0.lock().unwrap().remove(&name);
        removed.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }
}
