//! Errors of storages: a kind that programs decide upon, and a sentence for a person.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// The result of everything that touches a storage.
pub type Result<T> = std::result::Result<T, StorageError>;

/// The kinds of storage errors that callers treat differently.
///
/// The first nine travel by number between clients and nodes: their order is part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StorageErrorKind {
    /// The object does not exist.
    NotFound,
    /// An object of this name exists.
    AlreadyExists,
    /// The object ends before the requested range does.
    PastEnd,
    /// The place holds other files.
    NotEmpty,
    /// The file system denies the access.
    Denied,
    /// The file system is read-only.
    ReadOnly,
    /// No space is left.
    Full,
    /// The session with a node has ended, since a member or the client failed.
    SessionOver,
    /// Any other error that a retry does not cure.
    Permanent,
    /// A server does not accept the credentials.
    Unauthorized,
    /// The same request may succeed later.
    Retryable,
    /// A node or a network file system does not answer.
    Unreachable,
    /// The server does not support the request.
    Unsupported,
    /// The object exists, and is damaged beyond repair by the storage.
    Damaged,
    /// A part of the path is no directory.
    NotADirectory,
    /// A peer sent a malformed message.
    Malformed,
    /// A given file or name cannot be used.
    Invalid,
    /// More than two targets of a set are missing.
    TooFewTargets,
    /// None of a set's places is a target.
    NoTargets,
    /// The set cannot have more targets.
    TooManyTargets,
    /// No target, or several, have this name.
    NoSuchTarget,
    /// The old target is not in the set, and the new one is: the replacement is done.
    AlreadyReplaced,
    /// Removing the target would lose data.
    TargetNeeded,
    /// Another client has changed the target set meanwhile.
    Overtaken,
    /// The object is in an archive of the service, and can be read only some time after it was
    /// asked for.
    Cold,
    /// So few targets of a set are there that others may change it without them.
    Minority,
}

impl StorageErrorKind {
    /// All kinds.
    pub const ALL: [Self; 26] = [
        Self::NotFound,
        Self::AlreadyExists,
        Self::PastEnd,
        Self::NotEmpty,
        Self::Denied,
        Self::ReadOnly,
        Self::Full,
        Self::SessionOver,
        Self::Permanent,
        Self::Unauthorized,
        Self::Retryable,
        Self::Unreachable,
        Self::Unsupported,
        Self::Damaged,
        Self::NotADirectory,
        Self::Malformed,
        Self::Invalid,
        Self::TooFewTargets,
        Self::NoTargets,
        Self::TooManyTargets,
        Self::NoSuchTarget,
        Self::AlreadyReplaced,
        Self::TargetNeeded,
        Self::Overtaken,
        Self::Cold,
        Self::Minority,
    ];

    /// The sentence of an error without further details.
    fn sentence(self) -> &'static str {
        match self {
            Self::NotFound => "it does not exist",
            Self::AlreadyExists => "it exists already",
            Self::PastEnd => "it ends before the requested bytes",
            Self::NotEmpty => "it is not empty",
            Self::Denied => "permission denied",
            Self::ReadOnly => "the file system is read-only",
            Self::Full => "no space is left",
            Self::SessionOver => "the session has ended",
            Self::Permanent => "it cannot be done",
            Self::Unauthorized => "the server does not accept the credentials",
            Self::Retryable | Self::Unreachable => "the server does not answer",
            Self::Unsupported => "the server cannot do this",
            Self::Damaged => "it is damaged",
            Self::NotADirectory => "a part of the path is no directory",
            Self::Malformed => "the message received is malformed",
            Self::Invalid => "it cannot be used",
            Self::TooFewTargets => "too many targets are missing",
            Self::NoTargets => "no place holds a target",
            Self::TooManyTargets => "the set cannot have more targets",
            Self::NoSuchTarget => "there is no such target",
            Self::AlreadyReplaced => "the target is replaced already",
            Self::TargetNeeded => "data would be lost without this target",
            Self::Overtaken => "another client has changed the targets",
            Self::Cold => "it is in an archive, and has to be brought back first",
            Self::Minority => "no more than half of the targets are there",
        }
    }
}

/// A failed operation of a storage. The text is one sentence and does not repeat the object's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    kind: StorageErrorKind,
    object: Option<Name>,
    text: String,
}

impl StorageError {
    /// An error of this kind, explained by `text`.
    pub fn new(kind: StorageErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            object: None,
            text: text.into(),
        }
    }

    /// Sets the object, unless the error has one.
    #[must_use]
    pub fn about(mut self, name: Name) -> Self {
        self.object.get_or_insert(name);
        self
    }

    /// Appends `more` to the text.
    #[must_use]
    pub fn and(mut self, more: &str) -> Self {
        self.text.push_str(more);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> StorageErrorKind {
        self.kind
    }

    /// The object of the failed operation, if there was one.
    pub fn object(&self) -> Option<Name> {
        self.object
    }

    /// Finds a storage's error among the causes of another error.
    pub fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StorageError {}

impl From<StorageErrorKind> for StorageError {
    fn from(kind: StorageErrorKind) -> Self {
        Self::new(kind, kind.sentence())
    }
}

impl From<io::Error> for StorageError {
    fn from(error: io::Error) -> Self {
        Self::new(error.kind().into(), error.to_string())
    }
}

/// The only mapping from errors of the operating system.
impl From<io::ErrorKind> for StorageErrorKind {
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            io::ErrorKind::UnexpectedEof => Self::PastEnd,
            io::ErrorKind::DirectoryNotEmpty => Self::NotEmpty,
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut => Self::Unreachable,
            io::ErrorKind::Unsupported => Self::Unsupported,
            io::ErrorKind::NotADirectory => Self::NotADirectory,
            io::ErrorKind::InvalidData => Self::Malformed,
            io::ErrorKind::InvalidInput => Self::Invalid,
            _ => Self::Permanent,
        }
    }
}

/// An error followed by its causes, the root cause last.
pub(crate) fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_keep_their_text_and_get_a_kind() {
        use StorageErrorKind::*;
        // Error numbers of Linux.
        for (number, kind) in [
            (2, NotFound),
            (17, AlreadyExists),
            (39, NotEmpty),
            (13, Denied),
            (1, Denied),
            (30, ReadOnly),
            (28, Full),
            (122, Full),
            (20, NotADirectory),
            (110, Unreachable),
            (107, Unreachable),
            (5, Permanent),
        ] {
            let system = io::Error::from_raw_os_error(number);
            let text = system.to_string();
            let error = StorageError::from(system);
            assert_eq!((error.kind(), error.to_string()), (kind, text));
        }
    }

    #[test]
    fn an_error_keeps_the_object_that_it_was_about_first() {
        let error = StorageError::from(StorageErrorKind::NotFound);
        assert_eq!(error.object(), None);
        let error = error.about(Name::TARGET).about(Name::CONFIG);
        assert_eq!(error.object(), Some(Name::TARGET));
    }
}
