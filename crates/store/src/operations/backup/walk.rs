//! Walks the sources and hands out entries and files to read.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::SignedDuration;
use tabane_engine::Submitter;
use tabane_files::read;

use super::cold::Cold;
use super::directory::{Directory, Place};
use super::options::Source;
use super::parent::{KnownFile, Listing, ParentFiles};
use super::read::{Batch, FileJob, LargeFile};
use super::run::{Run, cannot_read};
use crate::access::deep_stack::DEPTH_MAX;
use crate::access::reader::BlockReader;
use crate::access::writer::Encoder;
use tabane_format::entry::{self, Entry, Flags, Found, Kind, Piece};
use tabane_format::tally::Tally;
use tabane_format::{Error, Result};
use tabane_patterns::Scope;
use tabane_storage::Outcome;

/// Walks the source in one thread.
pub struct Walker<'a> {
    run: &'a Arc<Run>,
    submitter: Submitter<Encoder>,
    reader: BlockReader,
    parent: &'a ParentFiles,
    batch: Batch,
    /// Entries of directories.
    entries: Cold,
    /// Entries of the parent snapshot in directories that were looked at because of a list of
    /// changes, and below what is gone of them.
    met: Tally,
}

/// Paths as a tree: sources, so that each directory is walked once, or changes.
#[derive(Default)]
pub struct Targets {
    /// Whether this path is itself in the list.
    pub named: bool,
    /// Paths of the list below this path, by the next name.
    pub children: BTreeMap<OsString, Targets>,
}

impl Targets {
    /// The tree of these paths, which are absolute.
    pub fn new(paths: &[PathBuf]) -> Self {
        let mut root = Self::default();
        for path in paths {
            let mut at = &mut root;
            for component in path.components() {
                if let Component::Normal(name) = component {
                    at = at.children.entry(name.to_owned()).or_default();
                }
            }
            at.named = true;
        }
        root
    }

    /// The names that lead to sources, sorted.
    pub fn names(&self) -> Vec<OsString> {
        self.children.keys().cloned().collect()
    }

    /// The part of the tree below `path`, which is absolute.
    pub fn below(&self, path: &Path) -> Option<&Self> {
        path.components().try_fold(self, |at, part| match part {
            Component::Normal(name) => at.children.get(name),
            _ => Some(at),
        })
    }

    /// Whether neither this path nor one below is in the list.
    fn is_empty(&self) -> bool {
        !self.named && self.children.is_empty()
    }
}

/// A directory that is walked.
struct Level<'a> {
    /// Absolute, for messages and patterns.
    path: &'a Path,
    fd: Arc<OwnedFd>,
    device: u64,
    directory: Arc<Directory>,
    /// The parent snapshot's entries of this directory.
    parent: Listing,
    scope: Scope,
    /// Whether this directory is a source or below one; else it only leads to a source.
    whole: bool,
    /// The changes below this directory, if the parent snapshot has it too and directories without
    /// changes are not looked at.
    changed: Option<&'a Targets>,
    /// Number of directories above this one.
    depth: usize,
}

impl<'a> Walker<'a> {
    /// A walker that compares with `parent`.
    pub fn new(run: &'a Arc<Run>, submitter: Submitter<Encoder>, parent: &'a ParentFiles) -> Self {
        Self {
            run,
            submitter,
            reader: BlockReader::of_trees(&run.repository),
            parent,
            batch: Batch::default(),
            entries: Cold::default(),
            met: Tally::default(),
        }
    }

