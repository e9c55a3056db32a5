//! An entry that is being copied.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tabane_engine::Digest;
use tabane_files::read::Found;

use crate::directory::{Directory, Place, below};
use crate::problem::{Action, Problem};

/// A name that a copy of a file with several names has.
#[derive(Clone)]
pub(crate) struct First {
    /// The place of the operand.
    pub(crate) place: Arc<Place>,
    /// Below the target of the place.
    pub(crate) path: PathBuf,
    /// The hash of its bytes, if it has some and hashes are wanted.
    pub(crate) digest: Option<Digest>,
}

/// An entry that is no directory.
pub(crate) struct Item {
    /// The directory of the entry.
    pub(crate) directory: Arc<Directory>,
    /// Name of the entry in its directory.
    pub(crate) name: OsString,
    /// The name of the copy.
    pub(crate) copy_name: OsString,
    /// The entry that the walker found.
    pub(crate) found: Found,
    /// The copy of another name of the same file.
    pub(crate) first: Option<First>,
}

impl Item {
    /// The source's path, for messages.
    pub(crate) fn show_source(&self) -> PathBuf {
        self.directory.show_source(&self.name)
    }

    /// The copy's path, for messages.
    pub(crate) fn show_target(&self) -> PathBuf {
        self.directory.show_target(&self.copy_name)
    }

    /// Path of the copy below the directory that takes the copies.
    pub(crate) fn target_path(&self) -> PathBuf {
        below(&self.directory.target_path, &self.copy_name)
    }

    /// Converts an error of the system into a problem.
    pub(crate) fn failed(
        &self,
        action: Action,
        path: PathBuf,
    ) -> impl FnOnce(io::Error) -> Problem + use<> {
        move |error| Problem::System {
            action,
            path,
            error,
        }
    }
}
