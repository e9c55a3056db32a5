//! What is to be restored; makes directories and everything that has no content.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode};
use tabane_files::beneath::{file_type, in_directory, remove};
use tabane_files::read::{self, open_directory};
use tabane_files::write::{self, AttributeError};

use super::files::File;
use super::{RestoreSummary, Run};
use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use crate::access::tree_ahead::{TreesAhead, with_trees_ahead};
use crate::error::{Error, Result};
use crate::format::entry::{Entry, HardLink, Kind};
use crate::format::snapshot::Snapshot;
use crate::operations::exclude::{Includes, Selection};
use tabane_storage::Id;

/// Fewer directories than this are finished sooner than a thread is started.
const DIRECTORIES_PER_THREAD: usize = 256;

/// What is left to do when everything without content is there.
pub struct Plan {
    /// The target directory; nothing in a dry run.
    pub target: Option<OwnedFd>,
    /// Regular files, by number.
    pub files: Vec<File>,
    /// Further names of files.
    pub links: Vec<Link>,
    /// Directories that await their attributes, those above others first.
    pub directories: Vec<(PathBuf, Entry)>,
    /// What was counted.
    pub summary: RestoreSummary,
}

/// A further name of something.
pub struct Link {
    path: PathBuf,
    first: First,
}

/// The first name of a hard link.
#[derive(Clone)]
enum First {
    File(usize),
    Other(PathBuf, Kind),
}

/// A directory on the way down, made when something in it is restored.
struct Step {
    /// Below the target; empty for the target itself.
    path: PathBuf,
    entry: Option<Entry>,
    made: bool,
    /// It was there before: so may be what is restored into it.
    existed: bool,
}

struct Planner<'a, 'b> {
    run: &'a Run,
    includes: Includes,
    trees: &'a mut TreesAhead<'b>,
    plan: Plan,
    firsts: HashMap<HardLink, First>,
    way: Vec<Step>,
}

/// Plans the restore and does what needs no content.
///
/// # Errors
/// When the target cannot be used, the subpath is not in the snapshot, or the repository cannot be
/// read.
pub fn make(run: &Run, snapshot_id: Id, snapshot: &Snapshot) -> Result<Plan> {
    with_deep_stack(|| {
        with_trees_ahead(&run.repository, &run.index, |trees| {
            make_reading(run, trees, snapshot_id, snapshot)
        })
    })
}

fn make_reading(
    run: &Run,
    trees: &mut TreesAhead,
    snapshot_id: Id,
    snapshot: &Snapshot,
) -> Result<Plan> {
    let Found {
        above,
        directory,
        entries,
    } = find(run, trees, snapshot_id, snapshot)?;
    let (target, is_new) = if run.options.dry_run {
        (None, false)
    } else {
        let (target, is_new) = open_target(&run.options.target)?;
        (Some(target), is_new)
    };
    let mut planner = Planner {
        run,
        includes: Includes::new(&run.options.includes)?,
        trees,
        plan: Plan {
            target,
            files: Vec::new(),
            links: Vec::new(),
            directories: Vec::new(),
            summary: RestoreSummary::default(),
        },
        firsts: HashMap::new(),
        way: vec![Step {
            path: PathBuf::new(),
            entry: None,
            made: true,
            existed: true,
        }],
    };
    let ancestors = above
        .ancestors()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .skip(1);
    let selection = ancestors.fold(Selection::Enter, |parent, path| {
        planner.includes.select(path, true, parent)
    });
    // A target that was there has attributes of its own.
    if let Some(directory) = directory.filter(|_| is_new) {
        planner.plan.directories.push((PathBuf::new(), directory));
    }
    planner.entries(&above, entries, selection)?;
    Ok(planner.plan)
}

/// What is at the subpath.
struct Found {
    /// The path in the snapshot that the entries are in.
    above: PathBuf,
    /// The directory there, unless it is the root or the subpath is a single entry.
    directory: Option<Entry>,
    /// The entries.
    entries: Vec<Entry>,
}

