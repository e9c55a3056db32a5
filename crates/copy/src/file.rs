//! Everything that is no directory: made under a temporary name, then renamed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use tabane_engine::{Digest, Submitter};
use tabane_files::read::{self, Found};
use tabane_files::{Entry, Kind, write};

use crate::content::{Failure, Pair, transfer};
use crate::item::Item;
use crate::link::{self, Linked};
use crate::present;
use crate::problem::{Action, Problem};
use crate::record::FileHash;
use crate::run::{Run, Worker};

/// Attempts to read a source that keeps changing.
const READ_ATTEMPTS_MAX: u32 = 3;

/// Copies an entry, and those that waited for it.
pub(crate) fn process(
    run: &Arc<Run>,
    worker: &mut Worker,
    submitter: &Submitter<Worker>,
    item: Item,
) {
    let mut items = vec![item];
    while let Some(item) = items.pop() {
        let mut done = None;
        if !run.is_stopped() {
            match copy(run, worker, submitter, &item) {
                Ok(digest) => {
                    run.progress.entry(&item.show_target());
                    done = Some(digest);
                }
                Err(problem) => run.problem(&problem),
            }
        }
        items.append(&mut run.links.finish(&item, done.is_some(), done.flatten()));
        run.close(item.directory);
    }
}

/// Copies an entry; returns the hash of its bytes, if it has some and hashes are wanted.
fn copy(
    run: &Arc<Run>,
    worker: &mut Worker,
    submitter: &Submitter<Worker>,
    item: &Item,
) -> Result<Option<Digest>, Problem> {
    let there = if item.directory.existed {
        present::find(item)?
    } else {
        None
    };
    let counters = &run.counters;
    if let Some(first) = &item.first {
        let counter = match link::make(&run.claim, item, first)? {
            Linked::Made => Some(&counters.copied_others),
            Linked::WasThere => Some(&counters.skipped_others),
            Linked::TooMany => None,
        };
        if let Some(counter) = counter {
            counter.add(1);
            run.list(&item.directory, &item.copy_name, first.digest);
            return Ok(first.digest);
        }
    }
    if !matches!(item.found.entry.kind, Kind::File { .. }) {
        let counter = if copy_special(run, item)? {
            &counters.copied_others
        } else {
            &counters.skipped_others
        };
        counter.add(1);
        return Ok(None);
    }
    if let Some(there) = there
        && let Some(present) = present::check(run, worker, item, there)?
    {
        let (size, hash) = (item.found.entry.size(), present.hash);
        let digest = hash.as_ref().map(|hash| hash.digest);
        counters.skipped_files.add(1);
        counters.skipped_bytes.add(size);
        run.skipped(size);
        run.record(&item.directory, &item.name, &item.copy_name, size, hash);
        return Ok(digest);
    }
    let (mut differs, mut shorts) = (false, 0);
    for _ in 0..READ_ATTEMPTS_MAX {
        // A file that becomes shorter says so when it is opened anew.
        match copy_file(run, worker, submitter, item, shorts > 1) {
            Ok((size, hash)) => {
                let digest = hash.as_ref().map(|hash| hash.digest);
                counters.copied_files.add(1);
                run.record(&item.directory, &item.name, &item.copy_name, size, hash);
                return Ok(digest);
            }
            Err(Failure::Changed) => differs = false,
            Err(Failure::Short) => (differs, shorts) = (false, shorts + 1),
            Err(Failure::Differs) => differs = true,
            Err(Failure::Problem(problem)) => return Err(problem),
        }
    }
    Err(if differs {
        Problem::Differs {
            path: item.show_target(),
            mended: false,
        }
    } else {
        Problem::Changed {
            path: item.show_source(),
        }
    })
}

/// Copies a regular file, `to_end` whatever length it says; returns that and the hash of its bytes.
fn copy_file(
    run: &Arc<Run>,
    worker: &mut Worker,
    submitter: &Submitter<Worker>,
    item: &Item,
    to_end: bool,
) -> Result<(u64, Option<FileHash>), Failure> {
    let source = Source::open(&item.directory.source, &item.name)
        .map_err(item.failed(Action::Open, item.show_source()))?;
    let created = Temporary::create(run, &item.directory.target);
    let (temporary, target) =
        created.map_err(item.failed(Action::CreateFile, item.show_target()))?;
    let (pair, found) = source.with_target(target, item.show_source(), item.show_target())?;
    let hash = if to_end {
        pair.transfer_to_end(run, worker)?
    } else {
        transfer(run, worker, submitter, &pair, &found)?
    };
    settle(run, &pair, &found)?;
    temporary.rename(item)?;
    let directory = &item.directory.target;
    run.will_flag(directory, &item.copy_name, item.show_target(), &found.entry);
    Ok((found.entry.size(), hash))
}

