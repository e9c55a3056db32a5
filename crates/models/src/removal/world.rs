//! The objects of the repository in the model, as bits.
//!
//! Every object that any process may put has a slot of its own, since names of objects never come
//! again. Blocks: 0 to 2 are contents of files, 3 is the tree of the first snapshot, 4 and up are
//! those of backups. The first snapshot needs blocks 0 and 1.

use super::{BACKUPS_MAX, PRUNES_MAX};

/// A set of blocks.
pub type Blocks = u8;
/// A set of packs.
pub type Packs = u32;
/// A set of index objects.
pub type Objects = u32;
/// A set of removals: one bit for each prune.
pub type Removals = u8;
/// A set of snapshots, or of pending ones.
pub type Snapshots = u16;

/// Contents of files, as [`Blocks`].
pub const DATA_BLOCKS: Blocks = 0b111;
/// What the first snapshot needs.
pub const FIRST_NEEDS: Blocks = 0b1011;
/// The tree of the first snapshot.
pub const FIRST_TREE: Blocks = 0b1000;
/// The packs of the first snapshot: its data, and its tree.
pub const FIRST_PACKS: Packs = 0b11;
/// Copies that one client makes at most: each takes a removal that it did not know.
pub const COPIES_MAX: usize = PRUNES_MAX;

/// How often a backup can put its snapshot: each time but the first, a removal came or went.
pub const ATTEMPTS_MAX: usize = 2 * PRUNES_MAX + 1;
const _: () = assert!(BACKUPS_MAX * ATTEMPTS_MAX < 16);

const PACKS_OF_BACKUP: usize = 2 + 2 * COPIES_MAX;
const PACKS_OF_PRUNE: usize = 4;
const OBJECTS_OF_BACKUP: usize = 2 + 2 * COPIES_MAX;
const OBJECTS_OF_PRUNE: usize = 6;
/// Slots of packs.
pub const PACK_SLOTS: usize = 2 + BACKUPS_MAX * PACKS_OF_BACKUP + PRUNES_MAX * PACKS_OF_PRUNE;
const _: () = assert!(PACK_SLOTS <= 32);
const _: () = assert!(1 + BACKUPS_MAX * OBJECTS_OF_BACKUP + PRUNES_MAX * OBJECTS_OF_PRUNE <= 32);

/// Where a writer of packs puts them: a pack of data, behind it one of trees, and index objects.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The slot of the pack of data; that of trees is the next.
    pub data: usize,
    /// The slot of the index object; that of the object which names the rest is the next.
    pub object: usize,
}

/// Where a backup puts its own packs (`copy` 0), and its copies (1 and up).
pub fn place_of_backup(backup: usize, copy: usize) -> Place {
    Place {
        data: 2 + backup * PACKS_OF_BACKUP + 2 * copy,
        object: 1 + backup * OBJECTS_OF_BACKUP + 2 * copy,
    }
}

/// Where a prune puts copies, of its first view and of its second.
pub fn place_of_prune(prune: usize, second: bool) -> Place {
    let copy = usize::from(second);
    Place {
        data: 2 + BACKUPS_MAX * PACKS_OF_BACKUP + prune * PACKS_OF_PRUNE + 2 * copy,
        object: object_of_prune(prune) + 2 * copy,
    }
}

fn object_of_prune(prune: usize) -> usize {
    1 + BACKUPS_MAX * OBJECTS_OF_BACKUP + prune * OBJECTS_OF_PRUNE
}

/// The slot of the index object that a prune puts in the place of others.
pub fn rewritten_object(prune: usize) -> usize {
    object_of_prune(prune) + 4
}

/// The slot of the index object that names the packs which a prune has verified.
pub fn verified_object(prune: usize) -> usize {
    object_of_prune(prune) + 5
}

/// The slots of the index objects of a backup.
pub fn objects_of_backup(backup: usize) -> Objects {
    ((1 << OBJECTS_OF_BACKUP) - 1) << (1 + backup * OBJECTS_OF_BACKUP)
}

/// The snapshot of a backup's attempt; bit 0 is the first one.
pub fn snapshot_of(backup: usize, attempt: u8) -> Snapshots {
    1 << (1 + backup * ATTEMPTS_MAX + usize::from(attempt))
}

/// All attempts of a backup.
pub fn snapshots_of(backup: usize) -> Snapshots {
    ((1 << ATTEMPTS_MAX) - 1) << (1 + backup * ATTEMPTS_MAX)
}

/// The numbers of the bits that are set.
pub fn bits(set: impl Into<u64>) -> impl Iterator<Item = usize> {
    let mut rest: u64 = set.into();
    std::iter::from_fn(move || {
        let first = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
        Some(first)
    })
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// Packs that are there.
    pub packs: Packs,
    /// What each pack holds: four bits, of data if the slot is even, else of trees.
    contents: u128,
    /// Index objects that are there.
    pub objects: Objects,
    /// Of each writer's index object, which of the two packs of its place it names.
    named: u64,
    /// What the objects name that prunes put in the place of others.
    rewritten: [Packs; PRUNES_MAX],
    /// What the objects name that name what prunes have verified.
    verified: [Packs; PRUNES_MAX],
    /// Packs that an object which is there named when they were there: a client that has read it
    /// then remembers them.
    remembered: Packs,
    /// Removals that are there.
    pub removals: Removals,
    /// The one of them that was put last.
    pub newest: Removals,
    /// What each names.
    pub condemned: [Packs; PRUNES_MAX],
    /// Pending snapshots that are there.
    pub pending: Snapshots,
    /// Snapshots that are there.
    pub snapshots: Snapshots,
    /// Snapshots that somebody was told of and nobody began to forget.
    pub promised: Snapshots,
}

