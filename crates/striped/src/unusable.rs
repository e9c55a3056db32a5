//! A place that cannot even be asked, since something that its service needs is not set.

use std::io;
use std::ops::Range;

use tabane_storage::{Listed, Name, ObjectKind, Storage};

/// Says why, whatever it is asked.
pub struct Unusable {
    location: String,
    kind: io::ErrorKind,
    why: String,
}

impl Unusable {
    /// In the place of what could not be opened.
    pub fn new(location: String, error: &io::Error) -> Self {
        Self {
            location,
            kind: error.kind(),
            why: error.to_string(),
        }
    }

    fn refuse<T>(&self) -> io::Result<T> {
        Err(io::Error::new(self.kind, self.why.clone()))
    }
}

impl Storage for Unusable {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn create(&self) -> io::Result<()> {
        self.refuse()
    }

    fn put(&self, _: Name, _: &[&[u8]]) -> io::Result<()> {
        self.refuse()
    }

    fn get(&self, _: Name, _: Option<Range<u64>>) -> io::Result<Vec<u8>> {
        self.refuse()
    }

    fn list(&self, _: ObjectKind) -> io::Result<Vec<Listed>> {
        self.refuse()
    }

    fn stat(&self, _: Name) -> io::Result<u64> {
        self.refuse()
    }

    fn delete(&self, _: Name) -> io::Result<()> {
        self.refuse()
    }
}
