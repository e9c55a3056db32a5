//! Snapshots of file systems, so that a backup reads all files as they are at one moment.
//!
//! The snapshots are put together to one tree in a mount namespace of their own, which nobody else
//! sees and which vanishes with this process: each at the path of the file system that it shows.
//! The backup reads below an open directory that is the root of this tree.

mod btrfs;
mod lvm;
mod mounts;
mod zfs;

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};
use tabane_storage::random;

use crate::format;
use crate::output::warn;
use mounts::Mount;

/// The result of a step; what went wrong is a sentence.
type Result<T> = std::result::Result<T, String>;

/// A snapshot of a file system.
trait Snapshot {
    /// What is to be seen of it.
    fn view(&self) -> View;

    /// Checks, when all is read, that it was whole to the end.
    fn verify(&self) -> Result<()> {
        Ok(())
    }

    /// Removes it.
    fn remove(&self) -> Result<()>;
}

/// What a tree is put together of.
enum View {
    /// A directory.
    Directory(PathBuf),
    /// A block device with a file system of this type.
    Device(PathBuf, String),
}

/// A view, and its path in the tree.
struct Layer {
    at: PathBuf,
    view: View,
}

/// Snapshots of the file systems of a backup.
pub struct Snapshots {
    taken: Vec<Box<dyn Snapshot>>,
    tree: Option<Tree>,
}

/// A tree of snapshots in a mount namespace.
struct Tree {
    root: Arc<OwnedFd>,
    /// As long as this is open, the mounts stay.
    _namespace: OwnedFd,
    /// The mount point of the tree, an empty directory for everybody else.
    point: PathBuf,
}

