#!/usr/bin/env python3
"""Prints which lines and branches of the crates' sources the tests reach.

    contrib/coverage.py LCOV CRATE... [--missing]

LCOV is what `cargo llvm-cov report --lcov` has written. Unit tests are left out: a file is taken up
to its last line `#[cfg(test)]`. A branch is one way out of a condition. With `--missing`, the lines
and branches that no test reaches follow, file by file.
"""

import argparse
import collections
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lcov", type=Path)
    parser.add_argument("crates", nargs="+")
    parser.add_argument("--missing", action="store_true")
    arguments = parser.parse_args()
    files = read(arguments.lcov)
    total = [0, 0, 0, 0]
    print("| crate | lines | of these reached | | branches | of these reached | |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for crate in arguments.crates:
        of_crate = [counts(*found) for path, found in files.items() if is_of(path, crate)]
        if not of_crate:
            raise SystemExit(f"{arguments.lcov} has no file of {crate}")
        sums = [sum(column) for column in zip(*of_crate)]
        total = [before + more for before, more in zip(total, sums)]
        row(f"`{crate}`", sums)
    row("together", total)
    if arguments.missing:
        for crate in arguments.crates:
            for path in sorted(path for path in files if is_of(path, crate)):
                list_missing(path, *files[path])


def read(lcov):
    """For each file how often each line and each branch were reached. A function that is compiled
    for several types has records for each of them: the highest number counts."""
    files = {}
    for record in lcov.read_text().splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            path = Path(value)
            path = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            end = first_test(ROOT / path)
            lines, branches = files.setdefault(path, (collections.Counter(), collections.Counter()))
        elif kind == "DA":
            line, count = map(int, value.split(",")[:2])
            if line < end:
                lines[line] = max(lines[line], count)
        elif kind == "BRDA":
            line, block, branch, count = value.split(",")
            if int(line) < end:
                key = int(line), block, branch
                branches[key] = max(branches[key], 0 if count == "-" else int(count))
    return files


def first_test(path):
    """The number of the line with which the unit tests begin."""
    lines = path.read_text().splitlines()
    tests = [number for number, line in enumerate(lines, 1) if line == "#[cfg(test)]"]
    return tests[-1] if tests else len(lines) + 1


def is_of(path, crate):
    return path.is_relative_to(Path("crates") / crate / "src")


def counts(lines, branches):
    columns = []
    for found in lines, branches:
        columns += [len(found), sum(count > 0 for count in found.values())]
    return columns


def row(name, columns):
    cells = []
    for found, reached in zip(columns[::2], columns[1::2]):
        cells += [f"{found:,}", f"{reached:,}", f"{100 * reached / max(found, 1):.1f} %"]
    print(f"| {name} | {' | '.join(cells)} |")


def list_missing(path, lines, branches):
    missed = collections.defaultdict(list)
    for line, count in lines.items():
        if not count:
            missed[line].append("line")
    for (line, _, _), count in branches.items():
        if not count and lines[line]:
            missed[line].append("branch")
    text = (ROOT / path).read_text().splitlines()
    if missed:
        print(f"\n{path}")
    for line in sorted(missed):
        what = missed[line]
        what = what[0] if len(what) == 1 else f"{len(what)} branches"
        print(f"{line:5} {what:10} {text[line - 1]}")


if __name__ == "__main__":
    main()
