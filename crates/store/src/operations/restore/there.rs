//! Entries that exist in the target before a restore.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::LazyLock;

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
    // Nobody but root gives files away, or to a group that he is not in.
    let is_owner = there.uid == entry.uid || !rustix::process::geteuid().is_root();
    let is_group = there.gid == entry.gid || !can_give_to(entry.gid);
    // Without flags to restore, those that forbid changes go all the same.
    let has_flags =
        there.flags == entry.flags || entry.flags.is_empty() && !there.flags.forbid_changes();
    has_mode && has_flags && is_owner && is_group && there.mtime == entry.mtime
}

/// Whether this process may give its files to a group.
fn can_give_to(group: u32) -> bool {
    static GROUPS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let own = rustix::process::getegid();
        let others = rustix::process::getgroups().unwrap_or_default();
        others
            .iter()
            .chain([&own])
            .map(|gid| gid.as_raw())
            .collect()
    });
    rustix::process::geteuid().is_root() || GROUPS.contains(&group)
}

/// The outcome for an entry whose kind and content the target has already.
pub fn outcome(there: Option<&Entry>, entry: &Entry) -> Outcome {
    match there {
        None => Outcome::Created,
        Some(there) if has_attributes(there, entry) => Outcome::Unchanged,
        Some(_) => Outcome::Updated,
    }
}
