#!/bin/sh
# Runs before the files of the package go. Neither settings in /etc/tabane nor data are touched.
set -e
case $1 in
remove | 0) ;;
*) exit 0 ;; # an upgrade
esac
command -v systemctl > /dev/null || exit 0
now=
[ ! -d /run/systemd/system ] || now=--now
for unit in /usr/lib/systemd/system/tabane-*; do
    systemctl --no-reload disable $now "${unit##*/}" || true
done
