//! Files with several names.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use tabane_engine::Digest;
use tabane_files::{HardLink, Time, beneath, write};

use crate::claim::Claim;
use crate::item::{First, Item};
use crate::lock::lock;
use crate::problem::{Action, Problem};

/// Identifies the names of one file. Since inode numbers are reused, size and time are compared
/// too.
type Key = (HardLink, u64, Time);

/// The files with several names that were met.
#[derive(Default)]
pub(crate) struct Links(Mutex<HashMap<Key, State>>);

enum State {
    /// The first name is being copied; the others wait.
    Awaited(Vec<Item>),
    Made(First),
    Failed,
}

impl Links {
    /// Keeps an item that must wait for the first name of its file; returns any other, with the
    /// copy that it can be linked to.
    pub(crate) fn admit(&self, mut item: Item) -> Option<Item> {
        let Some(key) = key(&item) else {
            return Some(item);
        };
        let mut states = lock(&self.0);
        match states.get_mut(&key) {
            None => {
                states.insert(key, State::Awaited(Vec::new()));
            }
            Some(State::Awaited(waiting)) => {
                waiting.push(item);
                return None;
            }
            Some(State::Made(first)) => item.first = Some(first.clone()),
            Some(State::Failed) => {}
        }
        Some(item)
    }

    /// Finishes an admitted item, copied with this hash or failed; returns the items that waited
    /// for it.
    pub(crate) fn finish(&self, item: &Item, copied: bool, digest: Option<Digest>) -> Vec<Item> {
        let Some(key) = key(item).filter(|_| item.first.is_none()) else {
            return Vec::new();
        };
        let first = First {
            place: Arc::clone(&item.directory.place),
            path: item.target_path(),
            digest,
        };
        let state = if copied {
            State::Made(first.clone())
        } else {
            State::Failed
        };
        let Some(State::Awaited(mut waiting)) = lock(&self.0).insert(key, state) else {
            return Vec::new();
        };
        if copied {
            for item in &mut waiting {
                item.first = Some(first.clone());
            }
        }
        waiting
    }
}

fn key(item: &Item) -> Option<Key> {
    let entry = &item.found.entry;
    Some((entry.hard_link?, entry.size(), entry.mtime))
}

/// Results of giving a copy a further name.
pub(crate) enum Linked {
    /// The name was made.
    Made,
    /// The name existed already.
    WasThere,
    /// The file cannot have more names.
    TooMany,
}

/// Gives the copy a further name.
pub(crate) fn make(claim: &Claim, item: &Item, first: &First) -> Result<Linked, Problem> {
    let (directory, name) = (&item.directory, item.copy_name.as_os_str());
    let made = beneath::in_directory(&first.place.target, &first.path, |from, from_name| {
        link(claim, from, from_name, &directory.target, name)
    });
    match made {
        Ok(linked) => Ok(linked),
        Err(error) if error.raw_os_error() == Some(Errno::MLINK.raw_os_error()) => {
            Ok(Linked::TooMany)
        }
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Err(Problem::OverDirectory {
            target: directory.show_target(name),
        }),
        Err(error) => Err(Problem::System {
            action: Action::Link,
            path: directory.show_target(name),
            error,
        }),
    }
}

fn link(
    claim: &Claim,
    from: BorrowedFd<'_>,
    from_name: &OsStr,
    to: &OwnedFd,
    name: &OsStr,
) -> io::Result<Linked> {
    match write::hard_link(from, from_name, to.as_fd(), name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result.map(|()| Linked::Made),
    }
    let inode = |directory, name| {
        rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat: Stat| (stat.st_dev, stat.st_ino))
    };
    if inode(from, from_name)? == inode(to.as_fd(), name)? {
        return Ok(Linked::WasThere);
    }
    let temporary = claim.temporary();
    write::hard_link(from, from_name, to.as_fd(), OsStr::new(&temporary))?;
    match rustix::fs::renameat(to, &temporary, to, name) {
        Ok(()) => Ok(Linked::Made),
        Err(error) => {
            let _ = rustix::fs::unlinkat(to, &temporary, AtFlags::empty());
            Err(error.into())
        }
    }
}
