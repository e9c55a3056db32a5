#!/bin/sh
# Backs up and restores with the tabane that is installed, and ends with an error unless all files come back.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export TABANE_REPOSITORY="$place/repository" TABANE_PASSWORD_FILE="$place/password" TABANE_CACHE_DIR="$place/cache"
(umask 077; head -c 18 /dev/urandom | od -An -tx1 > "$TABANE_PASSWORD_FILE")
tabane version
tabane -q init
tabane backup /etc
tabane check --read-data
tabane restore latest:/etc --target "$place/etc"
(cd /etc && tabane sum --recursive .) > "$place/sums"
(cd "$place/etc" && tabane sum --check --quiet "$place/sums")
echo "tabane works: $(wc -l < "$place/sums") files came back"
