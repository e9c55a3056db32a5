#!/bin/sh
# Tests the Python package in a virtual environment that is made anew: see make test-python.
#
# PYTHON is the interpreter. WHEELS is a folder of wheels, of which pip takes the one that fits; without one, the
# library that the other tests have compiled, too, is made a wheel, unless something is missing on this machine. The
# arguments go to pip: what else to install.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3} wheels=${WHEELS:-} cargo=${CARGO:-cargo}
if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
    printf '\n%s\n\n' "NOT RUN: the Python package: $python is not Python 3.10 or later with venv"
    exit 0
fi
if [ -z "$wheels" ]; then
    target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    place=$target/python
    set -- "$@" 'maturin>=1.16,<2' wheel
else
    place=$(cd "$wheels" && pwd)
fi
bin=$place/venv/bin
printf '\n%s\n' "=== Python package, $("$python" --version) ==="
"$python" -m venv --clear "$place/venv"
"$bin/pip" install -q --no-compile -r crates/python/tests/requirements.txt "$@" || {
    printf '\n%s\n\n' "NOT RUN: the Python package: pip cannot install what its tests need"
    [ -z "$wheels" ]
    exit
}

if [ -z "$wheels" ]; then
    # The features are those of the examples, so that only PyO3 and the package itself are compiled.
    # shellcheck disable=SC2086 # Words.
    $cargo build ${CARGOFLAGS:-} --workspace --lib --examples --features tabane-python/extension
    wheels=$place/wheels package=$place/package
    rm -rf "$package" "$wheels"
    mkdir "$wheels"
    cp -R crates/python/python "$package"
    strip --strip-debug -o "$package/tabane/_tabane.abi3.so" "$target/debug/lib_tabane.so"
    (cd crates/python && "$bin/maturin" pep517 write-dist-info --metadata-directory "$package" -i "$bin/python") > /dev/null
    "$bin/wheel" pack "$package" -d "$wheels" > /dev/null
fi
"$bin/pip" install -q --no-deps --no-index --find-links "$wheels" tabane
# Packages may bring programs, such as git-annex.
PATH="$bin:$PATH" "$bin/python" -m pytest -q -p no:cacheprovider crates/python/tests
if [ -x "$bin/stubtest" ]; then
    "$bin/stubtest" --ignore-disjoint-bases --allowlist crates/python/tests/stubtest.txt tabane
else
    printf '\n%s\n\n' "NOT RUN: the stubs of the Python package: mypy is not installed (crates/python/tests/extra.txt)"
fi
