//! Opens paths of any length below a directory and follows no link, so that none leads out of it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Removes an entry, unless it is a non-empty directory.
pub fn remove(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let flags = match file_type(directory, name)? {
        None => return Ok(()),
        Some(FileType::Directory) => AtFlags::REMOVEDIR,
        Some(_) => AtFlags::empty(),
    };
    Ok(rustix::fs::unlinkat(directory, name, flags)?)
}

/// The kind of the file `name`, `None` if missing; a link is not followed.
///
/// # Errors
/// When the entry exists and cannot be examined.
pub fn file_type(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileType>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Longest path that is handed to the system, in bytes; its own limit is 4096.
const PATH_LEN_MAX: usize = 4000;

/// Never follows a link, and never leaves the directory where it starts.
const BENEATH_FLAGS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Opens a file at `path`, which is below `target`; no part of the path may be a link.
pub fn open_beneath(
    target: &OwnedFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if path.as_os_str().len() <= PATH_LEN_MAX {
        match rustix::fs::openat2(target, path, flags, mode, BENEATH_FLAGS) {
            // An old kernel, or one that is told to know no such call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            result => return Ok(result?),
        }
    }
    in_directory(target, path, |directory, name| {
        Ok(rustix::fs::openat(directory, name, flags, mode)?)
    })
}

/// Opens the directory of `path`, which is below `target`, to reach what is in it.
pub fn open_parent(target: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    in_directory(target, path, |directory, _| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(directory, ".", flags, Mode::empty())?)
    })
}

/// Runs `act` on the directory of `path`, which is below `target`, and the last part of its name.
///
/// Links put in the way cannot make it leave the target.
pub fn in_directory<T>(
    target: &OwnedFd,
    path: &Path,
    act: impl FnOnce(BorrowedFd<'_>, &OsStr) -> io::Result<T>,
) -> io::Result<T> {
    let name = path.file_name().unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new(""));
    if parent.as_os_str().is_empty() {
        return act(target.as_fd(), name);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if parent.as_os_str().len() <= PATH_LEN_MAX {
        match rustix::fs::openat2(target, parent, flags, Mode::empty(), BENEATH_FLAGS) {
            Err(Errno::NOSYS | Errno::PERM) => {}
            result => return act(result?.as_fd(), name),
        }
    }
    // Step by step: slower, and as safe.
    let mut directory = rustix::fs::openat(target, ".", flags, Mode::empty())?;
    for component in parent.components() {
        directory = rustix::fs::openat(&directory, component.as_os_str(), flags, Mode::empty())?;
    }
    act(directory.as_fd(), name)
}
