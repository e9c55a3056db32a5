//! What the threads of a copy share, and the order of its steps.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use tabane_engine::{Digest, Pool};
use tabane_files::{Node, write};

use crate::claim::Claim;
use crate::content::{CHUNK_LEN, COPY_LEN};
use crate::directory::{Directory, Place, below};
use crate::link::Links;
use crate::manifest::{self, Manifest};
use crate::operand::Target;
use crate::problem::{Action, Problem};
use crate::reread::{self, Record};
use crate::walk;
use crate::{Observer, Options, Summary, Verify};

/// What the threads of a copy share.
pub struct Run {
    /// What is wanted.
    pub options: Options,
    /// Is told what happens.
    pub observer: Arc<dyn Observer>,
    /// Names for temporary files.
    pub claim: Claim,
    /// Files with several names.
    pub links: Links,
    /// Existing files with several names that are taken for one of the copies: device and inode.
    pub taken: Mutex<HashSet<(u64, u64)>>,
    /// The directory that has the claim, below the target.
    pub home_path: PathBuf,
    /// What that directory should be, if it is a copy itself.
    pub home: Mutex<Option<Node>>,
    /// What becomes the manifest, if one is wanted.
    pub manifest: Option<Manifest>,
    /// What was done.
    pub counters: Counters,
    records: Mutex<Vec<Record>>,
    file_systems: Mutex<HashMap<u64, OwnedFd>>,
    stopped: AtomicBool,
}

/// As [`Summary`].
#[derive(Default)]
#[allow(missing_docs)]
pub struct Counters {
    pub copied_files: AtomicU64,
    pub copied_directories: AtomicU64,
    pub copied_others: AtomicU64,
    pub skipped_files: AtomicU64,
    pub skipped_directories: AtomicU64,
    pub skipped_others: AtomicU64,
    pub total_bytes: AtomicU64,
    pub copied_bytes: AtomicU64,
    pub skipped_bytes: AtomicU64,
    pub shared_bytes: AtomicU64,
    pub reread_bytes: AtomicU64,
    pub mended: AtomicU64,
    pub errors: AtomicU64,
}

/// What each worker has for itself.
pub struct Worker {
    /// What was read of the source.
    pub buffer: Vec<u8>,
    /// What was read back of the copy.
    pub copy: Vec<u8>,
    /// How many other workers there are.
    pub others: usize,
}

/// A pool of workers.
pub fn pool() -> Pool<Worker> {
    // Asked here: to a worker, which is pinned, the system names one processor.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Pool::for_all_processors(|| Worker {
        buffer: vec![0; CHUNK_LEN],
        copy: vec![0; COPY_LEN],
        others: processors - 1,
    })
}

/// Locks a mutex under which nothing panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// What stands for a copy that is to end before it is done; never reported.
pub const CANCELLATION: Errno = Errno::CANCELED;

/// Copies.
pub fn run(options: Options, observer: Arc<dyn Observer>) -> Result<Summary, Problem> {
    let mut target = Target::find(&options)?;
    let failed = |action, path: &PathBuf| {
        let path = path.clone();
        move |error| Problem::System {
            action,
            path,
            error,
        }
    };
    if let Some(path) = &options.manifest {
        manifest::check(path, &options, &target).map_err(failed(Action::Manifest, path))?;
    }
    let dead = std::mem::take(&mut target.dead);
    let purpose = std::mem::take(&mut target.purpose);
    let claim = Claim::make(target.home.clone(), dead, purpose, options.sync)
        .map_err(failed(Action::UseTarget, &options.target))?;
    let manifest = match &options.manifest {
        Some(path) => {
            Some(Manifest::begin(path, options.algorithm).map_err(failed(Action::Manifest, path))?)
        }
        None => None,
    };
    let run = Arc::new(Run {
        options,
        observer,
        claim,
        links: Links::default(),
        taken: Mutex::default(),
        home_path: std::mem::take(&mut target.home_path),
        home: Mutex::default(),
        manifest,
        counters: Counters::default(),
        records: Mutex::default(),
        file_systems: Mutex::default(),
        stopped: AtomicBool::new(false),
    });
    run.will_sync(&target.home.directory)
        .and_then(|()| run.claim.clean(&target.home.directory))
        .map_err(failed(Action::UseTarget, &run.options.target))?;
    walk::copy_all(&run, &target);
    if (run.options.sync || run.options.verify == Verify::Reread)
        && !run.is_cancelled()
        && let Err(error) = run.sync()
    {
        run.problem(&failed(Action::Sync, &run.options.target)(error));
    }
    if run.options.verify == Verify::Reread {
        let records = std::mem::take(&mut *lock(&run.records));
        reread::check_all(&run, records);
    }
    let interrupted = run.is_cancelled();
    if let Some(manifest) = &run.manifest {
        let finished = match interrupted {
            true => manifest.interrupt().map(|kept| {
                kept.inspect(|path| run.observer.kept(path));
            }),
            false => manifest.finish(run.options.sync),
        };
        if let Err(error) = finished {
            run.problem(&failed(Action::Manifest, manifest.path())(error));
        }
    }
    let summary = run.counters.summary(interrupted);
    let run = Arc::into_inner(run).expect("all workers are gone");
    let released = match interrupted {
        true => {
            let may_be_lost = run.options.sync && summary.copied_bytes > 0;
            run.claim.interrupt(may_be_lost).map(|kept| {
                kept.inspect(|path| run.observer.kept(path));
            })
        }
        false => run.claim.release(),
    };
    released.map_err(failed(Action::UseTarget, &run.options.target))?;
    // Removing the claim has changed its times.
    if let Some(node) = lock(&run.home).take() {
        write::apply(target.home.directory.as_fd(), &node);
    }
    Ok(summary)
}

