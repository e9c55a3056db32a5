//! Claims: files whose locks tell running copies from killed ones.
//!
//! A file is written under a temporary name and renamed when it is whole and has its attributes.
//! Temporary names begin with that of the run's *claim*, a file in the directory that takes the
//! copy. A run holds a lock on its claim and removes the claim in the end: a claim without a lock
//! belongs to a run that was killed.
//!
//! A run that copies into a directory removes the temporary files there whose run has no locked
//! claim in that directory or above it. A claim without a lock stays as long as it tells something:
//! that the same command goes on with the directory that it made. If the machine was started anew
//! since, files which the killed run finished may have lost bytes that never reached the disk: they
//! are compared by content.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tabane_engine::{Algorithm, Hasher};
use tabane_files::{Time, beneath, read};

use crate::options::{Meaning, Options};

/// Prefix of the names of claims and temporary files.
const CLAIM_PREFIX: &str = ".tabane-cp.";

/// The directory that holds the claim: the directory that takes the copies, or the copy itself if
/// it existed before.
#[derive(Clone)]
pub(crate) struct Home {
    /// Open for reading.
    pub(crate) directory: Arc<OwnedFd>,
    /// The path as messages show it.
    pub(crate) shown: PathBuf,
}

/// A file in the directory that takes the copy, locked as long as the run goes on.
///
/// Its name is [`CLAIM_PREFIX`], eight digits that tell one start of the machine from another, a
/// point, and a random number of sixteen: names and times survive a crash, contents need not.
/// Temporary files are named as the claim of their run, with a point and a number behind it. The
/// content is the [`purpose`] of the run. If that makes a directory, the same command, run again,
/// must not take it for one to copy into.
pub(crate) struct Claim {
    home: Home,
    name: String,
    lock: OwnedFd,
    purpose: Vec<u8>,
    dead: Vec<Dead>,
    temporaries: AtomicU64,
}

/// The claim of a run that was killed.
pub(crate) struct Dead {
    home: Home,
    name: String,
    purpose: Vec<u8>,
    /// Whether the dead run was of the present command.
    is_ours: bool,
    /// When it began, if the machine was started anew since then.
    since_restart: Option<Time>,
}

/// Identifies a command: a hash of the sources and the target as given, and the name of the
/// directory that the command makes beside its claim, if any.
pub(crate) fn purpose(options: &Options, name: Option<&OsStr>) -> Vec<u8> {
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    let here = std::env::current_dir().unwrap_or_default();
    for source in &options.sources {
        hasher.update(here.join(source).as_os_str().as_bytes());
        hasher.update(b"\0");
    }
    hasher.update(match options.meaning {
        Meaning::Either => b"either",
        Meaning::Directory => b"directory",
        Meaning::Name => b"name",
    });
    let mut purpose = format!("{} ", hasher.finish()).into_bytes();
    purpose.extend_from_slice(name.unwrap_or_default().as_bytes());
    purpose
}

impl Dead {
    /// Whether it was of the command that runs now, with its name for the copy in the directory
    /// that has the claim.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// The killed runs that were copying into this directory, for one with this purpose.
    pub(crate) fn find(home: &Home, purpose: &[u8]) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for name in read::list(&home.directory)? {
            if let Some(name) = name.to_str().filter(|name| is_claim(name))
                && let Some(dead) = Self::open(home, name, purpose)?
            {
                found.push(dead);
            }
        }
        Ok(found)
    }

    fn open(home: &Home, name: &str, purpose: &[u8]) -> io::Result<Option<Self>> {
        let Some(file) = lock_of_dead(&home.directory, name)? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&file)?;
        let mut found = Vec::new();
        std::fs::File::from(file)
            .take(1 << 16)
            .read_to_end(&mut found)?;
        let is_of_this_start = name[CLAIM_PREFIX.len()..].starts_with(&machine_start());
        Ok(Some(Self {
            home: home.clone(),
            name: name.to_owned(),
            is_ours: found == purpose,
            purpose: found,
            since_restart: (!is_of_this_start).then_some(Time {
                s: stat.st_mtime as _,
                ns: stat.st_mtime_nsec as _,
            }),
        }))
    }

    /// Whether the dead run was of another command, and only that command, run again, can finish
    /// its work.
    fn awaits_its_command(&self) -> bool {
        // Without a purpose, the command is unknown.
        let is_anothers = !self.is_ours && !self.purpose.is_empty();
        is_anothers
            && (self.since_restart.is_some()
                || makes_directory(&self.home.directory, &self.purpose))
    }

    fn remove(&self) -> io::Result<()> {
        // Between being made and being locked, that of a living run looks as if it were dead.
        match lock_of_dead(&self.home.directory, &self.name)? {
            Some(_lock) => remove(&self.home.directory, &self.name),
            None => Ok(()),
        }
    }
}

