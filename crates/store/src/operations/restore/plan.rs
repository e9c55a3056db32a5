//! What is to be restored; makes directories and everything that has no content.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode};
use tabane_files::beneath::{file_type, in_directory, remove};
use tabane_files::read::{self, open_directory};
use tabane_files::write::{self, AttributeError};

use super::delete::{self, Surplus};
use super::files::File;
use super::options::Overwrite;
use super::repositories::is_repository;
use super::run::{RestoreSummary, Run};
use super::{target, there};
use crate::access::deep_stack::{DEPTH_MAX, with_deep_stack};
use crate::access::reader::BlockReader;
use crate::access::snapshots::path_text;
use crate::access::tree_ahead::{TreesAhead, with_trees_ahead};
use tabane_format::entry::{Entry, HardLink, Kind};
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_patterns::{Includes, Selection};
use tabane_storage::{Id, Outcome};

/// Fewer directories than this are finished sooner than a thread is started.
const DIRECTORIES_PER_THREAD: usize = 256;

/// Files of a part at most. A part is written while the next one is planned, so this bounds the
/// memory, which is some 600 bytes a file; fewer would read more segments twice, at the ends of
/// parts.
const PART_FILES_MAX: usize = 64 << 10;

/// Blocks of the files of a part, after which no file is added to it.
const PART_BLOCKS_MAX: usize = 256 << 10;

/// A part of a restore: files that are written together, and what can be done after them.
#[derive(Default)]
pub struct Part {
    /// Regular files, by number.
    pub files: Vec<Arc<File>>,
    /// Further names of these files, and of those of earlier parts.
    pub links: Vec<Link>,
    /// Directories with nothing in later parts, those below others first.
    pub directories: Vec<Directory>,
}

/// What is left to do when all parts are done.
#[derive(Default)]
pub struct Rest {
    /// Directories that await their attributes, those below others first.
    pub directories: Vec<Directory>,
    /// What is to be deleted.
    pub surplus: Vec<Surplus>,
    /// Files with flags.
    pub flagged_files: Vec<Arc<File>>,
    /// Directories with flags.
    pub flagged_directories: Vec<(PathBuf, Entry)>,
    /// What was counted.
    pub summary: RestoreSummary,
}

/// A directory that awaits its attributes.
pub struct Directory {
    /// Below the target; empty for the target itself.
    pub path: PathBuf,
    /// What it should be.
    pub entry: Entry,
    /// What becomes of it; one that is kept gets no attributes.
    pub outcome: Outcome,
    /// The mode that it had, if it was changed so that entries can be made in it.
    pub mode_before: Option<Mode>,
}

/// A further name of something.
pub struct Link {
    path: PathBuf,
    first: First,
    may_exist: bool,
}

/// The first name of a hard link.
#[derive(Clone)]
enum First {
    File(Arc<File>),
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
    /// It was made or is to be kept, and awaits the end of what is in it.
    directory: Option<Directory>,
    /// Something in it is deleted in the end, and only then it gets its attributes.
    waits: bool,
    /// It is a repository in the target: nothing below it is deleted.
    is_repository: bool,
}

impl Step {
    fn new(path: PathBuf, entry: Option<Entry>, existed: bool) -> Self {
        Self {
            path,
            made: entry.is_none(),
            entry,
            existed,
            directory: None,
            waits: false,
            is_repository: false,
        }
    }
}

/// What is found in a directory of the target that was there before.
enum Listing {
    Names(Vec<OsString>),
    /// Something is mounted there that the backup may have left out.
    MountPoint,
    Repository,
}

struct Planner<'a, 'b> {
    run: &'a Run,
    trees: &'a mut TreesAhead<'b>,
    /// The target directory; nothing as long as it is not there.
    target: Option<Arc<OwnedFd>>,
    take: &'a mut dyn FnMut(&Option<Arc<OwnedFd>>, Part),
    part: Part,
    /// Blocks of the files of the part.
    part_blocks: usize,
    rest: Rest,
    firsts: HashMap<HardLink, First>,
    /// The paths that were backed up: the snapshot has all of these, and only the way to them of
    /// what is above.
    sources: HashSet<String>,
    way: Vec<Step>,
}

