//! Options of a backup.

use std::ffi::OsString;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tabane_storage::Id;

use crate::access::repository::Repository;
use tabane_format::compress::Compression;
use tabane_format::snapshot::{GroupBy, Retention};
use tabane_patterns::ExcludeOptions;

/// Options of a backup.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupOptions {
    /// Files to leave out.
    pub excludes: ExcludeOptions,
    /// Don't descend into other file systems.
    pub one_file_system: bool,
    /// Store times of last access.
    pub with_atime: bool,
    /// The snapshot from which unchanged files are taken.
    pub parent: Parent,
    /// Take a file for unchanged also if its inode number differs.
    pub ignore_inode: bool,
    /// Take a file for unchanged also if its ctime, the time of the last change of its attributes,
    /// differs. Its extended attributes are read again.
    pub ignore_ctime: bool,
    /// Paths that may have changed since the parent snapshot, absolute and as the snapshot names
    /// them. Directories without any of them are taken from the parent snapshot unseen, if it is
    /// complete. `None` to look at everything.
    pub changed: Option<Vec<PathBuf>>,
    /// Store no snapshot if every source is as in the parent snapshot.
    pub skip_if_unchanged: bool,
    /// Threads that read files at a time; `None` for no limit. One is best for hard disks.
    pub readers: Option<NonZero<usize>>,
    /// An open directory that stands for `/`: everything is read below it, as in snapshots of file
    /// systems that are mounted there. Hard links then name devices by numbers in a row, since
    /// those of snapshots are new each time.
    pub root: Option<Arc<OwnedFd>>,
    /// The path under which a single directory is stored, instead of its own.
    pub as_path: Option<PathBuf>,
    /// Further repositories that get the snapshot, too: the source is read, hashed and compressed
    /// once. They must have the same format and cut files at the same places
    /// ([`InitOptions`](crate::InitOptions), `chunking` and `chunker_secret`). One that fails does
    /// not stop the backup: see [`Backup::also`](super::Backup::also).
    pub also_to: Vec<Repository>,
    /// Find out what would be stored, and store nothing.
    pub dry_run: bool,
    /// Level of compression.
    pub compression: Compression,
    /// Decrypt, decompress and hash each new pack again before it is stored, to find errors of
    /// memory.
    pub verify: bool,
    /// The machine's name in the snapshot.
    pub hostname: String,
    /// The user's name in the snapshot.
    pub username: String,
    /// Tags of the snapshot.
    pub tags: Vec<String>,
    /// What the snapshot is for, in words.
    pub description: Option<String>,
    /// How long rules are to leave the snapshot alone.
    pub retention: Option<Retention>,
    /// Time of the snapshot; by default the start of the backup.
    pub time: Option<Timestamp>,
}

tabane_storage::setters!(BackupOptions {
    set => excludes: ExcludeOptions,
    set => one_file_system: bool,
    set => with_atime: bool,
    set => parent: Parent,
    set => ignore_inode: bool,
    set => ignore_ctime: bool,
    into => changed: Option<Vec<PathBuf>>,
    set => skip_if_unchanged: bool,
    into => readers: Option<NonZero<usize>>,
    into => root: Option<Arc<OwnedFd>>,
    into => as_path: Option<PathBuf>,
    set => also_to: Vec<Repository>,
    set => dry_run: bool,
    set => compression: Compression,
    set => verify: bool,
    into => hostname: String,
    into => username: String,
    each tag => tags: String,
    into => description: Option<String>,
    into => retention: Option<Retention>,
    into => time: Option<Timestamp>,
});

impl Default for BackupOptions {
    /// Reads files changed since the latest snapshot of this machine and these paths, and verifies
    /// new packs.
    fn default() -> Self {
        let here = tabane_format::host::describe();
        Self {
            excludes: ExcludeOptions::default(),
            one_file_system: false,
            with_atime: false,
            parent: Parent::OF_SAME,
            ignore_inode: false,
            ignore_ctime: false,
            changed: None,
            skip_if_unchanged: false,
            readers: None,
            root: None,
            as_path: None,
            also_to: Vec::new(),
            dry_run: false,
            compression: Compression::AUTO,
            verify: true,
            hostname: here.hostname,
            username: here.username,
            tags: Vec::new(),
            description: None,
            retention: None,
            time: None,
        }
    }
}

/// The snapshot with which a backup compares files, by size, times and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The latest snapshot that has this in common with the new one; see [`Parent::OF_SAME`].
    Latest(GroupBy),
    /// The snapshot with this ID.
    Snapshot(Id),
    /// None: every file is read again.
    None,
}

impl Parent {
    /// The latest snapshot of the same host and paths.
    pub const OF_SAME: Self = Self::Latest(GroupBy::HOST_AND_PATHS);
}

/// Sources of a backup.
#[derive(Clone, Debug)]
pub enum Source {
    /// Files and directories.
    Paths(Vec<PathBuf>),
    /// Standard input, stored as a file of this name in `/`.
    Stdin(PathBuf),
    /// The output of a command, stored as a file in `/`. If the command fails, so does the backup.
    Command {
        /// Name of the file.
        name: PathBuf,
        /// The program and its arguments.
        command: Vec<OsString>,
    },
}

impl<P: AsRef<Path>> From<&[P]> for Source {
    fn from(paths: &[P]) -> Self {
        Self::Paths(paths.iter().map(|path| path.as_ref().to_owned()).collect())
    }
}

impl<P: AsRef<Path>, const N: usize> From<&[P; N]> for Source {
    fn from(paths: &[P; N]) -> Self {
        Self::from(paths.as_slice())
    }
}
