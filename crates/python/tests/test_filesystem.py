"""Snapshots through fsspec, and through what reads with it."""

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


@pytest.fixture
def table(repository, tmp_path):
    """A Parquet file of 100,000 rows in ten groups, as it is in the latest snapshot."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    frame = pandas.DataFrame({"number": range(100_000), "text": "a word"})
    frame.to_parquet(path, row_group_size=10_000)
    repository.backup(path)
    path.unlink()
    return f"latest{path}"


def test_pandas_reads(options, table):
    import pandas

    frame = pandas.read_parquet(f"tabane://{table}", columns=["number"], storage_options=options)
    assert list(frame.columns) == ["number"] and frame["number"].sum() == 4_999_950_000


def test_dask_reads(options, table):
    dataframe = pytest.importorskip("dask.dataframe")
    frame = dataframe.read_parquet(f"tabane://{table}", storage_options=options)
    assert int(frame["number"].sum().compute()) == 4_999_950_000
    total = frame["number"].sum()
    # The processes open the repository themselves.
    assert int(total.compute(scheduler="processes", num_workers=2)) == 4_999_950_000


def test_duckdb_reads(options, table):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register_filesystem(fsspec.filesystem("tabane", **options))
    query = f"SELECT count(*), sum(number) FROM 'tabane://{table}' WHERE number >= 50000"
    assert connection.execute(query).fetchone() == (50_000, 3_749_975_000)


def test_xarray_reads(options, repository, tmp_path):
    xarray, numpy = pytest.importorskip("xarray"), pytest.importorskip("numpy")
    pytest.importorskip("h5netcdf")
    path = tmp_path / "field.nc"
    field = xarray.Dataset({"field": (("x", "y"), numpy.arange(600.0).reshape(20, 30))})
    field.to_netcdf(path, engine="h5netcdf")
    repository.backup(path)
    path.unlink()
    with fsspec.open(f"tabane://latest{path}", **options) as file:
        with xarray.open_dataset(file, engine="h5netcdf") as read:
            assert float(read["field"].sum()) == 599 * 300
            assert float(read["field"][3, 4]) == 94
