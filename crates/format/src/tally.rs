//! Counts of entries.

use std::ops::AddAssign;

use super::entry::{Entry, Kind};
use super::snapshot::Summary;

/// What is in a directory and below it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Other entries.
    pub others: u64,
    /// Lengths of all files, in bytes.
    pub bytes: u64,
    /// Entries that are left out, or empty, because something is lost.
    pub errors: u64,
}

impl Tally {
    /// Counts an entry, and for a directory nothing below it.
    pub fn add(&mut self, entry: &Entry) {
        match entry.kind {
            Kind::File { size, .. } => {
                self.files += 1;
                self.bytes += size;
            }
            Kind::Directory { .. } => self.directories += 1,
            _ => self.others += 1,
        }
    }

    /// Writes the counts into a snapshot's summary. All files count as new.
    pub fn write_to(&self, summary: &mut Summary) {
        summary.files_new = self.files;
        summary.directories = self.directories;
        summary.others = self.others;
        summary.total_bytes = self.bytes;
        summary.errors = self.errors;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.directories += other.directories;
        self.others += other.others;
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}
