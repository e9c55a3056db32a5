//! A cache of repositories' indexes on the local disk, so that opening one reads only new index
//! objects.
//!
//! The cache has a folder for each repository, with *runs* in it: each holds the contents of some
//! index objects (see [`crate::Index`]). Opening reads index objects that no run has and writes
//! them to a run, merged with runs that are not much longer; so runs stay few, and each block is
//! rewritten seldom. Contents of deleted index objects do not count, and their run is rewritten
//! without them.
//!
//! Runs are written under temporary names, renamed when complete, and never changed; superseded
//! runs are removed. So any number of processes can use a cache at once. The cache is sealed as a
//! repository is, and is never needed: damaged files are removed and made again, and if it cannot
//! be written, the index is kept in memory.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tabane_storage::{Id, random};

use crate::contents::{IndexSegment, PACKS_PER_INDEX};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::merge::{self, Batch, Failure, Input};
use crate::objects::IndexObjects;
use crate::run::{Run, is_damage};

/// Prefix of a run's name. The number is the version of the format.
const RUN: &str = "index2-";

/// Prefix of the names of runs of an earlier format, which nobody reads any more.
const OLD_RUN: &str = "index1-";

/// Prefix of the name of a run that is being written.
const TEMPORARY: &str = "tmp-";

/// Age from which a temporary file counts as left behind by a dead process.
const TEMPORARY_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Blocks of index objects that are gathered in memory before they are written to a run.
const BATCH_BLOCKS: u32 = 1 << 19;

/// Runs that are merged at once when many are made.
const FAN_IN: usize = 64;

/// A run is merged with a batch if it is less than this many times as long.
const MERGE_LEN_RATIO: u64 = 4;

/// Runs of fewer blocks are always merged.
const ALWAYS_MERGED_BLOCKS: u64 = 1 << 16;

/// Packs in the answer to one request: listing all packs costs as much as asking for this many
/// times fewer packs singly.
const PACKS_PER_LIST: u32 = 1000;

/// Attempts to open an index: index objects may vanish while they are read, and runs while they are
/// opened.
const OPEN_ATTEMPTS_MAX: usize = 5;

/// The tag by which backup programs recognise a cache (<https://bford.info/cachedir/>).
const CACHEDIR_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This directory is a cache of tabane: it can be removed at any time.\n";

/// A cache of repositories' indexes on the local disk.
pub struct Cache {
    root: PathBuf,
    warn: Box<dyn Fn(&str) + Send + Sync>,
    warned: AtomicBool,
}

