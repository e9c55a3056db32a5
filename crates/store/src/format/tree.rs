//! Directories: each is a list of [`Entry`]s sorted by name, one behind the other in postcard's
//! encoding.
//!
//! The list is cut into blocks as a file is, so that a change in a directory of a million names
//! stores little.

use crate::error::{Error, Result};
use crate::format::entry::{Entry, Kind, Piece};

/// The bytes of a directory.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    entries.iter().fold(Vec::new(), |bytes, entry| {
        postcard::to_extend(entry, bytes).expect("an entry is plain data")
    })
}

/// Undoes [`encode`], and checks what later code relies on.
///
/// # Errors
/// [`Error::Damaged`] for bytes that are no directory, for names that are none, or out of order.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<Entry>> {
    let damaged = |why: String| Error::damaged("a directory", why);
    let mut entries: Vec<Entry> = Vec::new();
    while !bytes.is_empty() {
        let (entry, rest) = postcard::take_from_bytes::<Entry>(bytes)
            .map_err(|error| damaged(error.to_string()))?;
        let name = &entry.name;
        if name.is_empty()
            || name == b"."
            || name == b".."
            || name.contains(&b'/')
            || name.contains(&0)
        {
            return Err(damaged(format!(
                "{:?} is no name",
                name.escape_ascii().to_string()
            )));
        }
        if entries.last().is_some_and(|last| last.name >= *name) {
            return Err(damaged("its names are out of order".to_owned()));
        }
        if let Kind::File { size, content } = &entry.kind {
            let mut lens = content.iter().map(Piece::len);
            let sum = lens.try_fold(0, u64::checked_add);
            if sum != Some(*size) {
                return Err(damaged(
                    "the pieces of a file do not add up to its size".to_owned(),
                ));
            }
        }
        entries.push(entry);
        bytes = rest;
    }
    Ok(entries)
}
