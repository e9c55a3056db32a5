//! Index objects come and go, runs are written and merged, packs are condemned or excluded: every
//! answer stays that of a plain list.

use std::collections::{BTreeSet, HashSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tabane_index::{Cache, Codec, Index, IndexObjects, IndexSegment, PackContents, PackKind};
use tabane_index::{Removed, Segment};
use tabane_storage::Id;

use crate::bed::{Objects, Part, cache, mixed};
use crate::model::Model;

const BLOCKS: u64 = 150;

const PACKS: usize = 16;

/// Packs from this one on are not there.
const FIRST_LOST: usize = 14;

/// IDs in groups of four that differ in the last byte only.
fn block(number: u64) -> Id {
    let mut block = mixed(number / 4);
    block.0[31] = number as u8;
    block
}

fn pack_id(number: usize) -> Id {
    mixed(1_000_000 + number as u64)
}

/// A pack by number, and whether it is said to hold something else.
type Named = (usize, bool);

/// What a pack holds, the same each time.
fn contents(seed: u64, (number, is_other): Named) -> PackContents {
    let random = |what: u64, below: u64| {
        let [first, ..] = mixed(seed ^ (number as u64) << 20 ^ u64::from(is_other) << 30 ^ what).0;
        u64::from(first) * below / 256
    };
    let segment = |segment: u64| Segment {
        stored_len: 100 + random(segment, 1000) as u32,
        codec: match random(10 + segment, 2) {
            0 => Codec::Stored,
            _ => Codec::Zstd,
        },
        blocks: (0..random(20 + segment, 15))
            .map(|at| random(100 + 20 * segment + at, BLOCKS))
            .map(|number| (block(number), 1 + number as u32))
            .collect(),
    };
    PackContents {
        salt: [number as u8; 32],
        kind: match number % 4 {
            0 => PackKind::Data,
            1 => PackKind::Tree,
            2 => PackKind::WriterData,
            _ => PackKind::WriterTree,
        },
        segments: (0..random(0, 6)).map(segment).collect(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// An index object comes, verified or not.
    Put(bool, Vec<Named>),
    /// One comes that this client writes, and notes in the cache.
    Write(Vec<Named>),
    /// One goes.
    Delete(bool, usize),
    /// These packs are condemned, and no others.
    Condemn(Vec<usize>),
    /// The index is loaded, gets more packs in memory, and unverified ones from the cache or from
    /// memory; then packs do not count.
    Load {
        recent: Vec<Named>,
        is_other_in_memory: bool,
        excluded: Vec<usize>,
    },
    /// The index is loaded, packs do not count, and new ones go from memory to the cache.
    Fold {
        excluded: Vec<usize>,
        recent: Vec<Named>,
        new: Vec<Named>,
    },
}

fn named() -> impl Strategy<Value = Vec<Named>> {
    vec((0..PACKS, prop::bool::weighted(0.2)), 0..5)
}

fn step() -> impl Strategy<Value = Step> {
    let packs = || vec(0..PACKS, 0..4);
    prop_oneof![
        4 => (prop::bool::weighted(0.7), named()).prop_map(|(is, packs)| Step::Put(is, packs)),
        2 => named().prop_map(Step::Write),
        2 => (prop::bool::weighted(0.8), any::<usize>())
            .prop_map(|(is, at)| Step::Delete(is, at)),
        1 => packs().prop_map(Step::Condemn),
        3 => (named(), any::<bool>(), packs()).prop_map(|(recent, is_other_in_memory, excluded)| {
            Step::Load { recent, is_other_in_memory, excluded }
        }),
        1 => (packs(), named(), named()).prop_map(|(excluded, recent, new)| {
            Step::Fold { excluded, recent, new }
        }),
    ]
}

struct World {
    seed: u64,
    folder: tempfile::TempDir,
    verified: Objects,
    others: Part,
}

impl World {
    fn new(seed: u64) -> Self {
        let lost: HashSet<Id> = (FIRST_LOST..PACKS).map(pack_id).collect();
        let objects = || {
            let mut objects = Objects::default();
            objects.lost.clone_from(&lost);
            objects
        };
        Self {
            seed,
            folder: tempfile::tempdir().unwrap(),
            verified: objects(),
            others: Part("unverified", objects()),
        }
    }

    fn segment(&self, named: &[Named]) -> IndexSegment {
        let packs = named.iter();
        packs
            .map(|&named| (pack_id(named.0), contents(self.seed, named)))
            .collect()
    }

    /// Without the packs that are not there.
    fn there(&self, mut packs: IndexSegment) -> IndexSegment {
        packs.retain(|(pack, _)| !self.verified.lost.contains(pack));
        packs
    }

    fn cache(&self) -> Cache {
        cache(self.folder.path())
    }

    fn load<O: IndexObjects<Error = tabane_index::Error>>(&self, objects: &O) -> Index {
        self.cache().load_index(objects).unwrap()
    }

    /// What the objects say of packs that are there.
    fn said(&self, objects: &Objects) -> IndexSegment {
        self.there(objects.all().values().flatten().cloned().collect())
    }

    fn model(&self) -> Model {
        let mut model = Model::of([&self.said(&self.verified)]);
        model.condemned = self.verified.condemned.clone();
        model
    }

    fn in_memory(&self, packs: &IndexSegment) -> Index {
        let (removals, condemned): Removed = self.verified.removals().unwrap();
        let mut index = Index::as_of(removals, condemned);
        index.add_all(packs).unwrap();
        index
    }

    fn check(&self, index: &Index, model: &Model) {
        assert_eq!(index.removals(), &self.verified.removals);
        model.check(index, (0..BLOCKS + 8).map(block));
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put(is_verified, packs) => {
                let packs = self.segment(&packs);
                let objects = if is_verified {
                    &mut self.verified
                } else {
                    &mut self.others.1
                };
                objects.add(packs);
            }
            Step::Write(packs) => {
                let packs = self.there(self.segment(&packs));
                let name = self.verified.add(packs.clone());
                self.cache().add(&self.verified, vec![(name, packs)]);
            }
            Step::Delete(is_verified, at) => {
                let objects = if is_verified {
                    &mut self.verified
                } else {
                    &mut self.others.1
                };
                let count = objects.all().len();
                if count > 0 {
                    let name = *objects.all().keys().nth(at % count).unwrap();
                    objects.remove(&name);
                }
            }
            Step::Condemn(packs) => {
                let condemned: HashSet<Id> = packs.into_iter().map(pack_id).collect();
                let removals: BTreeSet<Id> = condemned.iter().take(1).copied().collect();
                for objects in [&mut self.verified, &mut self.others.1] {
                    objects.condemned.clone_from(&condemned);
                    objects.removals.clone_from(&removals);
                }
            }
            Step::Load {
                recent,
                is_other_in_memory,
                excluded,
            } => self.load_and_change(&self.segment(&recent), is_other_in_memory, &excluded),
            Step::Fold {
                excluded,
                recent,
                new,
            } => {
                let new = self.there(self.segment(&new));
                let mut recent = self.segment(&recent);
                recent.retain(|(pack, _)| new.iter().all(|(other, _)| other != pack));
                self.fold(&excluded, &recent, new);
            }
        }
    }

    fn load_and_change(&self, recent: &IndexSegment, in_memory: bool, excluded: &[usize]) {
        let mut model = self.model();
        let said = self.said(&self.verified);
        let index = self.in_memory(&said);
        self.check(&index, &model);
        assert_eq!(index.len(), model.len_in_memory());

        let mut index = self.load(&self.verified);
        self.check(&index, &model);
        index.add_index(self.in_memory(recent)).unwrap();
        model.say(recent, true);
        self.check(&index, &model);

        let mut other = self.said(&self.others.1);
        if in_memory {
            index.add_unverified(self.in_memory(&other)).unwrap();
            other.retain(|(pack, _)| recent.iter().all(|(known, _)| known != pack));
        } else {
            index.add_unverified(self.load(&self.others)).unwrap();
        }
        model.say(&other, false);
        self.check(&index, &model);

        for pack in excluded.iter().map(|number| pack_id(*number)) {
            index.exclude_packs(|entry| entry.id == pack).unwrap();
            model.exclude(|id| *id == pack);
            self.check(&index, &model);
        }
    }

    fn fold(&mut self, excluded: &[usize], recent: &IndexSegment, new: IndexSegment) {
        let mut model = self.model();
        let mut index = self.load(&self.verified);
        index.add_unverified(self.load(&self.others)).unwrap();
        model.say(&self.said(&self.others.1), false);
        let excluded: HashSet<Id> = excluded.iter().map(|number| pack_id(*number)).collect();
        index
            .exclude_packs(|entry| excluded.contains(&entry.id))
            .unwrap();
        model.exclude(|id| excluded.contains(id));
        index.add_all(recent).unwrap();
        index.add_all(&new).unwrap();
        model.say(recent, true);
        model.say(&new, true);
        self.check(&index, &model);
        let name = self.verified.add(new.clone());
        let cache = self.cache();
        cache
            .fold(&self.verified, &mut index, vec![(name, new)])
            .unwrap();
        self.check(&index, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_index_answers_as_a_plain_list(seed: u64, steps in vec(step(), 1..16)) {
        let mut world = World::new(seed);
        // Makes the folder.
        world.load(&world.verified);
        let nothing = || Step::Load {
            recent: vec![],
            is_other_in_memory: false,
            excluded: vec![],
        };
        for step in steps.into_iter().chain([nothing()]) {
            world.take(step);
        }
    }
}
