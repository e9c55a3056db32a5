"""The hashes of a tree for DVC and git-annex (DataLad), with all files hashed side by side.

    python tree_hashes.py dvc FOLDER      # then: dvc add FOLDER
    python tree_hashes.py annex FOLDER

`dvc` puts the hashes where DVC keeps those that it has computed, so that `dvc add` looks them up
instead of hashing one file after another. `annex` prints the keys that `git annex calckey` would.
"""

import os
import sys
from pathlib import Path

import tabane


def files_below(folder):
    """Regular files, sorted."""
    paths = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", ".dvc")]
        paths += [Path(place, name) for name in names]
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


def fill_dvc(folder):
    """Hashes a folder of a DVC project for `dvc add`; returns the number of files."""
    from dvc.fs import LocalFileSystem
    from dvc.repo import Repo
    from dvc_data.hashfile.hash_info import HashInfo

    paths = [os.fspath(path) for path in files_below(os.path.abspath(folder))]
    local = LocalFileSystem()
    # Before the files are read: DVC hashes again what changes afterwards.
    infos = [local.info(path) for path in paths]
    digests = tabane.hash_files(paths, "md5")
    hashes = [HashInfo("md5", digest.hex()) for digest in digests]
    with Repo(folder) as repo:
        repo.state.save_many(zip(paths, hashes, infos), local)
    return len(paths)


def annex_extension(name, parts_max=2, part_len_max=4):
    """The end of a file's name that git-annex keeps in a key, as it is configured at first."""
    kept = []
    for part in reversed(name.lstrip(".").split(".")[1:]):
        if len(kept) == parts_max or not (part.isalnum() and len(part) <= part_len_max):
            break
        kept.insert(0, part)
    return "".join(f".{part}" for part in kept)


def annex_keys(folder, backend="SHA256E"):
    """The key that git-annex gives to each file."""
    paths = files_below(folder)
    digests = tabane.hash_files(paths, backend.removesuffix("E").lower())
    keys = {}
    for path, digest in zip(paths, digests):
        extension = annex_extension(path.name) if backend.endswith("E") else ""
        keys[path] = f"{backend}-s{path.stat().st_size}--{digest.hex()}{extension}"
    return keys


if __name__ == "__main__":
    what, folder = sys.argv[1:]
    if what == "dvc":
        print(f"{fill_dvc(folder)} files hashed for dvc add {folder}")
    else:
        for path, key in annex_keys(folder).items():
            print(f"{key}  {path}")
