//! Walks the sources, makes directories, and hands out their entries.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode};
use tabane_engine::Submitter;
use tabane_files::read::{self, Found};
use tabane_files::{beneath, write};

use crate::content::SHARED_LEN_MIN;
use crate::directory::{Directory, Place, below, is_in};
use crate::file::process;
use crate::item::Item;
use crate::operand::{Source, Target};
use crate::problem::{Action, Problem};
use crate::run::{Run, Worker, pool};

/// Files that a worker takes at a time at most…
const BATCH_FILES_MAX: usize = 32;

/// …unless they have this many bytes together.
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// Copies all sources.
pub(crate) fn copy_all(run: &Arc<Run>, target: &Target) {
    let mut taken = HashMap::new();
    // Names are remembered only where a second source can come upon them.
    let mut created = may_merge(&run.options.sources, target).then(HashSet::new);
    let mut workers = pool();
    let mut total = 0;
    for path in &run.options.sources {
        if run.is_stopped() {
            break;
        }
        let source = match Source::find(path) {
            Ok(source) => source,
            Err(error) => {
                run.problem(&stat_failed(path, error));
                continue;
            }
        };
        let copy_name = target.name.clone().unwrap_or(source.copy_name.clone());
        let found: Found = match read::stat(source.directory.as_fd(), &source.name, true) {
            Ok(found) => found,
            Err(error) => {
                run.problem(&stat_failed(path, error));
                continue;
            }
        };
        let top = Arc::new(Directory::top(place(&source, target)));
        match refuse(&top, &source, target, &copy_name, &found) {
            Ok(None) => {}
            Ok(Some(problem)) => {
                run.problem(&problem);
                continue;
            }
            Err(error) => {
                run.problem(&Problem::System {
                    action: Action::UseTarget,
                    path: top.show_target(&copy_name),
                    error,
                });
                continue;
            }
        }
        let is_directory = found.entry.directory().is_some();
        let identity = (found.device, found.entry.inode);
        match taken.insert(copy_name.clone(), (is_directory, identity)) {
            // The same source given twice.
            Some((_, before)) if before == identity => continue,
            // Into the same directory.
            Some((true, _)) if is_directory => {}
            Some(_) => {
                run.problem(&Problem::JustCreated {
                    source: path.clone(),
                    target: top.show_target(&copy_name),
                });
                continue;
            }
            None => {}
        }
        if created.is_some() {
            // A directory gets its attributes when a source is done, before the next source writes
            // into it.
            std::mem::replace(&mut workers, pool()).finish();
        }
        let mut walker = Walker {
            run,
            submitter: workers.submitter(),
            batch: Vec::new(),
            batch_len: 0,
            total,
            made: None,
            created: created.as_mut(),
        };
        walker.walk(top, source.name, copy_name, found);
        total = walker.total;
    }
    run.listed(total);
    workers.finish();
}

/// The place of a source and the target.
fn place(source: &Source, target: &Target) -> Arc<Place> {
    Arc::new(Place {
        source: Arc::clone(&source.directory),
        source_prefix: source.prefix.clone(),
        target: Arc::clone(&target.directory),
        target_prefix: target.prefix.clone(),
    })
}

/// Whether two sources may go into the same directory.
fn may_merge(sources: &[PathBuf], target: &Target) -> bool {
    if target.name.is_some() {
        return false;
    }
    let mut names = HashSet::new();
    let names_differ = sources
        .iter()
        .filter_map(|path| Source::find(path).ok())
        .all(|source| source.copy_name != "." && names.insert(source.copy_name));
    !names_differ && sources.len() > 1
}

fn stat_failed(path: &Path, error: io::Error) -> Problem {
    Problem::System {
        action: Action::Stat,
        path: path.to_owned(),
        error,
    }
}

/// Refuses targets to which a source cannot be copied.
fn refuse(
    top: &Directory,
    source: &Source,
    target: &Target,
    copy_name: &OsStr,
    found: &Found,
) -> io::Result<Option<Problem>> {
    let shown = (top.show_source(&source.name), top.show_target(copy_name));
    let identity = (found.device, found.entry.inode);
    let there: Option<Found> = match read::stat(top.target.as_fd(), copy_name, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        result => Some(result?),
    };
    if there.is_some_and(|there| (there.device, there.entry.inode) == identity) {
        let (source, target) = shown;
        return Ok(Some(Problem::SameFile { source, target }));
    }
    if found.entry.directory().is_none() {
        let target_path = shown.1;
        return Ok(
            match (copy_name == ".", target.slash && target.name.is_some()) {
                (true, _) => Some(Problem::OverDirectory {
                    target: target_path,
                }),
                (false, true) => Some(Problem::System {
                    action: Action::CreateFile,
                    path: target_path.join(""),
                    error: rustix::io::Errno::NOTDIR.into(),
                }),
                (false, false) => None,
            },
        );
    }
    let (source, target) = shown;
    Ok(is_in(&top.target, identity)?.then_some(Problem::IntoItself { source, target }))
}

struct Walker<'a> {
    run: &'a Arc<Run>,
    submitter: &'a Submitter<Worker>,
    batch: Vec<Item>,
    batch_len: u64,
    /// Bytes of the files so far.
    total: u64,
    /// The uppermost directory that was made: device and inode.
    made: Option<(u64, u64)>,
    /// Paths below the target that this run made, and that another source must not overwrite.
    created: Option<&'a mut HashSet<PathBuf>>,
}

/// A directory with the names that are left in it.
struct Level {
    directory: Arc<Directory>,
    names: std::vec::IntoIter<OsString>,
}

