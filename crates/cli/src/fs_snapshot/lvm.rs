//! Snapshots of logical volumes: thick ones, which take room for changes, and thin ones.

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::mounts::Mount;
use super::{Result, Snapshot, View, remove_left, run};
use crate::format;

/// What names of snapshots begin with.
const PREFIX: &str = "tabane-";

/// For so long a snapshot that was just unmounted may still be in use.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A logical volume.
pub struct Volume {
    group: String,
    name: String,
    is_thin: bool,
}

/// A snapshot of one.
pub struct Lvm {
    /// `GROUP/NAME`.
    name: String,
    /// Where the volume is mounted.
    point: String,
    kind: String,
}

impl Volume {
    /// The logical volume that a file system is on, if it is on one.
    pub fn of(mount: &Mount) -> Option<Self> {
        if !Path::new(&mount.source).starts_with("/dev") {
            return None;
        }
        let columns = [
            "--noheadings",
            "--separator",
            "/",
            "-o",
            "vg_name,lv_name,pool_lv",
        ];
        let args = columns
            .map(OsStr::new)
            .into_iter()
            .chain([mount.source.as_os_str()]);
        // Other devices are unknown to LVM, which may not even be installed.
        let listed = run("lvs", args).ok()?;
        let mut fields = listed.trim().split('/');
        let (group, name, pool) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self {
            group: group.to_owned(),
            name: name.to_owned(),
            is_thin: !pool.is_empty(),
        })
    }

    /// Takes a snapshot. A thick one gets `size` for changes.
    pub fn take(&self, mount: &Mount, name: &str, size: &str) -> Result<Lvm> {
        let (origin, name) = (
            format!("{}/{}", self.group, self.name),
            format!("{PREFIX}{name}"),
        );
        let mut args = vec!["--quiet", "--snapshot", "--name", &name];
        let share = format!("{size}ORIGIN");
        match (self.is_thin, size.ends_with('%')) {
            (true, _) => args.extend(["--setactivationskip", "n"]),
            (false, true) => args.extend(["--extents", &share]),
            (false, false) => args.extend(["--size", size]),
        }
        args.push(&origin);
        run("lvcreate", args)?;
        Ok(Lvm {
            name: format!("{}/{name}", self.group),
            point: format::path(&mount.point).to_string(),
            kind: mount.kind.clone(),
        })
    }

    /// Removes the snapshots in this volume group that dead processes left.
    pub fn remove_leftovers(&self) {
        let args = ["--noheadings", "-o", "lv_name", &self.group];
        let listed = run("lvs", args).unwrap_or_default();
        let names = listed
            .lines()
            .filter_map(|line| line.trim().strip_prefix(PREFIX));
        remove_left(names, |name| {
            remove(&format!("{}/{PREFIX}{name}", self.group))
        });
    }
}

impl Snapshot for Lvm {
    fn view(&self) -> View {
        View::Device(Path::new("/dev").join(&self.name), self.kind.clone())
    }

    fn verify(&self) -> Result<()> {
        let args = ["--noheadings", "-o", "lv_snapshot_invalid", &self.name];
        match run("lvs", args)?.trim() {
            "" => Ok(()),
            _ => Err(format!(
                "the snapshot of {} had no room left for what changed meanwhile, so what was read \
                 of it since then is missing: give it more with --fs-snapshot-size",
                self.point
            )),
        }
    }

    fn remove(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            match remove(&self.name) {
                Err(_) if start.elapsed() < REMOVAL_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                removed => return removed.map(drop),
            }
        }
    }
}

fn remove(name: &str) -> Result<String> {
    run("lvremove", ["--quiet", "--yes", name])
}
