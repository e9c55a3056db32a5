"""The hashes that uploads of many shards need, all shards side by side.

    python upload_hashes.py FILE...

The Hugging Face hub wants the SHA-256 and the length of each file (Git LFS), S3 an ETag.
"""

import os
import sys

import tabane


def lfs_pointers(paths, progress=None):
    """What Git LFS and the Hugging Face hub ask of each file before it is uploaded."""
    digests = tabane.hash_files(paths, "sha256", progress=progress)
    return [
        {"path": os.fspath(path), "oid": digest.hex(), "size": os.stat(path).st_size}
        for path, digest in zip(paths, digests)
    ]


def show(files, read):
    print(f"\r{files} files, {read / 1e9:.1f} GB", end="", file=sys.stderr)


if __name__ == "__main__":
    for pointer in lfs_pointers(sys.argv[1:], show if sys.stderr.isatty() else None):
        print(pointer["oid"], pointer["size"], tabane.etag(pointer["path"]), pointer["path"])