impl Cache {
    /// A cache below the directory `root`, which is made when needed. If the cache cannot be used,
    /// `warn` is called once.
    pub fn new(root: impl Into<PathBuf>, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            root: root.into(),
            warn: Box::new(warn),
            warned: AtomicBool::new(false),
        }
    }

    /// Where caches are by default: `$XDG_CACHE_HOME/tabane`, else `~/.cache/tabane`; nothing
    /// where the environment names no place.
    pub fn default_root() -> Option<PathBuf> {
        let folder = |name| std::env::var_os(name).map(PathBuf::from);
        // Relative paths are to be passed over (XDG Base Directory Specification).
        folder("XDG_CACHE_HOME")
            .filter(|root| root.is_absolute())
            .or_else(|| Some(folder("HOME")?.join(".cache")))
            .filter(|root| root.is_absolute())
            .map(|root| root.join("tabane"))
    }

    /// The index of a repository.
    ///
    /// # Errors
    /// When the storage fails, an index object is damaged, or a damaged file of the cache cannot be
    /// removed.
    pub fn load_index<O: IndexObjects>(&self, objects: &O) -> std::result::Result<Index, O::Error> {
        let folder = self.folder_of(objects);
        if let Err(error) = make_folders(&self.root, &folder) {
            self.warn_of(&error);
        }
        // Attempts by the object of the error: if each attempt meets another one, other clients
        // make progress.
        let mut attempts: HashMap<String, usize> = HashMap::new();
        loop {
            let result = self.try_load(objects, &folder);
            let Some(cause) = result.as_ref().err().and_then(LoadError::passing::<O>) else {
                return result.map_err(LoadError::into_error);
            };
            let attempts = attempts.entry(cause).or_default();
            *attempts += 1;
            if *attempts == OPEN_ATTEMPTS_MAX {
                return result.map_err(LoadError::into_error);
            }
        }
    }

    /// Writes down what new index objects of this client say, so that the next opening reads none
    /// of them. Their packs must be there.
    pub fn add<O: IndexObjects>(&self, objects: &O, new: Vec<(Id, IndexSegment)>) {
        let folder = self.folder_of(objects);
        let current = new.iter().map(|(id, _)| *id).collect();
        let folding = Folding {
            objects,
            folder: &folder,
            current: &current,
        };
        let write = || -> Loaded<Run, O::Error> { folding.write(&[&Batch::new(new)?]) };
        if let Err(LoadError::Write(error)) = write() {
            self.warn_of(&error);
        }
    }

    /// Moves what `new` index objects of this client say, which relies on them, from the memory of
    /// `index` to the cache. Numbers of segments and packs change. If the cache cannot be written,
    /// nothing changes.
    ///
    /// # Errors
    /// When the contents break the limits of the format, or the cache cannot be read.
    pub fn fold<O: IndexObjects>(
        &self,
        objects: &O,
        index: &mut Index,
        new: Vec<(Id, IndexSegment)>,
    ) -> std::result::Result<(), O::Error> {
        let folder = self.folder_of(objects);
        let packs = new.iter().flat_map(|(_, packs)| packs);
        let packs: HashSet<Id> = packs.map(|(id, _)| *id).collect();
        // Merged with others, a run would have its excluded packs again.
        let is_of_these =
            |(run, _): &(Run, bool)| run.path().parent() == Some(&*folder) && !run.has_excluded();
        let (ours, others): (Vec<_>, Vec<_>) = index.take_runs().into_iter().partition(is_of_these);
        let mut runs: Vec<Run> = ours.into_iter().map(|(run, _)| run).collect();
        let mut current: HashSet<Id> = new.iter().map(|(id, _)| *id).collect();
        current.extend(runs.iter().flat_map(Run::sources));
        let folding = Folding {
            objects,
            folder: &folder,
            current: &current,
        };
        let fold = || -> Loaded<(), O::Error> {
            let batch = Batch::new(new)?;
            let chosen = folding.choose(&runs, runs.len(), batch.len());
            folding.replace(&mut runs, chosen, Some(&batch))
        };
        let folded = fold();
        let runs = runs.into_iter().map(|run| (run, true));
        index.set_runs(runs.chain(others).collect())?;
        match folded {
            Ok(()) => index.forget_recent(&packs),
            Err(LoadError::Write(error)) => self.warn_of(&error),
            Err(error) => return Err(error.into_error()),
        }
        Ok(())
    }

    /// Removes the cached index of a repository, which names packs that are gone.
    pub fn forget(&self, repository: Id) {
        let folder = self.folder(repository);
        let remove_in = |folder: &Path| -> io::Result<()> {
            let names = names(folder)?;
            let mut runs = names.iter().filter(|name| name.starts_with(RUN));
            runs.try_for_each(|name| fs::remove_file(folder.join(name)))
        };
        let removed = remove_in(&folder).and_then(|()| {
            let parts = names(&folder)?.into_iter().map(|name| folder.join(name));
            let mut parts = parts.filter(|part| part.is_dir());
            parts.try_for_each(|part| remove_in(&part))
        });
        if let Err(error) = removed {
            self.warn_of(&error);
        }
    }

    /// The folder of a repository, which callers may use for more than its index.
    pub fn folder(&self, repository: Id) -> PathBuf {
        self.root.join(repository.to_string())
    }

    /// The folder of these objects.
    fn folder_of<O: IndexObjects>(&self, objects: &O) -> PathBuf {
        let folder = self.folder(objects.repository());
        match objects.part() {
            Some(part) => folder.join(part),
            None => folder,
        }
    }

    fn try_load<O: IndexObjects>(&self, objects: &O, folder: &Path) -> Loaded<Index, O::Error> {
        // Read before the index: a removal that appears later must not be counted as known to the
        // index.
        let (removals, condemned) = objects.removals().map_err(LoadError::Objects)?;
        let empty = Index::as_of(removals, condemned);
        // Runs are opened before index objects are listed: so an object of a run that is not listed
        // was deleted, rather than new.
        let mut runs = self.open_runs(objects, folder);
        let listed = objects.list().map_err(LoadError::Objects)?;
        let current: HashSet<Id> = listed.iter().copied().collect();
        keep_needed(&mut runs, &current);
        for run in &mut runs {
            if is_stale(run, &current) {
                run.exclude_unnamed(&current)?;
            }
        }
        let folding = Folding {
            objects,
            folder,
            current: &current,
        };
        let mut presence = PackPresence::new(objects, &runs);
        let unread = |runs: &[Run]| -> Vec<Id> {
            let known: HashSet<&Id> = runs.iter().flat_map(Run::sources).collect();
            let ids = listed.iter().copied();
            ids.filter(|id| !known.contains(id)).collect()
        };
        let new = unread(&runs);
        match folding.take_over(&mut runs, &new, &mut presence) {
            Ok(()) => Ok(empty.with_runs(runs)?),
            Err(LoadError::Write(error)) => {
                self.warn_of(&error);
                let left = unread(&runs);
                let mut index = empty.with_runs(runs)?;
                objects.read(&left, |_, packs| {
                    let packs = packs.and_then(|packs| presence.keep(packs));
                    Loaded::Ok(index.add_all(&packs.map_err(LoadError::Objects)?)?)
                })?;
                Ok(index)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens all runs; removes those that are damaged.
    fn open_runs<O: IndexObjects>(&self, objects: &O, folder: &Path) -> Vec<Run> {
        let mut runs = Vec::new();
        for _ in 0..OPEN_ATTEMPTS_MAX {
            runs.clear();
            let names = match names(folder) {
                Ok(names) => names,
                Err(error) => {
                    self.warn_of(&error);
                    return runs;
                }
            };
            let mut superseded = false;
            for name in names.iter().filter(|name| name.starts_with(RUN)) {
                let path = folder.join(name);
                match Run::open(&path, objects.keys()) {
                    Ok(run) => runs.push(run),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => superseded = true,
                    Err(error) if is_damage(&error) => {
                        let _ = fs::remove_file(&path);
                    }
                    Err(error) => self.warn_of(&error),
                }
            }
            let is_left = |name: &&String| name.starts_with(TEMPORARY) || name.starts_with(OLD_RUN);
            for name in names.iter().filter(is_left) {
                remove_if_old(&folder.join(name));
            }
            // A run that vanished was merged into a new one, which `names` may lack: list again.
            if !superseded {
                break;
            }
        }
        runs
    }

    fn warn_of(&self, error: &io::Error) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            let root = self.root.display();
            (self.warn)(&format!(
                "cannot use the cache in {root}: {error}; going on without it"
            ));
        }
    }
}

