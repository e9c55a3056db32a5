//! Repositories, as Python sees them.

use std::ffi::OsString;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};
use tabane_store::browse::{Browser, absolute, find_with};
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::client::{Presence, Purpose};
use tabane_store::entry::Kind;
use tabane_store::file_reader::FileReader;
use tabane_store::find::{Finder, Pattern, Query};
use tabane_store::segment_cache::SegmentCache;
use tabane_store::snapshot::Filter;
use tabane_store::{
    BackupOptions, Cache, Error, ExcludeOptions, Id, IncludeOptions, InitOptions, Location,
    Outcome, Password, Plan, RemoteOptions, RestoreOptions, backup,
};
use zeroize::Zeroizing;

use crate::entry::Entry;
use crate::error::{exception, invalid};
use crate::file::SnapshotFile;
use crate::interrupt::in_thread;
use crate::path;
use crate::process::OfProcess;
use crate::snapshot::Snapshot;

/// Decoded segments that an open repository keeps for its readers, in bytes.
const SEGMENTS_BYTES: usize = 64 << 20;

/// A password has at most this many bytes: a longer file was named by mistake.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

/// A repository of this process, until it is closed.
pub type Handle = OfProcess<Mutex<Option<Opened>>>;

/// State of an open repository.
#[derive(Clone)]
pub struct Opened {
    repository: tabane_store::Repository,
    reading: Arc<Mutex<Option<Reading>>>,
}

/// State for reading files, made at the first read.
struct Reading {
    segments: Arc<SegmentCache>,
    /// Keeps prunes away, where the repository can be written to.
    _presence: Option<Presence>,
}

impl Opened {
    /// The decoded segments that all readers share. Reads the index the first time.
    fn segments(&self) -> tabane_store::Result<Arc<SegmentCache>> {
        let mut reading = lock(&self.reading);
        if let Some(reading) = &*reading {
            return Ok(Arc::clone(&reading.segments));
        }
        let presence = Presence::announce(&self.repository, Purpose::Restore).ok();
        let segments = Arc::new(SegmentCache::new(&self.repository, SEGMENTS_BYTES)?);
        *reading = Some(Reading {
            segments: Arc::clone(&segments),
            _presence: presence,
        });
        Ok(segments)
    }
}

