//! The meaning of a copy's arguments, as GNU cp reads them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};

use crate::claim::{self, Dead, Home};
use crate::directory::below;
use crate::options::{Meaning, Options};
use crate::problem::{Action, Problem};

/// A source: a directory that holds it, and its name there.
pub(crate) struct Source {
    /// The directory that holds the source.
    pub(crate) directory: Arc<OwnedFd>,
    /// The directory's path as messages show it.
    pub(crate) prefix: PathBuf,
    /// The source's name; `.` is the directory itself.
    pub(crate) name: OsString,
    /// The name of its copy in a directory that takes it; `.` is that directory itself.
    pub(crate) copy_name: OsString,
}

/// The target: a directory, and the name that the copy gets in it.
pub(crate) struct Target {
    /// The open directory.
    pub(crate) directory: Arc<OwnedFd>,
    /// The directory's path as messages show it.
    pub(crate) prefix: PathBuf,
    /// The name, unless it is that of each source; `.` is the directory itself.
    pub(crate) name: Option<OsString>,
    /// Whether a slash follows the name, which only fits a directory.
    pub(crate) slash: bool,
    /// The directory that gets the claim.
    pub(crate) home: Home,
    /// Path of this directory below the target directory.
    pub(crate) home_path: PathBuf,
    /// Content of the claim, which identifies the command.
    pub(crate) purpose: Vec<u8>,
    /// Killed runs that left a claim here.
    pub(crate) dead: Vec<Dead>,
    /// Whether one of the dead runs was of the same command, and may have made the directory of
    /// this name.
    goes_on: bool,
}

/// A path in two.
struct Split<'a> {
    /// The path in front of the last name, with its slash.
    prefix: &'a Path,
    /// The last name. For a path that ends in `.` or `..`, and for the root, it is `.` and the
    /// prefix is the whole path.
    last: &'a OsStr,
    /// Whether a slash follows the path.
    slash: bool,
}

fn split(path: &Path) -> Split<'_> {
    let bytes = path.as_os_str().as_bytes();
    let len = bytes
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    let start = bytes[..len]
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |slash| slash + 1);
    let part = |range: &'_ [u8]| -> &OsStr { OsStr::from_bytes(&bytes[..range.len()]) };
    match &bytes[start..len] {
        b"" | b"." | b".." => Split {
            prefix: path,
            last: OsStr::new("."),
            slash: true,
        },
        last => Split {
            prefix: Path::new(part(&bytes[..start])),
            last: OsStr::from_bytes(last),
            slash: len < bytes.len(),
        },
    }
}

/// Opens a directory of an operand; links in the user's own path are followed.
fn open(prefix: &Path, flags: OFlags) -> io::Result<Arc<OwnedFd>> {
    let path = if prefix.as_os_str().is_empty() {
        Path::new(".")
    } else {
        prefix
    };
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Arc::new(rustix::fs::openat(
        CWD,
        path,
        flags,
        Mode::empty(),
    )?))
}

impl Source {
    /// Opens what holds the source that a path names.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let Split {
            prefix,
            last,
            slash,
        } = split(path);
        // A slash behind a link's name means the link's target.
        if slash {
            return Ok(Self {
                directory: open(path, OFlags::RDONLY)?,
                prefix: path.to_owned(),
                name: OsString::from("."),
                copy_name: last.to_owned(),
            });
        }
        Ok(Self {
            directory: open(prefix, OFlags::PATH)?,
            prefix: prefix.to_owned(),
            name: last.to_owned(),
            copy_name: last.to_owned(),
        })
    }
}

impl Target {
    /// Finds out what the target is, and which killed runs were copying to it.
    pub(crate) fn find(options: &Options) -> Result<Self, Problem> {
        let path = &options.target;
        let failed = |action| {
            let path = path.clone();
            move |error| Problem::System {
                action,
                path,
                error,
            }
        };
        let takes_all = options.meaning == Meaning::Directory
            || options.meaning == Meaning::Either && options.sources.len() > 1;
        let is_directory = options.meaning != Meaning::Name
            && rustix::fs::statat(CWD, path, AtFlags::empty())
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if !takes_all {
            let action = if options.sources.iter().any(|source| source.is_dir()) {
                Action::CreateDirectory
            } else {
                Action::CreateFile
            };
            match Self::named(options) {
                // The same command made this directory and was killed: resume, rather than copy
                // into the directory.
                Ok(named) if !is_directory || named.goes_on => {
                    return Ok(named);
                }
                Err(error) if !is_directory => return Err(failed(action)(error)),
                _ => {}
            }
        }
        Self::directory(path, options).map_err(failed(Action::UseTarget))
    }

    /// A directory that takes all sources.
    fn directory(path: &Path, options: &Options) -> io::Result<Self> {
        let home = Home {
            directory: open(path, OFlags::RDONLY)?,
            shown: path.to_owned(),
        };
        let purpose = claim::purpose(options, None);
        Ok(Self {
            directory: Arc::clone(&home.directory),
            prefix: path.to_owned(),
            name: None,
            slash: false,
            dead: Dead::find(&home, &purpose)?,
            home,
            home_path: PathBuf::new(),
            purpose,
            goes_on: false,
        })
    }

    /// The name of the copy of the only source.
    fn named(options: &Options) -> io::Result<Self> {
        let Split {
            prefix,
            last,
            slash,
        } = split(&options.target);
        let directory = open(prefix, OFlags::PATH)?;
        let above = match open(prefix, OFlags::RDONLY) {
            Ok(directory) => Some(Home {
                directory,
                shown: prefix.to_owned(),
            }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => return Err(error),
        };
        let makes_directory = options.sources.iter().any(|source| source.is_dir());
        let mut purpose = claim::purpose(options, makes_directory.then_some(last));
        let mut dead = match &above {
            Some(above) => Dead::find(above, &purpose)?,
            None => Vec::new(),
        };
        let goes_on = makes_directory && dead.iter().any(Dead::is_ours);
        let mut home_path = PathBuf::new();
        let home = match makes_directory
            .then(|| writable(&directory, last))
            .flatten()
        {
            Some(directory) => {
                let home = Home {
                    directory,
                    shown: options.target.clone(),
                };
                home_path = below(&home_path, last);
                purpose = claim::purpose(options, None);
                dead.append(&mut Dead::find(&home, &purpose)?);
                home
            }
            None => above.ok_or(io::ErrorKind::PermissionDenied)?,
        };
        Ok(Self {
            directory,
            prefix: prefix.to_owned(),
            name: Some(last.to_owned()),
            slash,
            home,
            home_path,
            purpose,
            dead,
            goes_on,
        })
    }
}

/// A directory that is there and takes files.
fn writable(above: &OwnedFd, name: &OsStr) -> Option<Arc<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(above, name, flags, Mode::empty()).ok()?;
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(&directory, ".", access, AtFlags::empty()).ok()?;
    Some(Arc::new(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_cp_does_it() {
        for (path, prefix, last, slash) in [
            ("a", "", "a", false),
            ("a//", "", "a", true),
            ("a/b", "a/", "b", false),
            ("/a", "/", "a", false),
            ("//a///b//", "//a///", "b", true),
            ("/", "/", ".", true),
            (".", ".", ".", true),
            ("a/.", "a/.", ".", true),
            ("a/../", "a/../", ".", true),
            ("a/.b", "a/", ".b", false),
        ] {
            let split = split(Path::new(path));
            let found = (split.prefix, split.last, split.slash);
            assert_eq!(
                found,
                (Path::new(prefix), OsStr::new(last), slash),
                "{path}"
            );
        }
    }
}
