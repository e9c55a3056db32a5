//! A directory and its copy.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tabane_files::{Node, write};

use crate::problem::Problem;
use crate::run::{Run, lock};

/// Where a source comes from and where it goes: the directories that hold the two, and their names as they were given.
pub struct Place {
    /// Holds the source.
    pub source: Arc<OwnedFd>,
    /// What names below it are shown with.
    pub source_prefix: PathBuf,
    /// Takes the copy.
    pub target: Arc<OwnedFd>,
    /// What names below it are shown with.
    pub target_prefix: PathBuf,
}

/// A directory that is copied, open as long as something in it is to be done.
pub struct Directory {
    /// Where it began.
    pub place: Arc<Place>,
    /// Below the source of the place.
    pub source_path: PathBuf,
    /// Below the target of the place.
    pub target_path: PathBuf,
    /// The source.
    pub source: Arc<OwnedFd>,
    /// The copy.
    pub target: Arc<OwnedFd>,
    /// The copy was there before: so may be what goes into it.
    pub existed: bool,
    /// The attributes that it gets in the end; nothing for the one that holds the first of the copies.
    pub node: Option<Node>,
    /// The directory above.
    pub parent: Option<Arc<Directory>>,
}

impl Directory {
    /// The one that holds the first of the copies.
    pub fn top(place: Arc<Place>) -> Self {
        Self {
            source_path: PathBuf::new(),
            target_path: PathBuf::new(),
            source: Arc::clone(&place.source),
            target: Arc::clone(&place.target),
            existed: true,
            node: None,
            parent: None,
            place,
        }
    }

    /// How the source of an entry is shown.
    pub fn show_source(&self, name: &OsStr) -> PathBuf {
        self.place
            .source_prefix
            .join(below(&self.source_path, name))
    }

    /// How the copy of an entry is shown.
    pub fn show_target(&self, name: &OsStr) -> PathBuf {
        self.place
            .target_prefix
            .join(below(&self.target_path, name))
    }

    /// To be called by everyone who held it: the last one gives it, and those above that await nothing else, their attributes.
    pub fn done(mut this: Arc<Self>, run: &Run) {
        // No recursion: trees may be deep.
        while let Some(directory) = Arc::into_inner(this) {
            if let Some(node) = &directory.node {
                let path = directory.show_target(OsStr::new("."));
                for error in write::apply(directory.target.as_fd(), node) {
                    let path = path.clone();
                    run.problem(&Problem::Attribute { path, error });
                }
                run.observer.entry(&path);
                if directory.target_path == run.home_path {
                    *lock(&run.home) = Some(node.clone());
                }
            }
            match directory.parent {
                Some(parent) => this = parent,
                None => return,
            }
        }
    }
}

/// The path of an entry; the entry `.` is the directory itself.
pub fn below(path: &Path, name: &OsStr) -> PathBuf {
    match name == "." {
        true => path.to_owned(),
        false => path.join(name),
    }
}
