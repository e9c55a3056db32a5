//! A small file system of our own, which can be full.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{is_root, not_checked};

/// A mounted file system, until it is dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// Nothing, said loudly, where this cannot be.
    pub fn tmpfs(at: &Path, size: &str) -> Option<Self> {
        if !is_root() {
            not_checked("other file systems", "this needs root");
            return None;
        }
        let size = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .status();
        match mounted {
            Ok(status) if status.success() => Some(Self(at.to_owned())),
            other => {
                not_checked(
                    "other file systems",
                    format!("cannot mount a tmpfs: {other:?}"),
                );
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