impl Claim {
    /// Claims a directory for a run with this purpose, which may have to do with what the `dead`
    /// ones left.
    ///
    /// With `sync`, the purpose survives a crash.
    pub(crate) fn make(
        home: Home,
        dead: Vec<Dead>,
        purpose: Vec<u8>,
        sync: bool,
    ) -> io::Result<Self> {
        let (name, lock) = loop {
            let number = RandomState::new().hash_one(0);
            let name = format!("{CLAIM_PREFIX}{}.{number:016x}", machine_start());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let lock =
                match rustix::fs::openat(&home.directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                    Err(Errno::EXIST) => continue,
                    result => result?,
                };
            // On a file system without locks, other runs cannot recognise this one either.
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                // Another run came in between, and took it for dead.
                Err(Errno::WOULDBLOCK) => continue,
                _ if rustix::fs::fstat(&lock)?.st_nlink == 0 => continue,
                _ => break (name, lock),
            }
        };
        let mut file = std::fs::File::from(lock);
        file.write_all(&purpose)?;
        if sync {
            file.sync_all()?;
        }
        Ok(Self {
            home,
            name,
            lock: file.into(),
            purpose,
            dead,
            temporaries: AtomicU64::new(0),
        })
    }

    /// A name that no other file has.
    pub(crate) fn temporary(&self) -> String {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.name)
    }

    /// Removes what killed runs left in a directory, whatever they were copying.
    pub(crate) fn clean(&self, directory: &OwnedFd) -> io::Result<()> {
        let mut dead = HashSet::new();
        for name in read::list(directory)? {
            let Some((name, run)) = name.to_str().and_then(|name| Some((name, run_of(name)?)))
            else {
                continue;
            };
            if run != self.name && (dead.contains(run) || is_dead(directory, run)?) {
                dead.insert(run.to_owned());
                remove(directory, name)?;
            }
        }
        Ok(())
    }

    /// From when on changes may be lost because the machine stopped; nothing if it did not.
    pub(crate) fn doubtful_since(&self) -> Option<Time> {
        self.dead.iter().filter_map(|dead| dead.since_restart).min()
    }

    /// The run is done. Claims of others stay where only the same command can complete what they
    /// began.
    pub(crate) fn release(self) -> io::Result<()> {
        for dead in self.dead.iter().filter(|dead| !dead.awaits_its_command()) {
            dead.remove()?;
        }
        remove(&self.home.directory, &self.name)
    }

    /// Ends the run early. Its claim stays if the run made a directory or its copies are not
    /// durable yet, unless an earlier run of the same command has left one. Returns the path of the
    /// claim that stays, by which the same command resumes.
    pub(crate) fn interrupt(self, may_be_lost: bool) -> io::Result<Option<PathBuf>> {
        let before = self.dead.iter().find(|dead| dead.is_ours);
        if before.is_none() && (may_be_lost || makes_directory(&self.home.directory, &self.purpose))
        {
            // To close it does not unlock it while a child that was just forked has it open, too.
            let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
            return Ok(Some(self.home.shown.join(self.name)));
        }
        remove(&self.home.directory, &self.name)?;
        Ok(before.map(|dead| dead.home.shown.join(&dead.name)))
    }
}

/// Whether the directory is there that a run with this purpose was to make.
fn makes_directory(home: &OwnedFd, purpose: &[u8]) -> bool {
    let name = purpose.splitn(2, |&byte| byte == b' ').nth(1);
    let name = OsStr::from_bytes(name.unwrap_or_default());
    let there = beneath::file_type(home.as_fd(), name);
    there.is_ok_and(|there| there == Some(FileType::Directory))
}

/// Locks the claim of a dead run; `None` if the claim is gone or its run still lives.
fn lock_of_dead(home: &OwnedFd, name: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(home, name, flags, Mode::empty()) {
        // Another copy's claim: that copy removes what it left.
        Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP) => return Ok(None),
        result => result?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // Without locks, no run can be recognised as dead.
        Err(Errno::WOULDBLOCK | Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS) => Ok(None),
        result => Ok(result.map(|()| Some(file))?),
    }
}

/// Whether the run of a temporary file in this directory is dead. The run's claim lies in this
/// directory or above it, and is removed last.
fn is_dead(directory: &OwnedFd, run: &str) -> io::Result<bool> {
    let mut directory = directory.try_clone()?;
    let mut last = None;
    loop {
        if beneath::file_type(directory.as_fd(), OsStr::new(run))?.is_some() {
            return Ok(lock_of_dead(&directory, run)?.is_some());
        }
        let stat = rustix::fs::fstat(&directory)?;
        let identity = (stat.st_dev, stat.st_ino);
        // The root is above itself.
        if last.replace(identity) == Some(identity) {
            return Ok(true);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        directory = match rustix::fs::openat(&directory, "..", flags, Mode::empty()) {
            Err(Errno::ACCESS) => return Ok(false),
            result => result?,
        };
    }
}

/// Removes a file that may be gone; one of another copy stays.
fn remove(directory: &OwnedFd, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT | Errno::PERM | Errno::ACCESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether it is the name of a claim.
fn is_claim(name: &str) -> bool {
    let is_number =
        |text: &str, len| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = name
        .strip_prefix(CLAIM_PREFIX)
        .and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(start, number)| is_number(start, 8) && is_number(number, 16))
}

/// The name of the claim of the run whose temporary file it is.
fn run_of(temporary: &str) -> Option<&str> {
    let (run, number) = temporary.rsplit_once('.')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && is_claim(run)).then_some(run)
}

/// Eight digits that are others each time the machine starts.
fn machine_start() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.get(..8).unwrap_or("00000000").to_owned()
}
