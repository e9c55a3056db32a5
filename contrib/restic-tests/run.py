#!/usr/bin/env python3
"""Runs restic's tests of its command line against Tabane.

    contrib/restic-tests/run.py RESTIC [--tabane PROGRAM] [--run REGEX] [-v]

RESTIC is a checkout of https://github.com/restic/restic of version 0.19.1; go is needed, too. The
tests are restic's own. tabane.go runs Tabane where they call restic's commands; EDITS below replace
what looks into a repository of restic. LEFT_OUT says which tests do not apply, and why.
Ends with 1 if a test failed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

UNITS = "tests a function of restic's, not a command"
WINDOWS = "of Windows"
HOOKS = "tests restic's access to storage through a hook in its code"
PATTERNS = "differs: `[.-]` is a valid pattern here, a dot or a minus"
BOTH = "differs: --include and --exclude work together, and what matches both is left out"
INTERNAL = "needs a repository in restic's format with a fault of that format"

LEFT_OUT = {
    "TestBackupWithFilesystemSnapshots": WINDOWS,
    "TestBackupVSS": WINDOWS,
    "TestBackupProgramVersion": "the name of the program",
    "TestStdinFromCommandNoOutput":
        "differs: a command that succeeds and prints nothing makes a snapshot of an empty file",
    "TestCollectTargets": UNITS,
    "TestFilterExistingUnreadable": UNITS,
    "TestReadFilenamesRaw": UNITS,
    "TestCatArgsValidation": UNITS,
    "TestParsePercentage": UNITS,
    "TestStringToIntSlice": UNITS,
    "TestSelectPacksByBucket": UNITS,
    "TestSelectRandomPacksByPercentage": UNITS,
    "TestSelectNoRandomPacksByPercentage": UNITS,
    "TestSelectRandomPacksByFileSize": UNITS,
    "TestSelectNoRandomPacksByFileSize": UNITS,
    "TestPrepareCheckCache": UNITS,
    "TestPrepareDefaultCheckCache": UNITS,
    "TestCheckWithSnaphotFilter": "compares sentences of restic's output",
    "TestDumpSplitPath": UNITS,
    "TestFindPackfile": "asks restic's index",
    "TestFindPackID": "asks restic's index",
    "TestForgetPolicyValues": UNITS,
    "TestForgetOptionValues": UNITS,
    "TestForgetHostnameDefaulting": UNITS,
    "TestGenerateStdout": "differs: `tabane completions` and `tabane man`",
    "TestKeyProblems": HOOKS,
    "TestKeyAddInvalid": "will not: there is no --new-insecure-no-password",
    "TestKeyAddEmpty": "will not: every repository has a password",
    "TestListBlobs": "asks restic's index",
    "TestLsNodeJSON": UNITS,
    "TestLsNcduNode": UNITS,
    "TestLsNcdu": UNITS,
    "TestCheckMountpointOverlap": UNITS,
    "TestCheckMountpointOverlapSymlink": UNITS,
    "TestEdgeCaseRepos": INTERNAL,
    "TestRebuildIndex": INTERNAL,
    "TestRebuildIndexDamage": INTERNAL,
    "TestRebuildIndexAlwaysFull": INTERNAL,
    "TestRebuildIndexFailsOnAppendOnly": HOOKS,
    "TestRepairSnapshotsWithLostData":
        "differs: the next backup reads files with lost blocks again and so mends old snapshots",
    "TestRestoreMustFailWhenUsingBothIncludesAndExcludes": BOTH,
    "TestRewriteExcludeIncludeContradiction": BOTH,
    "TestRewriteSnaphotSummary": "every snapshot has a summary",
    "TestEmptySnapshotGroupJSON": UNITS,
    "TestSizeHistogramNew": UNITS,
    "TestSizeHistogramAdd": UNITS,
    "TestSizeHistogramString": UNITS,
    "TestSnapshotFilter": UNITS,
    "TestFlags": UNITS,
    "TestFormatNode": UNITS,
    "TestBackupFailsWhenUsingInvalidPatterns": PATTERNS,
    "TestBackupFailsWhenUsingInvalidPatternsFromFile": PATTERNS,
    "TestRestoreFailsWhenUsingInvalidPatterns": PATTERNS,
    "TestRestoreFailsWhenUsingInvalidPatternsFromFile": PATTERNS,
    "TestListOnce": HOOKS,
    "TestBackendLoadWriteTo": HOOKS,
    "TestFindListOnce": HOOKS,
    "TestBackendRetryConfig": HOOKS,
}

MOUNTS = ["TestMount", "TestMountSameTimestamps"]

AS_NOBODY = ["-exec", "setpriv --reuid=65534 --regid=65534 --clear-groups"]

# file: [(what, by what)], each of which must be found.
EDITS = {
    "integration_helpers_test.go": [
        (r"func (listPacks|listTreePacks|removePacks|removePacksExcept|testLoadSnapshot)\(",
         r"func restic_\1("),
    ],
    # Other folders.
    "cmd_init_integration_test.go": [
        (r"(\t\trtest\.OK\(t, os\.)WriteFile(\(filepath\.Join\(gopts\.Repo, path), "
         r"\"tmp12345\"\).*", r"\1MkdirAll\2), 0o700))\n\g<0>"),
        # How files are cut is secret; TestCopy sees that both repositories do it alike.
        (r"(?s)\n\tvar repo \*repository\.Repository.*?\n\}\n", "}\n"),
        (r'\t"github.com/restic/restic/internal/ui/progress"\n', ""),
    ],
    "cmd_rewrite_integration_test.go": [
        (r"func getSnapshot\(", r"func restic_getSnapshot("),
        # The summary counts the files of the backup, also after a rewrite.
        (r"\trtest\.Equals\(t, snapshot\.Summary\.TotalFilesProcessed-1.*\n", ""),
        (r"\t\t\trtest\.Assert\(t, sn\.Summary\.TotalFilesProcessed(.*\n){2}", ""),
        (r"snapshots, err = data\.TestLoadAllSnapshots\(ctx, repo, nil\)\n"
         r"\t\treturn err\n\t\}\)\n\trtest\.OK\(t, err\)\n\trtest\.Assert",
         "_ = repo\n\t\tsnapshots, err = bare(gopts)\n\t\treturn err\n\t})\n\trtest.OK(t, err)\n\trtest.Assert"),
    ],
    # A directory here consists of blocks, and has no ID of its own.
    "cmd_find_integration_test.go": [
        (r"(?s)\n\tresults = testRunFind\(t, true, FindOptions\{TreeID: true\}.*?\n\}\n",
         "\n\t_ = snapshot\n}\n"),
    ],
    # Files are cut elsewhere, so numbers of blocks and their bytes differ.
    "cmd_diff_integration_test.go": [
        (r'\t"(Data Blobs|Added|Removed): .*\n', ""),
        (r" && stat\.(Added|Removed)\.DataBlobs == \d", ""),
    ],
    # Objects have other headers, which is seen in a repository of 20 kB.
    "cmd_copy_integration_test.go": [
        (r"int64\(stat\.size\)/50", "int64(stat.size)/20"),
        (r"func testPackAndBlobCounts\(", "func restic_testPackAndBlobCounts("),
    ],
    "cmd_backup_integration_test.go": [
        # A snapshot takes 800 bytes, which is seen in a repository of 20 kB.
        (r"stat1\.size/10", "stat1.size/5"),
        # A backup stores again what the index lacks, and calls that no error.
        (r'rtest\.Assert\(t, err != nil,\s+"backup should have reported an error[^"]*"\)',
         "rtest.OK(t, err)"),
        # The first of two backups has other directories above its source, which the second, of
        # the directory above, does not store again.
        (r"(\ttreePacks := listTreePacks\(env\.gopts, t\)\n)",
         r"\1\ttestRunForget(t, env.gopts, ForgetOptions{}, "
         r"testListSnapshots(t, env.gopts, 1)[0].String())\n"),
    ],
    # A directory consists of blocks, and has no ID of its own.
    "cmd_recover_integration_test.go": [
        (r"(?s)\t// check that the root tree.*",
         "\tlisted := strings.Join(testRunLs(t, env.gopts, ids[0].String()), \" \")\n"
         "\trtest.Assert(t, strings.Contains(listed, env.testdata+\"/0/\"), \"not found\")\n}\n"),
        (r"\tsn := testLoadSnapshot\(t, env\.gopts, ids\[0\]\)\n", ""),
        (r"import \(\n", 'import (\n\t"strings"\n'),
    ],
    # --ncdu shows one directory.
    "cmd_ls_integration_test.go": [(r'\t\t\{"latest", "/0", "/0/9"\},\n', "")],
    "cmd_prune_integration_test.go": [
        (r"rtest\.Equals\(t, repository\.ErrPacksMissing, (.*\n.*\n\t\}\))",
         r"rtest.Equals(t, repository.ErrPacksMissing.Error(), \1.Error()"),
    ],
    "cmd_mount_integration_test.go": [
        (r"systemFuse\.Unmount\(dir\)", "unmount(dir)"),
        (r'\tsystemFuse "[^"]*"\n', ""),
        (r"snapshot, err := data\.LoadSnapshot\(ctx, repo, id\)",
         "var snapshot *data.Snapshot\n\t\t\tsnapshot, err = load(gopts, gopts.Term, id)\n"
         "\t\t\t_ = repo"),
        # What is imported has IDs of its own.
        (r"(?s)(\tids := )\[\]restic\.ID\{.*?\n\t\}\n", r'\1testRunList(t, env.gopts, "snapshots")\n'),
    ],
    # A key names the machine and the user that made it.
    "cmd_key_integration_test.go": [
        (r"testRunKeyPasswdUserHost\(t, \"geheim3\"", "testRunKeyPasswd(t, \"geheim3\""),
        (r"\n\ttestRunKeyAddNewKeyUserHost\(t, env\.gopts\)\n", ""),
    ],
}

HELPERS = """package main

