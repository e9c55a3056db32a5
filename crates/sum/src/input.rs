//! Opens files and reads what the page cache holds of them; reads standard input.

use std::io::{self, IoSliceMut, Read};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Advice, CWD, FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

/// An opened source.
pub(crate) enum Opened {
    /// A regular file and its length in bytes, which the files of `/proc` give as 0.
    Regular(OwnedFd, u64),
    /// Something whose bytes may take their time: a pipe, a terminal, a device.
    Special(OwnedFd),
}

/// Opens a file to read it. Never waits: a named pipe without a writer is opened as well.
pub(crate) fn open(path: &Path) -> io::Result<Opened> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let open = |flags| rustix::fs::openat(CWD, path, flags, Mode::empty());
    let file = match open(flags | OFlags::NONBLOCK) {
        // Somebody has a lease on the file, and is now asked to return it: that is worth waiting
        // for.
        Err(Errno::AGAIN) => open(flags)?,
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Opened::Regular(file, stat.st_size as u64)),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Ok(Opened::Special(file)),
    }
}

/// Positions of a read in a file.
#[derive(Clone, Copy)]
pub(crate) enum At {
    /// Behind the last byte read.
    Cursor,
    /// There.
    Offset(u64),
}

/// Reads without waiting for the disk; `None` if the page cache lacks the bytes at this offset.
///
/// A short read does not mean the end of the file.
pub(crate) fn read_cached(
    file: impl AsFd,
    at: At,
    buffer: &mut [u8],
) -> Result<Option<usize>, Errno> {
    let offset = match at {
        // This is -1, which preadv2(2) takes for the cursor.
        At::Cursor => u64::MAX,
        At::Offset(offset) => offset,
    };
    let mut buffers = [IoSliceMut::new(buffer)];
    match rustix::io::preadv2(&file, &mut buffers, offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN) => Ok(None),
        // The file system or the kernel does not know of it.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            read_waiting(file, at, buffer).map(Some)
        }
        result => result.map(Some),
    }
}

/// Reads, and waits if need be.
pub(crate) fn read_waiting(file: impl AsFd, at: At, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| match at {
        At::Cursor => rustix::io::read(&file, &mut *buffer),
        At::Offset(offset) => rustix::io::pread(&file, &mut *buffer, offset),
    })
}

/// Has the system read a part of a file, or all behind `offset`, into the page cache, without
/// waiting for it.
pub(crate) fn fetch(file: impl AsFd, offset: u64, len: Option<NonZeroU64>) {
    // A refusal costs speed, not correctness.
    let _ = rustix::fs::fadvise(file, offset, len, Advice::WillNeed);
}

/// Standard input. The standard library's treats a closed descriptor as empty, which would yield
/// the checksum of no bytes.
pub struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
    }
}
