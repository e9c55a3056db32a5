#!/usr/bin/env python3
"""Prints which lines of each parser the inputs reach that the repository keeps for it.

    contrib/fuzz_coverage.py TARGET [PARSER...] [--missing]

TARGET is the folder in which `cargo llvm-cov` has built the test `fuzz`, which runs the kept inputs
of each parser. Counted are the lines of the functions that read what the parser is fed, which CODE
names: not those that write, nor those that only make repositories for the test. With `--missing`,
the lines that no kept input reaches follow.
"""

import argparse
import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path

from coverage import ROOT, first_test

CORPORA = ROOT / "crates/testing/corpora"

# For each parser the files of the code that reads its inputs, below crates/, and the functions
# there; all of them where none is named.
CODE = {
    "object": {
        "format/src/crypto.rs": "open_object open_whole open format_of has_format parse_header",
        "format/src/pack.rs": "read_contents read_contents_with fetch_contents open_contents head_len",
    },
    "key": {"format/src/key.rs": "list read_all load_all open load parse unwrap ids stretch"},
    "config": {
        "format/src/config.rs": "parse_block_hash unknown_feature deserialize",
        "format/src/chunker.rs": "validate",
    },
    "footer": {
        "format/src/pack.rs": "read_contents read_contents_with fetch_contents open_contents head_len",
        "index/src/contents.rs": "",
    },
    "segment": {
        "format/src/pack.rs": "open_stored open open_into decompress decompress_into decompressor "
        "fails_authentication other_len",
    },
    "index": {
        "store/src/access/index_objects.rs": "read_index_segment read_segment_of "
        "read_index_and_format read_index load_all",
        "index/src/index.rs": "add add_all",
        "index/src/contents.rs": "",
    },
    "unverified": {
        "store/src/access/index_objects.rs": "read_unverified wants_unverified add_unverified",
        "index/src/index.rs": "add_unverified",
    },
    "writer_object": {
        "format/src/keyring.rs": "open pack_key decapsulate salt recipient_object_key pack_header "
        "writer_of verified",
        "format/src/recipient.rs": "decapsulate agree join",
    },
    "writer_key": {"format/src/writer_key.rs": "parse", "format/src/chunker.rs": "validate"},
    "directory": {"format/src/tree.rs": "decode", "format/src/entry.rs": ""},
    "copy": {"format/src/copies.rs": "parse read", "store/src/access/from_copies.rs": ""},
    "snapshot": {
        "store/src/access/snapshots.rs": "load_snapshot load_snapshot_from snapshots find_latest "
        "find_parent_snapshot",
        "store/src/operations/forget.rs": "before after reasons misdated group",
    },
    "removal": {
        "store/src/access/index_objects.rs": "read_removals read_removals_of "
        "read_removal_that_counts read_removal",
        "format/src/removal.rs": "",
    },
    "client": {"store/src/access/client.rs": "since is_dead is_of_same list read_listed read"},
    "cache": {"index/src/run.rs": "", "index/src/pages.rs": ""},
    "patterns": {"patterns/src/pattern.rs": "", "patterns/src/exclude.rs": ""},
    "request": {
        "server/src/service.rs": "parse text range",
        "storage/src/protocol.rs": "parse of_kind kind unescape",
        "storage/src/name.rs": "from_name from_path",
    },
    "sftp": {
        "storage/src/sftp/packet.rs": "parse_greeting parse is_file is_directory take byte number "
        "long string attributes",
        "storage/src/protocol.rs": "decode_list",
    },
    "container": {"striped/src/container.rs": ""},
    "target": {"striped/src/set.rs": "parse check_format", "striped/src/open.rs": "ask ask_one find"},
    "set": {
        "striped/src/set.rs": "parse validate check_format",
        "striped/src/open.rs": "find description_of_most set_of_most nothing_known list_of",
    },
    "set_file": {"striped/src/set_file.rs": "parse absolute text quoted"},
    "wire": {
        "striped/src/cluster/wire.rs": "from_str expect_greeting check_greeting receive place seal "
        "open to_bytes",
    },
    "ring": {
        "fabric/src/tcp.rs": "wait read explained",
        "fabric/src/ring.rs": "vacancy arrived end frame bytes room publish",
        "fabric/src/receiver.rs": "",
    },
    "borg": {
        "import/src/borg/mod.rs": "find unlock snapshots snapshot bytes value describe read_time "
        "parse_config",
        "import/src/borg/segments.rs": "",
        "import/src/borg/msgpack.rs": "",
        "import/src/borg/item.rs": "",
        "import/src/borg/convert.rs": "",
        "import/src/borg/compress.rs": "",
    },
    "restic": {"import/src/restic/node.rs": "", "import/src/restic/index.rs": "add"},
    "check_file": {"sum/src/line.rs": ""},
    "key_text": {"format/src/key_text.rs": ""},
    "clients": {
        "server/src/clients.rs": "parse by_name check entry parse_client parse_hash "
        "check_client_name",
    },
    "web": {"web/src/dav/request.rs": "", "web/src/encoding.rs": "parse_path parse bytes text number path has"},
    # Kernels have no counters.
    "kernels": {},
}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("target", type=Path)
    arguments.add_argument("parsers", nargs="*")
    arguments.add_argument("--missing", action="store_true")
    arguments = arguments.parse_args()
    built = [path for path in arguments.target.glob("debug/deps/fuzz-*") if not path.suffix]
    binary = str(max(built, key=lambda path: path.stat().st_mtime).resolve())
    tests = run(binary, "--list").splitlines()
    names = [found[1] for found in (re.fullmatch(r"kept::(\w+): test", line) for line in tests) if found]
    if unknown := set(names) ^ set(CODE):
        raise SystemExit(f"CODE and the tests have not the same parsers: {', '.join(sorted(unknown))}")
    print("| parser | kept inputs | lines | of these reached | |")
    print("|---|---:|---:|---:|---:|")
    missing, sums = [], [0, 0, 0]
    for name in arguments.parsers or filter(CODE.get, names):
        counted = lines_of(CODE[name])
        reached = reached_by(binary, name, sorted({path for path, _ in counted}))
        found = {place: reached[place] for place in counted if place in reached}
        inputs = len((CORPORA / name).read_text().splitlines())
        columns = [inputs, len(found), sum(count > 0 for count in found.values())]
        sums = [before + more for before, more in zip(sums, columns)]
        row(f"`{name}`", columns)
        missing += [(name, path, line) for (path, line), count in found.items() if not count]
    row("together", sums)
    if arguments.missing:
        for name, path, line in missing:
            text = (ROOT / path).read_text().splitlines()[line - 1]
            print(f"{name:14} {path}:{line}: {text.strip()}")