/// The result of bringing a cache up to date.
type Loaded<T, E> = std::result::Result<T, LoadError<E>>;

/// Why an index was not loaded.
enum LoadError<E> {
    /// The repository's objects cannot be read.
    Objects(E),
    /// The runs cannot be read.
    Runs(Error),
    /// The cache cannot be written.
    Write(io::Error),
}

impl<E: From<Error>> LoadError<E> {
    /// The reason of an error that another attempt may avoid; `None` for others.
    fn passing<O: IndexObjects<Error = E>>(&self) -> Option<String> {
        match self {
            Self::Runs(Error::Cache { source, .. }) => {
                is_damage(source).then(|| "damage".to_owned())
            }
            Self::Objects(error) => O::vanished(error),
            _ => None,
        }
    }

    fn into_error(self) -> E {
        match self {
            Self::Objects(error) => error,
            Self::Runs(error) => error.into(),
            Self::Write(error) => Error::Path {
                action: "write",
                path: "the cache".to_owned(),
                source: error,
            }
            .into(),
        }
    }
}

impl<E> From<Error> for LoadError<E> {
    fn from(error: Error) -> Self {
        Self::Runs(error)
    }
}

impl<E> From<Failure> for LoadError<E> {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Read(error) => Self::Runs(error),
            Failure::Write(error) => Self::Write(error),
        }
    }
}

fn is_stale(run: &Run, current: &HashSet<Id>) -> bool {
    run.sources().iter().any(|source| !current.contains(source))
}

