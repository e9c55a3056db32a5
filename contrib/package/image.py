#!/usr/bin/env python3
"""Makes the container image as an archive in OCI's layout, without a daemon and without root.

    image.py VERSION OUTPUT.tar x86_64=PROGRAMS:ROOT aarch64=PROGRAMS:ROOT

PROGRAMS is a folder that build.sh has laid out, ROOT one of debian-root.sh with libc6, ca-certificates and tzdata.
Each processor's image has one layer: the command, the C library, certificates and time zones, and no shell. Bytes
depend on these files and on SOURCE_DATE_EPOCH only. The formats are those of the OCI Image Specification 1.1.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])

# The numbers that Kubernetes and others know as "not root".
USER = 65532

# What programs with glibc load: the libraries that tabane is linked with, and those that look up host names.
LIBRARIES = "libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2 libnss_dns.so.2 " \
    "libnss_files.so.2"

# OCI's name of a processor, and the path of the loader that programs for it name.
PROCESSORS = {
    "x86_64": ("amd64", "lib64/ld-linux-x86-64.so.2"),
    "aarch64": ("arm64", "lib/ld-linux-aarch64.so.1"),
}

PASSWD = f"root:x:0:0:root:/:/\ntabane:x:{USER}:{USER}:Tabane:/:/\n"
GROUP = f"root:x:0:\ntabane:x:{USER}:\n"


class Layer:
    """A tar archive whose entries are added in order of their names."""

    def __init__(self):
        self.entries = {}

    def directory(self, name, mode=0o755):
        if parent := os.path.dirname(name):
            self.entries.get(parent) or self.directory(parent)
        self.entries[name] = (tarfile.DIRTYPE, mode, b"")

    def file(self, name, content, mode=0o644):
        self.directory(os.path.dirname(name))
        self.entries[name] = (tarfile.REGTYPE, mode, content)

    def tar(self):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, (kind, mode, content) in sorted(self.entries.items()):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode, entry.mtime, entry.size = kind, mode, EPOCH, len(content)
                tar.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()


def layer(processor, programs, root):
    """The whole file system of an image."""
    made = Layer()
    made.directory("tmp", 0o1777)
    made.directory("cache", 0o1777)
    made.file("usr/bin/tabane", (programs / "bin/tabane").read_bytes(), 0o755)
    multiarch = f"lib/{processor}-linux-gnu"
    loader = PROCESSORS[processor][1]
    made.file(loader, (root / multiarch / os.path.basename(loader)).read_bytes(), 0o755)
    for name in LIBRARIES.split():
        made.file(f"{multiarch}/{name}", (root / multiarch / name).read_bytes(), 0o755)
    authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    made.file("etc/ssl/certs/ca-certificates.crt", b"".join(file.read_bytes() for file in authorities))
    zones = root / "usr/share/zoneinfo"
    for zone in sorted(zones.rglob("*")):
        name = zone.relative_to(zones)
        if zone.is_file() and name.parts[0] not in ("posix", "right"):
            made.file(f"usr/share/zoneinfo/{name}", zone.read_bytes())
    made.file("etc/passwd", PASSWD.encode())
    made.file("etc/group", GROUP.encode())
    made.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    for package in (line.split()[0] for line in packages(root)):
        notice = f"usr/share/doc/{package}/copyright"
        made.file(notice, (root / notice).read_bytes())
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        made.file(f"usr/share/doc/tabane/{licence}", (programs / "share/doc/tabane" / licence).read_bytes())
    return made.tar()


def packages(root):
    """Packages below a folder of debian-root.sh: name, version and architecture, a line each."""
    return root.with_name(root.name + ".packages").read_text().splitlines()


class Layout:
    """OCI's layout: each object is a file with its SHA-256 as its name."""

    def __init__(self):
        self.files = {}

    def put(self, content, kind, **more):
        digest = hashlib.sha256(content).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}",
                "size": len(content), **more}

    def put_json(self, value, kind, **more):
        return self.put(json.dumps(value, indent=1, sort_keys=True).encode(), kind, **more)

    def write(self, output):
        made = Layer()
        for name, content in self.files.items():
            made.file(name, content)
        Path(output).write_bytes(made.tar())


def main(version, output, *sources):
    labels = {
        "org.opencontainers.image.title": "tabane",
        "org.opencontainers.image.description": "Encrypted, deduplicated backups of files",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.source": "https://github.com/tabane/tabane",
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    }
    created = datetime.fromtimestamp(EPOCH, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    layout = Layout()
    manifests = []
    for source in sources:
        processor, _, folders = source.partition("=")
        programs, root = (Path(folder) for folder in folders.split(":"))
        architecture = PROCESSORS[processor][0]
        content = layer(processor, programs, root)
        base = {"org.tabane.image.packages": ", ".join(packages(root))}
        config = layout.put_json({
            "created": created,
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "Env": ["PATH=/usr/bin", "HOME=/", "TABANE_CACHE_DIR=/cache"],
                "Entrypoint": ["/usr/bin/tabane"],
                "Cmd": ["--help"],
                "Volumes": {"/cache": {}},
                "WorkingDir": "/",
                "Labels": labels | base,
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
            "history": [{"created": created, "created_by": "contrib/package/image.py"}],
        }, "config.v1+json")
        manifests.append(layout.put_json({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [layout.put(gzip.compress(content, mtime=0), "layer.v1.tar+gzip")],
        }, "manifest.v1+json", platform={"architecture": architecture, "os": "linux"}))
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json"}
    both = layout.put_json(index | {"manifests": manifests, "annotations": labels}, "index.v1+json",
                           annotations={"org.opencontainers.image.ref.name": version})
    layout.files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    layout.files["index.json"] = json.dumps(index | {"manifests": [both]}).encode()
    layout.write(output)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
