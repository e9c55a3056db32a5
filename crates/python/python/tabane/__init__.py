"""Many hashes at once, one a SIMD lane, and Tabane's backup repositories.

>>> import tabane
>>> tabane.sha256(b"abc").hexdigest()[:16]
'ba7816bf8f01cfea'
>>> [digest.hex()[:8] for digest in tabane.hash_many("md5", [b"", b"a", b"abc"])]
['d41d8cd9', '0cc175b9', '90015098']
"""

from functools import partial as _partial

from . import errors
from ._tabane import (
    CheckReport,
    Entry,
    Hash,
    Progress,
    Repository,
    RestoreReport,
    Snapshot,
    __version__,
    etag,
    hash_files,
    hash_many,
    hmac_many,
    keyed_algorithms as _keyed,
    keyless_algorithms as _keyless,
    new,
)
from .errors import (
    DamagedError,
    Error,
    InvalidError,
    NoRepositoryError,
    NoSnapshotError,
    NoSuchPathError,
    PathError,
    RepositoryExistsError,
    StorageError,
    WrongPasswordError,
)

#: The names that `new`, `hash_many` and `hash_files` take.
algorithms_available = frozenset(_keyless + _keyed)
#: Those of them that take a key.
algorithms_keyed = frozenset(_keyed)

md5 = _partial(new, "md5")
sha1 = _partial(new, "sha1")
sha224 = _partial(new, "sha224")
sha256 = _partial(new, "sha256")
sha384 = _partial(new, "sha384")
sha512 = _partial(new, "sha512")
blake3 = _partial(new, "blake3")
xxh3 = _partial(new, "xxh3")
xxh128 = _partial(new, "xxh128")
xxh64 = _partial(new, "xxh64")
xxh32 = _partial(new, "xxh32")


def file_digest(fileobj, digest):
    """The hash of what is left in a binary file, as `hashlib.file_digest`.

    `digest` is the name of an algorithm, or makes a hash when it is called.

    >>> import io
    >>> file_digest(io.BytesIO(b"abc"), "md5").hexdigest()
    '900150983cd24fb0d6963f7d28e17f72'
    """
    hash = new(digest) if isinstance(digest, str) else digest()
    if hasattr(fileobj, "getbuffer"):
        hash.update(fileobj.getbuffer()[fileobj.tell() :])
        return hash
    if not hasattr(fileobj, "readinto") or (
        hasattr(fileobj, "readable") and not fileobj.readable()
    ):
        raise ValueError(f"{fileobj!r} is not a file that was opened to read in binary mode")
    buffer = bytearray(1 << 18)
    view = memoryview(buffer)
    while True:
        count = fileobj.readinto(buffer)
        if count is None:
            raise BlockingIOError("the file has nothing to read yet: it does not block")
        if count == 0:
            return hash
        hash.update(view[:count])


__all__ = [
    "CheckReport",
    "DamagedError",
    "Entry",
    "Error",
    "Hash",
    "InvalidError",
    "NoRepositoryError",
    "NoSnapshotError",
    "NoSuchPathError",
    "PathError",
    "Progress",
    "Repository",
    "RepositoryExistsError",
    "RestoreReport",
    "Snapshot",
    "StorageError",
    "WrongPasswordError",
    "algorithms_available",
    "algorithms_keyed",
    "blake3",
    "errors",
    "etag",
    "file_digest",
    "hash_files",
    "hash_many",
    "hmac_many",
    "md5",
    "new",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "xxh128",
    "xxh3",
    "xxh32",
    "xxh64",
]
