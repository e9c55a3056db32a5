//! What tells a run that goes on from one that was killed.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tabane_engine::{Algorithm, Hasher};
use tabane_files::{Time, read};

use crate::{Meaning, Options};

/// What names of claims and temporary files begin with.
const PREFIX: &str = ".tabane-cp.";

/// A file in the directory that takes the copy, locked as long as the run goes on.
///
/// Its name is [`PREFIX`], eight digits that tell one start of the machine from another, and a random number: names and
/// times survive a crash, contents need not. Its content is the [`purpose`] of the run if that makes the target as a
/// directory: then the same command, run again, must not take it for a directory to copy into.
pub struct Claim {
    home: Arc<OwnedFd>,
    name: String,
    _lock: OwnedFd,
    dead: Vec<Dead>,
    temporaries: AtomicU64,
}

/// The claim of a run that was killed.
pub struct Dead {
    name: String,
    purpose: Vec<u8>,
    /// When it began, if the machine was started anew since then.
    since_restart: Option<Time>,
}

/// What tells a command that makes a directory of this name from all others: the name, and a hash of the sources and of how
/// the target was given.
pub fn purpose(options: &Options, name: &OsStr) -> Vec<u8> {
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
    purpose.extend_from_slice(name.as_bytes());
    purpose
}

impl Dead {
    /// Whether it was of this purpose.
    pub fn was_for(&self, purpose: &[u8]) -> bool {
        self.purpose == purpose
    }

    /// The killed runs that were copying into this directory.
    pub fn find(home: &OwnedFd) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for name in read::list(home)? {
            // Temporary names have one part more.
            let Some(name) = name
                .to_str()
                .filter(|name| name.starts_with(PREFIX) && name.split('.').count() == 4)
            else {
                continue;
            };
            if let Some(dead) = Self::open(home, name)? {
                found.push(dead);
            }
        }
        Ok(found)
    }

    fn open(home: &OwnedFd, name: &str) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(home, name, flags, Mode::empty()) {
            // Another's: what it left is his to remove.
            Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP) => return Ok(None),
            result => result?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            result => result?,
        }
        let stat = rustix::fs::fstat(&file)?;
        let mut purpose = Vec::new();
        std::fs::File::from(file)
            .take(1 << 16)
            .read_to_end(&mut purpose)?;
        let is_of_this_start = name[PREFIX.len()..].starts_with(&machine_start());
        Ok(Some(Self {
            name: name.to_owned(),
            purpose,
            since_restart: (!is_of_this_start).then_some(Time {
                s: stat.st_mtime as _,
                ns: stat.st_mtime_nsec as _,
            }),
        }))
    }
}

impl Claim {
    /// Claims a directory, and what the `dead` runs left in it.
    ///
    /// The `purpose` is that of a directory that will be made, if one will be; with `sync`, it survives a crash.
    pub fn make(
        home: Arc<OwnedFd>,
        dead: Vec<Dead>,
        purpose: Option<&[u8]>,
        sync: bool,
    ) -> io::Result<Self> {
        let (name, lock) = loop {
            let number = RandomState::new().hash_one(0);
            let name = format!("{PREFIX}{}.{number:016x}", machine_start());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let lock = match rustix::fs::openat(&home, &name, flags, Mode::RUSR | Mode::WUSR) {
                Err(Errno::EXIST) => continue,
                result => result?,
            };
            // A file system without locks has nobody to tell from us either.
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                // Another run came in between, and took it for dead.
                Err(Errno::WOULDBLOCK) => continue,
                _ if rustix::fs::fstat(&lock)?.st_nlink == 0 => continue,
                _ => break (name, lock),
            }
        };
        let claim = Self {
            home,
            name,
            _lock: lock,
            dead,
            temporaries: AtomicU64::new(0),
        };
        if let Some(purpose) = purpose {
            let mut file = std::fs::File::from(claim._lock.try_clone()?);
            file.write_all(purpose)?;
            if sync {
                file.sync_all()?;
            }
        }
        Ok(claim)
    }

    /// A name that no other file has.
    pub fn temporary(&self) -> String {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.name)
    }

    /// Removes what killed runs left in a directory.
    pub fn clean(&self, directory: &OwnedFd) -> io::Result<()> {
        if self.dead.is_empty() {
            return Ok(());
        }
        let left = |name: &OsString| {
            self.dead.iter().any(|dead| {
                let number = name.as_bytes().strip_prefix(dead.name.as_bytes());
                number.is_some_and(|number| number.starts_with(b"."))
            })
        };
        for name in read::list(directory)?.iter().filter(|name| left(name)) {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
        }
        Ok(())
    }

    /// From when on changes may be lost because the machine stopped; nothing if it did not.
    pub fn doubtful_since(&self) -> Option<Time> {
        self.dead.iter().filter_map(|dead| dead.since_restart).min()
    }

    /// The run is done, and all that others left is removed.
    pub fn release(self) -> io::Result<()> {
        for name in self.dead.iter().map(|dead| &dead.name).chain([&self.name]) {
            match rustix::fs::unlinkat(self.home.as_fd(), name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Eight digits that are others each time the machine starts.
fn machine_start() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.get(..8).unwrap_or("00000000").to_owned()
}
