"""Repositories: what goes in comes out."""

import datetime
import gc
import io
import os
import pathlib
import random
import threading
import time

import pytest
import tabane

from conftest import PASSWORD


def test_snapshots(repository, tree):
    [first] = repository.snapshots()
    assert first.tags == ["first"] and first.paths == [str(tree)]
    assert first.time.tzinfo is not None
    assert abs(first.time - datetime.datetime.now(datetime.timezone.utc)).total_seconds() < 600
    assert first.summary["files_new"] == 3 and first.warnings == []
    second = repository.backup([tree / "letter"], tags=["second"], hostname="other")
    assert [snapshot.id for snapshot in repository.snapshots()] == [first.id, second.id]
    assert repository.snapshots(tags=["second"]) == [second]
    assert repository.snapshots(hosts=["nobody"]) == []
    assert repository.snapshot().id == second.id
    assert repository.snapshot(first.id[:10]) == first
    assert len({first, repository.snapshot(first.short_id)}) == 1


def test_listing(repository, tree):
    entries = repository.ls("latest", tree)
    assert [entry.name for entry in entries] == ["big", "inner", "letter", "link"]
    assert [entry.kind for entry in entries] == ["file", "dir", "file", "symlink"]
    letter = entries[2]
    status = (tree / "letter").stat()
    assert (letter.size, letter.mode, letter.uid) == (10, status.st_mode & 0o7777, status.st_uid)
    assert letter.mtime_ns == status.st_mtime_ns
    assert abs(letter.mtime.timestamp() - status.st_mtime) < 1e-5
    assert pathlib.Path(letter) == tree / "letter" and entries[3].target == "letter"
    assert repository.stat("latest", letter).size == 10
    below = [entry.path for entry in repository.ls("latest", tree, recursive=True)]
    assert str(tree / "inner" / "note.tex") in below and len(below) == 5
    everything = [entry.path for entry in repository.ls(repository.snapshot(), recursive=True)]
    assert everything[0] == "/" + tree.parts[1] and set(below) < set(everything)
    assert [entry.path for entry in repository.ls("latest", tree / "letter")] == [letter.path]


def test_find(repository, tree):
    [found] = repository.find("*.tex")
    assert found.path == str(tree / "inner" / "note.tex")
    assert found.snapshot == repository.snapshot().id
    assert repository.find("*.TEX") == []
    assert len(repository.find("*.TEX", ignore_case=True, snapshot="latest")) == 1
    assert len(repository.find(["letter", "link"])) == 2
    with pytest.raises(tabane.InvalidError):
        repository.find("[")


def test_files_are_read_at_any_place(repository, tree):
    expected = (tree / "big").read_bytes()
    with repository.open("latest", tree / "big") as file:
        assert file.readable() and file.seekable() and not file.writable()
        assert file.read() == expected and file.read() == b""
        choose = random.Random(1)
        for _ in range(200):
            start, count = choose.randrange(len(expected)), choose.randrange(100_000)
            assert file.seek(start) == start
            assert file.read(count) == expected[start : start + count]
        assert file.seek(-5, io.SEEK_END) == len(expected) - 5
        assert file.read() == expected[-5:]
        file.seek(len(expected) + 7)
        assert file.read() == b""
        with pytest.raises((ValueError, OSError)):
            file.seek(-1)
    with pytest.raises(ValueError):
        file.read()
    with io.TextIOWrapper(repository.open("latest", tree / "letter")) as text:
        assert text.readline() == "Dear Ada,\n"


def read_of_files():
    """Bytes that this process has read so far, of files and of all else."""
    with open("/proc/self/io") as file:
        return int(file.readline().removeprefix("rchar:"))