impl Run {
    /// Reports a problem; after a full disk, nothing more is begun.
    pub fn problem(&self, problem: &Problem) {
        if problem.is_cancellation() {
            return;
        }
        if problem.is_full() && self.stopped.swap(true, Ordering::Relaxed) {
            // That was said.
            return;
        }
        add(&self.counters.errors, 1);
        self.observer.problem(problem);
    }

    /// Whether nothing more is to be begun.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.is_cancelled()
    }

    /// Whether the copy is to end before it is done.
    pub fn is_cancelled(&self) -> bool {
        self.observer.is_cancelled()
    }

    /// Fails if the copy is to end before it is done; to be asked before each piece of a file.
    pub fn go_on(&self) -> io::Result<()> {
        match self.is_cancelled() {
            true => Err(CANCELLATION.into()),
            false => Ok(()),
        }
    }

    /// Whether hashes are wanted.
    pub fn hashes(&self) -> bool {
        self.manifest.is_some() || self.options.verify == Verify::Reread
    }

    /// Remembers the file system of a directory that is written into.
    pub fn will_sync(&self, directory: &OwnedFd) -> io::Result<()> {
        let device = rustix::fs::fstat(directory)?.st_dev;
        if let Entry::Vacant(vacant) = lock(&self.file_systems).entry(device) {
            vacant.insert(directory.try_clone()?);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        lock(&self.file_systems)
            .values()
            .try_for_each(|directory| Ok(rustix::fs::syncfs(directory)?))
    }

    /// A regular file is there, whole.
    pub fn record(
        &self,
        directory: &Directory,
        name: &OsStr,
        copy_name: &OsStr,
        size: u64,
        digest: Option<Digest>,
    ) {
        add(&self.counters.total_bytes, size);
        self.list(directory, copy_name, digest);
        if let (Some(digest), Verify::Reread) = (digest, self.options.verify) {
            lock(&self.records).push(Record {
                place: Arc::clone(&directory.place),
                source: below(&directory.source_path, name),
                target: below(&directory.target_path, copy_name),
                size,
                digest,
            });
        }
    }

    /// Writes a name of a regular file into the manifest.
    pub fn list(&self, directory: &Directory, copy_name: &OsStr, digest: Option<Digest>) {
        let (Some(manifest), Some(digest)) = (&self.manifest, digest) else {
            return;
        };
        if let Err(error) = manifest.record(&directory.show_target(copy_name), digest) {
            self.problem(&Problem::System {
                action: Action::Manifest,
                path: manifest.path().clone(),
                error,
            });
        }
    }
}

impl Counters {
    fn summary(&self, interrupted: bool) -> Summary {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Summary {
            copied_files: load(&self.copied_files),
            copied_directories: load(&self.copied_directories),
            copied_others: load(&self.copied_others),
            skipped_files: load(&self.skipped_files),
            skipped_directories: load(&self.skipped_directories),
            skipped_others: load(&self.skipped_others),
            total_bytes: load(&self.total_bytes),
            copied_bytes: load(&self.copied_bytes),
            skipped_bytes: load(&self.skipped_bytes),
            shared_bytes: load(&self.shared_bytes),
            reread_bytes: load(&self.reread_bytes),
            mended: load(&self.mended),
            errors: load(&self.errors),
            interrupted,
        }
    }
}

/// The place of a source and the target.
pub fn place(source: &crate::operand::Source, target: &Target) -> Arc<Place> {
    Arc::new(Place {
        source: Arc::clone(&source.directory),
        source_prefix: source.prefix.clone(),
        target: Arc::clone(&target.directory),
        target_prefix: target.prefix.clone(),
    })
}
