"""Reads a Parquet file out of last month's snapshot with pandas; only what is needed is decoded.

TABANE_REPOSITORY=… TABANE_PASSWORD_FILE=… python last_months_table.py /data/table.parquet
"""

import datetime
import sys

import pandas

import tabane


def snapshot_before(repository, path, time):
    """The latest snapshot with this path that is older than `time`."""
    snapshots = [snapshot for snapshot in repository.snapshots() if snapshot.time < time]
    for snapshot in reversed(snapshots):
        try:
            repository.stat(snapshot, path)
        except tabane.NoSuchPathError:
            continue
        return snapshot
    raise SystemExit(f"no snapshot before {time:%Y-%m-%d} has {path}")


def read_table(path, time, columns=None, url=None, password=None):
    """A table as it was at `time`."""
    with tabane.Repository(url, password) as repository:
        snapshot = snapshot_before(repository, path, time)
    options = {"repository": url, "password": password}
    # PyArrow's threads that use a file of Python may abort the program when it ends.
    return pandas.read_parquet(
        f"tabane://{snapshot.short_id}{path}",
        columns=columns,
        storage_options=options,
        use_threads=False,
    )


if __name__ == "__main__":
    now = datetime.datetime.now(datetime.timezone.utc)
    print(read_table(sys.argv[1], now - datetime.timedelta(days=30)))
