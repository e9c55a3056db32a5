//! State shared by the threads of a copy.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tabane_engine::{Digest, Pool};
use tabane_files::{Entry, write};

use crate::claim::Claim;
use crate::directory::{Directory, below};
use crate::link::Links;
use crate::lock::lock;
use crate::manifest::Manifest;
use crate::options::{Options, Verify};
use crate::problem::{Action, CANCELLATION, Problem};
use crate::progress::Progress;
use crate::record::{FileHash, Record};
use crate::summary::{Counter, Counters};

/// Bytes that are read at a time: with what the system keeps of both files, they fit into the
/// second cache of a core.
pub(crate) const CHUNK_LEN: usize = 128 << 10;

/// Bytes that are read back at a time: few enough for the first-level cache.
const READ_BACK_LEN: usize = 16 << 10;

/// State shared by the threads of a copy.
pub(crate) struct Run {
    /// The options of the copy.
    pub(crate) options: Options,
    /// Is told what happens.
    pub(crate) progress: Arc<dyn Progress>,
    /// Names for temporary files.
    pub(crate) claim: Claim,
    /// Files with several names.
    pub(crate) links: Links,
    /// The manifest being written, if one is wanted.
    pub(crate) manifest: Option<Manifest>,
    /// Counts for the summary.
    pub(crate) counters: Counters,
    /// Existing files with several names that are taken for one of the copies: device and inode.
    taken: Mutex<HashSet<(u64, u64)>>,
    /// Path of the directory with the claim, below the target.
    home_path: PathBuf,
    /// Attributes that this directory gets, if it is a copy itself.
    home: Mutex<Option<Entry>>,
    /// Copies to read again in the end.
    records: Mutex<Vec<Record>>,
    /// Copies that get file flags in the end: then they can no longer be changed.
    flagged: Mutex<Vec<Flagged>>,
    /// A directory of each file system that was written to, by device.
    file_systems: Mutex<HashMap<u64, OwnedFd>>,
    /// Whether the disk is full.
    stopped: AtomicBool,
    /// Bytes done, for [`Progress::bytes`].
    done_bytes: Counter,
    skipped_bytes: Counter,
    all_bytes: AtomicU64,
}

/// A copy that gets file flags.
struct Flagged {
    directory: Arc<OwnedFd>,
    name: OsString,
    path: PathBuf,
    entry: Entry,
}

/// State of a worker.
pub(crate) struct Worker {
    /// Bytes read from the source.
    pub(crate) buffer: Vec<u8>,
    /// Bytes read back from the copy.
    pub(crate) copy: Vec<u8>,
    /// Number of other workers.
    pub(crate) others: usize,
}

/// A pool of workers.
pub(crate) fn pool() -> Pool<Worker> {
    // Asked here: to a worker, which is pinned, the system names one processor.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Pool::for_all_processors(|| Worker {
        buffer: vec![0; CHUNK_LEN],
        copy: vec![0; READ_BACK_LEN],
        others: processors - 1,
    })
}

impl Run {
    /// A run that has done nothing yet; its claim is in the directory at `home_path` below the
    /// target.
    pub(crate) fn new(
        options: Options,
        progress: Arc<dyn Progress>,
        claim: Claim,
        home_path: PathBuf,
        manifest: Option<Manifest>,
    ) -> Self {
        Self {
            options,
            progress,
            claim,
            links: Links::default(),
            manifest,
            counters: Counters::default(),
            taken: Mutex::default(),
            home_path,
            home: Mutex::default(),
            records: Mutex::default(),
            flagged: Mutex::default(),
            file_systems: Mutex::default(),
            stopped: AtomicBool::new(false),
            done_bytes: Counter::default(),
            skipped_bytes: Counter::default(),
            all_bytes: AtomicU64::new(0),
        }
    }

    /// Reports a problem; after a full disk, nothing more is begun.
    pub(crate) fn problem(&self, problem: &Problem) {
        if problem.is_cancellation() {
            return;
        }
        if problem.is_full() && self.stopped.swap(true, Ordering::Relaxed) {
            // A full disk was reported already.
            return;
        }
        self.counters.errors.add(1);
        self.progress.problem(problem);
    }

