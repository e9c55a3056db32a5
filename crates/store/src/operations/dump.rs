//! Writes the content of a file.

use std::io::{self, Write};

use super::content::Content;
use crate::access::browse::TreeReader;
use tabane_format::Error;
use tabane_format::entry::{Entry, Kind};

/// Bytes that are read at a time, or more by one block.
const CHUNK_LEN: usize = 512 << 10;

/// Errors of a dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The repository could not be read.
    #[error(transparent)]
    Repository(#[from] Error),
    /// The stream could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Writes the content of a file, holes as zeros; returns its length in bytes.
///
/// # Errors
/// [`Error::WrongKind`] when `entry` is no file, or when it cannot be read or written.
pub fn file(
    reader: &mut impl TreeReader,
    entry: &Entry,
    out: &mut impl Write,
) -> std::result::Result<u64, DumpError> {
    let Kind::File { content, .. } = &entry.kind else {
        let name = entry.name.escape_ascii();
        return Err(Error::WrongKind(format!(
            "{name} is no regular file: it has no bytes to write"
        ))
        .into());
    };
    let mut content = Content::new(content.clone());
    let (mut bytes, mut len) = (Vec::new(), 0);
    loop {
        content.append(reader, CHUNK_LEN, &mut bytes)?;
        if bytes.is_empty() {
            return Ok(len);
        }
        out.write_all(&bytes)?;
        len += bytes.len() as u64;
        bytes.clear();
    }
}
