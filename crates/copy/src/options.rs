//! Options of a copy.

use std::path::PathBuf;

use tabane_engine::Algorithm;

/// The extent of verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verify {
    /// Only that no system call fails and the source does not change while it is read.
    None,
    /// Each written piece is read back from the page cache and compared with the source's bytes.
    #[default]
    Written,
    /// As [`Verify::Written`]; and when everything is on the disk, each file is dropped from
    /// memory, read again and its hash compared.
    Reread,
}

/// Meanings of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    /// A directory that takes the sources if it is one, else the name of the copy.
    #[default]
    Either,
    /// A directory that takes the sources.
    Directory,
    /// The name of the copy.
    Name,
}

/// Options of a copy.
///
/// [`Options::new`] names the sources and the target; the other methods change one field each.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Files and directories to copy.
    pub sources: Vec<PathBuf>,
    /// The directory that takes the copies, or the name of the only one.
    pub target: PathBuf,
    /// The meaning of the target.
    pub meaning: Meaning,
    /// The hash of the manifest and of [`Verify::Reread`]: one that takes no key.
    pub algorithm: Algorithm,
    /// The extent of verification.
    pub verify: Verify,
    /// A file that gets a line for each regular file of the copy, as `tabane sum --tag` prints
    /// them. Names in it are relative to the target, or to the directory that holds it if it is a
    /// file.
    pub manifest: Option<PathBuf>,
    /// Whether to return only when everything is on the disk.
    pub sync: bool,
}

impl Default for Options {
    /// Nothing to copy; XXH3, [`Verify::Written`], no manifest, and everything on the disk in the
    /// end.
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            target: PathBuf::new(),
            meaning: Meaning::default(),
            algorithm: Algorithm::Xxh3,
            verify: Verify::default(),
            manifest: None,
            sync: true,
        }
    }
}

impl Options {
    /// Copies these sources to this target; everything else is as in [`Options::default`].
    pub fn new<S: Into<PathBuf>>(
        sources: impl IntoIterator<Item = S>,
        target: impl Into<PathBuf>,
    ) -> Self {
        Self {
            sources: sources.into_iter().map(Into::into).collect(),
            target: target.into(),
            ..Self::default()
        }
    }

    /// Says what the target is.
    #[must_use]
    pub fn meaning(mut self, meaning: Meaning) -> Self {
        self.meaning = meaning;
        self
    }

    /// Chooses the hash of the manifest and of [`Verify::Reread`]: one that takes no key.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Says how much is checked.
    #[must_use]
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// Writes a manifest to this file.
    #[must_use]
    pub fn manifest(mut self, file: impl Into<PathBuf>) -> Self {
        self.manifest = Some(file.into());
        self
    }

    /// Says whether to return only when everything is on the disk.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }
}
