"""What can go wrong with a repository.

All are an `Error`, whose `kind` is the name of the Rust library's error, such as
``"WrongPassword"``. Most are one of Python's own exceptions, too.
"""


class Error(Exception):
    """An operation on a repository has failed; the text is a sentence for a person."""

    #: The name of the Rust library's error.
    kind = "Other"


class NoRepositoryError(Error, FileNotFoundError):
    """There is no repository at this place."""


class RepositoryExistsError(Error, FileExistsError):
    """`Repository.init` found a repository, or other files."""


class WrongPasswordError(Error, PermissionError):
    """No key of the repository opens with this password."""


class NoSnapshotError(Error, LookupError):
    """No snapshot has that name, or more than one."""


class NoSuchPathError(Error, FileNotFoundError):
    """The path is not in the snapshot."""


class DamagedError(Error):
    """An object of the repository is damaged or missing."""


class StorageError(Error, OSError):
    """The storage failed: a disk, a network, a server."""

    #: The name of the Rust library's kind of storage error, such as ``"Unreachable"``.
    storage_kind = "Permanent"


class PathError(Error, OSError):
    """A path of this machine cannot be used."""


class InvalidError(Error, ValueError):
    """An argument has a value that cannot be used."""