/// Plans the restore, does what needs no content, and hands the rest to `take`, part by part, with
/// the target. The target is made when there is something to restore.
///
/// # Errors
/// When the target cannot be used, the subpath is not in the snapshot, or the repository cannot be
/// read.
pub fn make(
    run: &Run,
    includes: &Includes,
    snapshot_id: Id,
    snapshot: &Snapshot,
    mut take: impl FnMut(&Option<Arc<OwnedFd>>, Part) + Send,
) -> Result<(Option<Arc<OwnedFd>>, Rest)> {
    with_deep_stack(|| {
        let is_part = run.options.subpath != Path::new("/");
        let reader = || {
            if is_part {
                BlockReader::new(&run.repository)
            } else {
                BlockReader::of_trees(&run.repository)
            }
        };
        with_trees_ahead(&run.repository, &run.index, reader, |trees| {
            let found = find(run, trees, snapshot_id, snapshot)?;
            target::refuse_repository(&run.options.target)?;
            let target = target::open(&run.options, false)?.map(Arc::new);
            let existed = target.is_some();
            let is_new = target.as_deref().is_none_or(target::is_unfinished);
            let mut planner = Planner {
                run,
                trees,
                target,
                take: &mut take,
                part: Part::default(),
                part_blocks: 0,
                rest: Rest::default(),
                firsts: HashMap::new(),
                sources: snapshot.paths.iter().cloned().collect(),
                way: vec![Step::new(PathBuf::new(), None, existed)],
            };
            planner.all(includes, found, is_new)?;
            Ok((planner.target, planner.rest))
        })
    })
}

/// What is at the subpath.
struct Found {
    /// The path in the snapshot that the entries are in.
    above: PathBuf,
    /// The directory there, unless it is the root or the subpath is a single entry.
    directory: Option<Entry>,
    /// The entries.
    entries: Vec<Entry>,
    /// The subpath is no directory, but the only entry.
    is_single: bool,
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
                    is_single: true,
                });
            }
            None => return Err(no_such_path()),
        };
    }
    Ok(Found {
        above: path,
        directory,
        entries,
        is_single: false,
    })
}

impl Planner<'_, '_> {
    /// Plans everything.
    fn all(&mut self, includes: &Includes, found: Found, is_new: bool) -> Result<()> {
        let Found {
            above,
            directory,
            entries,
            is_single,
        } = found;
        let selection = includes.select_directory(&above);
        // A target that was there has attributes of its own, if no restore has left it unfinished.
        if let Some(mut directory) = directory.filter(|_| is_new) {
            self.run.adapt(&mut directory);
            self.way[0].directory = Some(Directory {
                path: PathBuf::new(),
                entry: directory,
                outcome: Outcome::Created,
                mode_before: None,
            });
        }
        if entries.is_empty() && !self.make_target() {
            return Ok(());
        }
        let is_whole = !is_single && above.ancestors().any(|path| self.is_source(path));
        self.entries(includes, &above, entries, selection, is_whole)?;
        self.leave();
        self.hand_over();
        Ok(())
    }

    /// Makes the target if it is not there; false if that fails. A dry run makes none.
    fn make_target(&mut self) -> bool {
        if self.target.is_some() || self.run.options.dry_run {
            return true;
        }
        match target::open(&self.run.options, true) {
            Ok(target) => self.target = target.map(Arc::new),
            Err(error) => self.run.fail(error),
        }
        if let (Some(target), true) = (&self.target, self.way[0].directory.is_some()) {
            target::mark_unfinished(target);
        }
        self.target.is_some()
    }

    /// Leaves the directory that is the last step.
    fn leave(&mut self) {
        let step = self.way.pop().expect("the target is a step");
        if step.waits
            && let Some(above) = self.way.last_mut()
        {
            // It could not be reached any more once those above it have their attributes.
            above.waits = true;
        }
        // A target that was not needed was not made.
        let is_target = self.target.is_some() || self.run.options.dry_run;
        let Some(directory) = step.directory.filter(|_| is_target) else {
            return;
        };
        if !directory.entry.flags.is_empty() && directory.outcome != Outcome::Kept {
            let flagged = (directory.path.clone(), directory.entry.clone());
            self.rest.flagged_directories.push(flagged);
        }
        if step.waits {
            self.rest.directories.push(directory);
        } else {
            self.part.directories.push(directory);
        }
    }

