//! Snapshots of btrfs: read-only subvolumes, made within the subvolume that they show.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::mounts::Mount;
use super::{Result, Snapshot, View, remove_left, run};
use crate::format;

/// Inode number of the root of every subvolume.
const ROOT_INODE: u64 = 256;

/// What names of snapshots begin with.
const PREFIX: &str = ".tabane-snapshot-";

/// A snapshot.
pub struct Btrfs {
    path: PathBuf,
}

impl Btrfs {
    /// Takes a snapshot of a subvolume.
    pub fn take(subvolume: &Path, name: &str) -> Result<Self> {
        let path = subvolume.join(format!("{PREFIX}{name}"));
        let args: [OsString; 5] = [
            "subvolume".into(),
            "snapshot".into(),
            "-r".into(),
            subvolume.into(),
            path.clone().into(),
        ];
        run("btrfs", args)?;
        Ok(Self { path })
    }
}

impl Snapshot for Btrfs {
    fn view(&self) -> View {
        View::Directory(self.path.clone())
    }

    fn remove(&self) -> Result<()> {
        delete(&self.path).map(drop)
    }
}

fn delete(path: &Path) -> Result<String> {
    run("btrfs", [Path::new("subvolume"), Path::new("delete"), path])
}

/// Removes the snapshots in a subvolume that dead processes left.
pub fn remove_leftovers(subvolume: &Path) {
    let entries = fs::read_dir(subvolume).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names
        .filter_map(|name| Some(name.strip_prefix(PREFIX)?.to_owned()))
        .collect();
    remove_left(names.iter().map(String::as_str), |name| {
        delete(&subvolume.join(format!("{PREFIX}{name}")))
    });
}

/// The subvolumes of a mounted file system that hold sources, and all below these.
///
/// # Errors
/// When they cannot be listed.
pub fn subvolumes(mount: &Mount, sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for source in sources {
        let top = if source.starts_with(&mount.point) {
            holder(source)?
        } else if mount.point.starts_with(source) {
            mount.point.clone()
        } else {
            continue;
        };
        let mut next = vec![top];
        while let Some(subvolume) = next.pop() {
            if found.contains(&subvolume) {
                continue;
            }
            let list: [OsString; 4] = [
                "subvolume".into(),
                "list".into(),
                "-o".into(),
                subvolume.clone().into(),
            ];
            next.extend(below(&run("btrfs", list)?, mount));
            found.push(subvolume);
        }
    }
    found.sort();
    Ok(found)
}

/// The root of the subvolume that a path is in.
fn holder(path: &Path) -> Result<PathBuf> {
    for above in path.ancestors() {
        let found = fs::symlink_metadata(above)
            .map_err(|error| format!("cannot read {}: {error}", format::path(above)))?;
        if found.is_dir() && found.ino() == ROOT_INODE {
            return Ok(above.to_owned());
        }
    }
    Err(format!(
        "{} is in no subvolume of btrfs",
        format::path(path)
    ))
}

/// The mount's subvolumes in a list as `ID 257 gen 7 top level 5 path @home/ada`, without snapshots
/// of backups.
fn below(list: &str, mount: &Mount) -> Vec<PathBuf> {
    let root = mount.root.strip_prefix("/").unwrap_or(&mount.root);
    let paths = list
        .lines()
        .filter_map(|line| Some(line.split_once(" path ")?.1));
    let visible = paths.filter_map(|path| Path::new(path).strip_prefix(root).ok());
    let wanted = visible.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        !name.is_some_and(|name| name.starts_with(PREFIX))
    });
    wanted.map(|path| mount.point.join(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_subvolumes_are_found_where_they_are_mounted() {
        let mount = Mount {
            point: "/home".into(),
            root: "/@home".into(),
            kind: "btrfs".to_owned(),
            source: "/dev/sdb".into(),
            is_read: true,
        };
        let list = "ID 257 gen 7 top level 256 path @home/ada/with space\n\
            ID 258 gen 7 top level 256 path @home/.tabane-snapshot-12-ab\n\
            ID 259 gen 7 top level 5 path @other\n";
        assert_eq!(below(list, &mount), [PathBuf::from("/home/ada/with space")]);
    }
}
