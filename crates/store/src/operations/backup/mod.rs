//! Backup: walk → read → cut → hash in bundles → look up → compress → encrypt → pack → write.
//!
//! One thread walks. What it finds it hands to pinned workers: small files by the hundred, so that
//! their blocks are hashed side by side; a big file by itself, whose blocks are handed on in
//! bundles so that all cores get some. A directory is stored by whoever completes its last entry.

mod directory;
mod gate;
mod patterns;
mod producer;
mod read;
mod scan;
mod walk;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use tabane_engine::Pool;

use crate::access::buffers::Buffers;
use crate::access::client::{Presence, Purpose};
use crate::access::deep_stack::with_deep_stack;
use crate::access::removal;
use crate::access::repository::Repository;
use crate::access::snapshots;
use crate::access::writer::{Writer, flush};
use crate::error::{Error, Result};
use crate::format::compress::Compression;
use crate::format::entry::{Entry, Time, Xattr};
use crate::format::pack::BlockKind;
use crate::format::snapshot::{Snapshot, Summary};
use crate::operations::commit::commit;
use crate::operations::exclude::{ExcludeOptions, Problem};
use tabane_storage::{Id, Name, ObjectKind, Outcome};

use directory::Assembler;
use gate::Gate;
use producer::Producer;
use scan::Scan;
use walk::{Sources, Walker};

pub use patterns::expand;
pub use walk::resolve;

/// What to back up, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupOptions {
    /// What to leave out.
    pub excludes: ExcludeOptions,
    /// Don't descend into other file systems.
    pub one_file_system: bool,
    /// Store times of last access.
    pub with_atime: bool,
    /// What unchanged files are taken from.
    pub parent: Parent,
    /// Take a file for unchanged also if its inode number differs.
    pub ignore_inode: bool,
    /// Take a file for unchanged also if its ctime, the time of the last change of its attributes,
    /// differs. Its extended attributes are read again.
    pub ignore_ctime: bool,
    /// Store no snapshot if every source is as in the parent snapshot.
    pub skip_if_unchanged: bool,
    /// How many threads read files at a time; all of them if there is none. One is best for a disk
    /// that must move its heads.
    pub readers: Option<NonZero<usize>>,
    /// The path under which a single directory is stored, instead of its own.
    pub as_path: Option<PathBuf>,
    /// Find out what would be stored, and store nothing.
    pub dry_run: bool,
    /// How hard to compress.
    pub compression: Compression,
    /// Decrypt, decompress and hash each new pack again before it is stored: what faulty memory has
    /// changed is found.
    pub verify: bool,
    /// The machine's name in the snapshot.
    pub hostname: String,
    /// The user's name in the snapshot.
    pub username: String,
    /// Tags of the snapshot.
    pub tags: Vec<String>,
    /// Time of the snapshot; when the backup begins if nothing else is chosen.
    pub time: Option<Timestamp>,
}

tabane_storage::setters!(BackupOptions {
    set => excludes: ExcludeOptions,
    set => one_file_system: bool,
    set => with_atime: bool,
    set => parent: Parent,
    set => ignore_inode: bool,
    set => ignore_ctime: bool,
    set => skip_if_unchanged: bool,
    into => readers: Option<NonZero<usize>>,
    into => as_path: Option<PathBuf>,
    set => dry_run: bool,
    set => compression: Compression,
    set => verify: bool,
    into => hostname: String,
    into => username: String,
    each tag => tags: String,
    into => time: Option<Timestamp>,
});

impl Default for BackupOptions {
    /// Reads what has changed since the latest snapshot of this machine and these paths, and
    /// verifies what it stores.
    fn default() -> Self {
        let here = crate::format::host::describe();
        Self {
            excludes: ExcludeOptions::default(),
            one_file_system: false,
            with_atime: false,
            parent: Parent::Latest,
            ignore_inode: false,
            ignore_ctime: false,
            skip_if_unchanged: false,
            readers: None,
            as_path: None,
            dry_run: false,
            compression: Compression::AUTO,
            verify: true,
            hostname: here.hostname,
            username: here.username,
            tags: Vec::new(),
            time: None,
        }
    }
}

