//! Errors of an import.

use std::ops::Range;

use tabane_storage::{Files, StorageError, StorageErrorKind};

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Something that is as it was written, or why it is lost.
pub(crate) type Sound<T = Vec<u8>> = std::result::Result<T, String>;

/// Reads a part of a file.
///
/// # Errors
/// When the place fails.
pub(crate) fn read_range(files: &dyn Files, path: &str, range: Range<u64>) -> Result<Sound> {
    match files.read(path, Some(range)) {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(error) => match error.kind() {
            StorageErrorKind::NotFound | StorageErrorKind::PastEnd | StorageErrorKind::Damaged => {
                Ok(Err(format!("{path}: {error}")))
            }
            _ => Err(Error::storage(path)(error)),
        },
    }
}

/// An error that ends an import. Its text is one sentence for a person.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This place holds no repository of the program.
    #[error("there is no repository of {program} at {location}")]
    NoRepository {
        /// The program.
        program: &'static str,
        /// The place.
        location: String,
    },
    /// The repository has a format that is not known here.
    #[error("the repository of {program} has version {version}, and versions {known} can be read")]
    UnknownVersion {
        /// The program.
        program: &'static str,
        /// Version of its format.
        version: u64,
        /// The versions that can be read.
        known: &'static str,
    },
    /// No key of the repository opens with this password.
    #[error("wrong password: it opens none of the {keys} key(s) of the repository at {location}")]
    WrongPassword {
        /// Number of keys.
        keys: usize,
        /// The place.
        location: String,
    },
    /// The place failed.
    #[error("cannot read {what}: {source}")]
    Storage {
        /// The file.
        what: String,
        /// Why not.
        source: StorageError,
    },
    /// Something that cannot be done without is damaged.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// The file.
        what: String,
        /// The failed check.
        why: String,
    },
    /// The repository that gets the snapshots failed.
    #[error(transparent)]
    Store(#[from] tabane_store::Error),
}

impl Error {
    /// An [`Error::Storage`].
    pub(crate) fn storage(what: impl Into<String>) -> impl FnOnce(StorageError) -> Self {
        let what = what.into();
        move |source| Self::Storage { what, source }
    }

    /// An [`Error::Damaged`].
    pub(crate) fn damaged(what: impl ToString, why: impl ToString) -> Self {
        Self::Damaged {
            what: what.to_string(),
            why: why.to_string(),
        }
    }
}
