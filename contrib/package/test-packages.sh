#!/bin/sh
# Tries the packages and the archive of make dist on clean systems: as root,
#
#   test-packages.sh FOLDER-OF-DIST SUITE…
#
# A suite is a release of Debian, of which debootstrap makes a system, or a folder with a system to copy.
# For each suite: install the package, back up and restore, install once more over a node that serves, remove, and
# compare the list of files with that of before. Then the libraries and the archive. Prints how long it takes
# from the beginning of the installation to the end of the first backup.
set -eu
dist=$(cd "$1" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'umount -q "$work"/*/proc || true; rm -rf --one-file-system "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

for suite in "$@"; do
    echo "=== $suite ==="
    root=$work/${suite##*/}
    if [ -d "$suite" ]; then
        cp -a "$suite" "$root"
    else
        debootstrap --variant=minbase "$suite" "$root" > "$work/log" || fail "debootstrap: $(tail -n 5 "$work/log")"
    fi
    mount --bind /proc "$root/proc"
    inside="chroot $root /usr/bin/env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin"
    # But for logs, and copies that useradd makes of the list of users.
    files() {
        (cd "$root" && find . \( -path ./proc -o -path ./tmp -o -path ./var/log -o -path './etc/*shadow-' \
            -o -path './etc/passwd-' -o -path './etc/group-' -o -path './etc/sub?id-' \) -prune -o -print | sort)
    }
    files > "$work/before"
    cp "$dist"/*_"$architecture".deb "$dist"/tabane-*-"$(uname -m)"-linux.tar.gz "$here/try.sh" "$root/tmp"

    # A machine with systemd, as far as the package asks: it says what it is told to do.
    mkdir -p "$root/run/systemd/system"
    printf '#!/bin/sh\necho "systemctl $*" >> /tmp/systemctl\n' > "$root/usr/bin/systemctl"
    chmod 755 "$root/usr/bin/systemctl"

    start=$(date +%s%N)
    $inside sh -c 'dpkg -i /tmp/tabane_*.deb && mkdir /tmp/r && printf secret > /tmp/p &&
        tabane -q --repo /tmp/r/x --password-file /tmp/p init &&
        tabane -q --repo /tmp/r/x --password-file /tmp/p backup /etc'
    echo "from dpkg -i to the end of the first backup: $((($(date +%s%N) - start) / 1000000)) ms"
    $inside sh /tmp/try.sh
    $inside getent passwd tabane | grep -q /var/lib/tabane || fail 'there is no user tabane'
    $inside getent group tabane-offload > /dev/null || fail 'there is no group tabane-offload'
    [ "$(stat -c %a "$root/usr/bin/tabane")" = 755 ] || fail 'rights of the command'

    # Over a node that serves: it goes on until systemd starts it anew, and systemd is told to.
    $inside sh -c 'cd /tmp && tabane -q cluster create c.json --node a=127.0.0.1:26001 --node b=127.0.0.1:26002 \
        --node c=127.0.0.1:26003'
    $inside tabane node serve --node /tmp/c-a.json --dir /tmp/node > "$work/node.log" 2>&1 &
    node=$!
    sleep 2
    : > "$root/tmp/systemctl"
    $inside sh -c 'dpkg -i /tmp/tabane_*.deb'
    kill -0 "$node" || fail "a running node ended while its package was installed: $(cat "$work/node.log")"
    grep -q 'try-restart tabane-node.service' "$root/tmp/systemctl" || fail 'the node was not told to start anew'
    kill "$node"
    wait "$node" || true

    $inside dpkg -r tabane
    $inside dpkg -P tabane
    rm -r "$root/usr/bin/systemctl" "$root/run/systemd"
    files > "$work/after"
    diff "$work/before" "$work/after" || fail 'files are left after dpkg -P'

    # The loader finds the library; nothing here can compile a program.
    $inside sh -c 'dpkg -i /tmp/libtabane0_*.deb /tmp/libtabane-dev_*.deb && ldconfig -p | grep libtabane.so.0 &&
        dpkg -P libtabane-dev libtabane0'

    start=$(date +%s%N)
    $inside sh -c 'cd /tmp && tar -xzf tabane-*.tar.gz && PATH=$(echo /tmp/tabane-*-linux/bin):$PATH &&
        mkdir /tmp/r2 && tabane -q --repo /tmp/r2/x --password-file /tmp/p init &&
        tabane -q --repo /tmp/r2/x --password-file /tmp/p backup /etc'
    echo "from tar -x to the end of the first backup: $((($(date +%s%N) - start) / 1000000)) ms"
done