    /// Hands out everything at and below `paths`, which are absolute. With a list of changes, what
    /// is in directories without changes is taken from the parent snapshot unseen.
    pub fn walk(mut self, paths: &[PathBuf], changed: Option<&Targets>) -> Result<()> {
        let targets = Targets::new(paths);
        let root = Path::new("/");
        let fd = self.run.open_directory(root)?;
        let device = rustix::fs::fstat(&fd)
            .map_err(|error| cannot_read(root)(error.into()))?
            .st_dev;
        let parent = self.parent_entries(self.parent.root(), root)?;
        let names = if targets.named {
            read::list(&fd).map_err(cannot_read(root))?
        } else {
            targets.names()
        };
        let level = Level {
            path: root,
            fd: Arc::new(fd),
            device,
            directory: Directory::new(None, None, names.len()),
            parent,
            scope: Scope::root(),
            whole: targets.named,
            changed,
            depth: 0,
        };
        self.entries(level, names, &targets)?;
        self.finish(changed.is_some());
        Ok(())
    }

    /// Hands out everything in the directory `source`, an absolute path, as the directory
    /// `as_path`. Directories above `as_path` get the attributes of `source`, without its
    /// file flags. Changes are as in [`Walker::walk`], below `as_path`.
    pub fn walk_as(
        mut self,
        source: &Path,
        as_path: &Path,
        changed: Option<&Targets>,
    ) -> Result<()> {
        let fd = self.run.open_directory(source)?;
        let found = read::stat_open(fd.as_fd(), OsStr::new(""), self.run.options.with_atime);
        let found: Found = found.map_err(cannot_read(source))?;
        let mut attributes = found.entry;
        let xattrs = read::xattrs(fd.as_fd());
        self.run.set_xattrs(source, &mut attributes, xattrs);
        let mut directory = Directory::new(None, None, 1);
        let mut directories = vec![Arc::clone(&directory)];
        let mut parent = self.parent_entries(self.parent.root(), source)?;
        let listed = read::list(&fd).unwrap_or_else(|error| {
            self.run.error(source, &error);
            Vec::new()
        });
        let entered = Scope::root().enter(&self.run.excludes, fd.as_fd(), source, listed);
        let problems = entered.problems.iter();
        problems.for_each(|problem| self.run.problem(problem));
        let names = entered.names;
        let mut components = normal_components(as_path);
        let mut next = components.next();
        while let Some(name) = next {
            next = components.next();
            let known = parent.entry(name.as_bytes());
            known.into_iter().for_each(|known| self.met.add(known));
            if next.is_none() {
                directory.compare(0, parent.whole(name.as_bytes()));
            }
            parent = match parent.directory(name.as_bytes()) {
                Some(content) => self.parent_entries(content, source)?,
                None => Listing::empty(),
            };
            let entry = Entry {
                name: name.as_bytes().to_vec(),
                flags: match next {
                    // An immutable directory above would keep out what a restore adds to it.
                    Some(_) => Flags::default(),
                    None => attributes.flags,
                },
                ..attributes.clone()
            };
            let entries = if next.is_some() { 1 } else { names.len() };
            directory = Directory::new(Some(directory.place(0)), Some(entry), entries);
            directories.push(Arc::clone(&directory));
            self.run.count(source, Outcome::Directory, 0);
        }
        directories.pop();
        for above in directories {
            self.run.assembler.all_listed(above)?;
        }
        let none = Targets::default();
        let level = Level {
            path: source,
            fd: Arc::new(fd),
            device: found.device,
            directory,
            parent,
            scope: entered.scope,
            whole: true,
            changed: changed.map(|changed| changed.below(as_path).unwrap_or(&none)),
            depth: 0,
        };
        self.entries(level, names, &none)?;
        self.finish(changed.is_some());
        Ok(())
    }

