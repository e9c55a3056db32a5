#!/usr/bin/env python3
"""Runs OpenSSL's own tests without Tabane's provider and with it, and compares the results.

    contrib/openssl-tests/run.py OPENSSL [--provider FILE] [--tests NAMES] [--hashes yes|no] [-v]

OPENSSL is the source folder of OpenSSL 3.0 or later, built there: `./Configure && make -j4`.
NAMES are recipes of OpenSSL's; by default those of evp_test, evp_extra_test and sslapitest. For
the run with the provider, the configurations that the recipes name load it beside the default
provider and prefer it. EXPECTED says which subtests may differ, and why.
Ends with 1 if another subtest differs, or if the tests used nothing of the provider.
"""

import argparse
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = "test_evp test_evp_extra test_sslapi"

# What the programs read. default-for-evptest.cnf is left alone: it asks for a property that no
# provider has.
CONFIGURATIONS = ["test/default.cnf", "test/default-and-legacy.cnf",
                  "test/default-recordpadding.cnf"]
# What they read without being told to. These programs want no provider there.
UNNAMED = "apps/openssl.cnf"
WITHOUT_UNNAMED = ["test_sslapi", "test_quicapi"]

EMPTY = "wants no provider in the default context, where the configuration loads two"

# A regular expression for subtests: why they may differ.
EXPECTED = {
    "^test_evp_extra: running evp_extra_test2 > test_alternative_default$": EMPTY,
    "^test_evp_extra: running evp_extra_test2 > test_provider_unload_effective": EMPTY,
    "^test_evp_extra: .* non-default library context > test_aes_(siv_ctx|gcm_siv_empty)_":
        "skipped if there is no provider in the default context",
    # Of OpenSSL 4.0. Earlier ones pass it: the query `provider!=fake-pipeline` of the test replaces
    # `?provider=tabane`, and either provider may then be taken.
    "^test_evp_extra: running evp_extra_test > test_evp_cipher_pipeline$":
        "wants a provider without pipelines, which this one has",
}

# OpenSSL 3.6 makes subtests comments.
SUBTEST = re.compile(r"(?:# )?( *)(not ok|ok) \d+(?: - (.*?))?( # skip.*)?$", re.I)
# evp_test's count of the tests in one of its files: done, failed of these, and skipped.
FILE = re.compile(r" *# .*Completed (\d+) tests with (\d+) errors and (\d+) skipped")


def mirror(source, place):
    """Makes a folder of links to the source, in which single files can be replaced."""
    os.mkdir(place)
    for name in os.listdir(source):
        if name not in ("apps", "test"):
            os.symlink(os.path.join(source, name), os.path.join(place, name))
    for folder in ("apps", "test"):
        os.mkdir(os.path.join(place, folder))
        for name in os.listdir(os.path.join(source, folder)):
            os.symlink(os.path.join(source, folder, name), os.path.join(place, folder, name))


def prefer(path, provider, settings):
    """Replaces the configuration by a copy that loads the provider and prefers it."""
    text = open(path).read()
    for section, line in [
        ("openssl_init", "alg_section = tabane_algorithms"),
        ("provider_sect", "tabane = tabane_sect"),
        ("default_sect", "activate = 1"),
    ]:
        text, count = re.subn(rf"^\[ *{section} *\]\n", rf"\g<0>{line}\n", text, flags=re.M)
        if count != 1:
            sys.exit(f"{path} has no section {section}: another version of OpenSSL?")
    os.unlink(path)
    with open(path, "w") as file:
        file.write(f"{text}\n[tabane_sect]\nmodule = {provider}\nactivate = 1\n{settings}\n"
                   "[tabane_algorithms]\ndefault_properties = ?provider=tabane\n")


def run(openssl, sources, scratch, recipe):
    """Runs a recipe. Returns its output and its errors."""
    paths = glob.glob(os.path.join(sources, f"test/recipes/*-{recipe}.t"))
    if len(paths) != 1:
        sys.exit(f"cannot find the recipe {recipe} in {openssl}/test/recipes")
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("HARNESS_", "OPENSSL_", "OSSL_"))}
    # As test/run_tests.pl does, which mixes the two outputs.
    environment |= {
        "SRCTOP": sources, "BLDTOP": openssl, "RESULT_D": scratch, "PERL": "perl", "EXE_EXT": "",
        "OPENSSL_CONF": os.path.join(sources, UNNAMED),
        "OPENSSL_CONF_INCLUDE": os.path.join(openssl, "test"),
        "OPENSSL_MODULES": os.path.join(openssl, "providers"),
        "OPENSSL_ENGINES": os.path.join(openssl, "engines"),
        "CTLOG_FILE": os.path.join(sources, "test/ct/log_list.cnf"),
        "MALLOC_PERTURB_": "128",
    }
    test = subprocess.run(["perl", "-I", os.path.join(sources, "util/perl"), *paths],
                          env=environment, cwd=openssl, capture_output=True, text=True,
                          errors="replace")
    return test.stdout, test.stderr