    /// Whether nothing more is to be begun.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.is_cancelled()
    }

    /// Whether the copy is to end before it is done.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }

    /// Fails once the copy is cancelled; called before each piece of a file.
    pub(crate) fn go_on(&self) -> io::Result<()> {
        if self.is_cancelled() {
            return Err(CANCELLATION.into());
        }
        Ok(())
    }

    /// Bytes of files are done: written, or read again.
    pub(crate) fn bytes(&self, count: u64) {
        let done = self.done_bytes.add(count);
        self.progress
            .bytes(done, self.all_bytes.load(Ordering::Relaxed));
    }

    /// Counts bytes of files that the target has already as done.
    pub(crate) fn skipped(&self, count: u64) {
        self.progress.skipped(self.skipped_bytes.add(count));
        self.bytes(count);
    }

    /// Sets the total for [`Progress::bytes`] once all sources are listed.
    pub(crate) fn listed(&self, bytes: u64) {
        let times = match self.options.verify {
            Verify::None | Verify::Written => 1,
            Verify::Reread => 2,
        };
        self.all_bytes.store(times * bytes, Ordering::Relaxed);
        self.bytes(0);
    }

    /// Sets the total anew once all copies are synced: `bytes` of them are read again.
    pub(crate) fn rereading(&self, bytes: u64) {
        // Bytes of failed files no longer count in the total.
        let all = self.done_bytes.get() + bytes;
        self.all_bytes.store(all, Ordering::Relaxed);
        self.bytes(0);
        self.progress.rereading();
    }

    /// Whether hashes are wanted.
    pub(crate) fn hashes(&self) -> bool {
        self.manifest.is_some() || self.options.verify == Verify::Reread
    }

    /// Whether the zeros of holes are hashed too: the manifest has the hashes that others compute.
    pub(crate) fn hashes_holes(&self) -> bool {
        self.manifest.is_some()
    }

    /// Remembers the file system of a directory that is written into.
    pub(crate) fn will_sync(&self, directory: &OwnedFd) -> io::Result<()> {
        let device = rustix::fs::fstat(directory)?.st_dev;
        if let Slot::Vacant(vacant) = lock(&self.file_systems).entry(device) {
            vacant.insert(directory.try_clone()?);
        }
        Ok(())
    }

    /// Brings every file system that was written to onto its disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        lock(&self.file_systems)
            .values()
            .try_for_each(|directory| Ok(rustix::fs::syncfs(directory)?))
    }

    /// A regular file is there, whole.
    pub(crate) fn record(
        &self,
        directory: &Directory,
        name: &OsStr,
        copy_name: &OsStr,
        size: u64,
        hash: Option<FileHash>,
    ) {
        self.counters.total_bytes.add(size);
        self.list(directory, copy_name, hash.as_ref().map(|hash| hash.digest));
        if let (Some(hash), Verify::Reread) = (hash, self.options.verify) {
            lock(&self.records).push(Record {
                place: Arc::clone(&directory.place),
                source: below(&directory.source_path, name),
                target: below(&directory.target_path, copy_name),
                size,
                hash,
            });
        }
    }

    /// Writes a name of a regular file into the manifest.
    pub(crate) fn list(&self, directory: &Directory, copy_name: &OsStr, digest: Option<Digest>) {
        let (Some(manifest), Some(digest)) = (&self.manifest, digest) else {
            return;
        };
        if let Err(error) = manifest.record(&below(&directory.target_path, copy_name), digest) {
            self.problem(&Problem::System {
                action: Action::Manifest,
                path: manifest.path().clone(),
                error,
            });
        }
    }
    /// Takes an existing file with several names for one of the copies; false if it is taken
    /// already.
    pub(crate) fn take(&self, identity: (u64, u64)) -> bool {
        lock(&self.taken).insert(identity)
    }

    /// Takes the records of copies to read again.
    pub(crate) fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut *lock(&self.records))
    }

    /// Has the flags of an entry, if there are any, given to its copy in the end.
    pub(crate) fn will_flag(
        &self,
        directory: &Arc<OwnedFd>,
        name: &OsStr,
        path: PathBuf,
        entry: &Entry,
    ) {
        if !entry.flags.is_empty() {
            lock(&self.flagged).push(Flagged {
                directory: Arc::clone(directory),
                name: name.to_owned(),
                path,
                entry: entry.clone(),
            });
        }
    }

    /// Gives copies their file flags. Nothing may be changed afterwards.
    pub(crate) fn set_flags(&self) {
        for copy in std::mem::take(&mut *lock(&self.flagged)) {
            let failure = write::apply_flags(copy.directory.as_fd(), &copy.name, &copy.entry);
            if let Some(error) = failure {
                let path = copy.path;
                self.problem(&Problem::Attribute { path, error });
            }
        }
    }

    /// Takes the attributes of the directory with the claim, if it is a copy itself.
    pub(crate) fn take_home(&self) -> Option<Entry> {
        lock(&self.home).take()
    }

    /// Releases a directory. Its last holder sets its attributes, and those of its parents without
    /// another holder.
    pub(crate) fn close(&self, mut directory: Arc<Directory>) {
        // No recursion: trees may be deep.
        while let Some(directory_alone) = Arc::into_inner(directory) {
            if let Some(entry) = &directory_alone.entry {
                let path = directory_alone.show_target(OsStr::new("."));
                for error in write::apply(directory_alone.target.as_fd(), entry) {
                    let path = path.clone();
                    self.problem(&Problem::Attribute { path, error });
                }
                self.progress.entry(&path);
                if directory_alone.target_path == self.home_path {
                    *lock(&self.home) = Some(entry.clone());
                } else {
                    let target = &directory_alone.target;
                    self.will_flag(target, OsStr::new("."), path, entry);
                }
            }
            match directory_alone.parent {
                Some(parent) => directory = parent,
                None => return,
            }
        }
    }
}
