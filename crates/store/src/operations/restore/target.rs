//! Opens the directory that takes what is restored.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use tabane_files::beneath::{in_directory, open_beneath};
use tabane_files::read::open_directory;
use tabane_files::write;

use super::RestoreOptions;
use tabane_format::{Error, Result};

/// The target directory of a restore; nothing if it is not there in a dry run. Says whether it had
/// to be made.
///
/// # Errors
/// When it cannot be used.
pub fn open(options: &RestoreOptions) -> Result<(Option<OwnedFd>, bool)> {
    let RestoreOptions {
        target, dry_run, ..
    } = options;
    let opened = match &options.within {
        Some(root) => open_within(root, below(root, target)?, *dry_run),
        None if *dry_run => look(target),
        None => open_or_make(target),
    };
    match opened {
        Ok((target, is_new)) => Ok((Some(target), is_new)),
        Err(error) if *dry_run && error.kind() == io::ErrorKind::NotFound => Ok((None, false)),
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

/// Opens a target that is there, for a dry run.
fn look(target: &Path) -> io::Result<(OwnedFd, bool)> {
    let target = target.canonicalize()?;
    Ok((open_directory(CWD, target.as_os_str())?, false))
}

/// Opens a target, or makes it.
fn open_or_make(target: &Path) -> io::Result<(OwnedFd, bool)> {
    let is_new = !target.exists();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(target)?;
    // The target itself may be a link; what is below it is never followed.
    Ok((look(target)?.0, is_new))
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

/// Opens the target at `below` the directory `root`, or makes it unless this is a dry run. Follows
/// no link behind `root`, whenever somebody puts one there.
fn open_within(root: &Path, below: &Path, dry_run: bool) -> io::Result<(OwnedFd, bool)> {
    let root = look(root)?.0;
    let mut is_new = false;
    let mut way = PathBuf::new();
    for name in below.components().filter(|_| !dry_run) {
        way.push(name);
        is_new = match in_directory(&root, &way, write::create_directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            made => made.map(|()| true)?,
        };
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let target = if below.as_os_str().is_empty() {
        open_directory(root.as_fd(), ".".as_ref())?
    } else {
        open_beneath(&root, below, flags, Mode::empty())?
    };
    Ok((target, is_new))
}