import (
	"bytes"
	"context"
	"syscall"
	"testing"

	"github.com/restic/restic/internal/data"
	"github.com/restic/restic/internal/global"
	"github.com/restic/restic/internal/restic"
	rtest "github.com/restic/restic/internal/test"
)

func listPacks(gopts global.Options, t *testing.T) (all restic.IDSet) {
	rtest.OK(t, withTermStatus(t, gopts, func(_ context.Context, gopts global.Options) error {
		files, trees, err := packs(gopts, gopts.Term)
		all = files
		all.Merge(trees)
		return err
	}))
	return all
}

func listTreePacks(gopts global.Options, t *testing.T) (trees restic.IDSet) {
	rtest.OK(t, withTermStatus(t, gopts, func(_ context.Context, gopts global.Options) error {
		_, found, err := packs(gopts, gopts.Term)
		trees = found
		return err
	}))
	return trees
}

func removePacks(gopts global.Options, t testing.TB, ids restic.IDSet) {
	rtest.OK(t, remove(gopts, ids))
}

func removePacksExcept(gopts global.Options, t testing.TB, keep restic.IDSet, removeTrees bool) {
	rtest.OK(t, withTermStatus(t, gopts, func(_ context.Context, gopts global.Options) error {
		files, trees, err := packs(gopts, gopts.Term)
		if err != nil {
			return err
		}
		if removeTrees {
			files = trees
		}
		return remove(gopts, files.Sub(keep))
	}))
}