/// Which snapshot a backup compares files with, by size, times and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The latest of the same host and paths.
    Latest,
    /// This one.
    Snapshot(Id),
    /// None: every file is read again.
    None,
}

/// What a backup reads.
#[derive(Clone, Debug)]
pub enum Source {
    /// Files and directories.
    Paths(Vec<PathBuf>),
    /// Standard input, stored as a file of this name in `/`.
    Stdin(PathBuf),
    /// What a command prints, stored as a file in `/`. If the command fails, so does the backup.
    Command {
        /// Name of the file.
        name: PathBuf,
        /// The program and its arguments.
        command: Vec<OsString>,
    },
}

impl<P: AsRef<Path>> From<&[P]> for Source {
    fn from(paths: &[P]) -> Self {
        Self::Paths(paths.iter().map(|path| path.as_ref().to_owned()).collect())
    }
}

impl<P: AsRef<Path>, const N: usize> From<&[P; N]> for Source {
    fn from(paths: &[P; N]) -> Self {
        Self::from(paths.as_slice())
    }
}

/// What a backup made.
#[derive(Clone, Debug)]
pub struct Backup {
    /// ID of the snapshot; nothing if none was stored: after a dry run, or if it would have been
    /// equal to its parent (see [`BackupOptions::skip_if_unchanged`]).
    pub id: Option<Id>,
    /// Whether every source, and everything in it, is as in the parent snapshot. The directories
    /// above the sources do not count.
    pub unchanged: bool,
    /// The snapshot.
    pub snapshot: Snapshot,
}

/// What the threads of a backup share.
struct Run {
    repository: Repository,
    writer: Writer,
    options: BackupOptions,
    /// Of the snapshot.
    time: Timestamp,
    assembler: Assembler,
    counters: Counters,
    /// Arenas of bundles.
    buffers: Buffers,
    reading: Gate,
}

#[derive(Default)]
struct Counters {
    files_new: AtomicU64,
    files_changed: AtomicU64,
    files_unmodified: AtomicU64,
    directories: AtomicU64,
    others: AtomicU64,
    errors: AtomicU64,
    total_bytes: AtomicU64,
    read_bytes: AtomicU64,
    /// Bytes of files that were read or found unmodified.
    done_bytes: AtomicU64,
    /// Bytes that there are to do: those of the parent snapshot, until they are counted; 0 if
    /// nobody knows.
    expected_bytes: Arc<AtomicU64>,
}

impl Run {
    /// Reports something that will be missing from the snapshot.
    fn error(&self, path: &Path, what: &dyn std::fmt::Display) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.repository.progress().warning(path, &what.to_string());
    }

    /// Reports a file in the tree that says what is left out and cannot be used.
    fn problem(&self, problem: &Problem) {
        let text = problem.error.to_string();
        self.repository.progress().warning(&problem.path, &text);
    }

    /// Gives an entry the extended attributes that were read; if they could not be, that is
    /// reported, and the entry looks changed to the next backup.
    fn set_xattrs(&self, path: &Path, entry: &mut Entry, read: std::io::Result<Vec<Xattr>>) {
        match read {
            Ok(xattrs) => entry.xattrs = xattrs,
            Err(error) => {
                self.error(path, &error);
                entry.ctime = Time::default();
            }
        }
    }

    /// Counts bytes of file contents that were read.
    fn count_read(&self, bytes: u64) {
        let counters = &self.counters;
        counters.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.advance(bytes);
    }

    /// Tells that so many bytes more are done.
    fn advance(&self, bytes: u64) {
        let counters = &self.counters;
        let done = bytes + counters.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        let expected = counters.expected_bytes.load(Ordering::Relaxed);
        // More than expected: nobody knows how much more.
        let total = if done > expected { 0 } else { expected };
        self.repository.progress().bytes(done, total);
    }

    /// Counts an entry of `size` bytes.
    fn count(&self, path: &Path, outcome: Outcome, size: u64) {
        let counters = &self.counters;
        let counter = match outcome {
            Outcome::New => &counters.files_new,
            Outcome::Changed => &counters.files_changed,
            Outcome::Unmodified => &counters.files_unmodified,
            Outcome::Directory => &counters.directories,
            _ => &counters.others,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        counters.total_bytes.fetch_add(size, Ordering::Relaxed);
        if outcome == Outcome::Unmodified {
            self.advance(size);
        }
        self.repository.progress().entry(path, outcome);
    }
}