def test_random_reads_decode_no_segment_twice(repository, tree):
    """A segment is read from the storage each time that it is decoded."""
    data = random.Random(7).randbytes(24 << 20)
    (tree / "random").write_bytes(data)
    repository.backup(tree)
    with repository.open("latest", tree / "random") as file:
        starts = list(range(0, len(data), 1_000_000))
        before = read_of_files()
        for _ in range(3):
            random.Random(8).shuffle(starts)
            for start in starts:
                file.seek(start)
                assert file.read(1_000_000) == data[start : start + 1_000_000]
        # Random bytes are stored as they are; once, with the rest of the first and last segment.
        assert len(data) <= read_of_files() - before < 1.3 * len(data)


def test_many_threads_read(repository, tree):
    expected = (tree / "big").read_bytes()
    failures = []

    def work(seed):
        choose = random.Random(seed)
        with repository.open("latest", tree / "big") as file:
            for _ in range(50):
                start = choose.randrange(len(expected))
                file.seek(start)
                if file.read(1000) != expected[start : start + 1000]:
                    failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_use_one_repository_while_it_is_closed(repository, tree):
    letter, failures, closed = tree / "letter", [], []

    def work(number):
        try:
            for _ in range(10_000):
                assert [entry.name for entry in repository.ls("latest", tree / "inner")] == ["note.tex"]
                assert len(repository.find("*.tex")) == 1
                assert repository.stat("latest", letter).size == 10
                with repository.open("latest", letter) as file:
                    assert file.read() == b"Dear Ada,\n"
        except ValueError as error:
            closed.append(str(error))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    repository.close()
    for thread in threads:
        thread.join()
    assert not failures and len(closed) == 6 and all("closed" in text for text in closed)


def test_restore(repository, tree, tmp_path):
    calls = []
    report = repository.restore(
        "latest", tmp_path / "back", path=tree, verify=True, progress=calls.append
    )
    assert (report.files, report.errors, report.warnings) == (3, 0, [])
    assert (tmp_path / "back" / "big").read_bytes() == (tree / "big").read_bytes()
    assert os.readlink(tmp_path / "back" / "link") == "letter"
    assert calls[-1].done_bytes == calls[-1].total_bytes == report.total_bytes
    again = repository.restore("latest", tmp_path / "back", path=tree)
    assert again.restored_bytes == 0 and again.skipped_bytes == report.total_bytes
    some = repository.restore("latest", tmp_path / "some", path=tree, include=["*.tex"])
    assert some.files == 1 and not (tmp_path / "some" / "letter").exists()


