#!/usr/bin/env python3
"""Compares which snapshots `tabane forget` and `restic forget` keep.

Makes random histories, stores each in a repository of either program, and asks both what random
policies would keep. Prints NOT RUN and ends with 0 if restic 0.19 or later is not installed.

    contrib/compare-forget-with-restic.py [--tabane PROGRAM] [--restic PROGRAM]
        [--histories 20] [--policies 50] [--seed 1]

Needs python3, openssl and about a minute for 20 histories and 50 policies: 1,000 comparisons.
restic takes half a second for each backup, so the script writes restic's snapshots itself, with the
key that `restic cat masterkey` prints.
"""

import argparse
import base64
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

ZONE = "Europe/Berlin"
PERIODS = ["hourly", "daily", "weekly", "monthly", "yearly"]
TAGS = ["a", "b", "c"]


def run(*command, text=None, **environment):
    """Standard output of a command; ends the script if it fails."""
    result = subprocess.run(
        command, input=text, capture_output=True, env=os.environ | environment, check=False
    )
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr.decode()}")
    return result.stdout


def find_restic(program):
    """Whether restic is there and new enough; its rules for --keep-within-… changed."""
    try:
        version = run(program, "version").decode()
    except OSError:
        version = ""
    found = re.match(r"restic (\d+)\.(\d+)", version)
    return found and (int(found[1]), int(found[2])) >= (0, 19)


def random_history(rng):
    """Different times in whole seconds, each with tags."""
    end = datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp() + rng.randrange(300 * 86400)
    span = rng.choice([7200, 3 * 86400, 60 * 86400, 800 * 86400, 4000 * 86400])
    times = set()
    for _ in range(rng.randrange(1, 40)):
        time = int(end - rng.random() ** rng.choice([1, 2]) * span)
        times.add(time)
        if rng.random() < 0.2:
            times.add(time - rng.randrange(1, 5000))
    # Hours that come twice or never, ends of months and of years.
    for text in ["2025-10-26T00:30", "2025-10-26T01:30", "2025-03-30T00:59", "2025-12-31T22:59",
                 "2025-12-31T23:01", "2024-12-30T12:00", "2025-02-28T23:30", "2025-03-31T12:00"]:
        if rng.random() < 0.2:
            times.add(int(datetime.fromisoformat(text + "+00:00").timestamp()))
    return [(time, [tag for tag in TAGS if rng.random() < 0.2]) for time in sorted(times)]


def random_policy(rng):
    """Options of forget."""
    def age():
        parts = [(rng.choice([0, 0, 1, 3]), "y"), (rng.choice([0, 0, 1, 5, 14]), "m"),
                 (rng.choice([0, 1, 10, 31]), "d"), (rng.choice([0, 0, 1, 30]), "h")]
        return "".join(f"{number}{unit}" for number, unit in parts if number) or "7d"

    options = []
    for name in ["last", *PERIODS]:
        if rng.random() < 0.25:
            options += [f"--keep-{name}", rng.choice(["1", "2", "3", "7", "30", "unlimited"])]
    for name in ["within", *[f"within-{period}" for period in PERIODS]]:
        if rng.random() < 0.25:
            options += [f"--keep-{name}", age()]
    if rng.random() < 0.2:
        options += ["--keep-tag", ",".join(rng.sample(TAGS, rng.randrange(1, 3)))]
    return options or ["--keep-within-yearly", age()]


def poly1305(r, s, message):
    """The tag of a message under a key of two halves."""
    r = int.from_bytes(r, "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        block = message[at : at + 16] + b"\1"
        total = (total + int.from_bytes(block, "little")) * r % ((1 << 130) - 5)
    return ((total + int.from_bytes(s, "little")) % (1 << 128)).to_bytes(16, "little")


class Restic:
    """A repository of restic with one snapshot, and others that are like it."""

    def __init__(self, program, directory, source):
        self.program = program
        self.directory = directory
        self.call("init")
        made = self.call("backup", "--json", source).decode().splitlines()[-1]
        self.first = json.loads(made)["snapshot_id"]
        self.snapshot = json.loads(self.call("cat", "snapshot", self.first))
        self.key = json.loads(self.call("cat", "masterkey"))

    def call(self, *arguments):
        return run(self.program, "-r", self.directory, "--no-cache", *arguments,
                   RESTIC_PASSWORD="x", TZ=ZONE)

    def add(self, host, time, tags):
        """Writes a snapshot as restic would."""
        at = datetime.fromtimestamp(time, ZoneInfo(ZONE)).isoformat()
        snapshot = self.snapshot | {"time": at, "hostname": host, "tags": tags or None}
        nonce = os.urandom(16)
        encrypt = base64.b64decode(self.key["encrypt"]).hex()
        sealed = run("openssl", "enc", "-aes-256-ctr", "-K", encrypt, "-iv", nonce.hex(),
                     text=json.dumps(snapshot).encode())
        mac = {name: base64.b64decode(value) for name, value in self.key["mac"].items()}
        s = run("openssl", "enc", "-aes-128-ecb", "-nopad", "-K", mac["k"].hex(), text=nonce)
        content = nonce + sealed + poly1305(mac["r"], s, sealed)
        name = hashlib.sha256(content).hexdigest()
        with open(os.path.join(self.directory, "snapshots", name), "wb") as file:
            file.write(content)


def kept(output):
    """For each host the times of what stays, in seconds."""
    def second(snapshot):
        text = re.sub(r"\.\d+", "", snapshot["time"]).replace("Z", "+00:00")
        return int(datetime.fromisoformat(text).timestamp())

    groups = json.loads(output)
    return {group["host"]: sorted(map(second, group["keep"] or [])) for group in groups}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tabane", default="tabane")
    parser.add_argument("--restic", default="restic")
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--policies", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not find_restic(options.restic):
        print("NOT RUN: forget beside restic: restic 0.19 or later is not installed")
        return 0
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "source")
        os.mkdir(source)
        restic = Restic(options.restic, os.path.join(directory, "restic"), source)
        tabane = [options.tabane, "-r", os.path.join(directory, "tabane"), "--cache-dir",
                  os.path.join(directory, "cache")]
        environment = {"TABANE_PASSWORD": "x", "TZ": ZONE}
        run(*tabane, "init", **environment)
        snapshots = 0
        for number in range(options.histories):
            for time, tags in random_history(rng):
                restic.add(f"host{number}", time, tags)
                at = (datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=time)).isoformat()
                extra = ["--tag", ",".join(tags)] if tags else []
                run(*tabane, "backup", "-q", source, "--host", f"host{number}", "--time", at, *extra,
                    **environment)
                snapshots += 1
        restic.call("forget", restic.first)
        differences = 0
        for _ in range(options.policies):
            policy = random_policy(rng)
            arguments = ["forget", "--json", "--dry-run", "--group-by", "host",
                         "--unsafe-allow-remove-all", *policy]
            theirs = kept(restic.call(*arguments))
            ours = kept(run(*tabane, *arguments, **environment))
            for host in sorted(theirs | ours):
                if theirs.get(host) != ours.get(host):
                    differences += 1
                    print(f"{host} {' '.join(policy)}:\n  restic {theirs.get(host)}\n"
                          f"  tabane {ours.get(host)}")
    count = options.histories * options.policies
    print(f"{count} comparisons of {snapshots} snapshots (seed {options.seed}): "
          f"{differences} differ")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
