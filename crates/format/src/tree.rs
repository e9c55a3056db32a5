//! Directories: each is a list of [`Entry`]s sorted by name, one behind the other in postcard's
//! encoding.
//!
//! The list is cut into blocks as a file is, so that a change in a directory of a million names
//! stores little.

use crate::entry::{Entry, Flags, Kind, Piece};
use crate::error::{Error, Result};

/// A directory that begins with this byte has flags behind each entry. No entry begins with it,
/// since no name is empty.
const WITH_FLAGS: u8 = 0;

/// The bytes of a directory. They are those of format 1 unless an entry has flags.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    if entries.iter().all(|entry| entry.flags.is_empty()) {
        return entries.iter().fold(Vec::new(), |bytes, entry| {
            postcard::to_extend(entry, bytes).expect("an entry is plain data")
        });
    }
    entries.iter().fold(vec![WITH_FLAGS], |bytes, entry| {
        let mut bytes = postcard::to_extend(entry, bytes).expect("an entry is plain data");
        bytes.push(entry.flags.bits());
        bytes
    })
}

/// Undoes [`encode`], and checks what later code relies on.
///
/// # Errors
/// [`Error::Damaged`] for bytes that are no directory, for names that are none, or out of order.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<Entry>> {
    let damaged = |why: String| Error::damaged("a directory", why);
    let mut entries: Vec<Entry> = Vec::new();
    let behind = bytes.strip_prefix(&[WITH_FLAGS]);
    let with_flags = behind.is_some();
    bytes = behind.unwrap_or(bytes);
    while !bytes.is_empty() {
        let (mut entry, mut rest) = postcard::take_from_bytes::<Entry>(bytes)
            .map_err(|error| damaged(error.to_string()))?;
        if with_flags {
            let flags = rest.split_off_first().copied().and_then(Flags::from_bits);
            entry.flags = flags.ok_or_else(|| damaged("its flags are none".to_owned()))?;
        }
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
    // Else one directory could have two encodings, and so be stored twice.
    if with_flags && entries.iter().all(|entry| entry.flags.is_empty()) {
        return Err(damaged("it has room for flags and no flag".to_owned()));
    }
    Ok(entries)
}
