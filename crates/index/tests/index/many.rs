//! Many blocks, or IDs that are no hashes: how runs are chosen for merging, and how blocks are
//! found in their tables.

use std::path::PathBuf;

use tabane_index::{Cache, Codec, IndexSegment, PackContents, Segment};
use tabane_storage::Id;

use crate::bed::{Objects, cache, id, mixed, names, only_run, pack, runs};
use crate::format::{Opened, check_run};

/// A pack of as many places of one block.
fn filled(count: usize) -> PackContents {
    let mut contents = pack(&[&[1]]);
    contents.segments[0].blocks = vec![(id(1), 1); count];
    contents
}

struct Bed {
    _folder: tempfile::TempDir,
    cache: Cache,
    objects: Objects,
    packs: u64,
}

impl Bed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (cache, objects) = (cache(folder.path()), Objects::default());
        cache.load_index(&objects).unwrap();
        Self {
            _folder: folder,
            cache,
            objects,
            packs: 0,
        }
    }

    fn segment(&mut self, blocks: usize) -> IndexSegment {
        self.packs += 1;
        vec![(mixed(self.packs), filled(blocks))]
    }

    /// A run of its own.
    fn write(&mut self, blocks: usize) -> Id {
        let packs = self.segment(blocks);
        let name = self.objects.add(packs.clone());
        self.cache.add(&self.objects, vec![(name, packs)]);
        name
    }

    /// An index object that the next loading merges or not; returns the lengths of all runs.
    fn put(&mut self, blocks: usize) -> Vec<u32> {
        let packs = self.segment(blocks);
        self.objects.add(packs);
        self.load()
    }

    fn load(&mut self) -> Vec<u32> {
        self.cache.load_index(&self.objects).unwrap();
        let folder = self.cache.folder(id(0));
        let blocks = |run: PathBuf| Opened::read(&run, &self.objects.keys).footer()[5];
        let mut lens: Vec<u32> = runs(&folder).into_iter().map(blocks).collect();
        lens.sort_unstable();
        lens
    }
}

#[test]
fn runs_are_merged_with_batches_that_are_not_much_shorter() {
    let mut bed = Bed::new();
    // Below 65,536 blocks, a run is merged with anything.
    assert_eq!(bed.put(65_534), [65_534]);
    assert_eq!(bed.put(1), [65_535]);
    assert_eq!(bed.put(1), [65_536]);
    assert_eq!(bed.put(1), [1, 65_536]);
    // Four times as much as what is merged before it is not enough, and one less is.
    assert_eq!(bed.put(16_383), [16_384, 65_536]);
    assert_eq!(bed.put(1), [81_921]);
    // Runs count by their blocks, not by the product.
    assert_eq!(bed.put(81_921), [163_842]);
}

#[test]
fn runs_with_deleted_index_objects_are_rewritten_first() {
    let mut bed = Bed::new();
    bed.put(66_000);
    let stale = bed.put(17_000);
    assert_eq!(stale, [83_000]);
    // A run that alone would be too long for what comes.
    bed.write(70_000);
    assert_eq!(bed.load(), [70_000, 83_000]);
    let gone = bed
        .objects
        .all()
        .iter()
        .find(|(_, packs)| packs[0].1 == filled(17_000));
    let gone = *gone.unwrap().0;
    bed.objects.remove(&gone);
    assert_eq!(bed.load(), [136_000]);
}

/// An ID with these first five bytes, the last byte from `number`.
fn crafted(first: [u8; 5], number: u16) -> Id {
    let mut crafted = Id::default();
    crafted.0[..5].copy_from_slice(&first);
    crafted.0[30..].copy_from_slice(&number.to_be_bytes());
    crafted
}

#[test]
fn blocks_are_found_whose_ids_are_no_hashes() {
    let mut blocks: Vec<Id> = Vec::new();
    // 200 with the same first 40 bits, once in the middle, and low and high ones.
    for first in [
        [1, 0x80, 0, 0, 0],
        [2, 0, 0, 0, 0],
        [3, 0xff, 0xff, 0xff, 0xff],
        [4, 0xf0, 0, 0, 0],
        [4, 0x10, 0, 0, 0],
    ] {
        blocks.extend((0..200).map(|number| crafted(first, number)));
    }
    // Each of these buckets has keys at one end only, or all of them but a few in one place.
    for number in 0..200 {
        blocks.push(crafted([5, 0, 0, 0, number], 0));
        blocks.push(crafted([6, 0xff, 0xff, 0xff, 0xff - number], 0));
        blocks.push(crafted([7, 0x80, 0, number, 0], 0));
        blocks.push(crafted([8, number, 0, 0, 0], 0));
    }
    blocks.push(crafted([9, 1, 2, 3, 4], 0));
    blocks.push(crafted([0xff; 5], 0));
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    let contents = PackContents {
        segments: vec![Segment {
            stored_len: 100,
            codec: Codec::Stored,
            blocks: blocks.iter().map(|block| (*block, 2)).collect(),
        }],
        ..pack(&[])
    };
    objects.add(vec![(id(9), contents)]);
    let index = cache.load_index(&objects).unwrap();
    check_run(
        &only_run(&cache.folder(id(0))),
        &objects.keys,
        objects.all(),
        8,
    );
    for (number, block) in (0..).zip(&blocks) {
        let places = index.places(block).unwrap();
        assert_eq!(places.len(), 1, "{block}");
        assert_eq!(places[0].offset, 2 * number);
        assert_eq!(index.find(block).unwrap(), Some(places[0]));
    }
    // Neighbours that are not there.
    for block in &blocks {
        let mut other = *block;
        other.0[10] = 1;
        assert_eq!(index.find(&other).unwrap(), None);
        for add in [1, 0xff] {
            let mut other = *block;
            other.0[4] = other.0[4].wrapping_add(add);
            assert_eq!(
                index.find(&other).unwrap().is_some(),
                blocks.contains(&other)
            );
        }
    }
    assert_eq!(index.blocks().count(), blocks.len());
}

#[test]
fn pages_are_read_ahead_and_each_is_opened_once() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mut objects) = (cache(folder.path()), Objects::default());
    // 11 blocks a page: more pages than the 128 that are read at once, and than the 1,024 that are
    // kept.
    let blocks = 11 * 1100;
    objects.add(vec![(id(9), crate::bed::pack_of(0, blocks))]);
    cache.load_index(&objects).unwrap();
    assert_eq!(names(&cache.folder(id(0))).len(), 1);
    let index = cache.load_index(&objects).unwrap();
    // Buckets are read alone; then nothing but the blocks is left to be read.
    assert!(index.blocks().all(|block| block.is_ok()));
    objects.keys.take_opened();
    assert!(index.blocks().all(|block| block.is_ok()));
    assert_eq!(objects.keys.take_opened(), 1100);
    assert_eq!(index.blocks().count(), blocks as usize);
    objects.keys.take_opened();
    // A page that was read for one block is there for its neighbours, also after another page.
    for block in [0, 500, 1, 501, 10, 500] {
        assert!(index.find(&mixed(block)).unwrap().is_some());
    }
    assert_eq!(objects.keys.take_opened(), 2);
    // Two pages whose numbers differ by 1,024 have one place.
    for block in [0, 11 * 1024, 0] {
        assert!(index.find(&mixed(block)).unwrap().is_some());
    }
    assert_eq!(objects.keys.take_opened(), 2);
    for block in (0..blocks).step_by(7) {
        let place = index.find(&mixed(block)).unwrap().unwrap();
        assert_eq!(u64::from(place.offset), block);
    }
}
