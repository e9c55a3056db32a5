//! Finds out whether a copy is there already.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::mem::discriminant;
use std::os::fd::{AsFd, OwnedFd};

use tabane_files::read::{self, Found};
use tabane_files::{Entry, Kind, write};

use crate::item::Item;
use crate::problem::{Action, Problem};
use crate::record::FileHash;
use crate::run::{Run, Worker};

/// A copy that is there.
pub(crate) struct Present {
    /// The hash of its bytes, if hashes are wanted.
    pub(crate) hash: Option<FileHash>,
}

/// The existing entry with the name of the copy, if the copy may replace it.
///
/// A device, pipe or socket is replaced only by another one: a user who names it may expect `cp` to
/// write into it.
pub(crate) fn find(item: &Item) -> Result<Option<Entry>, Problem> {
    let target = item.directory.target.as_fd();
    let there: Found = match read::stat(target, &item.copy_name, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(item.failed(Action::Stat, item.show_target()))?,
    };
    let (there, source) = (there.entry, &item.found.entry);
    match there.kind {
        Kind::File { .. } | Kind::Symlink { .. } => Ok(Some(there)),
        Kind::Directory { .. } => Err(Problem::OverDirectory {
            target: item.show_target(),
        }),
        _ if discriminant(&there.kind) == discriminant(&source.kind) => Ok(Some(there)),
        _ => Err(Problem::NotRegular {
            target: item.show_target(),
        }),
    }
}

/// Checks an existing entry: `None` if the item is to be copied. A right one gets missing
/// attributes.
pub(crate) fn check(
    run: &Run,
    worker: &mut Worker,
    item: &Item,
    there: Entry,
) -> Result<Option<Present>, Problem> {
    let source = &item.found.entry;
    if there.kind != source.kind || there.mtime != source.mtime || !is_own(run, source, &there) {
        return Ok(None);
    }
    let hash = match content(run, worker, item, &there) {
        Ok(Content::Same(hash)) => hash,
        Ok(Content::Other) => return Ok(None),
        Err(error) => return Err(item.failed(Action::Read, item.show_target())(error)),
    };
    attributes(run, item, there)?;
    Ok(Some(Present { hash }))
}

/// Whether a copy may keep the existing file: it has a single name, or the source has several names
/// too and no other copy took this inode.
fn is_own(run: &Run, source: &Entry, there: &Entry) -> bool {
    match (there.hard_link, source.hard_link) {
        (None, _) => true,
        (Some(link), Some(_)) => run.take((link.device, link.inode)),
        (Some(_), None) => false,
    }
}

enum Content {
    /// The same content; its hash, if hashes are wanted.
    Same(Option<FileHash>),
    Other,
}

/// Compares contents as far as size and times don't tell.
fn content(run: &Run, worker: &mut Worker, item: &Item, there: &Entry) -> io::Result<Content> {
    let doubtful = run
        .claim
        .doubtful_since()
        .is_some_and(|since| there.ctime >= since);
    if !run.hashes() && !doubtful {
        return Ok(Content::Same(None));
    }
    let previous = run
        .manifest
        .as_ref()
        .and_then(|manifest| manifest.previous(&item.target_path()))
        .filter(|previous| item.found.entry.ctime.max(there.ctime) < previous.time);
    if let (Some(previous), false) = (previous, doubtful) {
        return Ok(Content::Same(Some(FileHash::whole(previous.digest))));
    }
    let open = |directory: &OwnedFd, name: &OsStr| -> io::Result<File> {
        Ok(read::open_file(directory.as_fd(), name)?.into())
    };
    let buffer = &mut worker.buffer;
    let hash = FileHash::of(run, &open(&item.directory.target, &item.copy_name)?, buffer)?;
    let is_same = match previous {
        Some(previous) => hash.digest == previous.digest,
        None => {
            let source = open(&item.directory.source, &item.name)?;
            hash.is_of(run, &source, buffer, |_| {})?
        }
    };
    Ok(if is_same {
        Content::Same(Some(hash))
    } else {
        Content::Other
    })
}

/// Sets the source's attributes on the existing entry, unless it has them.
fn attributes(run: &Run, item: &Item, mut there: Entry) -> Result<(), Problem> {
    let directory = &item.directory;
    let mut source = item.found.entry.clone();
    source.xattrs = read::xattrs_at(directory.source.as_fd(), &item.name)
        .map_err(item.failed(Action::Read, item.show_source()))?;
    there.xattrs = read::xattrs_at(directory.target.as_fd(), &item.copy_name)
        .map_err(item.failed(Action::Read, item.show_target()))?;
    let what = |entry: &Entry| (entry.mode, entry.uid, entry.gid, entry.flags);
    if what(&source) != what(&there) || source.xattrs != there.xattrs {
        for error in write::apply_at(directory.target.as_fd(), &item.copy_name, &source) {
            let path = item.show_target();
            run.problem(&Problem::Attribute { path, error });
        }
        let target = &directory.target;
        run.will_flag(target, &item.copy_name, item.show_target(), &source);
    }
    Ok(())
}
