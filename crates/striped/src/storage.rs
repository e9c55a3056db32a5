//! A set of targets as one storage.

use std::io;
use std::ops::Range;
use std::time::Duration;

use tabane_storage::{Listed, Name, ObjectKind, Storage};

use crate::container::Geometry;
use crate::striped::StripedStorage;

impl Storage for StripedStorage {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn connections(&self) -> usize {
        let up = self.targets.up();
        let connections = up.iter().filter_map(|&number| self.targets.storage(number));
        connections
            .map(|storage| storage.connections())
            .max()
            .unwrap_or(1)
    }

    fn create(&self) -> io::Result<()> {
        for kind in [ObjectKind::Pack, ObjectKind::Index, ObjectKind::Snapshot] {
            // A repository that has lost its config is not to be buried under a new one.
            if !self.list(kind)?.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
        }
        Ok(())
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> io::Result<()> {
        self.put_object(name, parts)
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        self.get_object(name, range)
    }

    fn list(&self, kind: ObjectKind) -> io::Result<Vec<Listed>> {
        self.list_objects(kind)
    }

    fn is_listed_as(&self, listed: u64, len: u64) -> bool {
        let stripes = (1..).zip(&self.generations);
        let mut stripes =
            stripes.map(|(number, targets)| Geometry::stripe(len, number, targets.len()));
        Geometry::replica(len).listed_len() == listed
            || stripes.any(|geometry| geometry.listed_len() == listed)
    }

    fn stat(&self, name: Name) -> io::Result<u64> {
        self.stat_object(name)
    }

    fn delete(&self, name: Name) -> io::Result<()> {
        self.delete_object(name)
    }

    fn remove_leftovers(&self, age: Duration) -> io::Result<u64> {
        self.remove_all_leftovers(age)
    }
}
