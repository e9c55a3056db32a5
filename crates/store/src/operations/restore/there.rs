//! Entries that exist in the target before a restore.

use std::os::fd::OwnedFd;
use std::path::Path;

use tabane_files::beneath::in_directory;
use tabane_files::read;
use tabane_storage::Outcome;

use tabane_format::entry::{Entry, Kind};

/// The target's entry at `path`, without content; `None` if missing or unreadable.
pub fn find(target: &OwnedFd, path: &Path) -> Option<Entry> {
    let found = in_directory(target, path, |directory, name| {
        read::stat(directory, name, false)
    });
    found.ok().map(|found| found.entry)
}

/// Whether mode, owner, time and file flags are those of `entry`.
pub fn has_attributes(there: &Entry, entry: &Entry) -> bool {
    // The mode of a link cannot be set.
    let has_mode = matches!(entry.kind, Kind::Symlink { .. }) || there.mode == entry.mode;
    let owner_and_time = |entry: &Entry| (entry.uid, entry.gid, entry.mtime);
    // Without flags to restore, those that forbid changes go all the same.
    let has_flags =
        there.flags == entry.flags || entry.flags.is_empty() && !there.flags.forbid_changes();
    has_mode && has_flags && owner_and_time(there) == owner_and_time(entry)
}

/// The outcome for an entry whose kind and content the target has already.
pub fn outcome(there: Option<&Entry>, entry: &Entry) -> Outcome {
    match there {
        None => Outcome::Created,
        Some(there) if has_attributes(there, entry) => Outcome::Unchanged,
        Some(_) => Outcome::Updated,
    }
}
