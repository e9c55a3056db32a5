//! Compares a shard with its own checksums, for whoever keeps it: no secret and no other shard is
//! needed.

use std::ops::Range;

use tabane_storage::{Name, Result, StorageErrorKind, object_id};

use crate::container::{HEADER_LEN, HEADER_LEN_MAX, Header, open_sector};

/// Bytes that are read at a time, about.
const READ_LEN: u64 = 1 << 20;

/// Whether a shard of so many bytes is as it was stored; `read` reads a range of it. A copy of an
/// object is also compared with the object's name.
///
/// # Errors
/// When it cannot be read.
pub fn is_sound(
    name: Name,
    len: u64,
    mut read: impl FnMut(Range<u64>) -> Result<Vec<u8>>,
) -> Result<bool> {
    if len < HEADER_LEN {
        return Ok(false);
    }
    let first = read(0..len.min(HEADER_LEN_MAX))?;
    let Some(Header { shape, role }) = Header::parse(name.id, &first) else {
        return Ok(false);
    };
    let (geometry, form) = (shape.geometry, shape.form());
    if len != shape.container_len() {
        return Ok(false);
    }
    let rows = if geometry.is_replica() {
        1
    } else {
        geometry.layout().rows()
    };
    let of_sector = geometry.stored(form, 0, &(0..1));
    let at_once = (READ_LEN / (of_sector.end - of_sector.start)).max(1);
    let mut object = Vec::new();
    for row in 0..rows {
        for first in (0..geometry.sectors()).step_by(at_once as usize) {
            let sectors = first..geometry.sectors().min(first + at_once);
            let stored = geometry.stored(form, row, &sectors);
            let bytes = read(stored.clone())?;
            for sector in sectors {
                let at = geometry.stored(form, row, &(sector..sector + 1));
                let at = (at.start - stored.start) as usize..(at.end - stored.start) as usize;
                let sector = bytes
                    .get(at)
                    .and_then(|stored| open_sector(name.id, role, row, sector, stored));
                let Some(sector) = sector else {
                    return Ok(false);
                };
                if geometry.is_replica() {
                    object.extend_from_slice(sector);
                }
            }
        }
    }
    object.truncate(geometry.object_len as usize);
    let has_name = geometry.is_replica() && name != Name::CONFIG;
    Ok(!has_name || object_id(&[&object]) == name.id)
}

/// The same, of a shard in a storage.
///
/// # Errors
/// When it cannot be read; [`StorageErrorKind::NotFound`] if it is not there any more.
pub fn is_sound_in(storage: &dyn tabane_storage::Storage, name: Name) -> Result<(bool, u64)> {
    let len = storage.stat(name)?;
    match is_sound(name, len, |range| storage.get(name, Some(range))) {
        Err(error) if error.kind() == StorageErrorKind::PastEnd => Ok((false, len)),
        sound => Ok((sound?, len)),
    }
}
