#!/usr/bin/env python3
"""Says which changes of the source no test notices.

    contrib/mutants/run.py WORK --crates parity,format FILE... [--budget SECONDS]

As cargo-mutants does, but it compiles once: all mutants of FILES are in one program, and the
environment says which one is active. Each test is run alone once, to see which mutants it reaches;
then each mutant is run under the tests that reach it, those of its own crate first, until one
fails. WORK is a directory for a copy of HEAD, what is compiled, and results: `WORK/results` has a
line for each mutant, and those that are there are not run again. CRATES are those that FILES belong
to, and others whose tests are to be run, behind them. A mutant of a crate is run under the tests of
the crates from its own on, in the order of CRATES, for the budget at most.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKERS = os.cpu_count() or 1
# A mutant that runs for so many times as long as the program, and so many seconds, hangs.
SLOWER, LONGER = 8, 8


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--crates", required=True, type=lambda text: text.split(","))
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    mutants = compile_all(work, arguments.crates, arguments.files)
    tests = map_tests(work, arguments.crates, mutants)
    kill(work, arguments.crates, mutants, tests, arguments.budget)
    report(work)


def cargo(work, *arguments):
    """Runs cargo in the copy. Warnings are those of code that nobody writes."""
    environment = dict(
        os.environ,
        CARGO_TARGET_DIR=str(work / "target"),
        CARGO_PROFILE_DEV_DEBUG="0",
        RUSTFLAGS="--cap-lints allow",
    )
    return subprocess.run(
        ["cargo", *arguments, "--message-format=json"],
        cwd=work / "tree",
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def mutate(work, crates, files):
    """Makes the copy anew, with all mutants that compile; returns them by number."""
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    top = HERE.parent.parent
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=top, check=True, capture_output=True)
    subprocess.run(["tar", "x", "-C", tree], input=archive.stdout, check=True)
    for crate in crates:
        manifest = tree / "crates" / crate / "Cargo.toml"
        mutant = f'[dependencies]\nmutant = {{ path = "{HERE}/active" }}\n'
        manifest.write_text(manifest.read_text().replace("[dependencies]\n", mutant, 1))
    (work / "excluded").touch()
    written = subprocess.run(
        [work / "target/release/mutants", work / "excluded", *files],
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = (line.split(" ", 1) for line in written.stdout.splitlines())
    return {int(number): what for number, what in lines}


def compile_all(work, crates, files):
    """Leaves out what does not compile, until all else does."""
    environment = dict(os.environ, CARGO_TARGET_DIR=str(work / "target"))
    build = ["cargo", "build", "--release"]
    subprocess.run(build, cwd=HERE, env=environment, check=True)
    packages = [word for crate in crates for word in ("-p", f"tabane-{crate}")]
    # Numbers of mutants are those of these files.
    record, now = work / "files", "\n".join(files)
    if not record.exists() or record.read_text() != now:
        (work / "excluded").unlink(missing_ok=True)
        record.write_text(now)
    while True:
        mutants = mutate(work, crates, files)
        checked = cargo(work, "check", "--keep-going", *packages)
        bad = {number for message in errors(checked.stdout) for number in blamed(work, message)}
        if checked.returncode == 0:
            break
        old = set((work / "excluded").read_text().split())
        if bad <= old:
            raise SystemExit("it does not compile, and not because of a mutant")
        (work / "excluded").write_text("".join(f"{one}\n" for one in sorted(old | bad, key=int)))
        print(f"{len(bad - old)} mutants do not compile", flush=True)
    built = cargo(work, "test", "--no-run", *packages)
    if built.returncode != 0:
        raise SystemExit("the tests do not compile")
    (work / "built").write_text(built.stdout)
    return mutants


def errors(messages):
    for line in messages.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
            yield message["message"]


def blamed(work, message):
    """The mutants nearest to an error."""
    for span in message["spans"]:
        path = work / "tree" / span["file_name"]
        if not span["is_primary"] or not path.exists():
            continue
        lines = path.read_text().split("\n")
        for more in range(25):
            begin = max(0, span["line_start"] - 1 - more)
            part = "\n".join(lines[begin : span["line_end"] + min(more, 3)])
            numbers = re.findall(r"mutant::m\(\s*(\d+)u32\s*\)", part)
            if numbers:
                yield from numbers[-6:] if more else numbers
                break


def run(work, test, timeout, **environment):
    """Runs one test; returns how it ended and how long it took."""
    program, crate, name = test
    begun = time.monotonic()
    process = subprocess.Popen(
        [program, "--exact", name, "--test-threads=1"],
        cwd=work / "tree/crates" / crate,
        env=dict(os.environ, **environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        ended = process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ended = "timeout"
    return ended, time.monotonic() - begun


def map_tests(work, crates, mutants):
    """Which mutants each test reaches, and how long it takes."""
    tests = []
    for line in (work / "built").read_text().splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message.get("executable"):
            continue
        crate = Path(message["manifest_path"]).parent.name
        if not message["profile"]["test"] or crate not in crates:
            continue
        program = message["executable"]
        listed = [
            subprocess.run(
                [program, "--list", "--format", "terse", *more],
                cwd=work / "tree/crates" / crate,
                capture_output=True,
                text=True,
            ).stdout.splitlines()
            for more in ([], ["--ignored"])
        ]
        names = (line[:-6] for line in listed[0] if line.endswith(": test"))
        ignored = {line[:-6] for line in listed[1]}
        tests += [(program, crate, name) for name in names if name not in ignored]
    length = max(mutants) + 1

    def reach(test):
        path = work / f"reached-{threading.get_ident()}"
        path.write_bytes(bytes(length))
        ended, seconds = run(work, test, 600, MUTANT_REACHED=str(path))
        if ended != 0:
            print(f"left out, it fails as it is: {test[1]} {test[2]}", flush=True)
            return None
        return test, seconds, {number for number, one in enumerate(path.read_bytes()) if one}

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return [one for one in pool.map(reach, tests) if one]


def kill(work, crates, mutants, tests, budget):
    results = work / "results"
    results.touch()
    done = {line.split("\t")[0] for line in results.read_text().splitlines()}
    lock, killers = threading.Lock(), collections.Counter()

    def try_one(item):
        number, what = item
        if what in done:
            return
        file, function = what.split(":")[0], what.split(" ")[1]
        own = crates.index(Path(file).parts[1])
        reaching = [one for one in tests if number in one[2] and crates.index(one[0][1]) >= own]
        # What noticed others of this function, or file, may notice this one.
        reaching.sort(
            key=lambda one: (
                -10 * killers[function, one[0]] - killers[file, one[0]],
                crates.index(one[0][1]),
                one[1],
            )
        )
        ended, left = ("survived" if reaching else "unreached"), budget
        for test, seconds, _ in reaching:
            if seconds > left:
                ended = "survived for the budget"
                break
            how, took = run(work, test, SLOWER * seconds + LONGER, MUTANT=str(number))
            left -= took
            if how != 0:
                killers.update([(function, test), (file, test)])
                ended = "timeout" if how == "timeout" else f"killed by {test[1]} {test[2]}"
                break
        with lock, results.open("a") as file:
            file.write(f"{what}\t{ended}\n")

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(try_one, mutants.items()))


def report(work):
    count = collections.defaultdict(collections.Counter)
    for line in (work / "results").read_text().splitlines():
        what, ended = line.split("\t")
        killed = ended.startswith("killed") or ended == "timeout"
        count[what.split(":")[0]]["killed" if killed else "survived"] += 1
        if not killed:
            print(f"{ended}: {what}")
    for file, of in sorted(count.items()):
        print(f"{file}: {of['killed']} of {sum(of.values())} killed")


if __name__ == "__main__":
    main()