impl Walker<'_> {
    fn walk(&mut self, top: Arc<Directory>, name: OsString, copy_name: OsString, found: Found) {
        let mut levels = Vec::new();
        levels.extend(self.entry(&top, name, copy_name, found));
        // No recursion: trees may be deep.
        while let Some(level) = levels.last_mut() {
            let name = match level.names.next() {
                Some(name) if !self.run.is_stopped() => name,
                _ => {
                    if let Some(level) = levels.pop() {
                        self.run.close(level.directory);
                    }
                    continue;
                }
            };
            let directory = &level.directory;
            match read::stat(directory.source.as_fd(), &name, true) {
                Ok(found) => {
                    let directory = Arc::clone(directory);
                    levels.extend(self.entry(&directory, name.clone(), name, found));
                    self.run.close(directory);
                }
                Err(error) => {
                    let path = directory.show_source(&name);
                    self.run.problem(&stat_failed(&path, error));
                }
            }
        }
        self.flush();
        self.run.close(top);
    }

    /// Hands out an entry, or returns the directory that it is.
    fn entry(
        &mut self,
        directory: &Arc<Directory>,
        name: OsString,
        copy_name: OsString,
        found: Found,
    ) -> Option<Level> {
        if found.entry.directory().is_some() {
            return match self.directory(directory, &name, &copy_name, found) {
                Ok(level) => Some(level),
                Err(problem) => {
                    self.run.problem(&problem);
                    None
                }
            };
        }
        if let Some(created) = &mut self.created
            && !created.insert(below(&directory.target_path, &copy_name))
        {
            self.run.problem(&Problem::JustCreated {
                source: directory.show_source(&name),
                target: directory.show_target(&copy_name),
            });
            return None;
        }
        let size = found.entry.size();
        let item = self.run.links.admit(Item {
            directory: Arc::clone(directory),
            name,
            copy_name,
            found,
            first: None,
        })?;
        if item.first.is_none() {
            self.total += size;
        }
        if size >= SHARED_LEN_MIN {
            self.submit(vec![item]);
            return None;
        }
        self.batch.push(item);
        self.batch_len += size;
        if self.batch.len() >= BATCH_FILES_MAX || self.batch_len >= BATCH_BYTES_MAX {
            self.flush();
        }
        None
    }

    fn flush(&mut self) {
        self.batch_len = 0;
        let batch = std::mem::take(&mut self.batch);
        self.submit(batch);
    }

    fn submit(&self, items: Vec<Item>) {
        let run = Arc::clone(self.run);
        self.submitter.submit(move |worker, submitter| {
            for item in items {
                process(&run, worker, submitter, item);
            }
        });
    }

    /// Opens a directory and makes its copy.
    fn directory(
        &mut self,
        above: &Arc<Directory>,
        name: &OsStr,
        copy_name: &OsStr,
        found: Found,
    ) -> Result<Level, Problem> {
        let run = self.run;
        let failed = |action, path| {
            move |error| Problem::System {
                action,
                path,
                error,
            }
        };
        let source_failed = failed(Action::Open, above.show_source(name));
        let target_failed =
            |error| failed(Action::CreateDirectory, above.show_target(copy_name))(error);
        if self.made == Some((found.device, found.entry.inode)) {
            return Err(Problem::IntoItself {
                source: above.show_source(name),
                target: above.show_target(copy_name),
            });
        }
        let mut entry = found.entry;
        let (source, names) = (|| {
            let source = read::open_directory(above.source.as_fd(), name)?;
            entry.xattrs = read::xattrs(source.as_fd())?;
            let names = read::list(&source)?;
            Ok((source, names))
        })()
        .map_err(source_failed)?;
        let existed = match write::create_directory(above.target.as_fd(), copy_name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = beneath::file_type(above.target.as_fd(), copy_name);
                if there.map_err(target_failed)? != Some(FileType::Directory) {
                    return Err(Problem::OverOther {
                        source: above.show_source(name),
                        target: above.show_target(copy_name),
                    });
                }
                make_usable(&above.target, copy_name).map_err(target_failed)?;
                true
            }
            result => {
                result.map_err(target_failed)?;
                false
            }
        };
        let target =
            read::open_directory(above.target.as_fd(), copy_name).map_err(target_failed)?;
        run.will_sync(&target).map_err(target_failed)?;
        if existed {
            run.claim.clean(&target).map_err(target_failed)?;
        }
        if self.made.is_none() {
            let stat = rustix::fs::fstat(&target).map_err(|error| target_failed(error.into()))?;
            self.made = Some((stat.st_dev, stat.st_ino));
        }
        let counter = if existed {
            &run.counters.skipped_directories
        } else {
            &run.counters.copied_directories
        };
        counter.add(1);
        Ok(Level {
            directory: Arc::new(Directory {
                place: Arc::clone(&above.place),
                source_path: below(&above.source_path, name),
                target_path: below(&above.target_path, copy_name),
                source: Arc::new(source),
                target: Arc::new(target),
                existed,
                entry: Some(entry),
                parent: Some(Arc::clone(above)),
            }),
            names: names.into_iter(),
        })
    }
}

/// Lets the owner of a directory write into it; the directory gets its final mode in the end.
fn make_usable(above: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let mode = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o7777;
    if mode & 0o700 != 0o700 {
        let mode = Mode::from_raw_mode(mode | 0o700);
        // A failure shows later, when the directory refuses an entry.
        let _ = rustix::fs::chmodat(above, name, mode, AtFlags::empty());
    }
    Ok(())
}
