//! Reads ahead where the source is on a disk and not in memory.
//!
//! A disk answers many requests at once in little more than the time of one. So when a thread has
//! waited for the disk, what it will need next is asked for by several threads, or without waiting.
//! Where everything is in memory, all this costs one system call a directory or batch.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::fs::{Advice, AtFlags, StatxFlags, fadvise, statx};
use tabane_files::read;

use super::read::FileJob;

/// Threads that look at the entries of a directory.
const THREADS: usize = 8;

/// With fewer entries than this a thread, starting it costs more than it helps.
const NAMES_PER_THREAD: usize = 8;

/// Whether what is needed next is probably not in memory.
#[derive(Default)]
pub struct Cold(AtomicBool);

impl Cold {
    /// Notes, when the result is dropped, whether this thread has read from a disk meanwhile.
    pub fn watch(&self) -> Watch<'_> {
        Watch {
            cold: self,
            before: blocks_read(),
        }
    }

    fn note(&self, is_cold: bool) {
        self.0.store(is_cold, Ordering::Relaxed);
    }

    /// Looks at the entries of a directory in several threads, so that they are in memory. This
    /// tells again whether the next ones are. Returns whether the threads were started.
    pub fn look_ahead(&self, directory: BorrowedFd<'_>, names: &[OsString]) -> bool {
        if !self.0.load(Ordering::Relaxed) || names.len() < 2 * NAMES_PER_THREAD {
            return false;
        }
        let part = names.len().div_ceil(THREADS).max(NAMES_PER_THREAD);
        let look = |names: &[OsString]| {
            let before = blocks_read();
            for name in names {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                // Whoever needs it meets the same error.
                let _ = statx(directory, name, flags, StatxFlags::BASIC_STATS);
            }
            blocks_read() != before
        };
        let is_cold = std::thread::scope(|scope| {
            let looking: Vec<_> = names
                .chunks(part)
                .map(|names| scope.spawn(move || look(names)))
                .collect();
            let found = looking.into_iter().map(|thread| thread.join());
            // All of them: none may be left unjoined.
            found.fold(false, |any, found| any | found.unwrap_or(true))
        });
        self.note(is_cold);
        true
    }

    /// Asks for the contents of files that will be read soon, without waiting for them.
    pub fn ask_ahead(&self, jobs: &[FileJob]) {
        if !self.0.load(Ordering::Relaxed) {
            return;
        }
        for job in jobs {
            let name = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&job.found.entry.name);
            if let Ok(file) = read::open_file(job.directory.as_fd(), name) {
                let _ = fadvise(&file, 0, None, Advice::WillNeed);
            }
        }
    }
}

/// A piece of work that may read from a disk.
pub struct Watch<'a> {
    cold: &'a Cold,
    before: i64,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.cold.note(blocks_read() != self.before);
    }
}

/// Blocks that this thread has had read from disks.
fn blocks_read() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.block_reads())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_look_ahead_only_where_it_is_cold_and_there_is_much() {
        let folder = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(folder.path()).unwrap();
        // One that is missing is no error here.
        let names: Vec<OsString> = (0..20).map(|number| format!("{number}").into()).collect();
        names[1..]
            .iter()
            .for_each(|name| std::fs::write(folder.path().join(name), "").unwrap());
        let cold = Cold::default();
        assert!(!cold.look_ahead(directory.as_fd(), &names));
        cold.note(true);
        assert!(!cold.look_ahead(directory.as_fd(), &names[..3]));
        assert!(cold.look_ahead(directory.as_fd(), &names));
        // All of it was in memory.
        assert!(!cold.look_ahead(directory.as_fd(), &names));
    }
}