/// Sets a copy's attributes if the source is unchanged.
pub(crate) fn settle(run: &Run, pair: &Pair, found: &Found) -> Result<(), Failure> {
    let state = |entry: &Entry| (entry.size(), entry.mtime, entry.ctime);
    let now: Found = read::stat_open(pair.source.as_fd(), OsStr::new(""), false)
        .map_err(|_| Failure::Changed)?;
    if state(&now.entry) != state(&found.entry) {
        return Err(Failure::Changed);
    }
    for error in write::apply(pair.target.as_fd(), &found.entry) {
        let path = pair.target_path.clone();
        run.problem(&Problem::Attribute { path, error });
    }
    Ok(())
}

/// An open source, with its attributes at opening.
pub(crate) struct Source {
    file: File,
    found: Found,
}

impl Source {
    /// Opens a regular file, and reads its attributes.
    pub(crate) fn open(directory: &OwnedFd, name: &OsStr) -> io::Result<Self> {
        let file = read::open_file(directory.as_fd(), name)?;
        let mut found: Found = read::stat_open(file.as_fd(), name, true)?;
        found.entry.xattrs = read::xattrs(file.as_fd())?;
        Ok(Self {
            file: file.into(),
            found,
        })
    }

    /// Puts a file beside it that becomes its copy.
    pub(crate) fn with_target(
        self,
        target: OwnedFd,
        source_path: std::path::PathBuf,
        target_path: std::path::PathBuf,
    ) -> Result<(Arc<Pair>, Found), Failure> {
        if !matches!(self.found.entry.kind, Kind::File { .. }) {
            return Err(Failure::Changed);
        }
        let pair = Pair {
            source: self.file,
            target: target.into(),
            source_path,
            target_path,
        };
        Ok((Arc::new(pair), self.found))
    }
}

/// Copies a link, pipe, socket or device; false if it was there.
fn copy_special(run: &Run, item: &Item) -> Result<bool, Problem> {
    let failed = |error| item.failed(Action::CreateSpecial, item.show_target())(error);
    let (source, target) = (item.directory.source.as_fd(), item.directory.target.as_fd());
    let name = item.copy_name.as_os_str();
    let mut entry = item.found.entry.clone();
    entry.xattrs = read::xattrs_at(source, &item.name)
        .map_err(item.failed(Action::Read, item.show_source()))?;
    let attributes = |name: &OsStr| {
        for error in write::apply_at(target, name, &entry) {
            let path = item.show_target();
            run.problem(&Problem::Attribute { path, error });
        }
    };
    match write::create(target, name, &entry) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => {
            result.map_err(failed)?;
            attributes(name);
            return Ok(true);
        }
    }
    let there: Found = read::stat(target, name, false).map_err(failed)?;
    if there.entry.kind == entry.kind {
        attributes(name);
        return Ok(false);
    }
    let temporary = Temporary {
        directory: &item.directory.target,
        name: run.claim.temporary(),
        is_there: true,
    };
    write::create(target, OsStr::new(&temporary.name), &entry).map_err(failed)?;
    attributes(OsStr::new(&temporary.name));
    temporary.rename(item).map(|()| true)
}

/// A file under a temporary name; removed unless it is renamed.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: String,
    is_there: bool,
}

impl<'a> Temporary<'a> {
    /// An empty one, open to its owner only.
    fn create(run: &Run, directory: &'a OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let name = run.claim.temporary();
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let temporary = Self {
            directory,
            name,
            is_there: true,
        };
        Ok((temporary, file))
    }

    /// Gives it the name of an item, in the place of whatever is no directory.
    fn rename(mut self, item: &Item) -> Result<(), Problem> {
        let renamed =
            rustix::fs::renameat(self.directory, &self.name, self.directory, &item.copy_name);
        match renamed {
            Ok(()) => {
                self.is_there = false;
                Ok(())
            }
            Err(Errno::ISDIR) => Err(Problem::OverDirectory {
                target: item.show_target(),
            }),
            Err(error) => Err(item.failed(Action::CreateFile, item.show_target())(
                error.into(),
            )),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.is_there {
            let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}