/// Finds what is at the subpath.
fn find(run: &Run, trees: &mut TreesAhead, snapshot_id: Id, snapshot: &Snapshot) -> Result<Found> {
    let mut path = PathBuf::from("/");
    let mut directory = None;
    let mut entries = trees.read(&snapshot.root)?;
    for component in run.options.subpath.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let no_such_path = || Error::NoSuchPath {
            path: run.options.subpath.display().to_string(),
            snapshot: snapshot_id.short(),
        };
        let at = entries
            .iter()
            .position(|entry| entry.name == name.as_bytes())
            .ok_or_else(no_such_path)?;
        let entry = entries.swap_remove(at);
        entries = match entry.directory() {
            Some(content) => {
                path.push(name);
                let entries = trees.read(content)?;
                directory = Some(entry);
                entries
            }
            // Whatever comes behind a file's name is not in the snapshot.
            None if path.join(name) == run.options.subpath => {
                return Ok(Found {
                    above: path,
                    directory: None,
                    entries: vec![entry],
                });
            }
            None => return Err(no_such_path()),
        };
    }
    Ok(Found {
        above: path,
        directory,
        entries,
    })
}

/// Opens the target; true if it had to be made.
fn open_target(target: &Path) -> Result<(OwnedFd, bool)> {
    let is_new = !target.exists();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(target)
        .and_then(|()| {
            // The target itself may be a link; what is below it is never followed.
            let target = target.canonicalize()?;
            Ok((open_directory(CWD, target.as_os_str())?, is_new))
        })
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                Error::WrongKind(format!(
                    "the target {} is not a directory: choose a directory, or a new name for one",
                    target.display()
                ))
            }
            _ => Error::path("use the target", target)(error),
        })
}

impl Planner<'_, '_> {
    /// Plans the entries of the directory that is the last step; `above` is its path in the
    /// snapshot.
    fn entries(&mut self, above: &Path, entries: Vec<Entry>, parent: Selection) -> Result<()> {
        // Of others it is not known yet whether they are wanted.
        if parent == Selection::Take {
            self.trees.announce(
                entries
                    .iter()
                    .filter_map(Entry::directory)
                    .map(Vec::as_slice),
            );
        }
        for entry in entries {
            if self.run.has_failed() {
                return Ok(());
            }
            let name = OsStr::from_bytes(&entry.name);
            let path = above.join(name);
            let is_directory = entry.directory().is_some();
            let selection = self.includes.select(&path, is_directory, parent);
            if selection == Selection::Skip {
                continue;
            }
            let below = self
                .way
                .last()
                .expect("the target is a step")
                .path
                .join(name);
            if let Kind::Directory { content } = &entry.kind {
                let entries = match self.trees.read(content) {
                    Ok(entries) => entries,
                    Err(error) => {
                        self.run.error(&path, &error);
                        continue;
                    }
                };
                if self.way.len() > DEPTH_MAX {
                    self.run.error(&path, &"it is too many directories deep");
                    continue;
                }
                self.way.push(Step {
                    path: below,
                    entry: Some(entry),
                    made: false,
                    existed: true,
                });
                if selection != Selection::Take || self.make_way() {
                    self.entries(&path, entries, selection)?;
                }
                self.way.pop();
            } else if self.make_way() {
                self.entry(below, entry);
            }
        }
        Ok(())
    }

    /// Makes the directories on the way that are not there; false if one cannot be made.
    fn make_way(&mut self) -> bool {
        for step in self.way.iter_mut().filter(|step| !step.made) {
            let entry = step.entry.take().expect("only the target has no entry");
            let made = match &self.plan.target {
                Some(target) => make_directory(target, &step.path),
                None => Ok(true),
            };
            match made {
                Ok(existed) => step.existed = existed,
                Err(error) => {
                    self.run.io_error(&step.path, "make the directory", error);
                    step.entry = Some(entry);
                    return false;
                }
            }
            step.made = true;
            self.plan.summary.directories += 1;
            self.plan.directories.push((step.path.clone(), entry));
        }
        true
    }

    /// Plans an entry that is no directory.
    fn entry(&mut self, path: PathBuf, entry: Entry) {
        if let Some(link) = entry.hard_link {
            // Inode numbers are used again, and some file systems make them up: the same content
            // makes it sure.
            let same = |first: &&First| match first {
                First::File(number) => self.plan.files[*number].entry.kind == entry.kind,
                First::Other(_, kind) => *kind == entry.kind,
            };
            if let Some(first) = self.firsts.get(&link).filter(same) {
                let first = first.clone();
                self.plan.links.push(Link { path, first });
                self.plan.summary.others += 1;
                return;
            }
            let first = match entry.kind {
                Kind::File { .. } => First::File(self.plan.files.len()),
                _ => First::Other(path.clone(), entry.kind.clone()),
            };
            self.firsts.insert(link, first);
        }
        if let Kind::File { size, .. } = entry.kind {
            self.plan.summary.files += 1;
            let total = &mut self.plan.summary.total_bytes;
            // Holes may be of any length.
            *total = total.saturating_add(size);
            let may_exist = self.way.last().expect("the target is a step").existed;
            self.plan.files.push(File::new(path, entry, may_exist));
            return;
        }
        self.plan.summary.others += 1;
        let Some(target) = &self.plan.target else {
            return;
        };
        let made = in_directory(target, &path, |directory, name| {
            if !is_same(directory, name, &entry) {
                remove(directory, name)?;
                write::create(directory, name, &entry)?;
            }
            Ok(write::apply_at(directory, name, &entry))
        });
        match made {
            Ok(failures) => attribute_errors(self.run, &path, &failures),
            Err(error) => self.run.io_error(&path, "make", error),
        }
        self.run.entry(&path);
    }
}

