#!/bin/sh
# Makes RPM's packages of what build.sh has laid out: rpm.sh x86_64|aarch64 FOLDER VERSION OUTPUT
#
# tabane, libtabane and libtabane-devel, as tabane.spec says. Needs rpmbuild, of any system. SOURCE_DATE_EPOCH is the
# time of all files.
set -eu
processor=$1 folder=$2 version=$3 output=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rpmbuild --quiet -bb --target "$processor-linux" --define "_topdir $work" --define "_rpmdir $work/made" \
    --define "release_version $version" --define "built $(cd "$folder" && pwd)" --define "packaging $here" \
    "$here/tabane.spec"
cp "$work"/made/*/*.rpm "$output"