    /// Hands out the bytes of `input` as the file `path`, an absolute path.
    pub fn stream(self, path: &Path, input: Box<dyn io::Read + Send>) -> Result<()> {
        let time = entry::time(self.run.time);
        let entry = |name: &OsStr, mode, kind| Entry {
            name: name.as_bytes().to_vec(),
            mode,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            mtime: time,
            ctime: time,
            atime: None,
            inode: 0,
            hard_link: None,
            xattrs: Vec::new(),
            flags: Flags::default(),
            kind,
        };
        let mut directory = Directory::new(None, None, 1);
        for above in path.parent().into_iter().flat_map(normal_components) {
            let content = Vec::new();
            let entry = entry(above, 0o700, Kind::Directory { content });
            let next = Directory::new(Some(directory.place(0)), Some(entry), 1);
            self.run.count(path, Outcome::Directory, 0);
            self.run.assembler.all_listed(directory)?;
            directory = next;
        }
        let (size, content) = (0, Vec::new());
        let name = path.file_name().unwrap_or(OsStr::new("stdin"));
        let entry = entry(name, 0o600, Kind::File { size, content });
        let here =
            read::open_directory(rustix::fs::CWD, OsStr::new("/")).map_err(cannot_read(path))?;
        let job = FileJob {
            place: directory.place(0),
            directory: Arc::new(here),
            path: path.to_owned(),
            found: Found {
                entry,
                device: 0,
                allocated: 0,
            },
            outcome: Outcome::New,
        };
        let run = Arc::clone(self.run);
        self.submitter.submit(move |encoder, submitter| {
            LargeFile::process_stream(job, input, &run, encoder, submitter);
        });
        self.run.assembler.all_listed(directory)
    }

    /// Hands out the entries of a directory and everything below them.
    fn entries(&mut self, level: Level<'_>, names: Vec<OsString>, targets: &Targets) -> Result<()> {
        let none = Targets::default();
        let fd = level.fd.as_fd();
        // If the last directory was not in memory, or the first entry of this one is not.
        let is_ahead = self.entries.look_ahead(fd, &names);
        // Directories of the parent snapshot that are not looked for below.
        let mut gone = BTreeMap::new();
        if level.changed.is_some() {
            for known in level.parent.entries() {
                self.met.add(known);
                let content = known.directory().cloned();
                gone.extend(content.map(|content| (known.name.clone(), content)));
            }
        }
        for (number, name) in names.iter().enumerate() {
            self.run.go_on()?;
            let place = level.directory.place(number);
            let target = targets.children.get(name).unwrap_or(&none);
            if target.named {
                let known = level.parent.whole(name.as_bytes());
                level.directory.compare(number, known);
            }
            let path = level.path.join(name);
            let stat = || read::stat(fd, name, self.run.options.with_atime);
            let found = if number == 0 && !is_ahead {
                let watch = self.entries.watch();
                let found = stat();
                drop(watch);
                self.entries.look_ahead(fd, &names[1..]);
                found
            } else {
                stat()
            };
            let found = match found {
                Ok(found) => found,
                Err(error) if target.named => return Err(cannot_read(&path)(error)),
                Err(error) => {
                    self.missing(&path, place, &error)?;
                    continue;
                }
            };
            if let Some(link) = &found.entry.hard_link {
                self.run.assembler.see_device(link.device);
            }
            let is_directory = found.entry.directory().is_some();
            // Sources, and the directories that lead to them, are never excluded.
            let excluded = level.whole
                && !target.named
                && (self.run.excludes.is_excluded(&path, is_directory)
                    || level.scope.is_excluded(&path, is_directory)
                    || self.run.excludes.is_too_large(found.entry.size()));
            if excluded && target.children.is_empty() {
                let progress = self.run.repository.progress();
                progress.entry(&path, Outcome::Excluded);
                self.done(place, None)?;
            } else if is_directory {
                // A mount point below a source is kept as an empty directory.
                let foreign = self.run.options.one_file_system && found.device != level.device;
                let whole = target.named || level.whole && !excluded && !foreign;
                let known = level.parent.entry(name.as_bytes());
                let known = known.filter(|known| self.is_same_directory(known, &found.entry));
                let changed = level.changed.filter(|_| known.is_some());
                let changed = changed.map(|below| below.children.get(name).unwrap_or(&none));
                if let (Some(known), Some(changed)) = (known, changed) {
                    gone.remove(name.as_bytes());
                    if whole && changed.is_empty() && target.children.is_empty() {
                        self.met.directories -= 1;
                        self.done(place, Some(known.clone()))?;
                        continue;
                    }
                }
                self.directory(&level, &path, place, found, (target, changed), whole)?;
            } else {
                if !target.children.is_empty() {
                    let error = io::ErrorKind::NotADirectory.into();
                    return Err(cannot_read(&path)(error));
                }
                self.entry(&level, path, place, found)?;
            }
        }
        for content in gone.into_values() {
            self.meet_below(content, level.path)?;
        }
        self.run.assembler.all_listed(level.directory)
    }

