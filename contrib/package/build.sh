#!/bin/sh
# Builds what is released for one processor, and lays it out below a folder as in /usr:
#
#   build.sh x86_64|aarch64 FOLDER
#
# The programs need glibc 2.28 or later. They contain no path of this machine and no time, so that two builds of
# one commit with the same compilers are equal. Manual pages and completions come from FOLDER/bin/tabane, or from
# the program that the variable TABANE names where this machine cannot run that one.
set -eu
processor=$1 folder=$2
cd "$(dirname "$0")/../.."

target=$processor-unknown-linux-gnu
tools=$(contrib/package/tools.sh)
[ -d "$(rustc --print target-libdir --target "$target")" ] || rustup target add "$target"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
TABANE_COMMIT=$(git describe --always --dirty --abbrev=12 --exclude '*')
export SOURCE_DATE_EPOCH TABANE_COMMIT PATH="$tools/bin:$PATH"

# Paths become those of no machine; a wrapper of the compiler and its cache have no say.
home=${CARGO_HOME:-$HOME/.cargo}
export RUSTC_WRAPPER='' CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_STRIP=symbols
export RUSTFLAGS="--remap-path-prefix=$PWD=/tabane --remap-path-prefix=$home=/cargo"
flags="-ffile-prefix-map=$PWD=/tabane -ffile-prefix-map=$home=/cargo"
export "CFLAGS_$(echo "$target" | tr - _)=$flags"
# As cargo auditable does it, but that the wrapper has no folder: cargo mixes that into all names of our crates.
export RUSTC_WORKSPACE_WRAPPER=cargo-auditable
export CARGO_AUDITABLE_ORIG_ARGS='{"offline":false,"locked":true,"frozen":false,"config":[]}'
cargo zigbuild --locked --release --target "$target.2.28" -p tabane -p tabane-provider
# By itself: cargo-auditable keeps its list in a file with the name of the crate, and the library for C is named as the
# command is. Linked at the same time, one could get the other's list.
cargo zigbuild --locked --release --target "$target.2.28" -p tabane-capi
unset RUSTC_WORKSPACE_WRAPPER

built=$(contrib/package/target.sh)/$target/release
rm -rf "$folder"
make --no-print-directory install-from install-lib-from FROM="$built" DESTDIR="$folder" PREFIX= \
    TABANE="${TABANE:-$built/tabane}"
mkdir -p "$folder/lib/systemd/system" "$folder/share/doc/tabane/examples"
cp contrib/systemd/* "$folder/lib/systemd/system"
cp README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE "$folder/share/doc/tabane"
cp contrib/package/config.toml contrib/container/* "$folder/share/doc/tabane/examples"
# Wherever the folder comes to lie.
sed -i 's:^prefix=.*:prefix=${pcfiledir}/../..:' "$folder/lib/pkgconfig/tabane.pc"
