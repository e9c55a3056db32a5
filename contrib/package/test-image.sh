#!/bin/sh
# Runs a backup and a restore in the container image of make dist, without a daemon and without root:
#
#   test-image.sh TABANE-VERSION-oci.tar
#
# Started by a user that is not root and has a range in /etc/subuid, with skopeo, umoci, uidmap and runc (or
# RUNTIME=crun) installed, and user namespaces allowed. The root file
# system is read-only; the container's user is that of the image.
set -eu
image=$1 runtime=${RUNTIME:-runc}
work=$(mktemp -d)
# What the container's user has made belongs to a user of the range.
trap 'unshare --map-root-user --map-auto rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

skopeo copy -q "oci-archive:$image" "oci:$work/layout:tabane"
umoci unpack --rootless --image "$work/layout:tabane" "$work/bundle" 2> /dev/null
[ "$(umoci stat --image "$work/layout:tabane" --json | tr , '\n' | grep -c '"layer"')" = 1 ] || fail 'more than one layer'
[ ! -e "$work/bundle/rootfs/bin/sh" ] || fail 'there is a shell'
mkdir "$work/repository" "$work/cache" "$work/restored" "$work/empty" "$work/secrets"
printf 'a password' > "$work/secrets/password"
chmod 755 "$work"
chmod 777 "$work/repository" "$work/cache" "$work/restored" "$work/empty"

# run ARGUMENTS…: the command in a container, as `docker run --read-only -v …` starts it.
run() {
    python3 - "$work" "$@" << 'END'
import json, os, pwd, sys
work, *arguments = sys.argv[1:]
file = f"{work}/bundle/config.json"
config = json.load(open(file))
process = config["process"]
process["terminal"] = False
process["args"] = ["/usr/bin/tabane", *arguments]
process["capabilities"] = {}
process["env"] = ["PATH=/usr/bin", "HOME=/", "TABANE_CACHE_DIR=/cache", "TABANE_REPOSITORY=/repository",
                  "TABANE_PASSWORD_FILE=/run/secrets/password"]
config["root"]["readonly"] = True
# As rootless runtimes do it: root of the container is the user, all others are from the user's range.
linux = config["linux"]
name = pwd.getpwuid(os.getuid()).pw_name
for key, file_of_ranges, number in (("uidMappings", "/etc/subuid", os.getuid()), ("gidMappings", "/etc/subgid", os.getgid())):
    first = next(int(line.split(":")[1]) for line in open(file_of_ranges) if line.startswith(f"{name}:"))
    linux[key] = [{"containerID": 0, "hostID": number, "size": 1}, {"containerID": 1, "hostID": first, "size": 65536}]
linux.pop("resources", None)
kept = ("/proc", "/dev")
config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] in kept]
for source, destination, mode in (
    ("/usr/share/doc/base-files", "/data", "ro"),
    (f"{work}/repository", "/repository", "rw"),
    (f"{work}/cache", "/cache", "rw"),
    (f"{work}/restored", "/restored", "rw"),
    (f"{work}/empty", "/empty", "rw"),
    (f"{work}/secrets", "/run/secrets", "ro"),
):
    if destination != os.environ.get("WITHOUT"):
        config["mounts"].append({"destination": destination, "type": "bind", "source": source,
                                 "options": ["rbind", mode]})
json.dump(config, open(file, "w"))
END
    "$runtime" --root "$work/state" run --bundle "$work/bundle" "tabane-$$"
}

run version
run init
run backup --host test /data
run check --read-data
run restore latest:/data --target /restored/data
diff -r --no-dereference /usr/share/doc/base-files "$work/restored/data" || fail 'not what was backed up'
[ -n "$(ls "$work/cache")" ] || fail 'nothing is in the cache'

echo 'Without what a container may lack:'
! run restore latest:/data --target /nowhere || fail 'a restore wrote to a read-only root file system'
! run mount /empty || fail 'a mount without FUSE succeeded'
WITHOUT=/cache run backup --host test /data
! WITHOUT=/run/secrets run snapshots || fail 'there is no password'
echo 'the image works'
