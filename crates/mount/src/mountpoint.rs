//! Whether something can be mounted on a directory, and what to do if not.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::statfs;

use crate::MountError;

/// `FUSE_SUPER_MAGIC` of `linux/magic.h`.
const FUSE_MAGIC: u64 = 0x6573_5546;

const DEVICE: &str = "/dev/fuse";

/// Finds out whether the snapshots can be mounted on the directory `path`, as far as that can be
/// told without trying.
///
/// # Errors
/// [`MountError::Unusable`], [`MountError::NoDevice`].
pub fn check(path: &Path) -> Result<(), MountError> {
    let shown = path.display();
    let refused = |text: String| Err(MountError::Unusable(text));
    let metadata = fs::metadata(path).map_err(|error| unusable(path, &error))?;
    if !metadata.is_dir() {
        return refused(format!(
            "cannot mount on {shown}: it is not a directory; choose an empty directory"
        ));
    }
    let above = path.join("..");
    let is_mounted = fs::metadata(above).is_ok_and(|above| above.dev() != metadata.dev());
    if is_mounted && statfs(path).is_ok_and(|stat| stat.f_type as u64 == FUSE_MAGIC) {
        return refused(format!(
            "cannot mount on {shown}: something is mounted there already; unmount it first \
             (`umount {shown}`), or choose another directory"
        ));
    }
    let mut entries = fs::read_dir(path).map_err(|error| unusable(path, &error))?;
    if entries.next().is_some() {
        return refused(format!(
            "cannot mount on {shown}: it is not empty, and what is in it would be hidden; choose \
             an empty directory"
        ));
    }
    match fs::metadata(DEVICE) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(MountError::NoDevice(DEVICE)),
        Err(error) => refused(format!("cannot use {DEVICE}: {error}")),
    }
}

/// Why a directory cannot be looked at.
pub fn unusable(path: &Path, error: &io::Error) -> MountError {
    let shown = path.display();
    let text = match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "cannot mount on {shown}: there is no such directory; make it with `mkdir {shown}`"
            )
        }
        io::ErrorKind::NotConnected => format!(
            "cannot mount on {shown}: what was mounted there has died; clear it away with `umount \
             {shown}` (or `fusermount3 -u {shown}`) and try again"
        ),
        _ => format!("cannot mount on {shown}: {error}"),
    };
    MountError::Unusable(text)
}

/// Why the system did not mount.
pub fn not_mounted(path: &Path, error: &io::Error) -> MountError {
    let shown = path.display();
    let said = error.to_string();
    let text = match error.kind() {
        // The kernel wants root, so a helper was looked for.
        io::ErrorKind::NotFound => format!(
            "cannot mount on {shown}: only root may, and the helper fusermount3 that lets others \
             is missing; install the package fuse3, or run as root"
        ),
        io::ErrorKind::PermissionDenied if said.contains("user_allow_other") => {
            return MountError::NotForOthers(shown.to_string());
        }
        io::ErrorKind::PermissionDenied => format!(
            "cannot mount on {shown}: {}; check the permissions of {DEVICE}, or run as root",
            said.trim()
        ),
        _ => format!("cannot mount on {shown}: {}", said.trim()),
    };
    MountError::Unusable(text)
}
