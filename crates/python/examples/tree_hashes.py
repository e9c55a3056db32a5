"""What DVC and git-annex (DataLad) compute of a tree, with all files hashed side by side.

    python tree_hashes.py FOLDER

DVC names a folder by the MD5 of a JSON list of its files' MD5s; git-annex names a file by its
length, its hash and the end of its name.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import tabane


def files_below(folder):
    """Regular files, by their path below the folder."""
    paths = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", ".dvc")]
        paths += [Path(place, name) for name in names]
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def dvc_directory(folder):
    """The name that DVC gives to a folder, and the list that it is the hash of."""
    paths = files_below(folder)
    digests = tabane.hash_files(paths, "md5")
    listed = [
        {"md5": digest.hex(), "relpath": path.relative_to(folder).as_posix()}
        for path, digest in zip(paths, digests)
    ]
    listed.sort(key=lambda file: file["relpath"])
    text = json.dumps(listed, sort_keys=True)
    return hashlib.md5(text.encode()).hexdigest() + ".dir", listed


def annex_keys(folder, backend="MD5E"):
    """The key that git-annex gives to each file."""
    paths = files_below(folder)
    digests = tabane.hash_files(paths, backend.removesuffix("E").lower())
    return {
        path: f"{backend}-s{path.stat().st_size}--{digest.hex()}{path.suffix}"
        for path, digest in zip(paths, digests)
    }


if __name__ == "__main__":
    name, listed = dvc_directory(sys.argv[1])
    print(f"DVC: {name}, {len(listed)} files")
    for path, key in annex_keys(sys.argv[1], "SHA256E").items():
        print(f"git-annex: {key}  {path}")
