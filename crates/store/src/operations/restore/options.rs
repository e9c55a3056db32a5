//! What a restore is asked for.

use std::path::PathBuf;

use crate::format::entry::Entry;
use tabane_patterns::IncludeOptions;

/// What to restore, and where to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The directory that takes what is restored; made if it is not there.
    pub target: PathBuf,
    /// The directory or file of the snapshot that is restored into the target; `/` for all.
    pub subpath: PathBuf,
    /// Which entries.
    pub includes: IncludeOptions,
    /// Read everything again at the end and compare it with the snapshot.
    pub verify: bool,
    /// Which entries that are there already are changed.
    pub overwrite: Overwrite,
    /// Delete what the snapshot does not have, as far as `includes` choose it, in directories that
    /// the snapshot has whole.
    pub delete: bool,
    /// Find out what would be restored, and write nothing.
    pub dry_run: bool,
}

/// Which entries of the target a restore changes, of those that are there and differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// All of them: files are read and compared.
    #[default]
    Always,
    /// All of them, but a file with the size and time of the snapshot's is taken to be equal and
    /// not read.
    IfChanged,
    /// Entries whose mtime is older than in the snapshot.
    IfNewer,
    /// None.
    Never,
}

impl Overwrite {
    /// Whether the existing entry `there` stays as it is.
    pub(super) fn keeps(self, there: &Entry, entry: &Entry) -> bool {
        match self {
            Self::Always | Self::IfChanged => false,
            Self::IfNewer => there.mtime >= entry.mtime,
            Self::Never => true,
        }
    }
}

impl RestoreOptions {
    /// Restores everything into the directory `target`.
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Self {
            target: target.into(),
            subpath: PathBuf::from("/"),
            includes: IncludeOptions::default(),
            verify: false,
            overwrite: Overwrite::Always,
            delete: false,
            dry_run: false,
        }
    }
}

tabane_storage::setters!(RestoreOptions {
    into => target: PathBuf,
    into => subpath: PathBuf,
    set => includes: IncludeOptions,
    set => verify: bool,
    set => overwrite: Overwrite,
    set => delete: bool,
    set => dry_run: bool,
});
