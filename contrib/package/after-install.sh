#!/bin/sh
# Runs after the files of the package are in place, first and at each upgrade.
set -e
if command -v systemd-sysusers > /dev/null; then
    systemd-sysusers tabane.conf
else
    getent group tabane-offload > /dev/null || groupadd --system tabane-offload
    getent passwd tabane > /dev/null || useradd --system --user-group --comment Tabane \
        --home-dir /var/lib/tabane --no-create-home --shell /usr/sbin/nologin tabane
fi
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# Daemons that run go on with the new program; a backup that runs ends with the old one.
for unit in /usr/lib/systemd/system/tabane-*.service; do
    ! grep -q '^Restart=' "$unit" || systemctl try-restart "${unit##*/}" || true
done
