//! What the arguments of a copy mean, as GNU cp reads them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use crate::claim::{Dead, purpose};
use crate::problem::{Action, Problem};
use crate::{Meaning, Options};

/// A source: a directory that holds it, and its name there.
pub struct Source {
    /// What holds it.
    pub directory: Arc<OwnedFd>,
    /// How that is shown.
    pub prefix: PathBuf,
    /// Its name; `.` is the directory itself.
    pub name: OsString,
    /// The name of its copy in a directory that takes it; `.` is that directory itself.
    pub copy_name: OsString,
}

/// The target: a directory, and the name that the copy gets in it.
pub struct Target {
    /// The directory.
    pub directory: Arc<OwnedFd>,
    /// How that is shown.
    pub prefix: PathBuf,
    /// The name, unless it is that of each source; `.` is the directory itself.
    pub name: Option<OsString>,
    /// There was a slash behind it, which only fits a directory.
    pub slash: bool,
    /// Runs that were killed while they copied to here.
    pub dead: Vec<Dead>,
}

/// A path in two.
struct Split<'a> {
    /// All before the last name, with its slash.
    prefix: &'a Path,
    /// `.` if the path ends in it, in `..`, or is the root; then the prefix is the whole path.
    last: &'a OsStr,
    /// There was a slash behind it.
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

/// Opens what holds something; links on the way to it are the user's own, and followed.
fn open(prefix: &Path, flags: OFlags) -> io::Result<Arc<OwnedFd>> {
    let path = match prefix.as_os_str().is_empty() {
        true => Path::new("."),
        false => prefix,
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
    /// Finds it.
    pub fn find(path: &Path) -> io::Result<Self> {
        let Split {
            prefix,
            last,
            slash,
        } = split(path);
        // With a slash behind it, a link is what it leads to.
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
    /// Finds it.
    pub fn find(options: &Options) -> Result<Self, Problem> {
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
            let action = match options.sources.iter().any(|source| source.is_dir()) {
                true => Action::CreateDirectory,
                false => Action::CreateFile,
            };
            let named = Self::named(path).map_err(failed(action));
            let is_ours = |named: &Self| {
                let purpose = purpose(options, named.name.as_deref().unwrap_or_default());
                named.dead.iter().any(|dead| dead.was_for(&purpose))
            };
            match named {
                // The same command made this directory and was killed: it goes on, where else it would be copied into.
                Ok(named) if !is_directory || is_ours(&named) => return Ok(named),
                Err(problem) if !is_directory => return Err(problem),
                _ => {}
            }
        }
        let directory = open(path, OFlags::RDONLY).map_err(failed(Action::UseTarget))?;
        Ok(Self {
            dead: Dead::find(&directory).map_err(failed(Action::UseTarget))?,
            directory,
            prefix: path.clone(),
            name: None,
            slash: false,
        })
    }

    fn named(path: &Path) -> io::Result<Self> {
        let Split {
            prefix,
            last,
            slash,
        } = split(path);
        let directory = open(prefix, OFlags::RDONLY)?;
        Ok(Self {
            dead: Dead::find(&directory)?,
            directory,
            prefix: prefix.to_owned(),
            name: Some(last.to_owned()),
            slash,
        })
    }
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