impl Repository {
    /// Stores `source` as a new snapshot: paths, as in `&["/home/ada"]`, or a [`Source`].
    ///
    /// Entries that cannot be read are reported, counted in [`Summary::errors`] and left out; that
    /// is no error.
    ///
    /// # Errors
    /// Unusable options, a source path that does not exist, or when the repository fails. Nothing
    /// that was in the repository is lost then, and what is indexed already is not read again by
    /// the next backup.
    pub fn backup(&self, options: BackupOptions, source: impl Into<Source>) -> Result<Backup> {
        make(self, &source.into(), options).map_err(|error| {
            let vanished = error.is_not_found()
                || matches!(error, Error::RemovedMeanwhile | Error::ObjectGone(_));
            match vanished.then(|| self.verify_presence()) {
                Some(Err(gone @ Error::RepositoryGone(_))) => gone,
                _ => error,
            }
        })
    }
}

fn make(repository: &Repository, source: &Source, options: BackupOptions) -> Result<Backup> {
    let start = Timestamp::now();
    let time = options.time.unwrap_or(start);
    let Sources { paths, missing } = walk::sources(source)?;
    // Those that are missing today are found again by the same names.
    let mut named: Vec<_> = paths
        .iter()
        .chain(missing.iter().map(|(path, _)| path))
        .collect();
    let as_path = match &options.as_path {
        Some(as_path) => {
            let as_path = walk::absolute_name(as_path)?;
            if named.len() > 1 || !paths[0].is_dir() {
                return Err(Error::Invalid(
                    "only a single directory can be stored under another path".to_owned(),
                ));
            }
            Some(as_path)
        }
        None => None,
    };
    if let Some(as_path) = &as_path {
        named = vec![as_path];
    }
    named.sort();
    named.dedup();
    let path_texts: Vec<String> = named
        .into_iter()
        .map(|path| snapshots::path_text(path))
        .collect();
    let parent = match options.parent {
        Parent::None => None,
        Parent::Snapshot(id) => Some((id, repository.load_snapshot(id)?)),
        Parent::Latest => repository.find_parent_snapshot(&options.hostname, &path_texts, time)?,
    };
    // Before anything is looked up: from now on a prune leaves alone what this backup finds.
    let _presence = if options.dry_run {
        None
    } else {
        Some(Presence::announce(repository, Purpose::Backup)?)
    };
    // To list all packs takes the longer the more there are: it is done for whoever reads
    // everything anyway.
    let (index, lost) = if options.parent == Parent::None || !repository.has_cache() {
        repository.load_index_and_lost()?
    } else {
        (repository.load_index()?, Vec::new())
    };
    let removals = index.removals().clone();
    for pack in lost {
        let name = Name::new(ObjectKind::Pack, pack).path();
        let what = "is missing or cut short: what it held is stored again where it is still there";
        repository.progress().warning(Path::new(&name), what);
    }
    let writer = Writer::new(repository, index, options.dry_run);
    let encoder = |kind| {
        let encoder = writer.encoder(kind, options.compression);
        if options.verify {
            encoder
        } else {
            encoder.without_verification()
        }
    };
    let pool = Pool::for_all_processors(|| encoder(BlockKind::Data));
    let assembler = Assembler::new(encoder(BlockKind::Tree), repository.format() > 1);
    let run = Arc::new(Run {
        repository: repository.clone(),
        writer,
        reading: Gate::new(options.readers),
        options,
        time,
        assembler,
        counters: Counters::default(),
        buffers: Buffers::default(),
    });
    let expected = &run.counters.expected_bytes;
    if let Some((_, parent)) = &parent {
        expected.store(parent.summary.total_bytes, Ordering::Relaxed);
    }
    // With other names, excludes would not be understood.
    let is_tree = matches!(source, Source::Paths(_)) && as_path.is_none();
    let counted = is_tree && repository.progress().wants_total();
    let scan = counted.then(|| Scan::start(&run.options, &paths, Arc::clone(expected)));
    for (path, error) in &missing {
        run.error(path, error);
    }
    let walker = Walker::new(
        &run,
        pool.submitter().clone(),
        parent.as_ref().map(|(_, snapshot)| snapshot),
    );
    let mut producer = None;
    let walked = walker.and_then(|walker| match (source, &as_path) {
        (Source::Paths(_), None) => with_deep_stack(|| walker.walk(&paths)),
        (Source::Paths(_), Some(as_path)) => with_deep_stack(|| walker.walk_as(&paths[0], as_path)),
        (Source::Stdin(_), _) => walker.stream(&paths[0], Box::new(std::io::stdin())),
        (Source::Command { command, .. }, _) => {
            let (running, output) = Producer::start(command)?;
            producer = Some(running);
            walker.stream(&paths[0], Box::new(output))
        }
    });
    let flushed = flush(pool.finish());
    drop(scan);
    let produced = match producer {
        // One that is not read to its end is ended.
        Some(producer) if walked.is_ok() && flushed.is_ok() => producer.finish(),
        _ => Ok(()),
    };
    let run = Arc::into_inner(run).expect("all threads have ended");
    let is_changed = run.assembler.is_changed() || !missing.is_empty();
    let root = run.assembler.finish();
    let written = run.writer.finish()?;
    let (root, owners) = walked
        .and(flushed)
        .and(produced)
        .and(root)
        .map_err(|error| {
            if !error.is_not_found() {
                return error;
            }
            // What the index knew of is gone, and perhaps there is somebody who removes.
            match removal::names(repository) {
                Ok(names) if names != removals => Error::RemovedMeanwhile,
                _ => {
                    repository.forget_cached();
                    Error::ObjectGone(Box::new(error))
                }
            }
        })?;

    let counters = run.counters;
    let snapshot = Snapshot {
        time: run.time,
        hostname: run.options.hostname,
        username: run.options.username,
        paths: path_texts,
        tags: run.options.tags,
        parent: parent.as_ref().map(|(id, _)| *id),
        original: None,
        root,
        owners: (repository.format() > 1).then(|| owners.names()),
        program_version: concat!("tabane ", env!("CARGO_PKG_VERSION")).to_owned(),
        summary: Summary {
            start,
            end: Timestamp::now(),
            files_new: counters.files_new.into_inner(),
            files_changed: counters.files_changed.into_inner(),
            files_unmodified: counters.files_unmodified.into_inner(),
            directories: counters.directories.into_inner(),
            others: counters.others.into_inner(),
            errors: counters.errors.into_inner(),
            total_bytes: counters.total_bytes.into_inner(),
            read_bytes: counters.read_bytes.into_inner(),
            added_bytes: written.added_bytes,
            duplicate_bytes: written.duplicate_bytes,
            stored_bytes: written.stored_bytes,
            blocks_new: written.blocks_new,
            blocks_duplicate: written.blocks_duplicate,
        },
    };
    let is_same = |parent: &Snapshot| parent.paths == snapshot.paths && !is_changed;
    let has_parent = parent.is_some_and(|(_, parent)| is_same(&parent));
    let unchanged = has_parent && matches!(source, Source::Paths(_));
    let id = if run.options.dry_run || unchanged && run.options.skip_if_unchanged {
        None
    } else {
        Some(commit(repository, &snapshot, &removals)?)
    };
    Ok(Backup {
        id,
        unchanged,
        snapshot,
    })
}

/// An [`Error::Path`] for a source.
fn cannot_read(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::path("read", path)
}
