//! Rewrites index objects: those that name packs that are gone, and many small ones as one.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::access::removal;
use crate::access::repository::Repository;
use crate::error::{Error, Result};
use tabane_index::IndexSegment;
use tabane_storage::Id;
use tabane_storage::{Name, ObjectKind};

/// Packs that one object names at most: 16 GiB of them.
pub(crate) const PACKS_MAX: usize = 1024;

/// An object that names fewer packs is small.
const SMALL_INDEX_PACKS: usize = 128;

/// So many small objects are left alone.
const SMALL_OBJECTS_MAX: usize = 8;

/// Rewrites what needs it of `objects` and their packs; `gone` are packs that are to be named no
/// more. Returns how many objects there are then.
///
/// New objects are written before old ones are deleted, so the index is whole at any time.
/// `removals` are those that were there before `objects` were read: if there are others now, packs
/// that new objects name may be gone, and these are taken back.
///
/// # Errors
/// [`Error::PruneOvertaken`] then; when the storage fails.
pub fn rewrite(
    repository: &Repository,
    objects: &BTreeMap<Id, IndexSegment>,
    gone: &HashSet<Id>,
    removals: &BTreeSet<Id>,
) -> Result<u64> {
    let small = |packs: &IndexSegment| packs.len() < SMALL_INDEX_PACKS;
    let merge = objects.values().filter(|packs| small(packs)).count() > SMALL_OBJECTS_MAX;
    let old: Vec<Id> = objects
        .iter()
        .filter(|(_, packs)| {
            packs.iter().any(|(pack, _)| gone.contains(pack)) || (merge && small(packs))
        })
        .map(|(id, _)| *id)
        .collect();
    let mut written = Vec::new();
    let (mut named, mut segment) = (HashSet::new(), IndexSegment::new());
    let mut write = |segment: &mut IndexSegment| -> Result<()> {
        verify_removals(repository, removals)?;
        written.push(repository.write_index_segment(segment)?);
        segment.clear();
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
    let delete = |id| repository.delete_if_there(Name::new(ObjectKind::Index, id));
    if let Err(error) = verify_removals(repository, removals) {
        // Safe to delete: packs that they name and that still exist are also in the old objects, or
        // in the objects that replaced these.
        written.into_iter().try_for_each(delete)?;
        return Err(error);
    }
    let left = objects.len() - old.len() + written.len();
    old.into_iter().try_for_each(delete)?;
    Ok(left as u64)
}

/// Makes sure that there are no other removals than these.
///
/// # Errors
/// [`Error::PruneOvertaken`]; when the storage fails.
pub fn verify_removals(repository: &Repository, removals: &BTreeSet<Id>) -> Result<()> {
    if removal::names(repository)? == *removals {
        Ok(())
    } else {
        Err(Error::PruneOvertaken)
    }
}
