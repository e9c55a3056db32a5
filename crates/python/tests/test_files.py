"""Hashes of files."""

import hashlib
import os
import pathlib

import pytest
import tabane


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"file {number}" for number in range(500)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number % 256]) * (number * 37))
    return paths


def test_files_in_order(files):
    for name in ("md5", "sha256"):
        expected = [hashlib.new(name, path.read_bytes()).digest() for path in files]
        for threads in (None, 1, 3):
            assert tabane.hash_files(files, name, threads=threads) == expected
    assert tabane.hash_files([]) == []
    assert tabane.hash_files(map(str, files), "sha256") == expected
    assert tabane.hash_files(map(os.fsencode, files), "sha256") == expected


def test_errors_belong_to_files(files, tmp_path):
    paths = [files[3], tmp_path / "missing", files[4], tmp_path]
    first, missing, second, folder = tabane.hash_files(paths, "md5", return_exceptions=True)
    assert first == hashlib.md5(files[3].read_bytes()).digest()
    assert second == hashlib.md5(files[4].read_bytes()).digest()
    assert isinstance(missing, FileNotFoundError) and missing.filename == str(paths[1])
    assert isinstance(folder, IsADirectoryError)
    with pytest.raises(FileNotFoundError, match="missing"):
        tabane.hash_files(paths, "md5")


def test_names_with_any_bytes(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\n"
    with open(path, "wb") as file:
        file.write(b"abc")
    expected = [hashlib.sha256(b"abc").digest()]
    for form in (path, os.fsdecode(path), pathlib.Path(os.fsdecode(path))):
        assert tabane.hash_files([form]) == expected
    with pytest.raises(TypeError, match="list of paths"):
        tabane.hash_files(str(tmp_path))
    with pytest.raises(TypeError):
        tabane.hash_files([5])
    with pytest.raises(ValueError, match="threads"):
        tabane.hash_files([], threads=0)


def test_progress(files):
    calls = []
    tabane.hash_files(files, progress=lambda done, read: calls.append((done, read)))
    assert calls[-1] == (500, sum(path.stat().st_size for path in files))
    assert calls == sorted(calls)

    def fail(done, read):
        raise KeyError("of the callback")

    with pytest.raises(KeyError):
        tabane.hash_files(files, progress=fail)


def test_etags(tmp_path):
    path = tmp_path / "upload"
    data = os.urandom(2_500_000)
    path.write_bytes(data)
    parts = [data[start : start + (1 << 20)] for start in range(0, len(data), 1 << 20)]
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    assert tabane.etag(path, 1 << 20) == f"{hashlib.md5(digests).hexdigest()}-3"
    assert tabane.etag(path) == hashlib.md5(data).hexdigest()
    whole = hashlib.md5(hashlib.md5(data).digest()).hexdigest()
    assert tabane.etag(path, always_in_parts=True) == f"{whole}-1"
    with pytest.raises(FileNotFoundError):
        tabane.etag(tmp_path / "missing")
    with pytest.raises(ValueError, match="part_size"):
        tabane.etag(path, 0)