/// The state of the open repository.
///
/// # Errors
/// When it was closed, or this is a forked process.
pub fn opened(handle: &Handle) -> PyResult<Opened> {
    lock(handle.get()?)
        .clone()
        .ok_or_else(|| PyValueError::new_err("the repository is closed: open it again"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A backup repository.
///
/// `url` is a folder, or a URL such as s3://host/bucket/path; without one, the environment variable
/// TABANE_REPOSITORY. The password is a str or bytes; without one, it is that of TABANE_PASSWORD or
/// of the file TABANE_PASSWORD_FILE. `cache` says where to keep what is known of the repository: a
/// folder, True for ~/.cache/tabane, False for nowhere.
#[pyclass(frozen, module = "tabane")]
pub struct Repository {
    url: OsString,
    handle: Arc<Handle>,
}

#[pymethods]
impl Repository {
    #[new]
    #[pyo3(signature = (url=None, password=None, *, cache=None))]
    fn open_at(
        py: Python<'_>,
        url: Option<&Bound<'_, PyAny>>,
        password: Option<&Bound<'_, PyAny>>,
        cache: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::make(py, url, password, cache, |storage, password| {
            tabane_store::Repository::open(storage, password)
        })
    }

    /// Makes a new repository, and opens it. The arguments are those of Repository.
    #[staticmethod]
    #[pyo3(signature = (url=None, password=None, *, cache=None))]
    fn init(
        py: Python<'_>,
        url: Option<&Bound<'_, PyAny>>,
        password: Option<&Bound<'_, PyAny>>,
        cache: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::make(py, url, password, cache, |storage, password| {
            tabane_store::Repository::init(storage, password, InitOptions::default())
        })
    }

    /// URL of the repository.
    #[getter]
    fn url(&self) -> OsString {
        self.url.clone()
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(lock(self.handle.get()?).is_none())
    }

    /// Ends all use of the repository; files of it cannot be read any more.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle.get()?;
        py.detach(|| drop(lock(handle).take()));
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<Repository {}>", self.url.display())
    }

    /// The snapshots, oldest first: of any of these hosts, with all tags of any of these
    /// comma-separated lists, of all these paths. A snapshot that cannot be read is a warning.
    #[pyo3(signature = (*, hosts=Vec::new(), tags=Vec::new(), paths=Vec::new()))]
    fn snapshots(
        &self,
        py: Python<'_>,
        hosts: Vec<String>,
        tags: Vec<String>,
        paths: Vec<String>,
    ) -> PyResult<Vec<Snapshot>> {
        let filter = Filter { hosts, tags, paths };
        let listing = self.quietly(py, move |opened, _| opened.repository.snapshots(&filter))?;
        for error in &listing.damaged {
            let text = std::ffi::CString::new(error.to_string()).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        let snapshots = listing.snapshots.into_iter();
        Ok(snapshots
            .map(|(id, snapshot)| listed(id, snapshot))
            .collect())
    }

    /// The snapshot that `name` means: latest, an ID or its beginning.
    #[pyo3(signature = (name="latest"))]
    fn snapshot(&self, py: Python<'_>, name: &str) -> PyResult<Snapshot> {
        let name = name.to_owned();
        let (id, snapshot) = self.quietly(py, move |opened, _| {
            opened.repository.find_snapshot(&name, &Filter::default())
        })?;
        Ok(listed(id, snapshot))
    }

    /// The entry of a snapshot at `path`; links are not followed.
    fn stat(
        &self,
        py: Python<'_>,
        snapshot: &Bound<'_, PyAny>,
        path: &Bound<'_, PyAny>,
    ) -> PyResult<Entry> {
        let (which, path) = (Which::new(snapshot)?, path::path(path)?);
        self.quietly(py, move |opened, _| {
            let (snapshot, _, entry) = which.look_up(opened, &path)?;
            let path = absolute(&path);
            Ok(Entry {
                snapshot,
                path,
                entry,
            })
        })
    }

    /// The entries of a directory by name, or what else is at `path`; with `recursive`, all that is
    /// below it.
    #[pyo3(signature = (snapshot, path=None, *, recursive=false))]
    fn ls(
        &self,
        py: Python<'_>,
        snapshot: &Bound<'_, PyAny>,
        path: Option<&Bound<'_, PyAny>>,
        recursive: bool,
    ) -> PyResult<Vec<Entry>> {
        let which = Which::new(snapshot)?;
        let path = path.map_or_else(|| Ok(PathBuf::from("/")), path::path)?;
        self.quietly(py, move |opened, listener| {
            let (snapshot, segments, entry) = which.look_up(opened, &path)?;
            let path = absolute(&path);
            let Some(content) = entry.directory() else {
                return Ok(vec![Entry {
                    snapshot,
                    path,
                    entry,
                }]);
            };
            let mut entries = Vec::new();
            let mut directories = vec![(path, content.clone())];
            while let Some((path, content)) = directories.pop() {
                listener.go_on()?;
                let below = entries.len();
                for entry in segments.directory(&content)? {
                    let path = path.join(OsString::from_vec(entry.name.clone()));
                    entries.push(Entry {
                        snapshot,
                        path,
                        entry,
                    });
                }
                if recursive {
                    for Entry { path, entry, .. } in entries[below..].iter().rev() {
                        let content = entry.directory();
                        directories.extend(content.map(|content| (path.clone(), content.clone())));
                    }
                }
            }
            Ok(entries)
        })
    }

    /// The entries that any of these patterns means, of one snapshot or of all. A pattern is a path
    /// of globs; one that begins with / is meant from the root on, any other anywhere.
    #[pyo3(signature = (patterns, *, snapshot=None, ignore_case=false))]
    fn find(
        &self,
        py: Python<'_>,
        patterns: &Bound<'_, PyAny>,
        snapshot: Option<&Bound<'_, PyAny>>,
        ignore_case: bool,
    ) -> PyResult<Vec<Entry>> {
        let patterns = path::one_or_more(patterns)?;
        let which = snapshot.map(Which::new).transpose()?;
        self.quietly(py, move |opened, listener| {
            let pattern = |path: &PathBuf| Pattern::new(&path.to_string_lossy(), ignore_case);
            let query = Query {
                patterns: patterns.iter().map(pattern).collect::<Result<_, _>>()?,
                ..Query::default()
            };
            let repository = &opened.repository;
            let snapshots = match which {
                Some(which) => vec![which.load(repository)?],
                None => repository.snapshots(&Filter::default())?.snapshots,
            };
            let mut finder = Finder::new(Browser::new(repository)?, query);
            let mut entries = Vec::new();
            for (id, snapshot) in snapshots {
                listener.go_on()?;
                let unreadable = finder.search(&snapshot, &mut |path, entry| {
                    entries.push(Entry {
                        snapshot: id,
                        path: path.to_owned(),
                        entry: entry.clone(),
                    });
                    ControlFlow::Continue(())
                });
                if let Some(unreadable) = unreadable.into_iter().next() {
                    return Err(unreadable.error);
                }
            }
            Ok(entries)
        })
    }

    /// A file of a snapshot, to read: binary, seekable, buffered.
    fn open<'py>(
        &self,
        py: Python<'py>,
        snapshot: &Bound<'py, PyAny>,
        path: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (which, path) = (Which::new(snapshot)?, path::path(path)?);
        let looked_up = path.clone();
        let (segments, entry) = self.quietly(py, move |opened, _| {
            let (_, segments, entry) = which.look_up(opened, &looked_up)?;
            Ok((segments, entry))
        })?;
        let Kind::File { content, .. } = entry.kind else {
            let kind = tabane_store::browse::kind_name(&entry.kind);
            return Err(exception(&Error::WrongKind(format!(
                "{} is no regular file: it is of kind {kind}",
                path.display()
            ))));
        };
        let reader = FileReader::new(&segments, content);
        let file = SnapshotFile::new(Arc::clone(&self.handle), reader);
        let name = absolute(&path).into_os_string();
        py.import("tabane._file")?
            .call_method1("open_file", (file, name))
    }

    /// Writes a snapshot, or the part below `path`, into the folder `target`.
    ///
    /// Files that are right already stay; after an interruption, the same call resumes. The
    /// report's `warnings` list entries that could not be restored.
    #[pyo3(signature = (
        snapshot, target, *, path=None, include=Vec::new(), exclude=Vec::new(), verify=false,
        dry_run=false, progress=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn restore(
        &self,
        py: Python<'_>,
        snapshot: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        path: Option<&Bound<'_, PyAny>>,
        include: Vec<String>,
        exclude: Vec<String>,
        verify: bool,
        dry_run: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<RestoreReport> {
        let which = Which::new(snapshot)?;
        let mut includes = IncludeOptions::default();
        includes.include = include;
        includes.exclude = exclude;
        let mut options = RestoreOptions::new(path::path(target)?)
            .includes(includes)
            .verify(verify)
            .dry_run(dry_run);
        if let Some(path) = path {
            options = options.subpath(path::path(path)?);
        }
        let (summary, listener) = self.telling(py, progress, move |repository| {
            let (id, snapshot) = which.load(repository)?;
            repository.restore(options, id, &snapshot)
        })?;
        Ok(RestoreReport {
            files: summary.files,
            directories: summary.directories,
            others: summary.others,
            total_bytes: summary.total_bytes,
            restored_bytes: summary.restored_bytes,
            skipped_bytes: summary.skipped_bytes,
            verified_bytes: summary.verified_bytes,
            errors: summary.errors,
            warnings: os_warnings(listener.warnings()),
        })
    }

    /// Stores paths as a new snapshot and returns it. Its `warnings` list entries that could not be
    /// stored.
    ///
    /// Unchanged files are taken from the latest snapshot of the same host and paths, unless
    /// `force` has all of them read. `exclude` has patterns of gitignore.
    #[pyo3(signature = (
        paths, *, tags=Vec::new(), exclude=Vec::new(), hostname=None, time=None, force=false,
        one_file_system=false, dry_run=false, progress=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn backup(
        &self,
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        tags: Vec<String>,
        exclude: Vec<String>,
        hostname: Option<String>,
        time: Option<Timestamp>,
        force: bool,
        one_file_system: bool,
        dry_run: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Snapshot> {
        let paths = path::one_or_more(paths)?;
        let mut excludes = ExcludeOptions::default();
        excludes.patterns = exclude;
        let mut options = BackupOptions::default()
            .excludes(excludes)
            .one_file_system(one_file_system)
            .dry_run(dry_run);
        options.tags = tags;
        options.time = time;
        if let Some(hostname) = hostname {
            options.hostname = hostname;
        }
        if force {
            options.parent = backup::Parent::None;
        }
        let (made, listener) = self.telling(py, progress, move |repository| {
            repository.backup(options, &paths[..])
        })?;
        Ok(Snapshot {
            id: made.id,
            snapshot: made.snapshot,
            warnings: listener.warnings(),
        })
    }

    /// Looks for damage. `read_data` says how much of the packs is read and compared with its
    /// digests: True for all, a number for that percentage.
    #[pyo3(signature = (*, read_data=None, progress=None))]
    fn check(
        &self,
        py: Python<'_>,
        read_data: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<CheckReport> {
        let read_data = match read_data {
            None => ReadData::Nothing,
            Some(value) if value.is_instance_of::<PyBool>() => {
                if value.extract()? {
                    ReadData::All
                } else {
                    ReadData::Nothing
                }
            }
            Some(value) => match value.extract()? {
                percent if (0.0..=100.0).contains(&percent) => ReadData::Percent(percent),
                _ => return Err(invalid("read_data is a percentage: give 0 to 100")),
            },
        };
        let (report, listener) = self.telling(py, progress, move |repository| {
            repository.check(CheckOptions::default().read_data(read_data))
        })?;
        Ok(CheckReport {
            snapshots: report.snapshots,
            index_objects: report.index_objects,
            packs: report.packs,
            blocks: report.blocks,
            read_packs: report.read_packs,
            read_bytes: report.read_bytes,
            unreferenced_packs: report.unreferenced_packs,
            problems: std::mem::take(&mut *lock(&listener.problems)),
        })
    }
}

impl Repository {
    fn make(
        py: Python<'_>,
        url: Option<&Bound<'_, PyAny>>,
        password: Option<&Bound<'_, PyAny>>,
        cache: Option<&Bound<'_, PyAny>>,
        make: impl FnOnce(
            Arc<dyn tabane_store::Storage>,
            &Password,
        ) -> tabane_store::Result<tabane_store::Repository>
        + Send
        + 'static,
    ) -> PyResult<Self> {
        let url = match url {
            Some(url) => path::path(url)?.into_os_string(),
            None => variable("TABANE_REPOSITORY")
                .ok_or_else(|| invalid("no repository: give its URL, or set TABANE_REPOSITORY"))?,
        };
        let location = Location::parse(&url).map_err(invalid)?;
        let password = match password {
            Some(password) => Zeroizing::new(match password.cast::<PyBytes>() {
                Ok(bytes) => bytes.as_bytes().to_vec(),
                Err(_) => password.extract::<String>()?.into_bytes(),
            }),
            None => password_of_environment()?,
        };
        let cache = cache_root(cache)?;
        let opening = move || {
            let storage = location.open(&RemoteOptions::default(), Plan::Auto);
            let storage = storage.map_err(|source| Error::Storage {
                action: "open",
                what: "the storage".to_owned(),
                source,
            })?;
            let repository = make(storage, &password)?;
            Ok(match cache {
                // A cache that cannot be used costs time only.
                Some(root) => repository.with_cache(Cache::new(root, |_| {})),
                None => repository,
            })
        };
        let repository =
            in_thread(py, opening, || Ok(()), || {})?.map_err(|error| exception(&error))?;
        let opened = Opened {
            repository,
            reading: Arc::default(),
        };
        Ok(Self {
            url,
            handle: Arc::new(OfProcess::new(Mutex::new(Some(opened)))),
        })
    }

    /// Does something that tells nothing.
    fn quietly<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Opened, &Listener) -> tabane_store::Result<R> + Send + 'static,
    ) -> PyResult<R> {
        let opened = opened(&self.handle)?;
        let listener = Arc::new(Listener::default());
        let heard = Arc::clone(&listener);
        let done = in_thread(
            py,
            move || work(&opened, &heard),
            || Ok(()),
            || listener.cancel(),
        );
        done?.map_err(|error| exception(&error))
    }

    /// Does something that tells `progress` how it goes on.
    fn telling<R: Send + 'static>(
        &self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce(&tabane_store::Repository) -> tabane_store::Result<R> + Send + 'static,
    ) -> PyResult<(R, Arc<Listener>)> {
        let listener = Arc::new(Listener::default());
        let repository = opened(&self.handle)?
            .repository
            .with_progress(Arc::clone(&listener));
        let tell = || match progress {
            Some(progress) => progress.call1((listener.progress(),)).map(drop),
            None => Ok(()),
        };
        let done = in_thread(py, move || work(&repository), tell, || listener.cancel())?;
        let done = done.map_err(|error| exception(&error))?;
        tell()?;
        Ok((done, listener))
    }
}

/// A snapshot that was not made by this call.
fn listed(id: Id, snapshot: tabane_store::snapshot::Snapshot) -> Snapshot {
    Snapshot {
        id: Some(id),
        snapshot,
        warnings: Vec::new(),
    }
}

/// Which snapshot is meant.
enum Which {
    Named(String),
    This(Id, Box<tabane_store::snapshot::Snapshot>),
}

impl Which {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(snapshot) = object.cast::<Snapshot>() else {
            return Ok(Self::Named(object.extract()?));
        };
        let snapshot = snapshot.get();
        let id = snapshot
            .id
            .ok_or_else(|| invalid("the snapshot is of a dry run: it was not stored"))?;
        Ok(Self::This(id, Box::new(snapshot.snapshot.clone())))
    }

    fn load(
        self,
        repository: &tabane_store::Repository,
    ) -> tabane_store::Result<(Id, tabane_store::snapshot::Snapshot)> {
        match self {
            Self::Named(name) => repository.find_snapshot(&name, &Filter::default()),
            Self::This(id, snapshot) => Ok((id, *snapshot)),
        }
    }

    /// The snapshot's ID, a reader, and the entry at `path`.
    fn look_up(
        self,
        opened: &Opened,
        path: &Path,
    ) -> tabane_store::Result<(Id, Arc<SegmentCache>, tabane_store::entry::Entry)> {
        let (id, snapshot) = self.load(&opened.repository)?;
        let mut segments = opened.segments()?;
        let entry = match find_with(&mut segments, id, &snapshot, path) {
            // The snapshot may be newer than the loaded index.
            Err(Error::MissingBlock(_)) => {
                segments.outdate();
                find_with(&mut segments, id, &snapshot, path)
            }
            result => result,
        };
        Ok((id, segments, entry?))
    }
}

/// Hears how an operation goes on, for a thread of Python that asks now and then.
#[derive(Default)]
struct Listener {
    cancelled: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    entries: AtomicU64,
    warnings: Mutex<Vec<(PathBuf, String)>>,
    problems: Mutex<Vec<String>>,
}

impl Listener {
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn go_on(&self) -> tabane_store::Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Progress {
            done_bytes: load(&self.done),
            total_bytes: load(&self.total),
            entries: load(&self.entries),
        }
    }

    fn warnings(&self) -> Vec<(PathBuf, String)> {
        std::mem::take(&mut *lock(&self.warnings))
    }
}

