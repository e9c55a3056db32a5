//! Rewrites index objects that name deleted packs, and combines small ones.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::access::removal;
use crate::access::repository::Repository;
use tabane_format::{Error, Result};
use tabane_index::{IndexSegment, PackContents};
use tabane_storage::Id;
use tabane_storage::sync::both;
use tabane_storage::{Name, ObjectKind};

/// The most packs that one index object names: 16 GiB of packs.
pub(crate) const PACKS_MAX: usize = 1024;

/// An object that names fewer packs is small.
const SMALL_INDEX_PACKS: usize = 128;

/// The most small objects that are left as they are.
const SMALL_OBJECTS_MAX: usize = 8;

/// What new index objects do not name, and which old ones are to be replaced.
#[derive(Clone, Copy)]
pub struct Unwanted<'a> {
    /// Index objects that are rewritten whatever they name: write-only keys cannot read them.
    pub unsigned: &'a HashSet<Id>,
    /// Index objects that name one of these packs are rewritten.
    pub gone: &'a HashSet<Id>,
    /// Packs that a removal names. They may exist, but another prune can delete them at any time,
    /// without knowing of an index object that is written now.
    pub condemned: &'a HashSet<Id>,
}

/// Index objects of which new ones were written.
#[must_use]
pub struct Rewritten {
    /// Number of objects once the old ones are deleted.
    pub objects: u64,
    /// Objects that new ones have superseded.
    old: Vec<Id>,
}

impl Rewritten {
    /// Deletes the old objects.
    ///
    /// # Errors
    /// When the storage fails.
    pub fn delete_old(&self, repository: &Repository) -> Result<()> {
        // model: removal/rewrite/delete-old
        delete(repository, &self.old)
    }
}

/// Writes index objects anew as needed, without the packs in `unwanted`.
///
/// The caller deletes old objects once the new ones are there, so the index is whole at any time.
/// `removals` are those from before `objects` were listed: if others exist now, packs of new
/// objects may be deleted, and the new objects are deleted again.
///
/// # Errors
/// [`Error::PruneOvertaken`] in this case; when the storage fails.
pub fn rewrite(
    repository: &Repository,
    objects: &BTreeMap<Id, IndexSegment>,
    unwanted: Unwanted<'_>,
    removals: &BTreeSet<Id>,
) -> Result<Rewritten> {
    let Unwanted {
        unsigned,
        gone,
        condemned,
    } = unwanted;
    let is_far = repository.is_far();
    let small = |packs: &IndexSegment| packs.len() < SMALL_INDEX_PACKS;
    let merge = objects.values().filter(|packs| small(packs)).count() > SMALL_OBJECTS_MAX;
    let old: Vec<Id> = objects
        .iter()
        .filter(|(id, packs)| {
            unsigned.contains(id)
                || packs.iter().any(|(pack, _)| gone.contains(pack))
                || (merge && small(packs))
        })
        .map(|(id, _)| *id)
        .collect();
    let mut written = Vec::new();
    let (mut named, mut segment) = (HashSet::new(), IndexSegment::new());
    let mut write = |segment: &mut IndexSegment| -> Result<()> {
        // model: removal/rewrite/list-removals
        let verify = || verify_removals(repository, removals);
        let (verified, there) = both(is_far, verify, || repository.verify_presence());
        verified?;
        there?;
        // model: removal/rewrite/put-index
        written.push(repository.put_index_segment(segment)?.id);
        segment.clear();
        Ok(())
    };
    // Another client may have rewritten some of them by now: then they name packs twice.
    for (pack, contents) in old.iter().flat_map(|id| &objects[id]) {
        let is_wanted = !gone.contains(pack) && !condemned.contains(pack);
        if is_wanted && named.insert(*pack) {
            segment.push((*pack, contents.clone()));
        }
        if segment.len() == PACKS_MAX {
            write(&mut segment)?;
        }
    }
    if !segment.is_empty() {
        write(&mut segment)?;
    }
    // model: removal/rewrite/confirm
    if !old.is_empty()
        && let Err(error) = verify_removals(repository, removals)
    {
        // Safe to delete: packs that they name and that still exist are also in the old objects, or
        // in the objects that replaced these.
        // model: removal/rewrite/delete-new
        delete(repository, &written)?;
        return Err(error);
    }
    let objects = objects.len() - old.len() + written.len();
    Ok(Rewritten {
        objects: objects as u64,
        old,
    })
}

fn delete(repository: &Repository, objects: &[Id]) -> Result<()> {
    let names = objects.iter().map(|id| Name::new(ObjectKind::Index, *id));
    repository.delete_all_if_there(&names.collect::<Vec<_>>())
}

/// Names these packs, which are there, in new index objects; returns these. `removals` are those
/// from before that was known.
///
/// The objects stay, whatever is removed meanwhile: another prune may have removed what write-only
/// keys say of the packs, since they are named now.
///
/// # Errors
/// [`Error::PruneOvertaken`] when there are other removals by now; when the storage fails.
pub fn add(
    repository: &Repository,
    packs: &[(Id, PackContents)],
    removals: &BTreeSet<Id>,
) -> Result<BTreeMap<Id, IndexSegment>> {
    let mut written = BTreeMap::new();
    for packs in packs.chunks(PACKS_MAX) {
        // Reading the packs may have taken long.
        // model: removal/verify/list-removals
        verify_removals(repository, removals)?;
        // model: removal/verify/put-index
        let name = repository.write_index_segment(packs)?;
        written.insert(name.id, packs.to_vec());
    }
    Ok(written)
}

/// Checks that the storage has no other removals than these.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tabane_format::pack::PackKind;
    use tabane_testing::memory::MemoryStorage;

    use super::*;
    use crate::access::repository::InitOptions;
    use tabane_format::key::KdfCost;

    /// Nine small objects become as few as possible; an object of 128 packs is not small.
    #[test]
    fn small_objects_are_put_together_and_counted() {
        let options = InitOptions::default().kdf_cost(KdfCost::WEAKEST);
        let password = b"password".to_vec().into();
        let storage = Arc::new(MemoryStorage::default());
        let repository = Repository::init(storage, &password, options).unwrap();
        let contents = PackContents {
            salt: [0; 32],
            kind: PackKind::Data,
            segments: Vec::new(),
        };
        let object = |number: u8, packs: u8| {
            let id = |pack| {
                Id(std::array::from_fn(
                    |at| if at == 0 { number } else { pack },
                ))
            };
            let segment = (0..packs).map(|pack| (id(pack), contents.clone()));
            (id(u8::MAX), segment.collect())
        };
        let none = HashSet::new();
        for (packs, old, objects) in [(127, 9, 2), (128, 0, 9)] {
            let before = (0..9).map(|number| object(number, packs)).collect();
            let unwanted = Unwanted {
                unsigned: &none,
                gone: &none,
                condemned: &none,
            };
            let rewritten = rewrite(&repository, &before, unwanted, &BTreeSet::new()).unwrap();
            assert_eq!((rewritten.old.len(), rewritten.objects), (old, objects));
        }
    }
}
