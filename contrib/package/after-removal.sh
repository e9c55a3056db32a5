#!/bin/sh
# Runs after the files of the package are gone.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
