"""Snapshots through fsspec."""

import pytest

import tabane
from conftest import PASSWORD

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def options(repository, tmp_path):
    return {"repository": str(tmp_path / "repository"), "password": PASSWORD}


def test_it_is_registered(options, tree):
    with fsspec.open(f"tabane://latest{tree}/letter", **options) as file:
        assert file.read() == b"Dear Ada,\n"
    with fsspec.open(f"tabane://latest{tree}/letter", "rt", **options) as file:
        assert file.readline() == "Dear Ada,\n"


def test_listing(options, repository, tree):
    filesystem = fsspec.filesystem("tabane", **options)
    assert filesystem.ls("", detail=False) == [repository.snapshot().short_id]
    base = f"latest{tree}"
    assert filesystem.ls(base, detail=False) == [
        f"{base}/{name}" for name in ("big", "inner", "letter", "link")
    ]
    assert filesystem.info(f"{base}/letter")["size"] == 10
    assert filesystem.isdir(f"{base}/inner") and filesystem.isfile(f"{base}/big")
    assert filesystem.isdir("") and filesystem.isdir("latest")
    assert filesystem.glob(f"{base}/**/*.tex") == [f"{base}/inner/note.tex"]
    assert f"{base}/inner/note.tex" in filesystem.find(base)
    assert [name for name, _, _ in filesystem.walk(base)] == [base, f"{base}/inner"]
    assert filesystem.cat_file(f"{base}/letter", 5, 8) == b"Ada"
    assert filesystem.cat(f"{base}/inner/note.tex") == b"inner\n"
    assert filesystem.modified(f"{base}/letter").tzinfo is not None
    assert not filesystem.exists(f"{base}/none") and not filesystem.exists("ffff/x")


def test_it_copies_out(options, tree, tmp_path):
    filesystem = fsspec.filesystem("tabane", **options)
    filesystem.get(f"latest{tree}/inner", str(tmp_path / "out"), recursive=True)
    assert (tmp_path / "out" / "note.tex").read_text() == "inner\n"


def test_it_is_read_only(options, tree):
    filesystem = fsspec.filesystem("tabane", **options)
    with pytest.raises(OSError, match="read-only"):
        filesystem.open(f"latest{tree}/letter", "wb")
    with pytest.raises(tabane.WrongPasswordError):
        fsspec.filesystem("tabane", **(options | {"password": "wrong"}))
    with pytest.raises(FileNotFoundError):
        filesystem.open("ffff/x")