/// Keeps the runs that are needed to cover all index objects, the longest first; removes the files
/// of the others.
fn keep_needed(runs: &mut Vec<Run>, current: &HashSet<Id>) {
    runs.sort_by_key(|run| std::cmp::Reverse(run.sources().len()));
    let mut known: HashSet<Id> = HashSet::new();
    runs.retain(|run| {
        let sources = run.sources().iter().filter(|id| current.contains(*id));
        let before = known.len();
        known.extend(sources);
        let needed = known.len() > before;
        if !needed {
            let _ = fs::remove_file(run.path());
        }
        needed
    });
}

/// Tells which packs exist. An index object may name deleted packs: its writer was stopped for long
/// before the write and has not deleted the object yet, or died. Nothing shows this later, since
/// the removals of those packs are gone as well.
struct PackPresence<'a, O> {
    objects: &'a O,
    /// Number of packs still to be asked for singly; after that one list of all packs answers.
    singly: u32,
    /// All packs of the storage, once listed.
    listed: Option<HashSet<Id>>,
}

impl<'a, O: IndexObjects> PackPresence<'a, O> {
    fn new(objects: &'a O, known: &[Run]) -> Self {
        let known = known.iter().map(|run| run.footer().packs.count);
        let known = known.fold(0, u32::saturating_add);
        Self {
            objects,
            singly: PACKS_PER_INDEX as u32 + known / PACKS_PER_LIST,
            listed: None,
        }
    }

    /// The entries of an index object whose packs exist.
    fn keep(&mut self, packs: IndexSegment) -> std::result::Result<IndexSegment, O::Error> {
        if self.listed.is_none() {
            let ids: Vec<Id> = packs.iter().map(|(id, _)| *id).collect();
            if let Some(left) = self.singly.checked_sub(ids.len() as u32) {
                self.singly = left;
                let there = self.objects.have_packs(&ids)?;
                let found = packs.into_iter().zip(there);
                return Ok(found
                    .filter_map(|(pack, there)| there.then_some(pack))
                    .collect());
            }
        }
        let listed = match self.listed.take() {
            Some(listed) => listed,
            None => self.objects.packs()?,
        };
        let there = packs.into_iter().filter(|(id, _)| listed.contains(id));
        let there = there.collect();
        self.listed = Some(listed);
        Ok(there)
    }
}

/// Brings the runs of a repository up to date.
struct Folding<'a, O> {
    objects: &'a O,
    folder: &'a Path,
    current: &'a HashSet<Id>,
}

