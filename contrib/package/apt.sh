#!/bin/sh
# Installs packages of Debian, as root or by sudo: apt.sh PACKAGE…
set -eu
if [ "$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi
install() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" < /dev/null
}
install "$@" || { $sudo apt-get update -q < /dev/null && install "$@"; }
