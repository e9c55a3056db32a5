//! A place that cannot even be asked, since something that its service needs is not set.

use std::ops::Range;

use tabane_storage::{Listed, Name, ObjectKind, Result, Storage, StorageError};

/// Says why, whatever it is asked.
pub struct Unusable {
    location: String,
    why: StorageError,
}

impl Unusable {
    /// Takes the place of a storage that could not be opened.
    pub fn new(location: String, error: &StorageError) -> Self {
        Self {
            location,
            why: error.clone(),
        }
    }

    fn refuse<T>(&self) -> Result<T> {
        Err(self.why.clone())
    }
}

impl Storage for Unusable {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn create(&self) -> Result<()> {
        self.refuse()
    }

    fn put(&self, _: Name, _: &[&[u8]]) -> Result<()> {
        self.refuse()
    }

    fn get(&self, _: Name, _: Option<Range<u64>>) -> Result<Vec<u8>> {
        self.refuse()
    }

    fn list(&self, _: ObjectKind) -> Result<Vec<Listed>> {
        self.refuse()
    }

    fn stat(&self, _: Name) -> Result<u64> {
        self.refuse()
    }

    fn delete(&self, _: Name) -> Result<()> {
        self.refuse()
    }
}
