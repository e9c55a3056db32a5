//! Problems of a copy.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use tabane_files::write::AttributeError;

/// The error that ends the copy of a file when the whole copy is cancelled; never reported.
pub(crate) const CANCELLATION: Errno = Errno::CANCELED;

/// The action that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Finding out what a source is.
    Stat,
    /// Opening a source.
    Open,
    /// Reading a source or an existing copy.
    Read,
    /// Using the target directory.
    UseTarget,
    /// Making a regular file.
    CreateFile,
    /// Making a directory.
    CreateDirectory,
    /// Making a link, pipe, socket or device.
    CreateSpecial,
    /// Giving a file a further name.
    Link,
    /// Writing a file.
    Write,
    /// Bringing everything to the disk.
    Sync,
    /// Reading or writing the manifest.
    Manifest,
}

/// A problem of a copy. Paths begin with the given operands.
#[derive(Debug)]
pub enum Problem {
    /// A system call failed.
    System {
        /// The action that failed.
        action: Action,
        /// The file concerned.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A directory was to be copied to somewhere in itself.
    IntoItself {
        /// The directory.
        source: PathBuf,
        /// The place.
        target: PathBuf,
    },
    /// Source and target are one.
    SameFile {
        /// One name of the file.
        source: PathBuf,
        /// The other name.
        target: PathBuf,
    },
    /// A directory stands where a file or link should be copied to.
    OverDirectory {
        /// The existing entry.
        target: PathBuf,
    },
    /// A file or link stands where a directory should be copied to.
    OverOther {
        /// The directory.
        source: PathBuf,
        /// The existing entry.
        target: PathBuf,
    },
    /// A device, pipe or socket stands where a copy of another kind should go.
    NotRegular {
        /// The existing entry.
        target: PathBuf,
    },
    /// Two sources have the same place.
    JustCreated {
        /// The second of them.
        source: PathBuf,
        /// The copy of the first source.
        target: PathBuf,
    },
    /// A source changed each time it was read; it was not copied.
    Changed {
        /// The source.
        path: PathBuf,
    },
    /// The copy read again differs from the bytes written.
    Differs {
        /// The copy.
        path: PathBuf,
        /// Whether the copy was written again and is right now.
        mended: bool,
    },
    /// An attribute could not be given.
    Attribute {
        /// The copy.
        path: PathBuf,
        /// The attribute, and what the system said.
        error: AttributeError,
    },
}

impl Problem {
    /// Whether nothing else can be written either.
    pub(crate) fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let Self::System { error, .. } = self else {
            return false;
        };
        matches!(error.kind(), StorageFull | QuotaExceeded)
    }

    /// Whether it only says that the copy was cancelled.
    pub(crate) fn is_cancellation(&self) -> bool {
        let code = CANCELLATION.raw_os_error();
        matches!(self, Self::System { error, .. } if error.raw_os_error() == Some(code))
    }
}
