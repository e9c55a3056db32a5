//! Writes files and directories of a snapshot as a stream.

mod acl;
mod sparse;
mod tar;
mod zip;

use std::io::{self, Read, Write};

use crate::access::browse::Browser;
use crate::error::Error;
use crate::format::entry::{Entry, Kind, Piece};

pub use self::tar::{Archived, archive};
pub use self::zip::archive_zip;

/// Errors of a dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The repository could not be read.
    #[error(transparent)]
    Repository(#[from] Error),
    /// The stream could not be written.
    #[error(transparent)]
    Output(io::Error),
}

impl From<io::Error> for DumpError {
    /// Errors of the repository pass through readers as [`io::Error`]s, and are unpacked here.
    fn from(error: io::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(error) => Self::Repository(error),
            Err(error) => Self::Output(error),
        }
    }
}

/// Writes the content of a file, holes as zeros.
///
/// # Errors
/// [`Error::WrongKind`] when `entry` is no file, or when it cannot be read or written.
pub fn file(browser: &mut Browser, entry: &Entry, out: &mut impl Write) -> Result<u64, DumpError> {
    let Kind::File { content, .. } = &entry.kind else {
        let name = entry.name.escape_ascii();
        return Err(Error::WrongKind(format!(
            "{name} is no regular file: it has no bytes to write"
        ))
        .into());
    };
    let mut reader = ContentReader::new(browser, content);
    Ok(io::copy(&mut reader, out)?)
}

/// Reads pieces one behind the other.
struct ContentReader<'a> {
    browser: &'a mut Browser,
    pieces: std::slice::Iter<'a, Piece>,
    block: Vec<u8>,
    /// Bytes of `block` that were read.
    position: usize,
    /// Bytes left of a hole.
    zeros: u64,
}

impl<'a> ContentReader<'a> {
    fn new(browser: &'a mut Browser, pieces: &'a [Piece]) -> Self {
        Self {
            browser,
            pieces: pieces.iter(),
            block: Vec::new(),
            position: 0,
            zeros: 0,
        }
    }

    /// Moves to the next piece with bytes; returns whether there is one.
    fn advance(&mut self) -> io::Result<bool> {
        while self.zeros == 0 && self.position == self.block.len() {
            match self.pieces.next() {
                None => return Ok(false),
                Some(Piece::Hole { len }) => self.zeros = *len,
                Some(Piece::Block { id, len }) => {
                    self.block.clear();
                    self.position = 0;
                    let read = self.browser.append_block(*id, &mut self.block);
                    read.map_err(io::Error::other)?;
                    if self.block.len() != *len as usize {
                        let error = Error::damaged(format!("block {id}"), "it has another length");
                        return Err(io::Error::other(error));
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.advance()? {
            return Ok(0);
        }
        let len = if self.zeros > 0 {
            let len = buffer
                .len()
                .min(usize::try_from(self.zeros).unwrap_or(usize::MAX));
            buffer[..len].fill(0);
            self.zeros -= len as u64;
            len
        } else {
            let left = &self.block[self.position..];
            let len = buffer.len().min(left.len());
            buffer[..len].copy_from_slice(&left[..len]);
            self.position += len;
            len
        };
        Ok(len)
    }
}