    /// Counts everything in a directory of the parent snapshot as met.
    fn meet_below(&mut self, content: Vec<Piece>, path: &Path) -> Result<()> {
        let mut directories = vec![content];
        while let Some(content) = directories.pop() {
            for known in self.parent_entries(&content, path)?.entries() {
                self.met.add(known);
                directories.extend(known.directory().cloned());
            }
        }
        Ok(())
    }

    /// Hands out the last files, and counts what was taken from the parent snapshot unseen.
    fn finish(mut self, has_unseen: bool) {
        self.flush();
        let ParentFiles::Snapshot(_, parent) = self.parent else {
            return;
        };
        if !has_unseen {
            return;
        }
        let counters = &self.run.counters;
        let count = |counter: &AtomicU64, all: u64, met: u64| {
            counter.fetch_add(all.saturating_sub(met), Ordering::Relaxed);
        };
        let summary = &parent.summary;
        let files = summary.files_new + summary.files_changed + summary.files_unmodified;
        count(&counters.files_unmodified, files, self.met.files);
        count(
            &counters.directories,
            summary.directories,
            self.met.directories,
        );
        count(&counters.others, summary.others, self.met.others);
        count(&counters.total_bytes, summary.total_bytes, self.met.bytes);
    }

    /// Whether the parent snapshot has this directory, and not another one of its name.
    fn is_same_directory(&self, known: &Entry, found: &Entry) -> bool {
        let same_inode = self.run.options.ignore_inode || known.inode == found.inode;
        known.directory().is_some() && same_inode
    }

    /// Hands out a directory, of which `targets` are the sources below it and the changes.
    fn directory(
        &mut self,
        above: &Level<'_>,
        path: &Path,
        place: Place,
        found: Found,
        (targets, changed): (&Targets, Option<&Targets>),
        whole: bool,
    ) -> Result<()> {
        let name = OsStr::from_bytes(&found.entry.name);
        if above.depth == DEPTH_MAX {
            let text = format!("it is more than {DEPTH_MAX} directories deep");
            return self.missing(path, place, &io::Error::other(text));
        }
        let opened = read::open_directory(above.fd.as_fd(), name);
        let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        let (fd, xattrs) = match opened {
            Ok(fd) => {
                let xattrs = read::xattrs(fd.as_fd());
                (fd, xattrs)
            }
            // It only leads to a source.
            Err(error) if !whole && is_closed(&error) => {
                match read::open_passage(above.fd.as_fd(), name) {
                    Ok(fd) => (fd, Ok(Vec::new())),
                    Err(error) => return self.missing(path, place, &error),
                }
            }
            Err(error) => return self.missing(path, place, &error),
        };
        let mut entry = found.entry;
        self.run.set_xattrs(path, &mut entry, xattrs);
        let mut scope = above.scope.clone();
        let mut names = targets.names();
        if whole {
            let listed = read::list(&fd).unwrap_or_else(|error| {
                self.run.error(path, &error);
                Vec::new()
            });
            let entered = above
                .scope
                .enter(&self.run.excludes, fd.as_fd(), path, listed);
            let problems = entered.problems.iter();
            problems.for_each(|problem| self.run.problem(problem));
            scope = entered.scope;
            names.extend(entered.names);
            names.sort();
            names.dedup();
        }
        let parent = match above.parent.directory(&entry.name) {
            Some(content) => self.parent_entries(content, path)?,
            None => Listing::empty(),
        };
        self.run.count(path, Outcome::Directory, 0);
        let level = Level {
            path,
            fd: Arc::new(fd),
            device: found.device,
            directory: Directory::new(Some(place), Some(entry), names.len()),
            parent,
            scope,
            whole,
            changed,
            depth: above.depth + 1,
        };
        self.entries(level, names, targets)
    }

