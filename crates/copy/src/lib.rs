//! Copies files and trees with all their attributes, hashing what it reads and checking what arrived.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tabane_copy::{Algorithm, Meaning, Observer, Options, Problem, Verify, copy};
//!
//! struct Silent;
//! impl Observer for Silent {
//!     fn problem(&self, problem: &Problem) {
//!         eprintln!("{problem:?}");
//!     }
//! }
//! let options = Options {
//!     sources: vec!["photos".into()],
//!     target: "/mnt/disk".into(),
//!     meaning: Meaning::Either,
//!     algorithm: Algorithm::Xxh3,
//!     verify: Verify::Reread,
//!     manifest: None,
//!     sync: true,
//! };
//! let summary = copy(options, Arc::new(Silent))?;
//! assert_eq!(summary.errors, 0);
//! # Ok::<(), Problem>(())
//! ```
//!
//! # What a kill leaves
//!
//! A file is written under a temporary name and renamed when it is whole and has its attributes. So whatever has a name has
//! it rightly, and copying again takes files of the same size and time of last change for done. Temporary names begin
//! with that of the run's *claim*, a file in the directory that takes the copy. A run holds a lock on its claim
//! and removes it in the end; one that nobody has locked is of a run that was killed. Whoever next copies into a directory
//! removes temporary files there whose run has no locked claim in that directory or above it. A claim that nobody has locked
//! stays as long as it says something: that the same command goes on with the directory that it made. If the machine was started anew since, files which that run finished may have lost bytes that never
//! reached the disk: they are compared by content.

#![forbid(unsafe_code)]

mod claim;
mod content;
mod directory;
mod file;
mod link;
mod manifest;
mod operand;
mod present;
mod problem;
mod reread;
mod run;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

pub use problem::{Action, Problem};
pub use tabane_engine::{Algorithm, KeyRule};

/// How much to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verify {
    /// Nothing but that the system calls succeed and the source does not change.
    None,
    /// Each piece, once written, is read back from where the system keeps it and compared with what was read.
    Written,
    /// That, and when all is on the disk it is dropped from memory, read again and its hash compared.
    Reread,
}

/// What the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A directory that takes the sources if it is one, else the name of the copy.
    Either,
    /// A directory that takes the sources.
    Directory,
    /// The name of the copy.
    Name,
}

/// What to copy, where to, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files and directories to copy.
    pub sources: Vec<PathBuf>,
    /// Where to.
    pub target: PathBuf,
    /// What the target is.
    pub meaning: Meaning,
    /// The hash of the manifest and of [`Verify::Reread`]; one without a key.
    pub algorithm: Algorithm,
    /// How much to check.
    pub verify: Verify,
    /// A file that gets a line for each regular file of the copy, as `tabane sum --tag` prints them.
    pub manifest: Option<PathBuf>,
    /// Return only when everything is on the disk.
    pub sync: bool,
}

/// Is told what happens; called from many threads.
pub trait Observer: Send + Sync {
    /// Something is not as it should be.
    fn problem(&self, problem: &Problem);

    /// Whether to end before all is done; asked often. What is half-done is removed then, and what is done stays.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// After a cancellation: this stays, so that the same copy can go on.
    fn kept(&self, _path: &Path) {}

    /// All sources are listed: if nothing fails, so many bytes are done in the end. With [`Verify::Reread`], that is each byte
    /// twice.
    fn listed(&self, _bytes: u64) {}

    /// An entry is done.
    fn entry(&self, _target: &Path) {}

    /// Bytes of files are done: written, or read again.
    fn bytes(&self, _count: u64) {}

    /// Bytes of a file are done, since it is there already.
    fn skipped(&self, _count: u64) {}

    /// Everything is written and on the disk; now so many bytes are read again, and then all is done.
    fn rereading(&self, _bytes: u64) {}
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Regular files that were copied.
    pub copied_files: u64,
    /// Directories that were made.
    pub copied_directories: u64,
    /// Links, devices and other entries without content that were made; further names of hard links.
    pub copied_others: u64,
    /// Regular files that were there already.
    pub skipped_files: u64,
    /// Directories that were there already.
    pub skipped_directories: u64,
    /// Other entries that were there already.
    pub skipped_others: u64,
    /// Bytes of all files, holes included.
    pub total_bytes: u64,
    /// Bytes that were written: less than those of the copied files if these have holes or share blocks, more if a file was
    /// read again since it had changed.
    pub copied_bytes: u64,
    /// Bytes of files that were there already.
    pub skipped_bytes: u64,
    /// Bytes of files that share their blocks with the source.
    pub shared_bytes: u64,
    /// Bytes that were read again from the disk and are right.
    pub reread_bytes: u64,
    /// Files that were wrong when they were read again, and were mended.
    pub mended: u64,
    /// Things that are not as they should be.
    pub errors: u64,
    /// [`Observer::is_cancelled`] ended it before it was done.
    pub interrupted: bool,
}

/// Copies.
///
/// What cannot be copied is reported and counted in [`Summary::errors`], and the rest is copied nevertheless; when the disk is
/// full, nothing more.
///
/// # Errors
/// When nothing can be copied: an unusable target or manifest.
pub fn copy(options: Options, observer: Arc<dyn Observer>) -> Result<Summary, Problem> {
    run::run(options, observer)
}
