//! The objects of the index, and the removals, which say which of its packs count.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::access::index_source::{self, IndexSource};
use crate::access::listing::{LIST_ATTEMPTS_MAX, unsteady};
use crate::access::removal;
use crate::access::repository::Repository;
use tabane_format::crypto::{OBJECT_FORMAT, format_of};
use tabane_format::keyring::if_genuine;
use tabane_format::removal::{Removal, Removals};
use tabane_format::{Error, Result};
use tabane_index::{Cache, Index, IndexSegment, PackContents, PackEntry};
use tabane_storage::sync::both;
use tabane_storage::{Id, Listed, Name, ObjectKind};

/// Which index objects count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those whose packs are known to hold what they say: for whoever stores blocks only once.
    Verified,
    /// All, the verified ones first: for whoever reads blocks.
    Any,
}

impl Repository {
    /// Reads one object of the index.
    ///
    /// # Errors
    /// When the storage fails, or the object is damaged or not made with a full key.
    #[doc(hidden)]
    pub fn read_index_segment(&self, id: Id) -> Result<IndexSegment> {
        self.read_segment_of(ObjectKind::Index, id)
    }

    /// Reads an object of the index, verified or not as `kind` says.
    pub(crate) fn read_segment_of(&self, kind: ObjectKind, id: Id) -> Result<IndexSegment> {
        let payload = self.get_sealed(kind, id)?;
        postcard::from_bytes(&payload).map_err(|error| Error::damaged(Name::new(kind, id), error))
    }

    /// Reads what a write-only key says of packs that it wrote, as far as it can be true.
    ///
    /// # Errors
    /// When the storage fails. Anybody who can write may have put anything there, so what cannot be
    /// read says nothing.
    pub(crate) fn read_unverified(&self, id: Id) -> Result<IndexSegment> {
        let mut packs = match self.read_segment_of(ObjectKind::Unverified, id) {
            Err(Error::Damaged { .. } | Error::Foreign(_) | Error::WriteOnly(_)) => {
                return Ok(IndexSegment::new());
            }
            packs => packs?,
        };
        packs.retain(|(pack, contents)| {
            contents.kind.is_of_writer() && contents.validate(&pack.short()).is_ok()
        });
        Ok(packs)
    }

    /// Reads an object of the index; says whether write-only keys can read it, too.
    pub(crate) fn read_index_and_format(&self, id: Id) -> Result<(IndexSegment, bool)> {
        let sealed = self.get_object(ObjectKind::Index, id)?;
        let is_signed = format_of(&sealed) != OBJECT_FORMAT;
        let name = Name::new(ObjectKind::Index, id);
        match self.open_object(name, sealed) {
            Err(Error::Foreign(_)) => Ok((IndexSegment::new(), true)),
            Err(error) => Err(error),
            Ok(opened) => {
                let packs = postcard::from_bytes(&opened.payload);
                let packs = packs.map_err(|error| Error::damaged(name, error))?;
                Ok((packs, is_signed))
            }
        }
    }

    /// Reads all removals. Those count for nothing that a full key did not make.
    ///
    /// # Errors
    /// When the storage fails or one is damaged.
    #[doc(hidden)]
    pub fn read_removals(&self) -> Result<Removals> {
        self.read_removals_of(removal::list(self)?)
    }

    /// As [`Repository::read_removals`], of those that are `listed`, or of all if some are gone.
    fn read_removals_of(&self, mut listed: Vec<Listed>) -> Result<Removals> {
        let mut known = BTreeMap::new();
        for _ in 0..LIST_ATTEMPTS_MAX {
            let read = |id| self.read_removal_that_counts(id);
            if let Some(removals) = self.read_listed(&listed, &mut known, read)? {
                self.nearby()
                    .retain_objects(ObjectKind::Removal, |id| removals.contains_key(id));
                return Ok(Removals(removals));
            }
            listed = removal::list(self)?;
        }
        Err(unsteady(ObjectKind::Removal.name()))
    }

    /// As [`Repository::read_removal`]; one that a full key did not make removes nothing.
    pub(crate) fn read_removal_that_counts(&self, id: Id) -> Result<Removal> {
        if_genuine(self.read_removal(id))
    }

