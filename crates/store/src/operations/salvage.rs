//! Reads the intact segments of a damaged pack: a striped storage may have lost too many cells of
//! some segments, and none of others.

use std::ops::Range;

use crate::access::repository::Repository;
use tabane_format::pack::PackContents;
use tabane_format::{Error, Result};
use tabane_storage::Id;
use tabane_storage::{Name, ObjectKind};

/// The bytes left of a damaged pack.
pub struct Salvaged {
    /// The pack in its full length, with zeros in place of lost segments.
    pub bytes: Vec<u8>,
    /// Numbers of the segments that cannot be read.
    pub lost: Vec<usize>,
}

/// Reads what is before the segments, each segment and the footer of a pack by themselves.
///
/// # Errors
/// When the storage fails for another reason than damage.
pub fn salvage(repository: &Repository, pack: Id, contents: &PackContents) -> Result<Salvaged> {
    let name = Name::new(ObjectKind::Pack, pack);
    let mut salvaged = Salvaged {
        bytes: vec![0; contents.object_len() as usize],
        lost: Vec::new(),
    };
    let mut read = |range: Range<usize>| {
        let stored = range.start as u64..range.end as u64;
        let part = repository.storage().get(name, Some(stored));
        match part.map_err(Error::storage("read", name)) {
            Ok(part) => salvaged.bytes[range].copy_from_slice(&part),
            Err(Error::Damaged { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    };
    let mut at = contents.kind.head_len();
    read(0..at)?;
    for (number, segment) in contents.segments.iter().enumerate() {
        let end = at + segment.stored_len as usize;
        if !read(at..end)? {
            salvaged.lost.push(number);
        }
        at = end;
    }
    let end = contents.object_len() as usize;
    read(at..end)?;
    Ok(salvaged)
}