    /// Hands over what is planned.
    fn hand_over(&mut self) {
        self.part_blocks = 0;
        (self.take)(&self.target, std::mem::take(&mut self.part));
    }

    /// Plans the entries of the directory that is the last step; `above` is its path in the
    /// snapshot, which has all of it if `is_whole`.
    fn entries(
        &mut self,
        includes: &Includes,
        above: &Path,
        entries: Vec<Entry>,
        parent: Selection,
        is_whole: bool,
    ) -> Result<()> {
        if is_whole && self.run.options.delete {
            self.find_surplus(above, &entries, parent);
        }
        // Of others it is not known yet whether they are wanted.
        if parent == Selection::Take {
            self.trees.announce(
                entries
                    .iter()
                    .filter_map(Entry::directory)
                    .map(Vec::as_slice),
            );
        }
        for mut entry in entries {
            if self.run.has_failed() {
                return Ok(());
            }
            self.run.adapt(&mut entry);
            let name = OsStr::from_bytes(&entry.name);
            let path = above.join(name);
            let is_directory = entry.directory().is_some();
            let selection = includes.select(&path, is_directory, parent);
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
                let is_whole = is_whole || self.is_source(&path);
                self.way.push(Step::new(below, Some(entry), true));
                if selection != Selection::Take || self.make_way() {
                    self.entries(includes, &path, entries, selection, is_whole)?;
                }
                self.leave();
            } else if self.make_way() {
                self.entry(includes, below, &path, entry, parent);
            }
        }
        Ok(())
    }

    fn is_source(&self, path: &Path) -> bool {
        self.sources.contains(&path_text(path))
    }

    /// Notes what the target has in the directory that is the last step, and the snapshot has not.
    fn find_surplus(&mut self, above: &Path, entries: &[Entry], parent: Selection) {
        let step = self.way.last().expect("the target is a step");
        let Some(target) = self.target.as_ref().filter(|_| step.existed) else {
            return;
        };
        if self.way.iter().any(|step| step.is_repository) {
            return;
        }
        // What is mounted there may have been left out because of that.
        let may_be_left_out = entries.is_empty();
        let listed = if step.path.as_os_str().is_empty() {
            let directory = open_directory(target.as_fd(), OsStr::new("."));
            directory.and_then(|directory| read::list(&directory).map(Listing::Names))
        } else {
            in_directory(target, &step.path, |above, name| {
                let directory = open_directory(above, name)?;
                if may_be_left_out && delete::is_mount_point(above, directory.as_fd())? {
                    return Ok(Listing::MountPoint);
                }
                if is_repository(directory.as_fd()) {
                    return Ok(Listing::Repository);
                }
                read::list(&directory).map(Listing::Names)
            })
        };
        let names = match listed {
            Ok(Listing::Names(names)) => names,
            Ok(Listing::MountPoint) => {
                delete::warn_of_mount_point(self.run, &step.path);
                return;
            }
            Ok(Listing::Repository) => {
                delete::warn_of_repository(self.run, &step.path);
                self.way
                    .last_mut()
                    .expect("the target is a step")
                    .is_repository = true;
                return;
            }
            Err(error) => {
                // Only once it was made, a step is known to be a directory.
                if step.made {
                    self.run.io_error(&step.path, "list", error);
                }
                return;
            }
        };
        let known: HashSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
        let surplus = names.iter().filter(|name| !known.contains(name.as_bytes()));
        let before = self.rest.surplus.len();
        self.rest.surplus.extend(surplus.map(|name| Surplus {
            below: step.path.join(name),
            path: above.join(name),
            parent,
        }));
        let waits = self.rest.surplus.len() > before;
        self.way.last_mut().expect("the target is a step").waits |= waits;
    }

    /// What the target has at `path`, in the directory that is the last step.
    fn find_there(&self, path: &Path) -> Option<Entry> {
        let step = self.way.last().expect("the target is a step");
        let target = self.target.as_ref().filter(|_| step.existed)?;
        there::find(target, path)
    }

    /// Makes the directories on the way that are not there; false if one cannot be made.
    fn make_way(&mut self) -> bool {
        if !self.make_target() {
            return false;
        }
        let options = &self.run.options;
        let mut above_existed = true;
        for step in &mut self.way {
            if step.made {
                above_existed = step.existed;
                continue;
            }
            let entry = step.entry.take().expect("only the target has no entry");
            let target = self.target.as_ref().filter(|_| above_existed);
            let there = target.and_then(|target| there::find(target, &step.path));
            let is_directory = |there: &&Entry| there.directory().is_some();
            let made = match (&there, &self.target) {
                (Some(there), _)
                    if there.directory().is_none() && options.overwrite.keeps(there, &entry) =>
                {
                    Err(io::Error::other("something else is there, and is to stay"))
                }
                (_, Some(target)) if !options.dry_run => make_directory(target, &step.path),
                (there, _) => Ok(Made {
                    existed: there.as_ref().filter(is_directory).is_some(),
                    mode_before: None,
                }),
            };
            let mode_before = match made {
                Ok(made) => {
                    step.existed = made.existed;
                    made.mode_before
                }
                Err(error) => {
                    self.run.io_error(&step.path, "make", error);
                    step.entry = Some(entry);
                    return false;
                }
            };
            step.made = true;
            above_existed = step.existed;
            self.rest.summary.directories += 1;
            let outcome = match there.as_ref().filter(is_directory) {
                Some(there) if options.overwrite.keeps(there, &entry) => Outcome::Kept,
                _ if there.is_some() && !step.existed => Outcome::Updated,
                there => there::outcome(there, &entry),
            };
            step.directory = Some(Directory {
                path: step.path.clone(),
                entry,
                outcome,
                mode_before,
            });
        }
        true
    }

    /// Whether the directory in the place of an entry that is none can go: it is empty, or what is
    /// in it is to be deleted.
    fn is_free(&self, includes: &Includes, path: &Path, source: &Path, parent: Selection) -> bool {
        let Some(target) = &self.target else {
            return true;
        };
        if self.run.options.delete {
            let surplus = Surplus {
                below: path.to_owned(),
                path: source.to_owned(),
                parent,
            };
            return delete::delete(self.run, target, includes, &surplus);
        }
        let there = in_directory(target, path, open_directory);
        let names = there.and_then(|directory| read::list(&directory));
        names.is_ok_and(|names| names.is_empty())
    }

    /// Plans an entry that is no directory; `source` is its path in the snapshot, and `parent` what
    /// is chosen of the directory that it is in.
    fn entry(
        &mut self,
        includes: &Includes,
        path: PathBuf,
        source: &Path,
        entry: Entry,
        parent: Selection,
    ) {
        let options = &self.run.options;
        let there = self.find_there(&path);
        if let Some(there) = &there {
            if options.overwrite.keeps(there, &entry) {
                self.run.entry(&path, Outcome::Kept);
                return;
            }
            if there.directory().is_some() && !self.is_free(includes, &path, source, parent) {
                let why = "a directory that is not empty is there: move it away, or delete it";
                self.run.error(&path, &why);
                return;
            }
        }
        // Inode numbers are used again, and some file systems make them up: the same content makes
        // it sure.
        let is_same_content = |first: &&First| match first {
            First::File(file) => file.entry.kind == entry.kind,
            First::Other(_, kind) => *kind == entry.kind,
        };
        let known = entry.hard_link.and_then(|link| self.firsts.get(&link));
        if let Some(first) = known.filter(is_same_content) {
            self.part.links.push(Link {
                path,
                first: first.clone(),
                may_exist: there.is_some(),
            });
            self.rest.summary.others += 1;
            return;
        }
        if let Kind::File { size, .. } = entry.kind {
            self.rest.summary.files += 1;
            let total = &mut self.rest.summary.total_bytes;
            // Holes may be of any length.
            *total = total.saturating_add(size);
            let is_assumed_right = options.overwrite == Overwrite::IfChanged
                && there.as_ref().is_some_and(|there| {
                    matches!(there.kind, Kind::File { .. })
                        && there.hard_link.is_none()
                        && (there.size(), there.mtime) == (size, entry.mtime)
                });
            let file = Arc::new(File::new(path, entry, there, is_assumed_right));
            if let Some(link) = file.entry.hard_link {
                self.firsts.insert(link, First::File(Arc::clone(&file)));
            }
            if !file.entry.flags.is_empty() {
                self.rest.flagged_files.push(Arc::clone(&file));
            }
            self.part_blocks += file.blocks().count();
            self.part.files.push(file);
            if self.part.files.len() >= PART_FILES_MAX || self.part_blocks >= PART_BLOCKS_MAX {
                self.hand_over();
            }
            return;
        }
        if let Some(link) = entry.hard_link {
            let first = First::Other(path.clone(), entry.kind.clone());
            self.firsts.insert(link, first);
        }
        self.rest.summary.others += 1;
        let outcome = match &there {
            Some(there) if there.kind != entry.kind => Outcome::Updated,
            there => there::outcome(there.as_ref(), &entry),
        };
        if let Some(target) = self.target.as_ref().filter(|_| !options.dry_run) {
            let made = in_directory(target, &path, |directory, name| {
                if !is_same(directory, name, &entry) {
                    remove(directory, name)?;
                    write::create(directory, name, &entry)?;
                }
                Ok(write::apply_at(directory, name, &entry))
            });
            match made {
                Ok(failures) => attribute_errors(self.run, &path, &failures),
                Err(error) => {
                    self.run.io_error(&path, "make", error);
                    return;
                }
            }
        }
        self.run.entry(&path, outcome);
    }
}