def test_backup(repository, tree, tmp_path):
    calls = []
    again = repository.backup(tree, progress=calls.append)
    assert again.summary["files_unmodified"] == 3
    # Directories above the tree may have changed meanwhile.
    assert again.summary["added_bytes"] < 1000
    assert calls[-1].entries >= 5
    assert repository.backup(tree, force=True).summary["read_bytes"] > 8_000_000
    dry = repository.backup(tree, dry_run=True, exclude=["*.tex", "big"])
    assert dry.id is None and dry.summary["files_unmodified"] == 1
    with pytest.raises(tabane.InvalidError, match="dry run"):
        repository.ls(dry)
    time = datetime.datetime(2001, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
    assert repository.backup(tree, time=time).time == time
    partly = repository.backup([tree, tmp_path / "missing"])
    [(path, text)] = partly.warnings
    assert path == str(tmp_path / "missing") and "No such file" in text
    with pytest.raises(tabane.PathError) as caught:
        repository.backup([tmp_path / "missing"])
    assert isinstance(caught.value, OSError)


def test_check(repository, tmp_path):
    report = repository.check(read_data=True)
    assert report.problems == [] and report.snapshots == 1 and report.read_packs == report.packs
    assert repository.check(read_data=50.0).problems == []
    with pytest.raises(tabane.InvalidError, match="percentage"):
        repository.check(read_data=101.0)
    pack = max((tmp_path / "repository").rglob("*"), key=lambda path: path.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(data)
    assert repository.check(read_data=True).problems


def test_damage_is_an_error(repository, tree, tmp_path):
    for pack in (tmp_path / "repository").rglob("*"):
        if pack.is_file() and pack.stat().st_size > 10_000:
            pack.unlink()
    with pytest.raises((tabane.DamagedError, tabane.StorageError)) as caught:
        with repository.open("latest", tree / "big") as file:
            file.read()
    assert caught.value.kind in ("MissingBlock", "Damaged", "Storage")


def test_errors_have_the_kinds_of_the_library(repository, tree, tmp_path):
    place = tmp_path / "repository"
    for call, exception, builtin, kind in [
        (
            lambda: tabane.Repository(place, "wrong"),
            tabane.WrongPasswordError,
            PermissionError,
            "WrongPassword",
        ),
        (
            lambda: tabane.Repository(tmp_path / "none", PASSWORD),
            tabane.NoRepositoryError,
            FileNotFoundError,
            "NoRepository",
        ),
        (
            lambda: tabane.Repository.init(place, PASSWORD),
            tabane.RepositoryExistsError,
            FileExistsError,
            "RepositoryExists",
        ),
        (
            lambda: tabane.Repository.init(tree, PASSWORD),
            tabane.RepositoryExistsError,
            FileExistsError,
            "NotEmpty",
        ),
        (
            lambda: tabane.Repository.init(tmp_path / "new", ""),
            tabane.InvalidError,
            ValueError,
            "Invalid",
        ),
        (
            lambda: tabane.Repository("ftp://host/x", PASSWORD),
            tabane.InvalidError,
            ValueError,
            "Invalid",
        ),
        (lambda: tabane.Repository(), tabane.InvalidError, ValueError, "Invalid"),
        (lambda: tabane.Repository(place), tabane.InvalidError, ValueError, "Invalid"),
        (lambda: repository.snapshot("ffff"), tabane.NoSnapshotError, LookupError, "NoSnapshot"),
        (
            lambda: repository.stat("latest", "/none"),
            tabane.NoSuchPathError,
            FileNotFoundError,
            "NoSuchPath",
        ),
        (lambda: repository.open("latest", tree), tabane.InvalidError, ValueError, "WrongKind"),
    ]:
        with pytest.raises(exception) as caught:
            call()
        assert isinstance(caught.value, builtin) and isinstance(caught.value, tabane.Error)
        assert caught.value.kind == kind and str(caught.value)


def test_the_environment_names_repository_and_password(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("TABANE_REPOSITORY", str(tmp_path / "repository"))
    monkeypatch.setenv("TABANE_PASSWORD", PASSWORD)
    assert len(tabane.Repository().snapshots()) == 1
    monkeypatch.delenv("TABANE_PASSWORD")
    (tmp_path / "password").write_text(PASSWORD + "\n")
    monkeypatch.setenv("TABANE_PASSWORD_FILE", str(tmp_path / "password"))
    assert len(tabane.Repository(cache=False).snapshots()) == 1
    assert len(tabane.Repository(cache=tmp_path / "cache").snapshots()) == 1


def test_closed_repositories(repository, tree):
    file = repository.open("latest", tree / "big")
    assert not repository.closed
    repository.close()
    repository.close()
    assert repository.closed
    for call in (
        repository.snapshots,
        repository.check,
        lambda: repository.backup(tree),
        lambda: repository.open("latest", tree / "big"),
        lambda: file.read(),
    ):
        with pytest.raises(ValueError, match="closed"):
            call()
    file.close()
    with pytest.raises(ValueError, match="closed"), repository:
        repository.snapshots()


def test_a_reader_is_announced_until_the_repository_is_closed(repository, tree, tmp_path):
    def clients():
        folder = tmp_path / "repository" / "clients"
        return list(folder.iterdir()) if folder.exists() else []

    assert not clients()
    repository.open("latest", tree / "big").close()
    assert clients()
    repository.close()
    gc.collect()
    assert not clients()