impl tabane_store::Progress for Listener {
    fn problem(&self, what: &str) {
        lock(&self.problems).push(what.to_owned());
    }

    fn warning(&self, path: &Path, what: &str) {
        lock(&self.warnings).push((path.to_owned(), what.to_owned()));
    }

    fn entry(&self, _: &Path, _: Outcome) {
        self.entries.fetch_add(1, Ordering::Relaxed);
    }

    fn bytes(&self, done: u64, total: u64) {
        // Calls of several threads may come in another order.
        self.done.fetch_max(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Progress of an operation.
#[pyclass(frozen, get_all, module = "tabane")]
pub struct Progress {
    /// Bytes that were worked on.
    done_bytes: u64,
    /// Bytes in total; 0 if unknown.
    total_bytes: u64,
    /// Files, directories and other entries that are done.
    entries: u64,
}

#[pymethods]
impl Progress {
    fn __repr__(&self) -> String {
        format!(
            "<Progress {} of {} bytes>",
            self.done_bytes, self.total_bytes
        )
    }
}

/// The result of a restore.
#[pyclass(frozen, get_all, module = "tabane")]
pub struct RestoreReport {
    /// Regular files that are in the target as the snapshot has them, or would be.
    files: u64,
    /// Directories.
    directories: u64,
    /// Links, devices and other entries without content; further names of hard links.
    others: u64,
    /// Bytes of these files, holes included.
    total_bytes: u64,
    /// Bytes that were written.
    restored_bytes: u64,
    /// Bytes that were up to date already.
    skipped_bytes: u64,
    /// Bytes that were read again and compared.
    verified_bytes: u64,
    /// Number of problems: entries, attributes or bytes that could not be restored.
    errors: u64,
    /// Pairs of a path and a problem.
    warnings: Vec<(OsString, String)>,
}

#[pymethods]
impl RestoreReport {
    fn __repr__(&self) -> String {
        let Self { files, errors, .. } = self;
        format!("<RestoreReport of {files} files, {errors} errors>")
    }
}

/// The result of a check.
#[pyclass(frozen, get_all, module = "tabane")]
pub struct CheckReport {
    /// Snapshots.
    snapshots: u64,
    /// Objects of the index.
    index_objects: u64,
    /// Packs that the index names.
    packs: u64,
    /// Blocks that the index names.
    blocks: u64,
    /// Packs that were read.
    read_packs: u64,
    /// Bytes that were read of them.
    read_bytes: u64,
    /// Packs that no index names.
    unreferenced_packs: u64,
    /// Problems, a sentence each.
    problems: Vec<String>,
}

#[pymethods]
impl CheckReport {
    fn __repr__(&self) -> String {
        let (packs, problems) = (self.packs, self.problems.len());
        format!("<CheckReport of {packs} packs, {problems} problems>")
    }
}

/// Warnings of paths, converted for Python.
fn os_warnings(warnings: Vec<(PathBuf, String)>) -> Vec<(OsString, String)> {
    let warnings = warnings.into_iter();
    warnings.map(|(path, text)| (path.into(), text)).collect()
}

/// An environment variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The password that the environment gives, as to the command.
fn password_of_environment() -> PyResult<Password> {
    if let Some(password) = variable("TABANE_PASSWORD") {
        return Ok(Zeroizing::new(password.into_vec()));
    }
    let Some(file) = variable("TABANE_PASSWORD_FILE") else {
        return Err(invalid(
            "no password: give password=…, or set TABANE_PASSWORD or TABANE_PASSWORD_FILE",
        ));
    };
    let mut password = Zeroizing::new(Vec::with_capacity(PASSWORD_BYTES_MAX as usize));
    std::fs::File::open(&file)
        .and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_end(&mut password))
        .map_err(|error| exception(&Error::path("read the password file", &file)(error)))?;
    if password.last() == Some(&b'\n') {
        password.pop();
        if password.last() == Some(&b'\r') {
            password.pop();
        }
    }
    Ok(password)
}

/// Directory of the caches of repositories.
fn cache_root(cache: Option<&Bound<'_, PyAny>>) -> PyResult<Option<PathBuf>> {
    match cache {
        Some(cache) if !cache.is_instance_of::<PyBool>() => path::path(cache).map(Some),
        Some(cache) if !cache.extract::<bool>()? => Ok(None),
        _ => Ok(tabane_store::Cache::default_root()),
    }
}