    /// Hands out an entry that is no directory.
    fn entry(
        &mut self,
        level: &Level<'_>,
        path: PathBuf,
        place: Place,
        found: Found,
    ) -> Result<()> {
        let mut entry = found.entry.clone();
        if !matches!(entry.kind, Kind::File { .. }) {
            let name = OsStr::from_bytes(&entry.name).to_owned();
            let xattrs = read::xattrs_at(level.fd.as_fd(), &name);
            self.run.set_xattrs(&path, &mut entry, xattrs);
            self.run.count(&path, Outcome::Other, 0);
            return self.done(place, Some(entry));
        }
        let known = level.parent.file(&entry.name);
        if let Some(known) =
            known.filter(|known| self.is_unchanged(known, &entry) && self.is_settled(&entry))
            && self
                .run
                .writer
                .has_all(known.content.iter().filter_map(Piece::block))
        {
            // Without ctime, nothing else shows a change of extended attributes.
            match known.xattrs.filter(|_| !self.run.options.ignore_ctime) {
                Some(xattrs) => entry.xattrs = xattrs.to_vec(),
                None => {
                    let name = OsStr::from_bytes(&entry.name).to_owned();
                    let xattrs = read::xattrs_at(level.fd.as_fd(), &name);
                    self.run.set_xattrs(&path, &mut entry, xattrs);
                }
            }
            entry.kind = Kind::File {
                size: known.size,
                content: known.content.to_vec(),
            };
            self.run.count(&path, Outcome::Unmodified, entry.size());
            return self.done(place, Some(entry));
        }
        let job = FileJob {
            place,
            directory: Arc::clone(&level.fd),
            path,
            outcome: if level.parent.has(&entry.name) {
                Outcome::Changed
            } else {
                Outcome::New
            },
            found,
        };
        if Batch::takes(&job.found) {
            if let Some(batch) = self.batch.add(job) {
                self.submit(batch);
            }
        } else {
            let run = Arc::clone(self.run);
            self.submitter.submit(move |encoder, submitter| {
                LargeFile::process(job, &run, encoder, submitter);
            });
        }
        Ok(())
    }

    /// Whether a file need not be read again.
    fn is_unchanged(&self, known: &KnownFile<'_>, entry: &Entry) -> bool {
        let options = &self.run.options;
        (known.size, known.mtime) == (entry.size(), entry.mtime)
            && (options.ignore_ctime || known.ctime == entry.ctime)
            && (options.ignore_inode || known.inode == entry.inode)
    }

    /// Whether a file with these times cannot have been changed after the parent snapshot read it.
    ///
    /// File systems store times in ticks: a second change within one tick leaves the times the
    /// same.
    fn is_settled(&self, entry: &Entry) -> bool {
        let changed = if self.run.options.ignore_ctime {
            entry.mtime
        } else {
            entry.ctime
        };
        let tick = match changed.ns {
            // A file system that keeps whole seconds.
            0 => SignedDuration::from_secs(2),
            _ => SignedDuration::from_millis(20),
        };
        // When the parent snapshot was begun.
        let start = self.parent.start();
        let Some(before) = start.and_then(|start| start.checked_sub(tick).ok()) else {
            return false;
        };
        changed < entry::time(before)
    }

