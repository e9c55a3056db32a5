//! A directory and its copy.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use tabane_files::Entry;

/// The directories that hold a source and its copy, with their paths as given.
pub(crate) struct Place {
    /// The directory that holds the source.
    pub(crate) source: Arc<OwnedFd>,
    /// Prefix of the source's paths in messages.
    pub(crate) source_prefix: PathBuf,
    /// The directory that takes the copy.
    pub(crate) target: Arc<OwnedFd>,
    /// Prefix of the copy's paths in messages.
    pub(crate) target_prefix: PathBuf,
}

/// A directory that is being copied, open until all of its entries are done.
pub(crate) struct Directory {
    /// The place of its source and copy.
    pub(crate) place: Arc<Place>,
    /// Below the source of the place.
    pub(crate) source_path: PathBuf,
    /// Below the target of the place.
    pub(crate) target_path: PathBuf,
    /// The source.
    pub(crate) source: Arc<OwnedFd>,
    /// The copy.
    pub(crate) target: Arc<OwnedFd>,
    /// Whether the copy existed before; then its entries may exist too.
    pub(crate) existed: bool,
    /// The attributes that the copy gets in the end; `None` for the directory that takes the
    /// copies.
    pub(crate) entry: Option<Entry>,
    /// The directory above.
    pub(crate) parent: Option<Arc<Directory>>,
}

impl Directory {
    /// The directory that takes the copies.
    pub(crate) fn top(place: Arc<Place>) -> Self {
        Self {
            source_path: PathBuf::new(),
            target_path: PathBuf::new(),
            source: Arc::clone(&place.source),
            target: Arc::clone(&place.target),
            existed: true,
            entry: None,
            parent: None,
            place,
        }
    }

    /// The path of an entry's source, for messages.
    pub(crate) fn show_source(&self, name: &OsStr) -> PathBuf {
        self.place
            .source_prefix
            .join(below(&self.source_path, name))
    }

    /// The path of an entry's copy, for messages.
    pub(crate) fn show_target(&self, name: &OsStr) -> PathBuf {
        self.place
            .target_prefix
            .join(below(&self.target_path, name))
    }
}

/// The path of an entry; the entry `.` is the directory itself.
pub(crate) fn below(path: &Path, name: &OsStr) -> PathBuf {
    if name == "." {
        path.to_owned()
    } else {
        path.join(name)
    }
}

/// Whether a directory, or one above it, has the identity (device, inode) `wanted`.
pub(crate) fn is_in(directory: &OwnedFd, wanted: (u64, u64)) -> io::Result<bool> {
    let mut directory = directory.try_clone()?;
    let mut last = None;
    loop {
        let stat = rustix::fs::fstat(&directory)?;
        let identity = (stat.st_dev, stat.st_ino);
        if identity == wanted {
            return Ok(true);
        }
        // The root is above itself.
        if last.replace(identity) == Some(identity) {
            return Ok(false);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        directory = rustix::fs::openat(&directory, "..", flags, Mode::empty())?;
    }
}
