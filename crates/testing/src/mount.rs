//! A small file system of our own, which can be full.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{is_root, not_checked};

/// Whether the system lets us mount a file system that a program serves; if not, what is not
/// checked is said loudly. Only root is sure to be able to.
pub fn can_mount(what: &str) -> bool {
    let why = match (is_root(), Path::new("/dev/fuse").exists()) {
        (true, true) => return true,
        (false, _) => "this needs root",
        (true, false) => "there is no /dev/fuse",
    };
    not_checked(what, why);
    false
}

/// A mounted file system, until it is dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// One in memory. Nothing, said loudly, where this cannot be.
    pub fn tmpfs(at: &Path, size: &str) -> Option<Self> {
        let size = format!("size={size}");
        Self::of(&["-t", "tmpfs", "-o", &size, "tmpfs"], at)
    }

    /// One of a kind in a file of so many MiB, `image`, which need not be there. Nothing, said
    /// loudly, where this cannot be.
    pub fn image(at: &Path, image: &Path, kind: &str, mib: u64) -> Option<Self> {
        File::create(image).unwrap().set_len(mib << 20).unwrap();
        let make = format!("mkfs.{kind}");
        is_done(Command::new(&make).arg("-q").arg(image))
            .then(|| Self::of(&["-o", "loop", image.to_str().unwrap()], at))?
    }

    /// Another name of a directory or a file. Nothing, said loudly, where this cannot be.
    pub fn bind(from: &Path, at: &Path) -> Option<Self> {
        Self::of(&["--bind", from.to_str().unwrap()], at)
    }

    fn of(arguments: &[&str], at: &Path) -> Option<Self> {
        if !is_root() {
            not_checked("other file systems", "this needs root");
            return None;
        }
        is_done(Command::new("mount").args(arguments).arg(at)).then(|| Self(at.to_owned()))
    }
}

fn is_done(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => true,
        other => {
            not_checked("other file systems", format!("{command:?}: {other:?}"));
            false
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
