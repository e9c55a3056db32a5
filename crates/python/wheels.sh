#!/bin/sh
# Builds wheels for the targets that are named, and the source distribution: see make wheels.
#
# Zig links against glibc 2.28 or musl 1.2, whichever this machine has. The stable ABI makes one wheel good for every
# Python from 3.10 on; PYTHON_FREE_THREADED names an interpreter without GIL, which needs a wheel of its own.
set -eu
cd "$(dirname "$0")/../.."
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
out=$target/wheels
tools=$target/tools/wheels
wanted='maturin==1.16.0 ziglang==0.17.1 auditwheel==6.8.2'
if [ "$(cat "$tools/versions" 2> /dev/null)" != "$wanted" ]; then
    python3 -m venv --clear "$tools"
    # shellcheck disable=SC2086 # Words.
    "$tools/bin/pip" install -q $wanted
    printf '%s' "$wanted" > "$tools/versions"
fi
export PATH="$tools/bin:$PATH"
# Flags of the machine, such as those that choose a linker, do not fit Zig.
export RUSTFLAGS="${WHEELS_RUSTFLAGS:-}"

build() { # TARGET INTERPRETER…
    triple=$1
    shift
    [ -d "$(rustc --print target-libdir --target "$triple")" ] || rustup target add "$triple"
    case $triple in
    *-musl) tag=musllinux_1_2 ;;
    *) tag=manylinux_2_28 ;;
    esac
    maturin build -m crates/python/Cargo.toml --locked --zig --target "$triple" --compatibility "$tag" \
        --compression-level 9 --auditwheel check -o "$out" "$@"
}

rm -rf "$out"
for triple; do
    build "$triple"
    if [ -n "${PYTHON_FREE_THREADED:-}" ] && [ "${triple%%-*}" = "$(uname -m)" ]; then
        build "$triple" -i "$PYTHON_FREE_THREADED"
    fi
done
maturin sdist -m crates/python/Cargo.toml -o "$out"
for wheel in "$out"/*.whl; do
    auditwheel show "$wheel"
done
ls -l "$out"
