//! Opens the directory that takes what is restored.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use tabane_files::beneath::{in_directory, open_beneath};
use tabane_files::read::open_directory;
use tabane_files::write;

use super::RestoreOptions;
use super::repositories::is_repository;
use tabane_format::{Error, Result};

/// Extended attribute of a target that a restore has made and not yet given its attributes. Where
/// it cannot be set, a target that an interrupted restore has left keeps those that it has.
const UNFINISHED: &str = "user.tabane.unfinished";

/// Whether an earlier restore made this target, and was interrupted.
pub fn is_unfinished(target: &OwnedFd) -> bool {
    rustix::fs::fgetxattr(target, UNFINISHED, &mut [0_u8; 1][..]).is_ok()
}

/// Marks a target that was made.
pub fn mark_unfinished(target: &OwnedFd) {
    let _ = rustix::fs::fsetxattr(target, UNFINISHED, b"1", XattrFlags::empty());
}

/// Takes the mark away.
pub fn mark_finished(target: &OwnedFd) {
    let _ = rustix::fs::fremovexattr(target, UNFINISHED);
}

/// The target directory of a restore. If it is not there, it is made if `make` says so, and
/// nothing is returned if not.
///
/// # Errors
/// When it cannot be used.
pub fn open(options: &RestoreOptions, make: bool) -> Result<Option<OwnedFd>> {
    let target = &options.target;
    let opened = match &options.within {
        Some(root) => open_within(root, below(root, target)?, make),
        None if make => open_or_make(target),
        None => look(target),
    };
    match opened {
        Ok(target) => Ok(Some(target)),
        Err(error) if !make && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(match (error.kind(), &options.within) {
            (kind, Some(root))
                if kind == io::ErrorKind::NotADirectory
                    || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
            {
                Error::WrongKind(format!(
                    "the way from {} to the target {} leads over a link or a file: choose another \
                     target",
                    root.display(),
                    target.display()
                ))
            }
            (io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists, _) => {
                Error::WrongKind(format!(
                    "the target {} is not a directory: choose a directory, or a new name for one",
                    target.display()
                ))
            }
            _ => Error::path("use the target", target)(error),
        }),
    }
}

/// Fails if the target is a repository or within one: what is restored there could take the place
/// of its objects.
///
/// # Errors
/// [`Error::WrongKind`] in this case.
pub fn refuse_repository(target: &Path) -> Result<()> {
    let Ok(absolute) = std::path::absolute(target) else {
        return Ok(());
    };
    let mut there = absolute.ancestors();
    let Some(real) = there.find_map(|path| path.canonicalize().ok()) else {
        return Ok(());
    };
    let is_one = |path: &&Path| {
        let directory = open_directory(CWD, path.as_os_str());
        directory.is_ok_and(|directory| is_repository(directory.as_fd()))
    };
    match real.ancestors().find(is_one) {
        None => Ok(()),
        Some(repository) => Err(Error::WrongKind(format!(
            "the target {} is in a repository ({}): choose another directory",
            target.display(),
            repository.display()
        ))),
    }
}

/// Opens a target that is there. The target itself may be a link; what is below it is never
/// followed.
fn look(target: &Path) -> io::Result<OwnedFd> {
    open_directory(CWD, target.canonicalize()?.as_os_str())
}

/// Opens a target, or makes it.
fn open_or_make(target: &Path) -> io::Result<OwnedFd> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(target)?;
    look(target)
}

/// The path of the target below `root`.
fn below<'a>(root: &Path, target: &'a Path) -> Result<&'a Path> {
    let below = target.strip_prefix(root).ok();
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_));
    below
        .filter(|below| below.components().all(is_plain))
        .ok_or_else(|| {
            Error::WrongKind(format!(
                "the target {} is not below {}: choose one that is, without ..",
                target.display(),
                root.display()
            ))
        })
}

/// Opens the target at `below` the directory `root`, or makes it if `make` says so. Follows no link
/// behind `root`, whenever somebody puts one there.
fn open_within(root: &Path, below: &Path, make: bool) -> io::Result<OwnedFd> {
    let root = look(root)?;
    let mut way = PathBuf::new();
    for name in below.components().filter(|_| make) {
        way.push(name);
        match in_directory(&root, &way, write::create_directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    if below.as_os_str().is_empty() {
        open_directory(root.as_fd(), ".".as_ref())
    } else {
        open_beneath(&root, below, flags, Mode::empty())
    }
}
