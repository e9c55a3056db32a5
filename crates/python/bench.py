"""Measures the package beside hashlib and the command `tabane`, alternating; medians of ratios.

    python crates/python/bench.py [--tabane COMMAND] [--only NAME]

Times are CPU time where one thread works, wall time otherwise. A processor without the instructions
of SHA is like this:

    TABANE_SIMD=avx512 OPENSSL_ia32cap=:~0x20000000 python crates/python/bench.py --only hashes
"""

import argparse
import concurrent.futures
import hashlib
import mmap
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import tabane

ROUNDS = 7


def ratio(peer, ours, clock=time.process_time, rounds=ROUNDS):
    """The median of the peer's time divided by ours, each right after the other."""
    ratios = []
    for number in range(rounds):
        times = {}
        for work in (peer, ours) if number % 2 else (ours, peer):
            start = clock()
            work()
            times[work] = clock() - start
        ratios.append(times[peer] / times[ours])
    return statistics.median(ratios)


def hashes():
    choose = random.Random(1)
    for count, length, repeat in ((10_000, 16 << 10, 1), (1000, 64, 50)):
        messages = [choose.randbytes(length) for _ in range(count)]
        for name in ("md5", "sha1", "sha256", "sha512"):
            make = getattr(hashlib, name)

            def theirs():
                for _ in range(repeat):
                    digests = [make(message).digest() for message in messages]
                return digests

            def ours():
                for _ in range(repeat):
                    digests = tabane.hash_many(name, messages)
                return digests

            assert ours() == theirs()
            print(f"hash_many {name:6} {count} x {length}: {ratio(theirs, ours):5.2f} x hashlib")


def make_files(folder, count=20_000):
    """Files of the lengths that source trees have: half below 2 KB, a few of a megabyte."""
    choose, paths = random.Random(2), []
    for number in range(count):
        place = folder / str(number // 500)
        place.mkdir(exist_ok=True)
        length = min(int(choose.lognormvariate(8, 1.8)), 4 << 20)
        (place / str(number)).write_bytes(choose.randbytes(length))
        paths.append(place / str(number))
    return paths


def files(command):
    with tempfile.TemporaryDirectory() as folder:
        paths = make_files(pathlib.Path(folder))
        total = sum(path.stat().st_size for path in paths)
        print(f"{len(paths)} files, {total / 1e6:.0f} MB, {os.cpu_count()} processors")
        listed = b"\0".join(os.fsencode(path) for path in paths)
        for name in ("md5", "sha256"):

            def one(path):
                with open(path, "rb") as file:
                    return hashlib.file_digest(file, name).digest()

            def pool():
                with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
                    return list(threads.map(one, paths))

            def program():
                arguments = [command, "sum", "-a", name, "--files0-from", "-"]
                subprocess.run(arguments, input=listed, stdout=subprocess.DEVNULL, check=True)

            def ours():
                return tabane.hash_files(paths, name)

            assert pool() == ours()
            print(f"hash_files {name:6}: {ratio(pool, ours, time.monotonic):5.2f} x a thread pool")
            if command:
                beside = ratio(program, ours, time.monotonic)
                print(f"hash_files {name:6}: {beside:5.2f} x the speed of tabane sum")


def reading(command):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = folder / "file"
        choose = random.Random(3)
        words = [choose.randbytes(8) for _ in range(4000)]
        with open(path, "wb") as file:
            for _ in range(1024):
                file.write(b"".join(choose.choices(words, k=1 << 17)))
        os.environ |= {"TABANE_PASSWORD": "measure", "XDG_CACHE_HOME": str(folder / "cache")}
        with tabane.Repository.init(folder / "repository") as repository:
            repository.backup(path)
        os.sync()

        # A process each, as the command is one.
        read = (
            "import sys, tabane\n"
            "with tabane.Repository(sys.argv[1]) as repository:\n"
            "    with repository.open('latest', sys.argv[2]) as file:\n"
            "        while file.read(1 << 20): pass\n"
            "status = open('/proc/self/status').read()\n"
            "print(int(status.split('VmHWM:')[1].split()[0]) // 1024)\n"
        )
        peaks = []

        def ours():
            place = str(folder / "repository")
            arguments = [sys.executable, "-c", read, place, str(path)]
            done = subprocess.run(arguments, stdout=subprocess.PIPE, check=True)
            peaks.append(int(done.stdout))

        def program():
            arguments = [command, "dump", "-r", folder / "repository", "latest", path]
            subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)

        if command:
            beside = ratio(program, ours, time.monotonic)
            print(f"read through open(): {beside:5.2f} x the speed of tabane dump, peak {max(peaks)} MiB")


def imports():
    times = []
    for _ in range(21):
        program = (
            "import time; start = time.perf_counter(); import tabane; "
            "print(time.perf_counter() - start)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        times.append(float(done.stdout))
    print(f"import: {statistics.median(times) * 1000:.1f} ms")


def interrupts():
    """How long after SIGINT a call ends, in the middle of each of some long calls."""
    messages = [bytes(1 << 20)] * 200_000
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        big = folder / "big"
        big.touch()
        os.truncate(big, 1 << 40)
        tree = folder / "tree"
        tree.mkdir()
        for number in range(8):
            (tree / str(number)).write_bytes(random.Random(number).randbytes(64 << 20))
        os.environ |= {"TABANE_PASSWORD": "measure", "XDG_CACHE_HOME": str(folder / "cache")}
        repository = tabane.Repository.init(folder / "repository")
        repository.backup(tree)

        def restore():
            for number in range(100):
                repository.restore("latest", folder / f"restored {number}")
                shutil.rmtree(folder / f"restored {number}")

        with open(big, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for name, work in {
            "hash_many": lambda: tabane.hash_many("sha512", messages),
            "hmac_many": lambda: tabane.hmac_many("sha512", b"key", messages),
            "hash_files": lambda: tabane.hash_files([big]),
            "etag": lambda: tabane.etag(big),
            "update": lambda: tabane.sha256().update(mapped),
            "backup": lambda: repeat(lambda: repository.backup(tree, force=True, dry_run=True)),
            "restore": restore,
            "check": lambda: repeat(lambda: repository.check(read_data=True)),
            "read": lambda: repeat(lambda: repository.open("latest", tree / "1").read()),
        }.items():
            waited = sorted(interrupted(work) for _ in range(9))
            print(
                f"interrupt of {name}: {statistics.median(waited) * 1000:.0f} ms, "
                f"at most {waited[-1] * 1000:.0f} ms"
            )


def repeat(work):
    while True:
        work()


def interrupted(work):
    """Seconds from SIGINT until `work` has ended with KeyboardInterrupt."""
    sent = []

    def interrupt():
        time.sleep(0.3)
        sent.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        work()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        thread.join()
    raise SystemExit("the call ended before it was interrupted")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tabane", help="the command to compare with")
    parser.add_argument("--only", choices=["hashes", "files", "reading", "imports", "interrupts"])
    given = parser.parse_args()
    for name, work in {
        "hashes": hashes,
        "files": lambda: files(given.tabane),
        "reading": lambda: reading(given.tabane),
        "imports": imports,
        "interrupts": interrupts,
    }.items():
        if given.only in (None, name):
            work()
