#!/bin/sh
# Prints cargo's target folder.
set -eu
cd "$(dirname "$0")/../.."
cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