    /// Reads a removal.
    ///
    /// # Errors
    /// When the storage fails, or the removal is damaged or not made with a full key.
    pub(crate) fn read_removal(&self, id: Id) -> Result<Removal> {
        let sealed = self.get_object(ObjectKind::Removal, id)?;
        // With write-only keys, packs are deleted only by removals that these can read.
        let is_waiting = self.config().has_writers() && format_of(&sealed) == OBJECT_FORMAT;
        let name = Name::new(ObjectKind::Removal, id);
        let opened = self.open_object(name, sealed)?;
        let packs = postcard::from_bytes(&opened.payload);
        Ok(Removal {
            packs: packs.map_err(|error| Error::damaged(name, error))?,
            is_waiting,
        })
    }

    /// Reads all objects of the index. Those name no packs that a full key did not make.
    ///
    /// # Errors
    /// When the storage fails or an index object is damaged.
    #[doc(hidden)]
    pub fn read_index(&self) -> Result<BTreeMap<Id, IndexSegment>> {
        self.read_all(ObjectKind::Index, |id| self.read_if_signed(id))
    }

    /// Reads an object of the index; one that a full key did not make names no packs.
    pub(crate) fn read_if_signed(&self, id: Id) -> Result<IndexSegment> {
        if_genuine(self.read_index_segment(id))
    }

    /// Writes an object of the index, with a write-only key an unverified one; returns its name.
    /// The packs must be durable.
    ///
    /// # Errors
    /// [`Error::RepositoryGone`]; when the storage fails.
    #[doc(hidden)]
    pub fn write_index_segment(&self, packs: &[(Id, PackContents)]) -> Result<Name> {
        // Otherwise it might go into another repository at the same place, which could not open it.
        self.verify_presence()?;
        self.put_index_segment(packs)
    }

    /// The kind of index objects that this client writes.
    fn written_index_kind(&self) -> ObjectKind {
        if self.is_write_only() {
            ObjectKind::Unverified
        } else {
            ObjectKind::Index
        }
    }

    /// As [`Repository::write_index_segment`], for callers that have just made sure that the
    /// repository is there.
    pub(crate) fn put_index_segment(&self, packs: &[(Id, PackContents)]) -> Result<Name> {
        let payload = postcard::to_stdvec(packs).expect("an index is plain data");
        let kind = self.written_index_kind();
        Ok(Name::new(kind, self.put_sealed(kind, &payload)?))
    }

    /// Takes new index objects of this client into the local cache, if there is one.
    pub(crate) fn cache_index(&self, objects: Vec<(Id, IndexSegment)>) {
        if let Some(cache) = self.cache().filter(|_| !objects.is_empty()) {
            let removals = Removals::default();
            let source = IndexSource::new(self, self.written_index_kind(), &removals);
            cache.add(&source, objects);
        }
    }

    /// Moves new index objects of this client from the memory of `index` to the local cache, if
    /// there is one.
    ///
    /// # Errors
    /// When the cache cannot be read.
    pub(crate) fn fold_index(
        &self,
        index: &mut Index,
        objects: Vec<(Id, IndexSegment)>,
    ) -> Result<()> {
        match self.cache() {
            Some(cache) => {
                let removals = Removals::default();
                let source = IndexSource::new(self, self.written_index_kind(), &removals);
                cache.fold(&source, index, objects)
            }
            None => Ok(()),
        }
    }

    /// Loads the index. A cache reads only new index objects. Without a cache, all index objects
    /// are read, and missing or truncated packs are left out.
    ///
    /// # Errors
    /// When the storage fails or an index object is damaged.
    pub fn load_index(&self) -> Result<Index> {
        self.load_index_of(Trust::Any)
    }

    /// As [`Repository::load_index`], of the index objects that count.
    pub(crate) fn load_index_of(&self, trust: Trust) -> Result<Index> {
        match self.cache() {
            Some(cache) => self.load_cached(cache, trust),
            None => Ok(self.load_index_and_lost(trust)?.0),
        }
    }

    /// Whether unverified index objects count: with a write-only key, its own do.
    fn wants_unverified(&self, trust: Trust) -> bool {
        self.config().has_writers() && (trust == Trust::Any || self.is_write_only())
    }

    /// Adds what unverified index objects say.
    fn add_unverified(&self, index: &mut Index, unverified: Index) -> Result<()> {
        if self.is_write_only() {
            // A writer relies on what it wrote itself.
            index.add_index(unverified)?;
        } else {
            index.add_unverified(unverified)?;
        }
        Ok(())
    }

