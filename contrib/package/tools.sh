#!/bin/sh
# Installs what make dist builds with, into the target folder, once for each set of versions. Prints the folder.
set -eu
cd "$(dirname "$0")/../.."
place=$(contrib/package/target.sh)/tools/dist
wanted="$(cat contrib/package/requirements.txt) cargo-auditable@0.7.7 cargo-cyclonedx@0.5.9"
if [ "$(cat "$place/versions" 2> /dev/null)" != "$wanted" ]; then
    {
        python3 -m venv --clear "$place"
        "$place/bin/pip" install -q -r contrib/package/requirements.txt
        cargo install --locked --root "$place" cargo-auditable@0.7.7 cargo-cyclonedx@0.5.9
    } >&2
    printf '%s' "$wanted" > "$place/versions"
fi
echo "$place"