def parse(output, errors):
    """Returns the result of each subtest by its path. A test prints its subtests first."""
    results, below = {}, []

    def add(key, result):
        while key in results:
            key += " (again)"
        results[key] = result

    for line in output.splitlines():
        if found := SUBTEST.match(line):
            depth, name = len(found[1]), re.sub(r"\S*/", "", found[3] or "")
            for deeper, path, _ in below:
                if deeper > depth:
                    path.insert(0, name)
            below = [(min(deeper, depth), path, result) for deeper, path, result in below]
            result = (0, 1, 0) if found[2] == "not ok" else (0, 0, 1) if found[4] else (1, 0, 0)
            below.append((depth, [name], result))
            if depth == 0:
                for _, path, result in below:
                    add(" > ".join(path), result)
                below = []
    file = None
    for line in errors.splitlines():
        if found := FILE.match(line):
            file = tuple(map(int, found.groups()))
        elif file and (found := re.match(r".*/(\S+) => \d+$", line)):
            add(f"tests in {found[1]}", (file[0] - file[1], file[1], file[2]))
            file = None
    return results


def words(result):
    """Describes numbers of passed, failed and skipped tests."""
    return ", ".join(f"{number} {name}" for number, name in
                     zip(result, ("passed", "failed", "skipped")) if number) or "nothing"


def compare(recipe, without, ours):
    """Prints what differs. Returns the number of differences for which there is no reason."""
    wrong, missing = 0, [key for key in without if key not in ours]
    if missing:
        wrong = len(missing)
        print(f"  DIFFERS: {wrong} subtests do not end with the provider, the first: {missing[0]}")
    different = [key for key, after in ours.items() if after != without.get(key, ())]
    for key in different:
        if any(other.startswith(f"{key} > ") for other in different):
            continue
        reasons = [why for what, why in EXPECTED.items() if re.search(what, f"{recipe}: {key}")]
        wrong += not reasons
        print(f"  {'expected' if reasons else 'DIFFERS'}: {key}: without "
              f"{words(without.get(key, ()))}, with {words(ours[key])}"
              + "".join(f" ({why})" for why in reasons))
    return wrong


def main():
    parser = argparse.ArgumentParser(description="OpenSSL's own tests with Tabane's provider")
    parser.add_argument("openssl")
    parser.add_argument("--provider",
                        default=os.path.join(HERE, "../../target/release/libtabane_provider.so"))
    parser.add_argument("--tests", default=TESTS)
    parser.add_argument("--hashes", default="yes", help="the provider's setting (default: yes)")
    parser.add_argument("-v", action="store_true", help="print what tests print if they differ")
    options = parser.parse_args()
    openssl, provider = os.path.abspath(options.openssl), os.path.abspath(options.provider)
    if not os.path.exists(provider):
        sys.exit(f"cannot find the provider {provider}; build it with cargo build --release")
    wrong, used = 0, collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        plain, ours, report = [os.path.join(scratch, name) for name in ("plain", "ours", "report")]
        mirror(openssl, plain)
        mirror(openssl, ours)
        settings = f"report = {report}\nhashes = {options.hashes}\n"
        for path in [os.path.join(ours, name) for name in CONFIGURATIONS]:
            # OpenSSL 3.0 has no default-recordpadding.cnf.
            if os.path.exists(path):
                prefer(path, provider, settings)
        for recipe in options.tests.split():
            unnamed = os.path.join(ours, UNNAMED)
            os.unlink(unnamed)
            os.symlink(os.path.join(openssl, UNNAMED), unnamed)
            if recipe not in WITHOUT_UNNAMED:
                prefer(unnamed, provider, settings)
            printed = [run(openssl, folder, scratch, recipe) for folder in (plain, ours)]
            results = [parse(*texts) for texts in printed]
            for name, result in zip(("without", "with"), results):
                sums = [sum(numbers) for numbers in zip(*result.values())] or [0, 0, 0]
                print(f"{recipe} {name} the provider: {sums[0]} passed, {sums[1]} failed, "
                      f"{sums[2]} skipped", flush=True)
                if sums[1] and not sums[0]:
                    sys.exit(f"{recipe} fails: are OpenSSL's tests built?")
            differences = compare(recipe, *results)
            wrong += differences
            if differences and options.v:
                print("\n".join(text for texts in printed for text in texts))
        if os.path.exists(report):
            used.update(open(report).read().split())
    print("programs that took an algorithm from the provider: "
          + (", ".join(f"{name} {count}" for name, count in sorted(used.items())) or "none"))
    sys.exit(1 if wrong or not used else 0)


if __name__ == "__main__":
    main()