impl World {
    /// A repository with one snapshot.
    pub fn with_one_snapshot() -> Self {
        let mut world = Self {
            packs: 0,
            contents: 0,
            objects: 1,
            named: 0b11,
            rewritten: [0; PRUNES_MAX],
            verified: [0; PRUNES_MAX],
            remembered: FIRST_PACKS,
            removals: 0,
            newest: 0,
            condemned: [0; PRUNES_MAX],
            pending: 0,
            snapshots: 1,
            promised: 1,
        };
        world.put_pack(0, FIRST_NEEDS & DATA_BLOCKS);
        world.put_pack(1, FIRST_TREE);
        world
    }

    /// The first snapshot was forgotten, and the last prune has condemned its tree.
    pub fn with_half_a_removal() -> Self {
        let last = PRUNES_MAX - 1;
        let mut world = Self {
            removals: 1 << last,
            newest: 1 << last,
            snapshots: 0,
            promised: 0,
            ..Self::with_one_snapshot()
        };
        world.condemned[last] = 0b10;
        world
    }

    /// Puts a pack.
    pub fn put_pack(&mut self, slot: usize, blocks: Blocks) {
        let half = if slot.is_multiple_of(2) {
            blocks
        } else {
            blocks >> 3
        };
        self.contents |= u128::from(half) << (4 * slot);
        self.packs |= 1 << slot;
    }

    /// What a pack holds, or held.
    pub fn blocks(&self, slot: usize) -> Blocks {
        let half = (self.contents >> (4 * slot)) as u8 & 0b1111;
        if slot.is_multiple_of(2) {
            half
        } else {
            half << 3
        }
    }

    /// Puts the index object of a place, or with `rest` the second one, which names these packs.
    pub fn put_object(&mut self, place: Place, rest: bool, packs: Packs) {
        let slot = place.object + usize::from(rest);
        self.named |= u64::from(packs >> place.data) << (2 * slot);
        self.objects |= 1 << slot;
        self.remembered |= packs & self.packs;
    }

    /// Says what the object of a prune will name that it puts in the place of others.
    pub fn plan_rewritten(&mut self, prune: usize, packs: Packs) {
        self.rewritten[prune] = packs;
    }

    /// Puts it.
    pub fn put_rewritten(&mut self, prune: usize) {
        self.objects |= 1 << rewritten_object(prune);
        self.remembered |= self.rewritten[prune] & self.packs;
    }

    /// Puts the object that names packs which a prune has verified.
    pub fn put_verified(&mut self, prune: usize, packs: Packs) {
        self.verified[prune] = packs;
        self.objects |= 1 << verified_object(prune);
        self.remembered |= packs & self.packs;
    }

    /// Deletes index objects. What only they named is forgotten by all caches.
    pub fn delete_objects(&mut self, objects: Objects) {
        self.objects &= !objects;
        self.remembered &= self.named_by_all(self.objects);
    }

    /// The packs that a cache at its most credulous takes for present.
    pub fn trusted(&self) -> Packs {
        self.remembered
    }

    /// The packs that an index object names.
    pub fn named_by(&self, object: usize) -> Packs {
        for prune in 0..PRUNES_MAX {
            if object == rewritten_object(prune) {
                return self.rewritten[prune];
            }
            if object == verified_object(prune) {
                return self.verified[prune];
            }
        }
        let pair = (self.named >> (2 * object)) as u32 & 0b11;
        pair << Self::data_of(object)
    }

    /// The slot of the pack of data whose place has this index object.
    fn data_of(object: usize) -> usize {
        let Some(behind) = object.checked_sub(1) else {
            return 0;
        };
        if object < object_of_prune(0) {
            let copy = behind % OBJECTS_OF_BACKUP / 2;
            return place_of_backup(behind / OBJECTS_OF_BACKUP, copy).data;
        }
        let behind = object - object_of_prune(0);
        place_of_prune(behind / OBJECTS_OF_PRUNE, behind % OBJECTS_OF_PRUNE >= 2).data
    }

    /// The packs that these index objects name.
    pub fn named_by_all(&self, objects: Objects) -> Packs {
        bits(objects).fold(0, |packs, object| packs | self.named_by(object))
    }

    /// The packs that these removals name.
    pub fn condemned_by(&self, removals: Removals) -> Packs {
        bits(removals).fold(0, |packs, removal| packs | self.condemned[removal])
    }

    /// The blocks in these packs.
    pub fn blocks_of(&self, packs: Packs) -> Blocks {
        bits(packs).fold(0, |blocks, pack| blocks | self.blocks(pack))
    }

    /// The pack of `packs` in which a block is found: one that is not condemned if there is one,
    /// and of several the first, or with `last` the last.
    pub fn find(&self, block: usize, packs: Packs, condemned: Packs, last: bool) -> Option<usize> {
        let holding = |packs| bits(packs).filter(|&pack| self.blocks(pack) & 1 << block != 0);
        let pick = |packs: Packs| {
            if last {
                holding(packs).last()
            } else {
                holding(packs).next()
            }
        };
        pick(packs & !condemned).or_else(|| pick(packs & condemned))
    }

    /// Packs that the index names, that are gone, and that no removal names: what a check reports.
    pub fn lost(&self) -> Packs {
        self.named_by_all(self.objects) & !self.packs & !self.condemned_by(self.removals)
    }

    /// The blocks that can be read: in packs that are there and that an index object names.
    pub fn readable(&self) -> Blocks {
        self.blocks_of(self.packs & self.named_by_all(self.objects))
    }
}
