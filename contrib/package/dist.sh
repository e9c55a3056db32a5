#!/bin/sh
# Makes all that a release consists of, in the folder dist of cargo's target folder: make dist
#
#   tabane-VERSION-PROCESSOR-linux.tar.gz    the programs, as they lie below /usr/local
#   tabane-VERSION-PROCESSOR-linux.cdx.json  what they are made of, in CycloneDX
#   *.deb, *.rpm                             packages of Debian's and Fedora's kinds
#   tabane-VERSION-oci.tar                   the container image, for both processors
#   SHA256SUMS
#
# PROCESSORS names fewer processors; this machine's must be among them. Two runs for one commit, with the same compilers and, for the image, the same
# packages of Debian, make the same bytes.
set -eu
cd "$(dirname "$0")/../.."
processors=${PROCESSORS:-x86_64 aarch64}
target=$(contrib/package/target.sh)
output=$target/dist
stages=$target/dist-stages
version=$(cargo pkgid -p tabane | sed 's/.*[@#:]//')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
rm -rf "$output" "$stages"
mkdir -p "$output" "$stages"

# The machine's own processor first: its command writes the pages and completions of all.
for processor in $(uname -m) x86_64 aarch64; do
    case " $processors " in *" $processor "*) ;; *) continue ;; esac
    name=tabane-$version-$processor-linux
    stage=$stages/$name
    [ ! -e "$stage" ] || continue
    contrib/package/build.sh "$processor" "$stage"
    export TABANE="${TABANE:-$stage/bin/tabane}"

    tar -C "$stages" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
        gzip -9n > "$output/$name.tar.gz"
    contrib/package/sbom.sh "$processor" > "$output/$name.cdx.json"
    contrib/package/deb.sh "$processor" "$stage" "$version" "$output"
    contrib/package/rpm.sh "$processor" "$stage" "$version" "$output"

    case $processor in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; esac
    contrib/package/debian-root.sh "$architecture" "$stages/$architecture" libc6 ca-certificates tzdata
    set -- "$@" "$processor=$stage:$stages/$architecture"
done
python3 contrib/package/image.py "$version" "$output/tabane-$version-oci.tar" "$@"
(cd "$output" && sha256sum -- * > ../SHA256SUMS && mv ../SHA256SUMS .)
cat "$output/SHA256SUMS"
