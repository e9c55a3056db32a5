#!/usr/bin/env python3
"""Lists what has changed between two snapshots of a file system, for `tabane backup --changed-from`.

  list-changes.py btrfs OLD NEW PATH   OLD and NEW are read-only snapshots of the subvolume that is
                                       mounted at PATH; needs root
  list-changes.py zfs OLD NEW          DATASET@NAME twice, or DATASET@NAME and DATASET

Prints absolute paths, each followed by a NUL byte: names of what was changed, made or removed, and
both names of what was renamed. The exit code is 1 if btrfs or zfs fails; then the list is not whole.
"""

import re
import subprocess
import sys

ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"e": b"\x1b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


def unescape(text, octal):
    """Undoes escapes: a backslash in front of a number, a letter or the character itself."""

    def one(match):
        code = match.group(1)
        if code[:1].isdigit():
            return bytes([int(code, 8)])
        return ESCAPES.get(code, code)

    return re.sub(rb"\\(" + octal + rb"|.)", one, text, flags=re.DOTALL)


def of_btrfs(lines, path):
    """Paths from what `btrfs receive --dump` prints: `rename  ./NEW/name  dest=./NEW/other`."""
    # A space within a name is escaped.
    word = rb"((?:\\.|[^\\\s])+)"
    pattern = re.compile(rb"(\w+)\s+" + word + rb"(?:\s+dest=" + word + rb")?")
    for line in lines:
        found = pattern.match(line)
        if not found or found.group(1) in (b"snapshot", b"subvol"):
            continue
        kind, *names = found.groups()
        for name in names if kind in (b"rename", b"link") else names[:1]:
            if name is not None:
                name = unescape(name, rb"[0-7]{3}")
                if name.startswith(b"./"):
                    # The name of the snapshot comes first.
                    name = name[2:].partition(b"/")[2]
                yield path.rstrip(b"/") + b"/" + name


def of_zfs(lines):
    """Paths from what `zfs diff -H` prints: `R<TAB>/old<TAB>/new`, `M<TAB>/file<TAB>(+1)`."""
    for line in lines:
        kind, *names = line.rstrip(b"\n").split(b"\t")
        for name in names if kind == b"R" else names[:1]:
            yield unescape(name, rb"0[0-7]{3}")


def lines_of(*commands):
    """The lines that the last of these commands prints; each gets the output of the one before."""
    running = []
    for command in commands:
        source = running[-1].stdout if running else subprocess.DEVNULL
        running.append(subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE))
    yield from running[-1].stdout
    for command, process in zip(commands, running):
        # One that ends before its source does would kill it, if nobody else had the pipe open.
        while process.stdout.read(1 << 16):
            pass
        if process.wait() != 0:
            sys.exit(f"list-changes.py: {command[0]} {command[1]} failed: do not use this list")


def main():
    try:
        kind, old, new, *path = sys.argv[1:]
        if kind == "btrfs":
            (path,) = path
        elif kind != "zfs" or path:
            raise ValueError(kind)
    except ValueError:
        sys.exit(__doc__)
    if kind == "btrfs":
        send = ["btrfs", "send", "--quiet", "--no-data", "-p", old, new]
        found = of_btrfs(lines_of(send, ["btrfs", "receive", "--dump"]), path.encode())
    else:
        found = of_zfs(lines_of(["zfs", "diff", "-H", old, new]))
    for path in sorted(set(found)):
        sys.stdout.buffer.write(path + b"\0")


if __name__ == "__main__":
    main()
