//! Deletes what the snapshot does not have.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, StatxAttributes, StatxFlags};
use tabane_files::beneath::{file_type, in_directory};
use tabane_files::read::{list, open_directory};

use super::plan;
use super::repositories::is_repository;
use super::run::Run;
use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use tabane_format::snapshot::Snapshot;
use tabane_patterns::{Includes, Selection};
use tabane_storage::Outcome;

/// Something in the target that the snapshot does not have.
pub struct Surplus {
    /// Below the target.
    pub below: PathBuf,
    /// Where the snapshot would have it: patterns are for this path.
    pub path: PathBuf,
    /// What is chosen of the directory that it is in.
    pub parent: Selection,
}

/// Deletes `surplus`, and everything in it, as far as it is chosen. Nothing is deleted after an
/// error, in the backup or in what was restored: what is there may be all that is left.
pub fn delete_all(
    run: &Run,
    target: &OwnedFd,
    includes: &Includes,
    surplus: &[Surplus],
    snapshot: &Snapshot,
) {
    if surplus.is_empty() {
        return;
    }
    let note = |why| {
        let kept = format!("entries that the snapshot lacks were not deleted, since {why}");
        run.repository.progress().note(&kept);
    };
    if snapshot.summary.errors > 0 {
        return note("the backup could not read all that was there");
    }
    if run.has_failed() || run.counters.errors.load(Ordering::Relaxed) > 0 {
        return note("not all of the others could be restored");
    }
    with_deep_stack(|| {
        for surplus in surplus {
            if run.has_failed() {
                return;
            }
            delete(run, target, includes, surplus);
        }
    });
}

/// Deletes one entry and everything in it, as far as it is chosen. Says whether nothing is left.
pub fn delete(run: &Run, target: &OwnedFd, includes: &Includes, surplus: &Surplus) -> bool {
    let deletion = Deletion { run, includes };
    let deleted = in_directory(target, &surplus.below, |directory, name| {
        deletion.entry(directory, name, surplus, 0)
    });
    deleted.unwrap_or_else(|error| {
        run.io_error(&surplus.below, "delete", error);
        false
    })
}

/// Whether something is mounted at a directory, of whatever file system.
pub fn is_mount_point(above: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> io::Result<bool> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    // Kernels before 5.8 do not say it of a part of the same file system.
    let is_root = rustix::fs::statx(directory, "", flags, StatxFlags::empty())
        .is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    let device = |fd| rustix::fs::fstat(fd).map(|stat| stat.st_dev);
    Ok(is_root || device(above)? != device(directory)?)
}

/// Says that a directory and what is in it stay.
pub fn warn_of_mount_point(run: &Run, path: &Path) {
    let why = "another file system is mounted there, and stays";
    run.repository.progress().warning(path, why);
}

/// Says that a repository and what is in it stay.
pub fn warn_of_repository(run: &Run, path: &Path) {
    let why = "a repository is there, and stays: delete it by hand if it is to go";
    run.repository.progress().warning(path, why);
}

struct Deletion<'a> {
    run: &'a Run,
    includes: &'a Includes,
}

impl Deletion<'_> {
    /// Says whether nothing is left of it.
    fn entry(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        Surplus {
            below,
            path,
            parent,
        }: &Surplus,
        depth: usize,
    ) -> io::Result<bool> {
        let Some(kind) = file_type(directory, name)? else {
            return Ok(true);
        };
        let is_directory = kind == FileType::Directory;
        let selection = self.includes.select(path, is_directory, *parent);
        if selection == Selection::Skip {
            return Ok(false);
        }
        if is_directory && !self.contents(directory, name, below, path, selection, depth)? {
            return Ok(false);
        }
        if selection != Selection::Take {
            return Ok(false);
        }
        if !self.run.options.dry_run {
            let flags = if is_directory {
                AtFlags::REMOVEDIR
            } else {
                AtFlags::empty()
            };
            rustix::fs::unlinkat(directory, name, flags)?;
        }
        self.run.entry(below, Outcome::Deleted);
        Ok(true)
    }

    /// Deletes what is in a directory; says whether it is empty then.
    fn contents(
        &self,
        above: BorrowedFd<'_>,
        name: &OsStr,
        below: &Path,
        path: &Path,
        parent: Selection,
        depth: usize,
    ) -> io::Result<bool> {
        let directory = open_directory(above, name)?;
        if is_mount_point(above, directory.as_fd())? {
            warn_of_mount_point(self.run, below);
            return Ok(false);
        }
        if is_repository(directory.as_fd()) {
            warn_of_repository(self.run, below);
            return Ok(false);
        }
        if depth == DEPTH_MAX {
            return Err(io::Error::other("it is too many directories deep"));
        }
        let mode_before = if self.run.options.dry_run {
            None
        } else {
            plan::give_owner_rights(above, name)
        };
        let mut is_empty = true;
        for name in list(&directory)? {
            let surplus = Surplus {
                below: below.join(&name),
                path: path.join(&name),
                parent,
            };
            match self.entry(directory.as_fd(), &name, &surplus, depth + 1) {
                Ok(gone) => is_empty &= gone,
                Err(error) => {
                    self.run.io_error(&surplus.below, "delete", error);
                    is_empty = false;
                }
            }
        }
        // One that stays has the mode that it had.
        if let Some(mode) = mode_before.filter(|_| !is_empty) {
            rustix::fs::fchmod(&directory, mode)?;
        }
        Ok(is_empty)
    }
}
