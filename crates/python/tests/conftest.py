import pytest
import tabane

PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def no_cache_of_the_user(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    for name in ("TABANE_REPOSITORY", "TABANE_PASSWORD", "TABANE_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tree(tmp_path):
    """A folder with two files, a folder, a link and a big file."""
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "letter").write_text("Dear Ada,\n")
    (tree / "inner" / "note.tex").write_text("inner\n")
    (tree / "link").symlink_to("letter")
    (tree / "big").write_bytes(b"".join(i.to_bytes(8, "big") for i in range(1 << 18)) * 4)
    return tree


@pytest.fixture
def repository(tmp_path, tree):
    """A repository with one snapshot of `tree`."""
    with tabane.Repository.init(tmp_path / "repository", PASSWORD) as repository:
        repository.backup(tree, tags=["first"])
        yield repository


def pytest_terminal_summary(terminalreporter):
    """The lines that `make test` counts and shows."""
    stats = {name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "skipped")}
    failed = sum(len(terminalreporter.stats.get(name, [])) for name in ("failed", "error"))
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"NOT RUN: {report.nodeid}: {report.longrepr[-1]}")
    terminalreporter.write_line(
        f"test result: {'FAILED' if failed else 'ok'}. {stats['passed']} passed; {failed} failed; "
        f"{stats['skipped']} ignored"
    )
