#!/bin/sh
# Runs after the files of the package are in place, first and at each upgrade.
set -e
units=/usr/lib/systemd/system

# The users as whom daemons run, and the group that may use the offload service, as the units name them.
for group in $(sed -n 's/^Group=//p' $units/tabane-*.service); do
    getent group "$group" > /dev/null || groupadd --system "$group"
done
for user in $(sed -n 's/^User=//p' $units/tabane-*.service); do
    getent passwd "$user" > /dev/null || useradd --system --user-group --comment Tabane \
        --home-dir "/var/lib/$user" --no-create-home --shell /usr/sbin/nologin "$user"
done

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# Daemons that run go on with the new program.
for unit in $units/tabane-*.service; do
    ! grep -q '^Restart=' "$unit" || systemctl try-restart "${unit##*/}" || true
done