    fn load_cached(&self, cache: &Cache, trust: Trust) -> Result<Index> {
        // Removals are listed first: see the rules in `removal`.
        // model: removal/index/list-removals
        let removals = self.read_removals_of(self.list_early(ObjectKind::Removal)?)?;
        let load = |kind| cache.load_index(&IndexSource::new(self, kind, &removals));
        // Listed before the others: what is verified meanwhile is found there.
        // model: removal/index/list-unverified
        let unverified = self
            .wants_unverified(trust)
            .then(|| load(ObjectKind::Unverified))
            .transpose()?;
        // model: removal/index/list-objects
        let mut index = load(ObjectKind::Index)?;
        if let Some(unverified) = unverified {
            self.add_unverified(&mut index, unverified)?;
        }
        Ok(index)
    }

    /// The index of all index objects, and the packs that are there.
    fn load_all(&self, trust: Trust) -> Result<(Index, Vec<Listed>)> {
        let (mut known, mut known_unverified) = (BTreeMap::new(), BTreeMap::new());
        let wants_unverified = self.wants_unverified(trust);
        let kinds = [
            ObjectKind::Removal,
            ObjectKind::Unverified,
            ObjectKind::Index,
            ObjectKind::Pack,
        ];
        let read = self.read_at_one_moment(
            kinds,
            || Ok(None),
            |[removals, unverified, objects, _]| {
                let unverified = if wants_unverified {
                    &unverified[..]
                } else {
                    &[]
                };
                let read_removals = || {
                    let read = |id| self.read_removal_that_counts(id);
                    self.read_listed(removals, &mut BTreeMap::new(), read)
                };
                let read_index = || {
                    let kind = ObjectKind::Index;
                    let read = |id| index_source::packs_that_count(self, kind, id);
                    self.read_listed(objects, &mut known, read)
                };
                let read_unverified = || {
                    let kind = ObjectKind::Unverified;
                    let read = |id| index_source::packs_that_count(self, kind, id);
                    self.read_listed(unverified, &mut known_unverified, read)
                };
                let is_far = self.is_far();
                let (removals, (objects, unverified)) = both(is_far, read_removals, || {
                    both(is_far, read_index, read_unverified)
                });
                let read = (removals?, objects?, unverified?);
                let (Some(removals), Some(objects), Some(unverified)) = read else {
                    return Ok(None);
                };
                Ok(Some((removals, objects, unverified)))
            },
        )?;
        let ([_, _, _, packs], (removals, objects, unverified)) =
            read.ok_or(Error::RemovedMeanwhile)?;
        let removals = Removals(removals);
        let index_of = |objects: BTreeMap<Id, IndexSegment>| {
            let mut index = Index::as_of(removals.names(), removals.condemned());
            objects
                .values()
                .try_for_each(|packs| index.add_all(packs))?;
            Ok::<_, Error>(index)
        };
        let mut index = index_of(objects)?;
        self.add_unverified(&mut index, index_of(unverified)?)?;
        Ok((index, packs))
    }

    /// The index of all packs of full length, and the IDs of missing or truncated packs, whose
    /// blocks must be stored again. Lists all packs.
    ///
    /// # Errors
    /// When the storage fails or an index object is damaged.
    #[doc(hidden)]
    pub fn load_index_and_lost(&self, trust: Trust) -> Result<(Index, Vec<Id>)> {
        let (mut index, packs) = match self.cache() {
            Some(cache) => {
                let index = self.load_cached(cache, trust)?;
                // model: removal/index/list-packs
                (index, self.list_with_times(ObjectKind::Pack)?)
            }
            None => self.load_all(trust)?,
        };
        let there = packs.into_iter().map(|pack| (pack.id, pack.len));
        let there: HashMap<Id, u64> = there.collect();
        let is_absent = |pack: &PackEntry| {
            let is_whole = |&listed| self.storage().is_listed_as(listed, pack.len);
            !there.get(&pack.id).is_some_and(is_whole)
        };
        let mut absent = HashSet::new();
        for pack in index.packs() {
            let pack = pack?;
            if is_absent(&pack) {
                absent.insert(pack.id);
            }
        }
        // Not by name: somebody may have said of a pack that is there that it is longer.
        index.exclude_packs(is_absent)?;
        // Condemned packs may be deleted at any time.
        absent.retain(|pack| !index.condemns(pack));
        Ok((index, absent.into_iter().collect()))
    }
}
