//! The files below a directory.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The regular files below a directory, in the order in which `LC_ALL=C sort` sorts their paths.
///
/// The root may be a symbolic link to a directory. Below it, links are not followed, and they,
/// pipes, sockets and devices are left out. A root that is no directory is the only result.
///
/// Memory is needed for the names of the directories that are being read, one of each level.
pub struct Tree {
    root: Option<PathBuf>,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
}

struct Level {
    path: PathBuf,
    /// Entries left to visit, in reverse order.
    entries: Vec<(OsString, bool)>,
}

/// A directory that could not be read.
#[derive(Debug)]
pub struct TreeError {
    /// The directory.
    pub path: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

impl Tree {
    /// Will find the files below this root.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root: Some(root),
            levels: Vec::new(),
        }
    }

    /// Goes down into a directory.
    fn enter(&mut self, path: PathBuf) -> Result<(), TreeError> {
        match read(&path) {
            Ok(entries) => {
                self.levels.push(Level { path, entries });
                Ok(())
            }
            Err(error) => Err(TreeError { path, error }),
        }
    }
}

impl Iterator for Tree {
    type Item = Result<PathBuf, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(root) = self.root.take() {
            if !root.is_dir() {
                return Some(Ok(root));
            }
            if let Err(error) = self.enter(root) {
                return Some(Err(error));
            }
        }
        loop {
            let level = self.levels.last_mut()?;
            let Some((name, is_directory)) = level.entries.pop() else {
                self.levels.pop();
                continue;
            };
            let path = level.path.join(name);
            if !is_directory {
                return Some(Ok(path));
            }
            if let Err(error) = self.enter(path) {
                return Some(Err(error));
            }
        }
    }
}

/// Lists files and directories, in reverse order, each with whether it is a directory.
fn read(path: &Path) -> io::Result<Vec<(OsString, bool)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() || kind.is_file() {
            entries.push((entry.file_name(), kind.is_dir()));
        }
    }
    // Sorts directories as if a slash followed their names, as in the paths of their entries.
    let slash = |is_directory: bool| is_directory.then_some(&b'/');
    entries.sort_unstable_by(|(a, a_is_dir), (b, b_is_dir)| {
        let a = a.as_bytes().iter().chain(slash(*a_is_dir));
        b.as_bytes().iter().chain(slash(*b_is_dir)).cmp(a)
    });
    Ok(entries)
}
