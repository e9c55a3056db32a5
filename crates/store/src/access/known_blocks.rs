//! Which blocks a repository has or is about to have, and who stores a new one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use tabane_engine::{Algorithm, Digest};

use crate::access::reader::BlockReader;
use crate::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, lock};
use tabane_format::pack::PackContents;
use tabane_format::{Error, Result};
use tabane_index::Index;
use tabane_storage::Id;

/// The blocks of a repository, for all encoders of a run.
///
/// One encoder claims each new block, and stores it. The block is pending then, until its pack is
/// durable.
pub struct KnownBlocks {
    hash: Algorithm,
    dry_run: bool,
    /// The index of durable blocks.
    index: RwLock<Index>,
    /// Blocks that are not durable yet; with their bytes if the hash alone does not tell blocks
    /// apart.
    pending: Mutex<HashMap<Id, Option<Arc<[u8]>>>>,
    /// Packs in which known blocks were found, if that is to be noted.
    used_packs: Option<Mutex<HashSet<Id>>>,
}

impl KnownBlocks {
    /// The blocks of `index`, which `hash` names. In a dry run no block becomes durable.
    pub fn new(index: Index, hash: Algorithm, dry_run: bool) -> Self {
        Self {
            hash,
            dry_run,
            index: RwLock::new(index),
            pending: Mutex::default(),
            used_packs: None,
        }
    }

    /// From now on, notes the packs in which known blocks are found.
    pub fn note_packs(mut self) -> Self {
        self.used_packs = Some(Mutex::default());
        self
    }

    /// The index as it is now.
    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().expect("no panic under this lock")
    }

    /// The index, to change how its blocks are kept.
    pub fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().expect("no panic under this lock")
    }

    /// The packs that were noted.
    pub fn used_packs(&self) -> HashSet<Id> {
        let used = self.used_packs.as_ref();
        used.map(|used| lock(used).clone()).unwrap_or_default()
    }

    /// Whether all these blocks are stored in packs that no removal names.
    pub fn has_all(&self, mut blocks: impl Iterator<Item = Id>) -> bool {
        let index = self.index();
        blocks.all(|id| {
            let keeps = index.keeps(&id).unwrap_or(false);
            keeps && self.note_use(&index, &id).is_ok()
        })
    }

    /// Notes that a snapshot will need a block which is there.
    fn note_use(&self, index: &Index, block: &Id) -> Result<()> {
        if let Some(used) = &self.used_packs
            && let Some(place) = index.find(block)?
        {
            lock(used).insert(index.pack_of(place)?.id);
        }
        Ok(())
    }

    /// For each block its ID, and whether the caller is the one to store it.
    pub fn claim(
        &self,
        blocks: &[&[u8]],
        digests: &[Digest],
        reader: &mut BlockReader,
    ) -> Result<Vec<(Id, bool)>> {
        if self.hash == Algorithm::Sha1 {
            let pairs = blocks.iter().zip(digests);
            return pairs
                .map(|(block, &digest)| self.claim_confirmed(block, digest, reader))
                .collect();
        }
        // Holds both locks at once: in between, a block could go from pending to indexed.
        let index = self.index();
        let mut pending = lock(&self.pending);
        let claim = |&digest| {
            let id = Id::from(digest);
            if index.keeps(&id)? {
                self.note_use(&index, &id)?;
                return Ok((id, false));
            }
            Ok((id, pending.insert(id, None).is_none()))
        };
        digests.iter().map(claim).collect()
    }

    /// As [`KnownBlocks::claim`], for a hash with known collisions: a match counts only if the
    /// bytes are the same.
    ///
    /// Blocks with the same digest are told apart by a number in the byte behind it.
    fn claim_confirmed(
        &self,
        block: &[u8],
        digest: Digest,
        reader: &mut BlockReader,
    ) -> Result<(Id, bool)> {
        let hash = self.hash;
        let mut id = Id::from(digest);
        for variant in 0..=u8::MAX {
            id.0[hash.digest_len()] = variant;
            let index = self.index();
            let same = if index.keeps(&id)? {
                let mut known = Vec::new();
                // A damaged block does not match: the new block is stored beside it.
                let is_same = reader.append_block(&index, id, &mut known).is_ok() && known == block;
                if is_same {
                    self.note_use(&index, &id)?;
                }
                is_same
            } else {
                match lock(&self.pending).entry(id) {
                    Entry::Occupied(known) => match known.get() {
                        Some(known) => **known == *block,
                        None => self.dry_run,
                    },
                    Entry::Vacant(entry) => {
                        // A dry run only counts: it would have to keep all bytes to the end.
                        entry.insert((!self.dry_run).then(|| block.into()));
                        return Ok((id, true));
                    }
                }
            };
            if same {
                return Ok((id, false));
            }
        }
        Err(Error::Invalid(format!(
            "more than 256 different blocks have the {hash} digest {digest}: make a repository \
             with another hash"
        )))
    }

    /// Whether the caller is the one to store a block that has this ID in another repository.
    pub fn claim_copy(&self, id: Id) -> Result<bool> {
        let index = self.index();
        Ok(!index.keeps(&id)? && lock(&self.pending).insert(id, None).is_none())
    }

    /// The blocks of a pack are durable.
    pub fn stored(&self, pack: Id, contents: &PackContents) -> Result<()> {
        self.index_mut().add(pack, contents)?;
        // After the index was updated, so that a block is always in the index or pending.
        let mut pending = lock(&self.pending);
        for (block, _) in contents.segments.iter().flat_map(|segment| &segment.blocks) {
            pending.remove(block);
        }
        Ok(())
    }
}
