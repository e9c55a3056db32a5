#!/bin/sh
# Unpacks packages of the Debian that runs here, for any architecture, below a folder. Nothing is installed:
#
#   debian-root.sh arm64 FOLDER PACKAGE…
#
# A package may be NAME|NAME, which is the first that this Debian has.
set -eu
architecture=$1 folder=$2
shift 2
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
state=$folder.apt
mkdir -p "$state/lists/partial" "$state/archives/partial"
: > "$state/status"
apt() {
    program=$1
    shift
    "$program" -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o Dir::State::status="$state/status" -o Dir::State::lists="$state/lists" \
        -o Dir::Cache::archives="$state/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Sandbox::User=root "$@"
}
apt apt-get update
for package in "$@"; do
    for name in $(echo "$package" | tr '|' ' '); do
        apt apt-cache show "$name" > /dev/null 2>&1 || continue
        (cd "$state" && apt apt-get download "$name")
        break
    done
done
for package in "$state"/*.deb; do
    dpkg-deb -x "$package" "$folder"
done
# One line a package, for whoever asks what it is made of.
for package in "$state"/*.deb; do
    dpkg-deb -W --showformat='${Package} ${Version} ${Architecture}\n' "$package"
done > "$folder.packages"
rm -rf "$state"
