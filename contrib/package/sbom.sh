#!/bin/sh
# Prints what the command, the provider and the library are made of, in CycloneDX: sbom.sh x86_64|aarch64
#
# The list is that of the command, which contains all crates of the other two. SOURCE_DATE_EPOCH is its time.
set -eu
cd "$(dirname "$0")/../.."
name=sbom-$1
# The tool writes one for each crate of the workspace, beside its sources.
trap 'rm -f crates/*/"$name.json"' EXIT
PATH=$(contrib/package/tools.sh)/bin:$PATH cargo cyclonedx --quiet --manifest-path crates/cli/Cargo.toml \
    --format json --spec-version 1.5 --target "$1-unknown-linux-gnu" --override-filename "$name" >&2
sed "s:file\://$PWD:file\:///tabane:" "crates/cli/$name.json"
