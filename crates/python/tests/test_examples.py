"""The examples do what they say."""

import datetime
import doctest
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
import tabane

from conftest import PASSWORD

PACKAGE = pathlib.Path(__file__).parents[1]


def example(name):
    place = PACKAGE / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, *args, **environment):
    done = subprocess.run(
        [sys.executable, PACKAGE / "examples" / f"{name}.py", *args],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tree_hashes(tree):
    module = example("tree_hashes")
    name, listed = module.dvc_directory(tree)
    expected = [
        {"md5": hashlib.md5((tree / path).read_bytes()).hexdigest(), "relpath": path}
        for path in ("big", "inner/note.tex", "letter")
    ]
    assert listed == expected
    assert name == hashlib.md5(json.dumps(expected).encode()).hexdigest() + ".dir"
    note = tree / "inner" / "note.tex"
    digest = hashlib.md5(note.read_bytes()).hexdigest()
    assert module.annex_keys(tree)[note] == f"MD5E-s6--{digest}.tex"
    assert name in run("tree_hashes", tree)


def test_upload_hashes(tmp_path):
    shards = [tmp_path / f"model-{number:05}.safetensors" for number in range(9)]
    for number, shard in enumerate(shards):
        shard.write_bytes(random.Random(number).randbytes(number * 100_000))
    pointers = example("upload_hashes").lfs_pointers(shards)
    assert [pointer["oid"] for pointer in pointers] == [
        hashlib.sha256(shard.read_bytes()).hexdigest() for shard in shards
    ]
    assert pointers[8]["size"] == 800_000
    assert pointers[8]["oid"] in run("upload_hashes", *shards)


@pytest.fixture
def two_backups(repository, tree, tmp_path, monkeypatch):
    """The environment of the notebook, for a repository of two snapshots."""
    (tree / "more").write_bytes(os.urandom(1_000_000))
    repository.backup(tree)
    monkeypatch.setenv("TABANE_REPOSITORY", str(tmp_path / "repository"))
    monkeypatch.setenv("TABANE_PASSWORD", PASSWORD)
    monkeypatch.setenv("MPLBACKEND", "agg")


NOTEBOOK = PACKAGE / "examples" / "growth.ipynb"


def test_the_notebook(two_backups, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    names = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    files, stored = names["axes"].get_lines()
    assert files.get_ydata()[1] - files.get_ydata()[0] == pytest.approx(0.001)
    assert 0.001 <= stored.get_ydata()[1] - stored.get_ydata()[0] < 0.0011
    names["figure"].savefig(tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 5000
    assert capsys.readouterr().out.startswith("2 snapshots since")


def test_the_notebook_in_jupyter(two_backups):
    pytest.importorskip("matplotlib")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    nbclient.NotebookClient(notebook, timeout=120).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_last_months_table(repository, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pytest.importorskip("fsspec")
    path = tmp_path / "table.parquet"
    last = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=40)
    pandas.DataFrame({"a": range(1000), "b": "old"}).to_parquet(path)
    repository.backup(path, time=last)
    pandas.DataFrame({"a": range(5), "b": "new"}).to_parquet(path)
    repository.backup(path)
    options = {"url": str(tmp_path / "repository"), "password": PASSWORD}
    read_table = example("last_months_table").read_table
    table = read_table(str(path), last + datetime.timedelta(days=1), **options)
    assert list(table["a"]) == list(range(1000)) and set(table["b"]) == {"old"}
    environment = {"TABANE_REPOSITORY": options["url"], "TABANE_PASSWORD": PASSWORD}
    assert "old" in run("last_months_table", str(path), **environment)


PAGES = [
    PACKAGE / "README.md",
    PACKAGE.parents[1] / "docs" / "reference" / "python.md",
    PACKAGE.parents[1] / "docs" / "how-to" / "python.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: "/".join(page.parts[-2:]))
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(page), module_relative=False)
    assert done.attempted > 3 and done.failed == 0


def test_docstrings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(tabane)
    assert done.attempted > 3 and done.failed == 0
