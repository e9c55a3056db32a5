//! Repositories where something is to be restored.

use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use tabane_files::beneath::file_type;
use tabane_storage::{Name, ObjectKind};

/// Whether a directory is a repository, or a target of one: perhaps that which is restored from.
pub fn is_repository(directory: BorrowedFd<'_>) -> bool {
    let kind = |name: &str| file_type(directory, name.as_ref()).ok().flatten();
    let is_directory = |of: ObjectKind| kind(of.name()) == Some(FileType::Directory);
    kind(&Name::CONFIG.path()) == Some(FileType::RegularFile)
        && is_directory(ObjectKind::Pack)
        && is_directory(ObjectKind::Snapshot)
}
