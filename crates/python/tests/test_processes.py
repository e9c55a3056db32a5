"""Interrupts, forks, subinterpreters."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import tabane

from conftest import PASSWORD

# A machine that is busy runs this process late: so much is left to it.
PATIENCE = 20


def interrupted(work):
    """Interrupts `work` when it has begun; returns whether it was."""
    main = threading.get_native_id()

    def interrupt():
        time.sleep(0.3)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    assert main == threading.main_thread().native_id
    # A shell starts what runs in its background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            work()
            # The signal comes in any case.
            time.sleep(PATIENCE)
        return time.monotonic() - start
    finally:
        thread.join()


def test_hash_many_is_interrupted():
    messages = [bytes(1 << 20)] * 200_000
    assert interrupted(lambda: tabane.hash_many("sha512", messages)) < PATIENCE


def test_one_long_message_is_interrupted_and_forgotten():
    piece = memoryview(bytearray(1 << 30))
    hash = tabane.sha256(b"before")

    def work():
        while True:
            before.append(hash.copy())
            del before[:-1]
            hash.update(piece)

    before = []
    assert interrupted(work) < PATIENCE
    assert hash.digest() == before[0].digest()


def test_hmac_many_is_interrupted():
    messages = [bytes(1 << 20)] * 200_000
    assert interrupted(lambda: tabane.hmac_many("sha512", b"key", messages)) < PATIENCE


def test_hash_files_is_interrupted(tmp_path):
    (tmp_path / "big").touch()
    os.truncate(tmp_path / "big", 1 << 40)
    before = threading_count()
    assert interrupted(lambda: tabane.hash_files([tmp_path / "big"])) < PATIENCE
    assert interrupted(lambda: tabane.etag(tmp_path / "big")) < PATIENCE
    deadline = time.monotonic() + PATIENCE
    while threading_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading_count() <= before


def threading_count():
    return len(os.listdir("/proc/self/task"))


def test_backup_is_interrupted(tmp_path, repository):
    tree = tmp_path / "endless"
    tree.mkdir()
    for number in range(40):
        with open(tree / str(number), "wb") as file:
            for _ in range(2):
                file.write(os.urandom(1 << 20) * 16)
    snapshots = repository.snapshots()

    def work():
        while True:
            repository.backup(tree, force=True, dry_run=False, tags=["late"])
            for snapshot in repository.snapshots(tags=["late"]):
                snapshots.append(snapshot)

    assert interrupted(work) < PATIENCE
    known = {snapshot.id for snapshot in snapshots}
    assert repository.check(read_data=True).problems == []
    for snapshot in repository.snapshots():
        assert snapshot.id in known or snapshot.tags == ["late"]
    assert repository.backup(tree).warnings == []


def test_a_callback_ends_backup_and_restore(tmp_path, repository, tree):
    class Enough(Exception):
        pass

    def stop(progress):
        raise Enough

    for work in (
        lambda: repository.backup(tree, force=True, progress=stop),
        lambda: repository.restore("latest", tmp_path / "back", progress=stop),
        lambda: repository.check(read_data=True, progress=stop),
    ):
        with pytest.raises(Enough):
            work()
    assert repository.check(read_data=True).problems == []
    assert repository.restore("latest", tmp_path / "back", path=tree, verify=True).errors == 0


def in_a_fork(work):
    """Runs `work` in a fork of this process, and returns its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it hangs"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_hashes_go_on_in_a_fork(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    hash = tabane.sha256(b"a")
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            tabane.hash_many("md5", [b"x" * 5000] * 200)

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()

    def work():
        hash.update(b"bc")
        expected = tabane.hash_files([tmp_path / "file"])[0]
        same = hash.digest() == expected == tabane.hash_many("sha256", [b"abc"])[0]
        return 0 if same else 2

    try:
        assert [in_a_fork(work) for _ in range(20)] == [0] * 20
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_in_the_middle_of_a_backup(repository, tree):
    for number in range(20):
        (tree / f"more {number}").write_bytes(os.urandom(1 << 20))
    children = []

    class InChild(Exception):
        pass

    def fork(progress):
        if len(children) < 3:
            child = os.fork()
            if child == 0:
                raise InChild
            children.append(child)

    try:
        snapshot = repository.backup(tree, force=True, progress=fork)
    except InChild:
        # The call has ended here, without the threads that are at work in the parent.
        os._exit(7)
    assert children
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [
        7 for _ in children
    ]
    assert snapshot.warnings == [] and repository.check(read_data=True).problems == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_repository_says_that_it_was_forked(tmp_path, repository, tree):
    file = repository.open("latest", tree / "big")
    file.read(10)

    def work():
        for call in (
            repository.snapshots,
            lambda: file.seek(0) or file.read(5_000_000),
            repository.close,
        ):
            try:
                call()
                return 2
            except RuntimeError as error:
                assert "fork" in str(error)
        with tabane.Repository(tmp_path / "repository", PASSWORD) as again:
            with again.open("latest", tree / "letter") as letter:
                assert letter.read() == b"Dear Ada,\n"
        # What the parent opened is dropped: nothing hangs, and the parent goes on.
        globals().pop("repository", None)
        file.detach()
        return 0

    assert in_a_fork(work) == 0
    file.seek(0)
    assert file.read() == (tree / "big").read_bytes()
    assert repository.check().problems == []


@pytest.mark.parametrize("first", ["", "import tabane"])
def test_subinterpreters_are_refused_in_words(first):
    program = textwrap.dedent("""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        number = interpreters.create()
        code = '''if True:
            try:
                import tabane
            except ImportError as error:
                assert "subinterpreter" in str(error), error
            else:
                raise SystemExit("tabane was imported")
        '''
        failure = interpreters.run_string(number, code)
        assert failure is None, failure
    """)
    program = f"{first}\n{program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_unknown_instruction_set_is_an_error_of_the_import():
    environment = os.environ | {"TABANE_SIMD": "abacus"}
    done = subprocess.run(
        [sys.executable, "-c", "import tabane"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "ImportError: no SIMD backend is called" in done.stderr


def test_the_import_needs_no_other_package():
    program = "import sys, tabane; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert not {"numpy", "fsspec", "pandas"} & set(done.stdout.split())
