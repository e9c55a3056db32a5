import datetime
import io
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, final, overload

from . import errors as errors
from .errors import (
    DamagedError as DamagedError,
    Error as Error,
    InvalidError as InvalidError,
    NoRepositoryError as NoRepositoryError,
    NoSnapshotError as NoSnapshotError,
    NoSuchPathError as NoSuchPathError,
    PathError as PathError,
    RepositoryExistsError as RepositoryExistsError,
    StorageError as StorageError,
    WrongPasswordError as WrongPasswordError,
)

# Anything with the buffer protocol, which has a name only from Python 3.12 on.
_Buffer: TypeAlias = Any
_Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Out = TypeVar("_Out")

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

__version__: str
algorithms_available: frozenset[str]
algorithms_keyed: frozenset[str]

@final
class Hash:
    @property
    def name(self) -> str: ...
    @property
    def digest_size(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    def update(self, data: _Buffer) -> None: ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...
    def copy(self) -> Hash: ...

def new(
    name: str,
    data: _Buffer | None = None,
    *,
    key: _Buffer | None = None,
    usedforsecurity: bool = True,
) -> Hash: ...

class _Constructor(Protocol):
    def __call__(self, data: _Buffer | None = None, *, usedforsecurity: bool = True) -> Hash: ...

md5: _Constructor
sha1: _Constructor
sha224: _Constructor
sha256: _Constructor
sha384: _Constructor
sha512: _Constructor
blake3: _Constructor
xxh3: _Constructor
xxh128: _Constructor
xxh64: _Constructor
xxh32: _Constructor

def file_digest(fileobj: Any, digest: str | Callable[[], Hash]) -> Hash: ...
@overload
def hash_many(
    algorithm: str, buffers: Iterable[_Buffer], *, key: _Buffer | None = None, out: None = None
) -> list[bytes]: ...
@overload
def hash_many(
    algorithm: str, buffers: Iterable[_Buffer], *, key: _Buffer | None = None, out: _Out
) -> _Out: ...
@overload
def hmac_many(
    algorithm: str, key: _Buffer, buffers: Iterable[_Buffer], *, out: None = None
) -> list[bytes]: ...
@overload
def hmac_many(algorithm: str, key: _Buffer, buffers: Iterable[_Buffer], *, out: _Out) -> _Out: ...
@overload
def hash_files(
    paths: Iterable[_Path],
    algorithm: str = "sha256",
    *,
    key: _Buffer | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    return_exceptions: Literal[False] = False,
) -> list[bytes]: ...
@overload
def hash_files(
    paths: Iterable[_Path],
    algorithm: str = "sha256",
    *,
    key: _Buffer | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    return_exceptions: bool,
) -> list[bytes | OSError]: ...
def etag(
    path: _Path,
    part_size: int = ...,
    *,
    always_in_parts: bool = False,
    threads: int | None = None,
) -> str: ...

@final
class Snapshot:
    @property
    def id(self) -> str | None: ...
    @property
    def short_id(self) -> str | None: ...
    @property
    def time(self) -> datetime.datetime: ...
    @property
    def hostname(self) -> str: ...
    @property
    def username(self) -> str: ...
    @property
    def paths(self) -> list[str]: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def summary(self) -> dict[str, Any]: ...
    @property
    def warnings(self) -> list[tuple[str, str]]: ...

@final
class Entry:
    @property
    def snapshot(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Literal["file", "dir", "symlink", "chardev", "dev", "fifo", "socket"]: ...
    @property
    def size(self) -> int: ...
    @property
    def mode(self) -> int: ...
    @property
    def uid(self) -> int: ...
    @property
    def gid(self) -> int: ...
    @property
    def mtime(self) -> datetime.datetime: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def target(self) -> str | None: ...
    @property
    def xattrs(self) -> list[tuple[str, bytes]]: ...
    def __fspath__(self) -> str: ...

@final
class Progress:
    @property
    def done_bytes(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def entries(self) -> int: ...

@final
class RestoreReport:
    @property
    def files(self) -> int: ...
    @property
    def directories(self) -> int: ...
    @property
    def others(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def restored_bytes(self) -> int: ...
    @property
    def skipped_bytes(self) -> int: ...
    @property
    def verified_bytes(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def warnings(self) -> list[tuple[str, str]]: ...

@final
class CheckReport:
    @property
    def snapshots(self) -> int: ...
    @property
    def index_objects(self) -> int: ...
    @property
    def packs(self) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def read_packs(self) -> int: ...
    @property
    def read_bytes(self) -> int: ...
    @property
    def unreferenced_packs(self) -> int: ...
    @property
    def problems(self) -> list[str]: ...

_Progress: TypeAlias = Callable[[Progress], object] | None

@final
class Repository:
    def __new__(
        cls,
        url: _Path | None = None,
        password: str | bytes | None = None,
        *,
        cache: bool | _Path | None = None,
    ) -> Repository: ...
    @staticmethod
    def init(
        url: _Path | None = None,
        password: str | bytes | None = None,
        *,
        cache: bool | _Path | None = None,
    ) -> Repository: ...
    @property
    def url(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Repository: ...
    def __exit__(self, _kind: object, _value: object, _traceback: object) -> None: ...
    def snapshots(
        self, *, hosts: Sequence[str] = ..., tags: Sequence[str] = ..., paths: Sequence[str] = ...
    ) -> list[Snapshot]: ...
    def snapshot(self, name: str = "latest") -> Snapshot: ...
    def stat(self, snapshot: str | Snapshot, path: _Path) -> Entry: ...
    def ls(
        self, snapshot: str | Snapshot, path: _Path | None = None, *, recursive: bool = False
    ) -> list[Entry]: ...
    def find(
        self,
        patterns: _Path | Iterable[_Path],
        *,
        snapshot: str | Snapshot | None = None,
        ignore_case: bool = False,
    ) -> list[Entry]: ...
    def open(self, snapshot: str | Snapshot, path: _Path) -> io.BufferedReader: ...
    def restore(
        self,
        snapshot: str | Snapshot,
        target: _Path,
        *,
        path: _Path | None = None,
        include: Sequence[str] = ...,
        exclude: Sequence[str] = ...,
        verify: bool = False,
        dry_run: bool = False,
        progress: _Progress = None,
    ) -> RestoreReport: ...
    def backup(
        self,
        paths: _Path | Iterable[_Path],
        *,
        tags: Sequence[str] = ...,
        exclude: Sequence[str] = ...,
        hostname: str | None = None,
        time: datetime.datetime | None = None,
        force: bool = False,
        one_file_system: bool = False,
        dry_run: bool = False,
        progress: _Progress = None,
    ) -> Snapshot: ...
    def check(
        self, *, read_data: bool | float | None = None, progress: _Progress = None
    ) -> CheckReport: ...
