#!/usr/bin/env python3
"""Puts defects into a copy of the program on purpose, one at a time, and counts the simulated runs until each is found.

    crates/simulation/defects.py [NAME ...]

Ends with 1 if one is not found within SEEDS runs, if its place in the code has changed, or if the program fails in the
run that found it without it, too.
"""

import os
import re
import shutil
import subprocess
import sys
import time

SEEDS = 10000

STORE = "crates/store/src/"
STRIPED = "crates/striped/src/"

# Name, what is wrong then, where the repository is, file, text, and what stands in its place.
DEFECTS = [
    ("prune-looks-once", "A prune does not look again after its removal is durable.", "memory",
     STORE + "operations/prune/mod.rs",
     "            run.copy(&view, &HashSet::new())?;\n",
     ""),
    ("commit-does-not-confirm", "A backup does not look for removals after it has written its snapshot.", "memory",
     STORE + "operations/commit.rs",
     "Ok(removal::names(repository)? == *removals)",
     "Ok(true)"),
    ("commit-copies-nothing", "A backup does not copy what it needs of condemned packs.", "memory",
     STORE + "operations/commit.rs",
     "if !condemned.is_empty() {",
     "if condemned.len() > 1 << 20 {"),
    ("commit-without-pending", "A backup takes its pending object away before its snapshot is there.", "memory",
     STORE + "operations/commit.rs",
     "            if let Some(id) = self.attempt(&removals)? {",
     "            forget_pending()?;\n            if let Some(id) = self.attempt(&removals)? {"),
    ("rewrite-trusts-old", "A rewrite does not look whether the snapshot that it relies on is still there.", "memory",
     STORE + "operations/commit.rs",
     "Some((old, _)) => self.repository.has(Name::new(ObjectKind::Snapshot, old)),",
     "Some(_) => Ok(true),"),
    ("index-loses-the-last", "A prune leaves out of a new index object what does not fill it.", "memory",
     STORE + "operations/prune/index_objects.rs",
     "    if !segment.is_empty() {\n        write(&mut segment)?;",
     "    if segment.len() == PACKS_MAX {\n        write(&mut segment)?;"),
    ("two-copies", "A small object has two copies in a set instead of three.", "set",
     STRIPED + "striped.rs",
     "            _ => REPLICAS,",
     "            _ => REPLICAS - 1,"),
    ("no-marks", "What is deleted while a target is away is not marked.", "set",
     STRIPED + "marks.rs",
     "    !matches!(kind, ObjectKind::Pack | ObjectKind::Config)",
     "    !matches!(kind, ObjectKind::Pack | ObjectKind::Config | ObjectKind::Snapshot)"),
    ("newest-replaced", "A target that replaces another takes its place in the newest generation alone.", "set",
     STRIPED + "set.rs",
     "        for id in next.generations.iter_mut().flatten() {",
     "        for id in next.generations.last_mut().into_iter().flatten() {"),
    ("any-checksum", "Checksums of sectors are not compared.", "set",
     STRIPED + "container.rs",
     "(checksum(object, role, row, number, &[payload]) == *found).then_some(payload)",
     "(checksum(object, role, row, number, &[payload]) != [0; 16]).then_some(payload)"),
]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def check_out(tree):
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", "--force", "--detach", output("git", "rev-parse", "HEAD")],
                   check=True)


def build(tree, environment):
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--release", "-p", "tabane-simulation"],
                   cwd=tree, env=environment | {"RUSTFLAGS": "-Awarnings"}, check=True)


def simulate(program, place, *arguments):
    """Seed and reason of the first run that failed, and what was printed."""
    ran = subprocess.run([program, "--place", place, "--whole", *arguments], capture_output=True, text=True)
    return re.search(r"seed (\d+), after [^:]*: (.*)", ran.stdout), f"{ran.stdout} {ran.stderr[-500:]}"


def main():
    names = sys.argv[1:]
    os.chdir(output("git", "rev-parse", "--show-toplevel"))
    target = os.path.join(os.getcwd(), "target", "defects")
    copy = os.path.join(target, "tree")
    subprocess.run(["git", "worktree", "prune"], check=True)
    if not os.path.isdir(copy):
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", copy, "HEAD"], check=True)
    environment = dict(os.environ, CARGO_TARGET_DIR=target)
    check_out(copy)
    build(copy, environment)
    program = os.path.join(target, "release", "tabane-simulation")
    without = shutil.copy(program, os.path.join(target, "without-defects"))
    failed = []
    for name, what, place, file, text, other in DEFECTS:
        if names and name not in names:
            continue
        check_out(copy)
        path = os.path.join(copy, file)
        with open(path, encoding="utf-8") as opened:
            source = opened.read()
        if source.count(text) != 1:
            print(f"{name}: its place in {file} has changed")
            failed.append(name)
            continue
        with open(path, "w", encoding="utf-8") as opened:
            opened.write(source.replace(text, other))
        build(copy, environment)
        begun = time.monotonic()
        found, printed = simulate(program, place, "--seeds", str(SEEDS))
        took = time.monotonic() - begun
        if found and simulate(without, place, "--seeds", "1", "--first", found[1])[0]:
            print(f"{name}: seed {found[1]} fails without it, too: {found[2][:150]}", flush=True)
            failed.append(name)
        elif found:
            print(f"{name}: found by seed {found[1]}, {took:.0f} s: {found[2][:150]}", flush=True)
        else:
            print(f"{name}: NOT FOUND in {SEEDS} seeds, {took:.0f} s: {printed}", flush=True)
            failed.append(name)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
