//! A set of targets as one storage.

use std::ops::Range;
use std::time::Duration;

use tabane_storage::{Listed, Name, ObjectKind, Result, Storage, StorageErrorKind};

use crate::container::Geometry;
use crate::striped::StripedStorage;
use crate::tags::TagKey;

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

    fn create(&self) -> Result<()> {
        for kind in [ObjectKind::Pack, ObjectKind::Index, ObjectKind::Snapshot] {
            // A repository that has lost its config is not to be buried under a new one.
            if !self.list(kind)?.is_empty() {
                return Err(StorageErrorKind::NotEmpty.into());
            }
        }
        Ok(())
    }

    fn make_folders(&self) -> Result<()> {
        for (number, made) in self.targets.each(&self.targets.up(), |_, storage| {
            storage.stat(Name::TARGET)?;
            storage.make_folders()
        }) {
            if let Err(error) = made {
                self.targets.give_up(number, &error);
            }
        }
        self.check_all_there()
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.persist(|is_again| self.put_object(name, parts, is_again))
            .map_err(|error| error.about(name))
    }

    fn replace(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.replace_replicas(name, &parts.concat())
            .map_err(|error| error.about(name))
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.persist(|_| self.get_object(name, range.clone()))
            .map_err(|error| error.about(name))
    }

    fn check_current(&self) -> Result<()> {
        self.persist(|_| self.check_groups_in_use())
    }

    fn learn_secret(&self, secret: &[u8; 32]) {
        // Another one is of another repository, which nobody opens here.
        let _ = self.tag_key.set(TagKey::new(secret));
    }

    fn get_otherwise(
        &self,
        name: Name,
        range: Range<u64>,
        is_right: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        self.read_without_each(name, &range, is_right)
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.persist(|_| self.list_objects(kind))
    }

    fn is_listed_as(&self, listed: u64, len: u64) -> bool {
        let stripes = (1..).zip(&self.generations);
        let mut stripes =
            stripes.map(|(number, targets)| Geometry::stripe(len, number, targets.len()));
        Geometry::replica(len).listed_len() == listed
            || stripes.any(|geometry| geometry.listed_len() == listed)
    }

    fn stat(&self, name: Name) -> Result<u64> {
        self.persist(|_| self.stat_object(name))
            .map_err(|error| error.about(name))
    }

    fn delete(&self, name: Name) -> Result<()> {
        self.persist(|is_again| self.delete_object(name, is_again))
            .map_err(|error| error.about(name))
    }

    fn remove_leftovers(&self, age: Duration) -> Result<u64> {
        self.persist(|_| self.remove_all_leftovers(age))
    }
}