    fn submit(&self, batch: Batch) {
        let run = Arc::clone(self.run);
        self.submitter.submit(move |encoder, submitter| {
            batch.process(&run, encoder, submitter);
        });
    }

    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.submit(batch);
    }

    /// The parent snapshot's entries of a directory. If blocks of it are missing, its files are
    /// read again.
    ///
    /// # Errors
    /// When the directory is damaged: the new snapshot would refer to the same damaged blocks.
    fn parent_entries(&mut self, content: &[Piece], path: &Path) -> Result<Listing> {
        if let ParentFiles::Known(known) = self.parent {
            let entries = known.directory(content);
            return Ok(Listing::Known(entries, Arc::clone(known.mask())));
        }
        let (writer, reader) = (&self.run.writer, &mut self.reader);
        match writer.with_index(|index| reader.read_directory(index, content)) {
            Err(error @ Error::MissingBlock(_)) => {
                let text =
                    format!("its files are read again: the parent snapshot's directory: {error}");
                self.run.repository.progress().warning(path, &text);
                Ok(Listing::empty())
            }
            result => result.map(Listing::Tree),
        }
    }

    /// Reports an entry that cannot be read, and leaves it out.
    fn missing(&self, path: &Path, place: Place, error: &io::Error) -> Result<()> {
        match error.kind() {
            io::ErrorKind::NotFound => self.run.vanished(path),
            _ => self.run.error(path, error),
        }
        self.done(place, None)
    }

    fn done(&self, place: Place, entry: Option<Entry>) -> Result<()> {
        self.run.assembler.entry_done(place, entry)
    }
}

/// The sources of a backup that exist, and those that do not.
pub struct Sources {
    /// Paths as the snapshot names them: absolute, sorted, each once.
    pub paths: Vec<PathBuf>,
    /// Paths that do not exist, as of a disk that is not mounted, with the system's errors.
    pub missing: Vec<(PathBuf, io::Error)>,
}

/// The names in `path`, in order.
fn normal_components(path: &Path) -> impl Iterator<Item = &OsStr> {
    let components = path.components();
    components.filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

/// The source paths.
///
/// # Errors
/// When stdin's name has no file name, or no source exists.
pub fn sources(source: &Source) -> Result<Sources> {
    let given = match source {
        Source::Stdin(name) | Source::Command { name, .. } => {
            let path = crate::access::browse::absolute(name);
            if name.file_name().is_none() {
                let why = format!("{} is no name for a file", name.display());
                return Err(Error::Invalid(why));
            }
            return Ok(Sources {
                paths: vec![path],
                missing: Vec::new(),
            });
        }
        Source::Paths(paths) => paths,
    };
    if given.is_empty() {
        return Err(Error::Invalid(
            "nothing to back up: name at least one path".to_owned(),
        ));
    }
    let (mut paths, mut missing) = (Vec::new(), Vec::new());
    for path in given {
        match resolve(path) {
            Ok(path) => paths.push(path),
            Err(error) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                missing.push((path, error));
            }
        }
    }
    if paths.is_empty()
        && let Some((path, error)) = missing.pop()
    {
        return Err(cannot_read(&path)(error));
    }
    paths.sort();
    paths.dedup();
    Ok(Sources { paths, missing })
}

/// Normalises `path` as the path of a directory in a snapshot.
///
/// # Errors
/// When `path` is relative or `/`.
pub fn absolute_name(path: &Path) -> Result<PathBuf> {
    let absolute = crate::access::browse::absolute(path);
    if path.is_absolute() && absolute != Path::new("/") {
        return Ok(absolute);
    }
    Err(Error::Invalid(format!(
        "{} is no path for a directory in a snapshot: name one that begins with / and is below it",
        path.display()
    )))
}

/// The absolute path of a source in a snapshot, with all links above it resolved. If the source is
/// a link, the backup stores the link, or with a slash behind the name the link's target.
///
/// # Errors
/// When `path` does not exist.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    std::fs::symlink_metadata(path)?;
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return path.canonicalize();
    }
    let absolute = std::path::absolute(path)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        // `/`, or `..` at the end.
        _ => absolute.canonicalize(),
    }
}
