//! Errors of an index.

use std::io;
use std::path::Path;

/// The result of look-ups in an index.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of an index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An object or file is damaged.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// Which object, or which part of it.
        what: String,
        /// The failed check.
        why: String,
    },
    /// The cache names a segment or a pack that does not exist, though its seal is right.
    #[error("the cache is damaged: it names a segment or a pack that does not exist")]
    CacheDamaged,
    /// A file of the cache cannot be read.
    #[error("cannot read the cache file {path}: {source}")]
    Cache {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A folder of the cache cannot be used.
    #[error("cannot {action} {path}: {source}")]
    Path {
        /// The failed action.
        action: &'static str,
        /// The path, as text.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// An [`Error::Damaged`].
    pub fn damaged(what: impl ToString, why: impl ToString) -> Self {
        Self::Damaged {
            what: what.to_string(),
            why: why.to_string(),
        }
    }

    /// An [`Error::Path`].
    pub(crate) fn path(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Path {
            action,
            path: path.display().to_string(),
            source,
        }
    }
}