func testLoadSnapshot(t testing.TB, gopts global.Options, id restic.ID) (found *data.Snapshot) {
	rtest.OK(t, withTermStatus(t, gopts, func(_ context.Context, gopts global.Options) error {
		snapshot, err := load(gopts, gopts.Term, id)
		found = snapshot
		return err
	}))
	return found
}

func getSnapshot(t testing.TB, id restic.ID, env *testEnvironment) *data.Snapshot {
	return testLoadSnapshot(t, env.gopts, id)
}

func testPackAndBlobCounts(t testing.TB, gopts global.Options) (treePacks, filePacks, blocks int) {
	rtest.OK(t, withTermStatus(t, gopts, func(_ context.Context, gopts global.Options) error {
		files, trees, err := packs(gopts, gopts.Term)
		treePacks, filePacks = len(trees), len(files)
		if err != nil {
			return err
		}
		out, err := output(gopts, gopts.Term, "list", "blocks")
		blocks = bytes.Count(out, []byte("\\n"))
		return err
	}))
	return treePacks, filePacks, blocks
}

func unmount(dir string) error {
	return syscall.Unmount(dir, 0)
}

func bare(gopts global.Options) (all []*data.Snapshot, err error) {
	loaded, err := loadAll(gopts, gopts.Term)
	for _, snapshot := range loaded {
		all = append(all, snapshot.Snapshot)
	}
	return all, err
}
"""


def translate(checkout, place):
    """Copies the checkout and puts the translation into it."""
    shutil.copytree(checkout, place, ignore=shutil.ignore_patterns(".git"))
    commands = os.path.join(place, "cmd", "restic")
    ours = open(os.path.join(HERE, "tabane.go")).read()
    replaced = re.findall(r"^func (run\w+|openWithReadLock)\(", ours, re.M)
    for name in os.listdir(commands):
        path = os.path.join(commands, name)
        if not name.endswith(".go"):
            continue
        text = open(path).read()
        if not name.endswith("_test.go"):
            for function in replaced:
                text = re.sub(rf"^func {function}\(", f"func restic_{function}(", text, flags=re.M)
        for old, new in EDITS.get(name, ()):
            text, count = re.subn(old, new, text)
            if not count:
                sys.exit(f"{name} has nothing like {old!r}: another version of restic?")
        open(path, "w").write(text)
    shutil.copy(os.path.join(HERE, "tabane.go"), commands)
    open(os.path.join(commands, "tabane_test.go"), "w").write(HELPERS)
    return commands


def main():
    parser = argparse.ArgumentParser(description="restic's tests of its command line, for Tabane")
    parser.add_argument("restic")
    parser.add_argument("--tabane", default=os.path.join(HERE, "../../target/debug/tabane"))
    parser.add_argument("--run", default=".")
    parser.add_argument("-v", action="store_true", help="print what failed tests print")
    options = parser.parse_args()
    counts = {"pass": 0, "fail": 0, "skip": 0}
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        # The first python in PATH may be in a folder of root's.
        tools = os.path.join(scratch, "tools")
        os.mkdir(tools)
        os.symlink("/usr/bin/python3", os.path.join(tools, "python"))
        os.environ["PATH"] = tools + os.pathsep + os.environ["PATH"]
        commands = translate(options.restic, os.path.join(scratch, "restic"))
        if os.getuid() == 0:
            # Root may read every file, which TestBackupErrors does not expect, and mount, which
            # others need a program for.
            run(commands, options, [*LEFT_OUT, *MOUNTS], AS_NOBODY, counts)
            run(commands, options, [*LEFT_OUT, "Test[A-LN-Z].*"], [], counts)
        else:
            run(commands, options, LEFT_OUT, [], counts)
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped by restic, "
          f"{len(LEFT_OUT)} left out")
    sys.exit(1 if counts["fail"] else 0)


def run(commands, options, left_out, further, counts):
    """Runs all tests but some, and counts how they end."""
    environment = dict(os.environ, TABANE=os.path.abspath(options.tabane), TZ="UTC")
    for name in [name for name in environment if name.startswith(("RESTIC_", "TABANE_"))]:
        del environment[name]
    skip = "^(" + "|".join(left_out) + ")$"
    test = subprocess.Popen(
        ["go", "test", "-vet=off", "-json", "-run", options.run, "-skip", skip, *further, "."],
        cwd=commands, env=environment, stdout=subprocess.PIPE, text=True)
    printed = {}
    for line in test.stdout:
        event = json.loads(line)
        name, action = event.get("Test"), event["Action"]
        if action in ("output", "build-output"):
            printed.setdefault(name, []).append(event["Output"])
            if name is None:
                print(event["Output"], end="")
        elif name and action in counts and "/" not in name:
            counts[action] += 1
            print(f"{action:5} {name}")
            if action != "pass" and options.v:
                for test_name, lines in printed.items():
                    if test_name and test_name.split("/")[0] == name:
                        print("".join(lines), end="")
    if test.wait() and not counts["fail"]:
        counts["fail"] = 1


if __name__ == "__main__":
    main()