/// Whether there is such a link, pipe or device already.
fn is_same(directory: BorrowedFd<'_>, name: &OsStr, entry: &Entry) -> bool {
    read::stat(directory, name, false).is_ok_and(|found| found.entry.kind == entry.kind)
}

/// Makes a directory; true if it was there.
fn make_directory(target: &OwnedFd, path: &Path) -> io::Result<bool> {
    in_directory(target, path, |directory, name| {
        match write::create_directory(directory, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if file_type(directory, name)? == Some(FileType::Directory) {
                    // Its owner may have taken his own rights away; in the end it gets those that
                    // it should have.
                    let _ = rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::empty());
                    return Ok(true);
                }
                remove(directory, name)?;
                write::create_directory(directory, name)?;
            }
            result => result?,
        }
        Ok(false)
    })
}

/// Gives the files that have them their further names.
pub fn link_all(run: &Run, target: &OwnedFd, files: &[File], links: &[Link]) {
    for Link { path, first } in links {
        if run.has_failed() {
            return;
        }
        let first = match first {
            First::File(number) if files[*number].has_failed() => {
                run.error(path, &"its other name could not be restored");
                continue;
            }
            First::File(number) => &files[*number].path,
            First::Other(path, _) => path,
        };
        let linked = in_directory(target, first, |first_directory, first_name| {
            in_directory(target, path, |directory, name| {
                let stat = |directory, name| {
                    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                };
                let wanted = stat(first_directory, first_name)?;
                if stat(directory, name).is_ok_and(|there| {
                    (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino)
                }) {
                    return Ok(());
                }
                remove(directory, name)?;
                write::hard_link(first_directory, first_name, directory, name)
            })
        });
        if let Err(error) = linked {
            run.io_error(path, "link", error);
        }
        run.entry(path);
    }
}

/// Gives directories their attributes, those below others first: these may become unreachable then.
/// Directories of one depth are finished side by side.
pub fn finish_directories(run: &Run, target: &OwnedFd, directories: &[(PathBuf, Entry)]) {
    let depth = |path: &Path| path.components().count();
    let mut deepest_first: Vec<&(PathBuf, Entry)> = directories.iter().collect();
    deepest_first.sort_by_cached_key(|(path, _)| Reverse(depth(path)));
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    for level in deepest_first.chunk_by(|(a, _), (b, _)| depth(a) == depth(b)) {
        let part = level.len().div_ceil(workers).max(DIRECTORIES_PER_THREAD);
        let (own, others) = level.split_at(part.min(level.len()));
        let finish = |part: &[&(PathBuf, Entry)]| {
            for (path, entry) in part {
                finish_directory(run, target, path, entry);
            }
        };
        std::thread::scope(|scope| {
            for part in others.chunks(part) {
                scope.spawn(move || finish(part));
            }
            finish(own);
        });
    }
}

fn finish_directory(run: &Run, target: &OwnedFd, path: &Path, entry: &Entry) {
    let applied = if path.as_os_str().is_empty() {
        Ok(write::apply(target.as_fd(), entry))
    } else {
        in_directory(target, path, |directory, name| {
            let directory = open_directory(directory, name)?;
            Ok(write::apply(directory.as_fd(), entry))
        })
    };
    match applied {
        Ok(failures) => attribute_errors(run, path, &failures),
        Err(error) => run.io_error(path, "finish", error),
    }
    run.entry(path);
}

/// Reports attributes that could not be restored.
pub fn attribute_errors(run: &Run, path: &Path, failures: &[AttributeError]) {
    for failure in failures {
        run.error(path, failure);
    }
}
