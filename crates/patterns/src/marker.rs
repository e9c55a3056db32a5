//! Files whose presence leaves out the rest of their directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use tabane_files::read::open_file;

use crate::error::PatternError;

/// What the first bytes of a `CACHEDIR.TAG` have to be.
pub(crate) const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// A file whose presence leaves out the rest of its directory.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    pub(crate) name: OsString,
    pub(crate) header: Vec<u8>,
}

impl Marker {
    /// Whether the file of that name, in `dir`, begins with the header.
    pub(crate) fn is_in(&self, dir: BorrowedFd<'_>) -> io::Result<bool> {
        if self.header.is_empty() {
            return Ok(true);
        }
        let head = read_at(dir, &self.name, self.header.len() as u64)?;
        Ok(head.as_deref() == Some(&self.header))
    }
}

/// Reads the beginning of a regular file; `None` if it is something else.
pub(crate) fn read_at(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    at_most: u64,
) -> io::Result<Option<Vec<u8>>> {
    use rustix::io::Errno;
    let file = match open_file(dir, name) {
        Ok(file) => File::from(file),
        // A link, a socket or a device without driver, and nothing (any more).
        Err(error)
            if [Errno::LOOP, Errno::NXIO, Errno::NODEV, Errno::NOENT]
                .map(|errno| Some(errno.raw_os_error()))
                .contains(&error.raw_os_error()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(at_most).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// A name as an option gives it, which has to be one of a file.
pub(crate) fn file_name(name: &str) -> Result<OsString, PatternError> {
    let why = match name {
        "" => "it is empty",
        "." | ".." => "it is a directory",
        _ if name.contains(['/', '\0']) => "it is a path",
        _ => return Ok(name.into()),
    };
    let name = name.to_owned();
    Err(PatternError::Name { name, why })
}
