//! Snapshots of ZFS.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::mounts::Mount;
use super::{Result, Snapshot, View, remove_left, run};

/// What names of snapshots begin with.
const PREFIX: &str = "tabane-";

/// A snapshot.
pub struct Zfs {
    /// `DATASET@NAME`.
    name: OsString,
    directory: PathBuf,
}

impl Zfs {
    /// Takes a snapshot of a dataset.
    pub fn take(mount: &Mount, name: &str) -> Result<Self> {
        let name = format!("{PREFIX}{name}");
        let directory = mount.point.join(".zfs/snapshot").join(&name);
        let mut full = mount.source.clone();
        full.push(format!("@{name}"));
        run("zfs", [OsStr::new("snapshot"), full.as_os_str()])?;
        let taken = Self {
            name: full,
            directory,
        };
        // The first look into it mounts it.
        match std::fs::read_dir(&taken.directory) {
            Ok(_) => Ok(taken),
            Err(error) => {
                let directory = taken.directory.display().to_string();
                let _ = taken.remove();
                Err(format!("cannot read the snapshot {directory}: {error}"))
            }
        }
    }
}

impl Snapshot for Zfs {
    fn view(&self) -> View {
        View::Directory(self.directory.clone())
    }

    fn remove(&self) -> Result<()> {
        run("zfs", [OsStr::new("destroy"), &self.name]).map(drop)
    }
}

/// Removes the snapshots of a dataset that dead processes left.
pub fn remove_leftovers(dataset: &OsStr) {
    let args = ["list", "-H", "-t", "snapshot", "-d", "1", "-o", "name"].map(OsStr::new);
    let listed = run("zfs", args.into_iter().chain([dataset])).unwrap_or_default();
    let names = listed.lines().filter_map(|line| line.split_once('@'));
    let names = names.filter_map(|(_, name)| name.strip_prefix(PREFIX));
    remove_left(names, |name| {
        let mut full = dataset.to_owned();
        full.push(format!("@{PREFIX}{name}"));
        run("zfs", [OsStr::new("destroy"), &full])
    });
}