/// What came of the making of a directory.
struct Made {
    /// It was there.
    existed: bool,
    /// See [`Directory::mode_before`].
    mode_before: Option<Mode>,
}

/// Whether there is such a link, pipe or device already.
fn is_same(directory: BorrowedFd<'_>, name: &OsStr, entry: &Entry) -> bool {
    read::stat(directory, name, false).is_ok_and(|found| found.entry.kind == entry.kind)
}

/// Makes a directory, or makes one that is there usable for its owner.
fn make_directory(target: &OwnedFd, path: &Path) -> io::Result<Made> {
    in_directory(target, path, |directory, name| {
        match write::create_directory(directory, name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if file_type(directory, name)? == Some(FileType::Directory) {
                    return Ok(Made {
                        existed: true,
                        mode_before: give_owner_rights(directory, name),
                    });
                }
                remove(directory, name)?;
                write::create_directory(directory, name)?;
            }
            result => result?,
        }
        Ok(Made {
            existed: false,
            mode_before: None,
        })
    })
}

/// Gives the owner of a directory the rights to it that he took from himself, and returns its mode
/// before that; nothing if he has them, or if they cannot be given.
pub fn give_owner_rights(directory: BorrowedFd<'_>, name: &OsStr) -> Option<Mode> {
    let there = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let mode = Mode::from_raw_mode(there.st_mode);
    if mode.contains(Mode::RWXU) {
        return None;
    }
    let with_rights = mode | Mode::RWXU;
    let given = rustix::fs::chmodat(directory, name, with_rights, AtFlags::empty());
    given.ok().map(|()| mode)
}

