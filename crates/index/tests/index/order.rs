//! Segments of a pack follow one another: in memory, in a cache, and in both.

use crate::bed::{Objects, id, pack};
use tabane_index::{Cache, Index, IndexObjects};

/// The numbers of the segments behind that of a block in its pack, from one to the next.
fn following(index: &Index, block: u8) -> Vec<u32> {
    let place = index.find(&id(block)).unwrap().expect("the block is known");
    let next = |&number: &u32| index.following(number).unwrap();
    let segments: Vec<u32> = std::iter::successors(Some(place.segment), next).collect();
    for segment in &segments {
        let pack = index.segment(*segment).unwrap().pack;
        assert_eq!(pack, index.segment(place.segment).unwrap().pack);
    }
    segments[1..].to_vec()
}

/// Checks that segments of three packs follow one another, and none that of another pack.
fn packs_are_read_in_order(index: &Index) {
    for (blocks, behind) in [([1, 2, 3], 2), ([4, 5, 6], 2)] {
        for (at, block) in blocks.into_iter().enumerate() {
            assert_eq!(following(index, block).len(), behind - at, "block {block}");
        }
    }
    assert_eq!(following(index, 7), [0; 0]);
}

fn objects() -> Objects {
    let mut objects = Objects::default();
    objects.add(vec![
        (id(100), pack(&[&[1], &[2], &[3]])),
        (id(101), pack(&[&[4], &[5], &[6]])),
    ]);
    objects.add(vec![(id(102), pack(&[&[7]]))]);
    objects
}

#[test]
fn segments_of_a_pack_follow_one_another_in_memory() {
    let mut index = Index::default();
    let objects = objects();
    let names = objects.list().unwrap();
    objects
        .read(&names, |_, packs| index.add_all(&packs?))
        .unwrap();
    packs_are_read_in_order(&index);
}

#[test]
fn segments_of_a_pack_follow_one_another_in_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path(), |warning| panic!("{warning}"));
    let index = cache.load_index(&objects()).unwrap();
    packs_are_read_in_order(&index);
}

#[test]
fn segments_of_a_pack_follow_one_another_in_a_cache_and_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path(), |warning| panic!("{warning}"));
    let mut index = cache.load_index(&objects()).unwrap();
    index.add(id(103), &pack(&[&[8], &[9]])).unwrap();
    packs_are_read_in_order(&index);
    assert_eq!(
        following(&index, 8),
        [index.find(&id(9)).unwrap().unwrap().segment]
    );
    assert_eq!(following(&index, 9), [0; 0]);
}
