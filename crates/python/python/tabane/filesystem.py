"""Snapshots as a read-only file system of fsspec, under ``tabane://``.

``tabane://latest/home/ada/table.parquet`` is a file of the latest snapshot; in the place of
``latest`` may stand the ID of a snapshot or its beginning.
"""

from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from . import NoSnapshotError, Repository


class TabaneFileSystem(AbstractFileSystem):
    """The snapshots of a repository, read-only.

    ``repository`` is its place (without one: TABANE_REPOSITORY) and ``password`` its password
    (without one: TABANE_PASSWORD or TABANE_PASSWORD_FILE). ``cache`` is that of `Repository`.
    """

    protocol = "tabane"
    root_marker = ""

    def __init__(self, repository=None, password=None, cache=None, **options):
        super().__init__(**options)
        self.repository = Repository(repository, password, cache=cache)

    @property
    def fsid(self):
        return f"tabane_{self.repository.url}"

    def _place(self, path):
        """The snapshot's name and the path in it."""
        name, _, path = self._strip_protocol(path).strip("/").partition("/")
        return name, "/" + path

    def _info(self, entry, name):
        kinds = {"dir": "directory", "file": "file", "symlink": "link"}
        path = entry.path.rstrip("/")
        return {
            "name": name + path,
            "size": entry.size,
            "type": kinds.get(entry.kind, "other"),
            "mode": entry.mode,
            "uid": entry.uid,
            "gid": entry.gid,
            "mtime": entry.mtime,
            "snapshot": entry.snapshot,
        }

    def info(self, path, **options):
        name, inside = self._place(path)
        if not name:
            return {"name": "", "size": 0, "type": "directory"}
        try:
            return self._info(self.repository.stat(name, inside), name)
        except NoSnapshotError as error:
            raise FileNotFoundError(str(error)) from error

    def ls(self, path, detail=True, **options):
        name, inside = self._place(path)
        if name:
            try:
                entries = self.repository.ls(name, inside)
            except NoSnapshotError as error:
                raise FileNotFoundError(str(error)) from error
            infos = [self._info(entry, name) for entry in entries]
        else:
            infos = [
                {"name": snapshot.short_id, "size": 0, "type": "directory", "mtime": snapshot.time}
                for snapshot in self.repository.snapshots()
            ]
        return infos if detail else [info["name"] for info in infos]

    def modified(self, path):
        return self.info(path)["mtime"]

    created = modified

    def _open(
        self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **options
    ):
        if mode != "rb":
            raise OSError(f"snapshots are read-only: {path} cannot be opened with mode {mode!r}")
        name, inside = self._place(path)
        try:
            return self.repository.open(name, inside)
        except NoSnapshotError as error:
            raise FileNotFoundError(str(error)) from error