/// Gives the files that have them their further names.
pub fn link_all(run: &Run, target: &OwnedFd, links: &[Link]) {
    for link in links {
        if run.has_failed() {
            return;
        }
        let path = &link.path;
        let first = match &link.first {
            First::File(file) if file.has_failed() => {
                run.error(path, &"its other name could not be restored");
                continue;
            }
            first => first.path(),
        };
        let linked = in_directory(target, first, |first_directory, first_name| {
            in_directory(target, path, |directory, name| {
                if is_linked(first_directory, first_name, directory, name)? {
                    return Ok(true);
                }
                remove(directory, name)?;
                write::hard_link(first_directory, first_name, directory, name)?;
                Ok(false)
            })
        });
        match linked {
            Ok(was_linked) => run.entry(path, link.outcome(was_linked)),
            Err(error) => run.io_error(path, "link", error),
        }
    }
}

/// Tells what would become of further names.
pub fn compare_links(run: &Run, target: Option<&OwnedFd>, links: &[Link]) {
    for link in links {
        let is_linked = target.is_some_and(|target| {
            let first = link.first.path();
            let linked = in_directory(target, first, |first_directory, first_name| {
                in_directory(target, &link.path, |directory, name| {
                    is_linked(first_directory, first_name, directory, name)
                })
            });
            linked.unwrap_or(false)
        });
        run.entry(&link.path, link.outcome(is_linked));
    }
}

