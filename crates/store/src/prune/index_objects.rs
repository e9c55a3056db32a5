//! Rewrites index objects: those that name packs that are gone, and many small ones as one.

use std::collections::{BTreeMap, HashSet};

use crate::error::Result;
use crate::id::Id;
use crate::index::IndexSegment;
use crate::repository::Repository;
use crate::storage::{Name, ObjectKind};

/// Packs that one object names at most: 16 GiB of them.
pub(crate) const PACKS_MAX: usize = 1024;

/// An object that names fewer packs is small.
const SMALL: usize = 128;

/// So many small objects are left alone.
const SMALL_OBJECTS_MAX: usize = 8;

/// Rewrites what needs it of `objects` and their packs; `gone` are packs that are to be named no more. Returns how many objects there are then.
///
/// New objects are written before old ones are deleted, so the index is whole at any time.
///
/// # Errors
/// When the storage fails.
pub fn rewrite(
    repository: &Repository,
    objects: &BTreeMap<Id, IndexSegment>,
    gone: &HashSet<Id>,
) -> Result<u64> {
    let small = |packs: &IndexSegment| packs.len() < SMALL;
    let merge = objects.values().filter(|packs| small(packs)).count() > SMALL_OBJECTS_MAX;
    let old: Vec<Id> = objects
        .iter()
        .filter(|(_, packs)| {
            packs.iter().any(|(pack, _)| gone.contains(pack)) || (merge && small(packs))
        })
        .map(|(id, _)| *id)
        .collect();
    let mut written = 0;
    let (mut named, mut segment) = (HashSet::new(), IndexSegment::new());
    let mut write = |segment: &mut IndexSegment| -> Result<()> {
        repository.write_index_segment(segment)?;
        segment.clear();
        written += 1;
        Ok(())
    };
    for &id in &old {
        let read = match repository.read_index_segment(id) {
            // Somebody else has rewritten it.
            Err(error) if error.is_not_found() => continue,
            read => read?,
        };
        for (pack, contents) in read {
            if !gone.contains(&pack) && named.insert(pack) {
                segment.push((pack, contents));
            }
            if segment.len() == PACKS_MAX {
                write(&mut segment)?;
            }
        }
    }
    if !segment.is_empty() {
        write(&mut segment)?;
    }
    for &id in &old {
        repository.delete_if_there(Name::new(ObjectKind::Index, id))?;
    }
    Ok((objects.len() - old.len()) as u64 + written)
}