impl Snapshots {
    /// Takes snapshots of the file systems that `sources`, absolute paths, are on or lead to.
    /// `lvm_size` is the room for changes that a snapshot of LVM gets, as `lvcreate` takes it.
    ///
    /// # Errors
    /// When there is no snapshot to take, or one cannot be taken.
    pub fn take(sources: &[PathBuf], lvm_size: &str) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can take snapshots of file systems".to_owned());
        }
        let mut snapshots = Self {
            taken: Vec::new(),
            tree: None,
        };
        let name = format!("{}-{}", std::process::id(), hex(random::<4>()));
        let (mut layers, mut without) = (Vec::new(), Vec::new());
        for mount in mounts::of(sources)? {
            let found = if mount.is_read {
                snapshots.of_mount(&mount, sources, &name, lvm_size)?
            } else {
                Vec::new()
            };
            if mount.is_read && found.is_empty() {
                without.push(format!("{} ({})", format::path(&mount.point), mount.kind));
            }
            // What is between, or above, is seen as it is.
            let root_is_taken = found.iter().any(|layer| layer.at == mount.point);
            if !root_is_taken {
                layers.push(Layer {
                    at: mount.point.clone(),
                    view: View::Directory(mount.point),
                });
            }
            layers.extend(found);
        }
        if snapshots.taken.is_empty() {
            return Err(format!(
                "there is nothing to take a snapshot of: {} is neither btrfs nor ZFS, nor on LVM",
                without.join(", ")
            ));
        }
        for point in without {
            warn(format!(
                "{point} has no snapshots, and is read as it changes"
            ));
        }
        layers.sort_by(|one, other| one.at.cmp(&other.at));
        snapshots.tree = Some(Tree::of(layers)?);
        Ok(snapshots)
    }

    /// Takes the snapshots of one mounted file system; none if it has no snapshots.
    fn of_mount(
        &mut self,
        mount: &Mount,
        sources: &[PathBuf],
        name: &str,
        lvm_size: &str,
    ) -> Result<Vec<Layer>> {
        let before = self.taken.len();
        let mut points = Vec::new();
        match mount.kind.as_str() {
            "btrfs" => {
                for subvolume in btrfs::subvolumes(mount, sources)? {
                    btrfs::remove_leftovers(&subvolume);
                    self.taken
                        .push(Box::new(btrfs::Btrfs::take(&subvolume, name)?));
                    points.push(subvolume);
                }
            }
            "zfs" => {
                zfs::remove_leftovers(&mount.source);
                self.taken.push(Box::new(zfs::Zfs::take(mount, name)?));
                points.push(mount.point.clone());
            }
            _ => {
                if let Some(volume) = lvm::Volume::of(mount) {
                    volume.remove_leftovers();
                    let taken = volume.take(mount, name, lvm_size)?;
                    self.taken.push(Box::new(taken));
                    points.push(mount.point.clone());
                }
            }
        }
        let taken = self.taken[before..].iter().zip(points);
        Ok(taken
            .map(|(snapshot, at)| Layer {
                at,
                view: snapshot.view(),
            })
            .collect())
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> Arc<OwnedFd> {
        let tree = self.tree.as_ref().expect("it is there until the end");
        Arc::clone(&tree.root)
    }

    /// Removes the snapshots after all was read of them.
    ///
    /// # Errors
    /// When one was not whole to the end.
    pub fn finish(mut self) -> Result<()> {
        let verified: Result<Vec<()>> = self.taken.iter().map(|taken| taken.verify()).collect();
        self.remove();
        verified.map(drop)
    }

    fn remove(&mut self) {
        // Before the snapshots: they are in use.
        self.tree = None;
        for taken in self.taken.drain(..) {
            if let Err(why) = taken.remove() {
                warn(format!(
                    "a snapshot stays: {why}; the next backup tries to remove it"
                ));
            }
        }
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Tree {
    /// Puts layers together, which are sorted by path.
    fn of(layers: Vec<Layer>) -> Result<Self> {
        let point = std::env::temp_dir().join(format!("tabane-snapshot-{}", hex(random::<8>())));
        rustix::fs::mkdir(&point, Mode::RWXU)
            .map_err(|error| format!("cannot make {}: {error}", format::path(&point)))?;
        let at = point.clone();
        // A namespace is a thread's own: the rest of the program keeps what it sees.
        let assembled = std::thread::spawn(move || assemble(&layers, &at)).join();
        let assembled = assembled.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match assembled {
            Ok((root, namespace)) => Ok(Self {
                root: Arc::new(root),
                _namespace: namespace,
                point,
            }),
            Err(why) => {
                let _ = fs::remove_dir(&point);
                Err(why)
            }
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.point);
    }
}

/// Mounts layers below `point`, in a new mount namespace of this thread; returns the root and the
/// namespace.
fn assemble(layers: &[Layer], point: &Path) -> Result<(OwnedFd, OwnedFd)> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| cannot("make a mount namespace", &error))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| cannot("make mounts private", &error))?;
    // All are opened before the first one covers another.
    let open = |layer: &Layer| match &layer.view {
        View::Directory(directory) => {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let opened = open_tree(CWD, directory.as_path(), flags);
            let what = || format!("open the snapshot at {}", format::path(directory));
            opened.map(Some).map_err(|error| cannot(&what(), &error))
        }
        View::Device(..) => Ok(None),
    };
    let opened: Result<Vec<Option<OwnedFd>>> = layers.iter().map(open).collect();
    for (layer, tree) in layers.iter().zip(opened?) {
        let at = match layer.at.strip_prefix("/") {
            Ok(below) if below != Path::new("") => point.join(below),
            _ => point.to_owned(),
        };
        let mounted = match (&layer.view, tree) {
            (View::Directory(_), Some(tree)) => {
                let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
                move_mount(tree.as_fd(), "", CWD, at.as_path(), flags)
            }
            (View::Device(device, kind), _) => {
                // Two file systems with the same ID are there at once.
                let options = (kind == "xfs").then_some(c"nouuid");
                let flags = MountFlags::RDONLY | MountFlags::NOATIME;
                mount(
                    device.as_path(),
                    at.as_path(),
                    kind.as_str(),
                    flags,
                    options,
                )
            }
            (View::Directory(_), None) => Ok(()),
        };
        let what = || format!("mount the snapshot of {}", format::path(&layer.at));
        mounted.map_err(|error| cannot(&what(), &error))?;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path: &Path| {
        let opened = rustix::fs::open(path, flags & !OFlags::DIRECTORY, Mode::empty());
        opened.map_err(|error| cannot("open the tree of snapshots", &error))
    };
    Ok((open(point)?, open(Path::new("/proc/thread-self/ns/mnt"))?))
}

/// Runs a program; returns what it prints.
fn run<A: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = A>) -> Result<String> {
    let ran = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&ran.stderr);
    let told = told.trim().replace('\n', "; ");
    Err(format!("{program} failed ({}): {told}", ran.status))
}

/// Whether a snapshot of this name, the ID of a process and more, was left by a process that is
/// gone.
fn is_left(name: &str) -> bool {
    let process = name.split('-').next().and_then(|id| id.parse::<u32>().ok());
    process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists())
}

/// Removes leftovers, which is no matter if it fails.
fn remove_left<'n>(names: impl Iterator<Item = &'n str>, remove: impl Fn(&str) -> Result<String>) {
    for name in names.filter(|name| is_left(name)) {
        if let Err(why) = remove(name) {
            warn(format!("a snapshot that an earlier run left stays: {why}"));
        }
    }
}

fn hex<const N: usize>(bytes: [u8; N]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_dead_have_left_is_left() {
        let own = std::process::id();
        assert!(!is_left(&format!("{own}-abc")));
        assert!(is_left("4194999-abc"));
        for other in ["", "abc", "-1", "x-2"] {
            assert!(!is_left(other), "{other}");
        }
    }
}
