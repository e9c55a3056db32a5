"""The examples do what they say."""

import datetime
import doctest
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
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


def run_in(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def names(tree):
    """`tree`, and files whose names are hard for git-annex."""
    for name in "a.tar.gz b.safetensors x.y.z.w .txt .a.txt d.É e.mp4.backup f..gz g. k.12345".split():
        (tree / name).write_text(name)
    return tree


def test_keys_of_git_annex(names):
    keys = example("tree_hashes").annex_keys(names, "MD5E")
    note = names / "inner" / "note.tex"
    digest = hashlib.md5(note.read_bytes()).hexdigest()
    assert keys[note] == f"MD5E-s6--{digest}.tex"
    ends = {path.name: key.rpartition("--")[2][32:] for path, key in keys.items()}
    assert ends["a.tar.gz"] == ".tar.gz" and ends["b.safetensors"] == "" and ends["x.y.z.w"] == ".z.w"
    printed = run("tree_hashes", "annex", names)
    assert printed.count("SHA256E-s") == len(keys) and str(note) in printed


@pytest.mark.skipif(not shutil.which("git-annex"), reason="git-annex is not installed")
def test_keys_are_those_of_git_annex_itself(names):
    run_in(names, "git", "init", "-q")
    run_in(names, "git", "annex", "init", "-q", "here")
    for backend in ("MD5E", "SHA256E", "SHA1"):
        for path, key in example("tree_hashes").annex_keys(names, backend).items():
            theirs = run_in(names, "git", "annex", "calckey", f"--backend={backend}", path)
            assert key == theirs.strip(), path


def test_dvc_add_finds_all_hashes(names, monkeypatch):
    pytest.importorskip("dvc.repo")
    import dvc_data.hashfile.hash
    from dvc.repo import Repo

    (names / "link").unlink()
    (names / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    monkeypatch.chdir(names.parent)
    Repo.init(no_scm=True).close()
    hashed = []
    file_md5 = dvc_data.hashfile.hash.file_md5

    def watched(path, *args, **options):
        # The list of the files is hashed in memory.
        if not str(path).startswith("memory:"):
            hashed.append(path)
        return file_md5(path, *args, **options)

    monkeypatch.setattr(dvc_data.hashfile.hash, "file_md5", watched)
    files = example("tree_hashes").fill_dvc("tree")
    with Repo() as repo:
        [stage] = repo.add("tree")
    ours = stage.outs[0].hash_info.value
    assert ours.endswith(".dir") and stage.outs[0].meta.nfiles == files
    assert not hashed
    # Without the hashes, DVC makes the same ones.
    shutil.rmtree(".dvc")
    (names.parent / "tree.dvc").unlink()
    Repo.init(no_scm=True).close()
    with Repo() as repo:
        [stage] = repo.add("tree")
    assert stage.outs[0].hash_info.value == ours and len(hashed) == files


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