def row(name, columns):
    inputs, lines, reached = columns
    print(f"| {name} | {inputs} | {lines:,} | {reached:,} | {100 * reached / max(lines, 1):.1f} % |", flush=True)


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


@functools.cache
def tool(name):
    """The program of llvm-tools that fits the compiler."""
    sysroot = Path(run("rustc", "+nightly", "--print", "sysroot").strip())
    return str(next(sysroot.glob(f"lib/rustlib/*/bin/{name}")))


def reached_by(binary, name, paths):
    """How often the test of a parser reaches each line of these files."""
    with tempfile.TemporaryDirectory() as work:
        raw, merged = f"{work}/raw", f"{work}/merged"
        environment = dict(os.environ, LLVM_PROFILE_FILE=raw)
        run(binary, "--exact", f"kept::{name}", env=environment, cwd=ROOT / "crates/store")
        run(tool("llvm-profdata"), "merge", "--sparse", raw, "-o", merged)
        files = [str(ROOT / path) for path in paths]
        profile = f"--instr-profile={merged}"
        lcov = run(tool("llvm-cov"), "export", "--format=lcov", profile, binary, *files)
    reached = {}
    for record in lcov.splitlines():
        kind, _, value = record.partition(":")
        if kind == "SF":
            path = Path(value)
            path = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        elif kind == "DA":
            line, count = map(int, value.split(",")[:2])
            reached[path, line] = max(count, reached.get((path, line), 0))
    return reached


def lines_of(code):
    """The places of all lines of these functions. rustfmt has laid them out: a function ends with
    the line that begins as its own does, with a brace behind."""
    places = []
    for path, functions in code.items():
        path = Path("crates") / path
        text = (ROOT / path).read_text().splitlines()[: first_test(ROOT / path) - 1]
        if not functions:
            places += [(path, number) for number in range(1, len(text) + 1)]
        for function in functions.split():
            heads = re.compile(rf"( *)(pub(\([a-z]+\))? )?(const )?(unsafe )?fn {function}\b.*")
            starts = [(at, found[1]) for at, line in enumerate(text) if (found := heads.fullmatch(line))]
            if not starts:
                raise SystemExit(f"{path} has no function {function}")
            for at, indent in starts:
                end = next((end for end in range(at, len(text)) if text[end] == indent + "}"), at)
                places += [(path, number + 1) for number in range(at, end + 1)]
    return places


if __name__ == "__main__":
    main()