impl<O: IndexObjects> Folding<'_, O> {
    /// Adds the contents of these index objects.
    fn take_over(
        &self,
        runs: &mut Vec<Run>,
        unread: &[Id],
        presence: &mut PackPresence<O>,
    ) -> Loaded<(), O::Error> {
        let before = runs.len();
        let (mut objects, mut blocks) = (Vec::new(), 0);
        self.objects.read(unread, |id, packs| {
            let packs = packs.and_then(|packs| presence.keep(packs));
            let packs = packs.map_err(LoadError::Objects)?;
            let segments = packs.iter().flat_map(|(_, contents)| &contents.segments);
            blocks += segments.map(|segment| segment.blocks.len()).sum::<usize>();
            objects.push((id, packs));
            if blocks < BATCH_BLOCKS as usize {
                return Ok(());
            }
            blocks = 0;
            let batch = Batch::new(std::mem::take(&mut objects))?;
            runs.push(self.write(&[&batch])?);
            if runs.len() - before >= FAN_IN {
                let chosen = (before..runs.len()).collect();
                self.replace(runs, chosen, None)?;
            }
            Loaded::Ok(())
        })?;
        let batch = if objects.is_empty() {
            None
        } else {
            Some(Batch::new(objects)?)
        };
        let none_stale = runs.iter().all(|run| !is_stale(run, self.current));
        if batch.is_none() && none_stale && runs.len() == before {
            return Ok(());
        }
        let chosen = self.choose(runs, before, batch.as_ref().map_or(0, Batch::len));
        self.replace(runs, chosen, batch.as_ref())
    }

    /// Chooses the runs to merge with a batch of `blocks` blocks: all stale runs, all new runs
    /// (those from `new` on), and then, shortest first, runs not much longer than the sum so far.
    fn choose(&self, runs: &[Run], new: usize, blocks: u32) -> Vec<usize> {
        let must = |at: usize| at >= new || is_stale(&runs[at], self.current);
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&at| (!must(at), runs[at].len()));
        let mut sum = u64::from(blocks);
        let mut chosen = Vec::new();
        for at in order {
            let len = u64::from(runs[at].len());
            let wanted = must(at) || len < ALWAYS_MERGED_BLOCKS.max(MERGE_LEN_RATIO * sum);
            // Blocks of a run have numbers of 32 bits.
            if wanted && sum + len < u64::from(u32::MAX) {
                sum += len;
                chosen.push(at);
            }
        }
        chosen
    }

    /// Merges the chosen runs and the batch into one run, which replaces them.
    fn replace(
        &self,
        runs: &mut Vec<Run>,
        mut chosen: Vec<usize>,
        batch: Option<&Batch>,
    ) -> Loaded<(), O::Error> {
        let of_runs = chosen.iter().map(|&at| &runs[at] as &dyn Input);
        let inputs: Vec<&dyn Input> = of_runs
            .chain(batch.map(|batch| batch as &dyn Input))
            .collect();
        let run = self.write(&inputs)?;
        chosen.sort_unstable();
        for at in chosen.into_iter().rev() {
            let _ = fs::remove_file(runs.remove(at).path());
        }
        runs.push(run);
        Ok(())
    }

    fn write(&self, inputs: &[&dyn Input]) -> Loaded<Run, O::Error> {
        let keys = self.objects.keys();
        let random = hex::encode(random::<16>());
        let temporary = self.folder.join(format!("{TEMPORARY}{random}"));
        let path = self.folder.join(format!("{RUN}{random}"));
        let write = || -> merge::Merged<Run> {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary)?;
            merge::merge(file.try_clone()?, keys, inputs, self.current)?;
            // Not synced: a run that a crash of the machine left unfinished does not open.
            fs::rename(&temporary, &path)?;
            // Another process may have superseded it already.
            Ok(Run::of_file(file, &path, keys)?)
        };
        Ok(write().inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })?)
    }
}

/// Makes the folder of a repository, and updates its time of use.
fn make_folders(root: &Path, folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let tag = root.join("CACHEDIR.TAG");
    if !tag.exists() {
        fs::write(&tag, CACHEDIR_TAG)?;
    }
    File::open(folder)?.set_modified(SystemTime::now())?;
    // Of a part, the folder of the repository tells when it was used.
    match folder.parent() {
        Some(above) if above != root => File::open(above)?.set_modified(SystemTime::now()),
        _ => Ok(()),
    }
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    names.collect()
}

fn remove_if_old(path: &Path) {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > TEMPORARY_AGE)) {
        let _ = fs::remove_file(path);
    }
}

/// Bytes of the files in a folder and in those below it.
fn bytes_below(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for name in names(folder)? {
        let path = folder.join(name);
        // Another process may remove the file meanwhile.
        bytes += match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => bytes_below(&path).unwrap_or(0),
            metadata => metadata.map_or(0, |metadata| metadata.len()),
        };
    }
    Ok(bytes)
}

/// One repository's part of a cache.
#[derive(Clone, Debug)]
pub struct Cached {
    /// The ID of the repository, as `config` has it.
    pub repository: Id,
    /// Folder of this part.
    pub path: PathBuf,
    /// Bytes of all files in the folder.
    pub bytes: u64,
    /// Time of the last use.
    pub used: SystemTime,
}

impl Cached {
    /// The repositories with a part in the cache `root`, the most recently used first.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn list(root: &Path) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for name in names(root).map_err(Error::path("list", root))? {
            let Ok(repository) = name.parse() else {
                continue;
            };
            let path = root.join(name);
            let measure = || -> io::Result<Cached> {
                let bytes = bytes_below(&path)?;
                let used = fs::metadata(&path)?.modified()?;
                Ok(Cached {
                    repository,
                    path: path.clone(),
                    bytes,
                    used,
                })
            };
            found.push(measure().map_err(Error::path("read", &path))?);
        }
        found.sort_by_key(|cached| std::cmp::Reverse(cached.used));
        Ok(found)
    }

    /// Removes this part. Processes that use it can go on.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove(&self) -> Result<()> {
        fs::remove_dir_all(&self.path).map_err(Error::path("remove", &self.path))
    }
}