/// Whether both are names of one inode.
fn is_linked(
    first_directory: BorrowedFd<'_>,
    first_name: &OsStr,
    directory: BorrowedFd<'_>,
    name: &OsStr,
) -> io::Result<bool> {
    let stat = |directory, name| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let wanted = stat(first_directory, first_name)?;
    let inode = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    Ok(stat(directory, name).is_ok_and(|there| inode(there) == inode(wanted)))
}

impl First {
    fn path(&self) -> &Path {
        match self {
            Self::File(file) => &file.path,
            Self::Other(path, _) => path,
        }
    }
}

impl Link {
    /// What becomes of it, if it is a name of the right inode already or not.
    fn outcome(&self, is_linked: bool) -> Outcome {
        match (&self.first, is_linked, self.may_exist) {
            (First::File(file), true, _) => file.outcome(),
            (First::Other(..), true, _) => Outcome::Unchanged,
            (_, false, true) => Outcome::Updated,
            (_, false, false) => Outcome::Created,
        }
    }
}

/// Gives directories their attributes, those below others first: these may become unreachable then.
/// Directories of one depth are finished side by side.
pub fn finish_directories(run: &Run, target: &OwnedFd, directories: &[Directory]) {
    let depth = |path: &Path| path.components().count();
    let mut deepest_first: Vec<&Directory> = directories.iter().collect();
    deepest_first.sort_by_cached_key(|directory| Reverse(depth(&directory.path)));
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    for level in deepest_first.chunk_by(|a, b| depth(&a.path) == depth(&b.path)) {
        let part = level.len().div_ceil(workers).max(DIRECTORIES_PER_THREAD);
        let (own, others) = level.split_at(part.min(level.len()));
        let finish = |part: &[&Directory]| {
            for directory in part {
                if directory.outcome != Outcome::Kept {
                    finish_directory(run, target, &directory.path, &directory.entry);
                } else if let Some(mode) = directory.mode_before {
                    let given_back = in_directory(target, &directory.path, |above, name| {
                        Ok(rustix::fs::chmodat(above, name, mode, AtFlags::empty())?)
                    });
                    if let Err(error) = given_back {
                        run.io_error(&directory.path, "finish", error);
                    }
                }
                run.entry(&directory.path, directory.outcome);
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
        if run.has_failed() {
            // The next restore goes on, and gives the target its attributes.
            return;
        }
        target::mark_finished(target);
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
}

/// Gives files and directories the flags that they should have. Nothing can be changed afterwards.
pub fn set_flags(run: &Run, target: &OwnedFd, rest: &Rest) {
    let files = rest.flagged_files.iter().filter(|file| !file.has_failed());
    let files = files.map(|file| (&file.path, &file.entry));
    let directories = rest.flagged_directories.iter();
    let directories = directories.map(|(path, entry)| (path, entry));
    for (path, entry) in files.chain(directories) {
        let applied = if path.as_os_str().is_empty() {
            Ok(write::apply_flags(target.as_fd(), OsStr::new("."), entry))
        } else {
            in_directory(target, path, |directory, name| {
                Ok(write::apply_flags(directory, name, entry))
            })
        };
        match applied {
            Ok(failure) => attribute_errors(run, path, failure.as_slice()),
            Err(error) => run.io_error(path, "finish", error),
        }
    }
}

/// Reports attributes that could not be restored.
pub fn attribute_errors(run: &Run, path: &Path, failures: &[AttributeError]) {
    for failure in failures {
        run.error(path, failure);
    }
}
