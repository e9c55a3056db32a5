//! Options of a restore.

use std::path::{Path, PathBuf};

use tabane_format::entry::Entry;
use tabane_patterns::IncludeOptions;

/// Options of a restore.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The directory that takes the restored entries; made if missing.
    pub target: PathBuf,
    /// A directory that the target is below, however links are put there meanwhile: the way from
    /// it to the target follows none.
    pub within: Option<PathBuf>,
    /// The directory or file of the snapshot that is restored into the target; `/` for all.
    pub subpath: PathBuf,
    /// Entries to restore.
    pub includes: IncludeOptions,
    /// Read everything again at the end and compare it with the snapshot.
    pub verify: bool,
    /// Existing entries to change.
    pub overwrite: Overwrite,
    /// Delete entries that the snapshot lacks, as far as `includes` choose them, in directories
    /// that the snapshot has completely.
    pub delete: bool,
    /// Report what would be restored, and write nothing.
    pub dry_run: bool,
    /// Give files to the numbers that owners and groups had, not to those that have their names
    /// here.
    pub numeric_ids: bool,
    /// Globs of the names of extended attributes that come back; all if there is none. ACLs are
    /// such attributes.
    pub include_xattrs: Vec<String>,
    /// Globs of the names of extended attributes that do not come back.
    pub exclude_xattrs: Vec<String>,
    /// Set file flags. What is immutable cannot be removed by whoever wants it for a while alone.
    pub file_flags: bool,
}

/// Which existing, differing entries of the target a restore changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// All entries: files are read and compared.
    #[default]
    Always,
    /// All entries, but a file with the size and mtime of the snapshot's counts as equal and is not
    /// read.
    IfChanged,
    /// Entries whose mtime is older than in the snapshot.
    IfNewer,
    /// No entry.
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
    /// Whether no entry of the snapshot is left out.
    pub(super) fn restores_all(&self) -> bool {
        self.subpath == Path::new("/") && self.includes == IncludeOptions::default()
    }

    /// Restores everything into the directory `target`.
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Self {
            target: target.into(),
            within: None,
            subpath: PathBuf::from("/"),
            includes: IncludeOptions::default(),
            verify: false,
            overwrite: Overwrite::Always,
            delete: false,
            dry_run: false,
            numeric_ids: false,
            include_xattrs: Vec::new(),
            exclude_xattrs: Vec::new(),
            file_flags: true,
        }
    }
}

tabane_storage::setters!(RestoreOptions {
    into => target: PathBuf,
    set => within: Option<PathBuf>,
    into => subpath: PathBuf,
    set => includes: IncludeOptions,
    set => verify: bool,
    set => overwrite: Overwrite,
    set => delete: bool,
    set => dry_run: bool,
    set => numeric_ids: bool,
    set => include_xattrs: Vec<String>,
    set => exclude_xattrs: Vec<String>,
    set => file_flags: bool,
});
