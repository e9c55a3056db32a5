//! What the target has already.

use std::os::fd::OwnedFd;
use std::path::Path;

use tabane_files::beneath::in_directory;
use tabane_files::read;
use tabane_storage::Outcome;

use crate::format::entry::{Entry, Kind};

/// What the target has at `path`, which is below it, without content; nothing if it cannot be told.
pub fn find(target: &OwnedFd, path: &Path) -> Option<Entry> {
    let found = in_directory(target, path, |directory, name| {
        read::stat(directory, name, false)
    });
    found.ok().map(|found| found.entry)
}

/// Whether mode, owner, time and file flags are those of `entry`.
pub fn has_attributes(there: &Entry, entry: &Entry) -> bool {
    // Nobody can choose that of a link.
    let has_mode = matches!(entry.kind, Kind::Symlink { .. }) || there.mode == entry.mode;
    let owner_and_time = |entry: &Entry| (entry.uid, entry.gid, entry.mtime);
    // Without flags to restore, those that forbid changes go all the same.
    let has_flags =
        there.flags == entry.flags || entry.flags.is_empty() && !there.flags.forbid_changes();
    has_mode && has_flags && owner_and_time(there) == owner_and_time(entry)
}

/// What becomes of an entry of the same kind and content, if something is there.
pub fn outcome(there: Option<&Entry>, entry: &Entry) -> Outcome {
    match there {
        None => Outcome::Created,
        Some(there) if has_attributes(there, entry) => Outcome::Unchanged,
        Some(_) => Outcome::Updated,
    }
}
