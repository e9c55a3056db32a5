//! An index without a cache.

use std::collections::BTreeSet;

use tabane_index::{BlockLocation, Index};

use crate::bed::{id, pack};
use crate::model::Model;

fn index(packs: &[(u8, &[&[u8]])]) -> Index {
    let mut index = Index::default();
    for (number, segments) in packs {
        index.add(id(*number), &pack(segments)).unwrap();
    }
    index
}

#[test]
fn an_index_names_the_removals_that_it_was_made_for() {
    let index = Index::as_of([id(1), id(2)].into(), [id(3)].into());
    assert_eq!(index.removals(), &BTreeSet::from([id(1), id(2)]));
    assert!(index.condemns(&id(3)) && !index.condemns(&id(1)));
    assert_eq!(Index::default().removals(), &BTreeSet::new());
}

#[test]
fn segments_and_packs_are_numbered_in_the_order_of_their_coming() {
    let index = index(&[(9, &[&[1, 2], &[3]]), (8, &[]), (7, &[&[2], &[4]])]);
    let place = |segment, offset| BlockLocation {
        segment,
        offset,
        len: 1,
    };
    let expected = [
        (1, vec![place(0, 0)]),
        (2, vec![place(0, 1), place(2, 0)]),
        (3, vec![place(1, 0)]),
        (4, vec![place(3, 0)]),
        (5, vec![]),
    ];
    for (block, places) in expected {
        assert_eq!(index.places(&id(block)).unwrap(), places);
        assert_eq!(
            index.find(&id(block)).unwrap(),
            places.first().copied(),
            "{block}"
        );
    }
    let packs: Vec<_> = index.packs().map(|pack| pack.unwrap().id).collect();
    assert_eq!(packs, [id(9), id(8), id(7)]);
    assert_eq!((index.len(), index.is_empty()), (4, false));
}

#[test]
fn a_pack_that_is_added_again_changes_nothing() {
    let mut index = index(&[(9, &[&[1]])]);
    index.add(id(9), &pack(&[&[1]])).unwrap();
    assert_eq!(index.places(&id(1)).unwrap().len(), 1);
    assert_eq!(index.packs().count(), 1);
    // Something else may be said of the same pack.
    index.add(id(9), &pack(&[&[1], &[2]])).unwrap();
    assert_eq!(index.places(&id(1)).unwrap().len(), 2);
    assert_eq!(index.len(), 2);
}

/// The packs of a block, in the order of trust: 1 is verified and stays, 2 is condemned, 3 is
/// unverified, 4 is both.
#[test]
fn the_most_trustworthy_place_of_a_block_is_found() {
    let of = |packs: &[u8]| {
        let mut index = Index::as_of([].into(), [id(2), id(4)].into());
        for number in packs {
            index.add(id(*number), &pack(&[&[7]])).unwrap();
        }
        index
    };
    for first in [[1, 2], [2, 1]] {
        for last in [[3, 4], [4, 3]] {
            let mut index = of(&first);
            index.add_unverified(of(&last)).unwrap();
            for best in 1..=4 {
                let place = index.find(&id(7)).unwrap().unwrap();
                assert_eq!(index.pack_of(place).unwrap().id, id(best));
                assert_eq!(index.keeps(&id(7)).unwrap(), best == 1);
                assert_eq!(index.is_verified(place.segment).unwrap(), best <= 2);
                assert_eq!(index.is_condemned(place).unwrap(), best % 2 == 0);
                index.exclude_packs(|pack| pack.id == id(best)).unwrap();
            }
            assert_eq!(index.find(&id(7)).unwrap(), None);
            assert!(index.is_empty() && !index.keeps(&id(7)).unwrap());
        }
    }
}

#[test]
fn a_place_of_the_wanted_length_is_preferred() {
    let mut index = Index::default();
    for (number, len) in [(1, 10), (2, 20), (3, 20)] {
        let mut contents = pack(&[&[7]]);
        contents.segments[0].blocks[0].1 = len;
        index.add(id(number), &contents).unwrap();
    }
    let found = |len| {
        let place = index.find_of_len(&id(7), len).unwrap().unwrap();
        (place.segment, place.len)
    };
    assert_eq!(found(10), (0, 10));
    assert_eq!(found(20), (1, 20));
    assert_eq!(found(30), (0, 10));
    assert_eq!(index.find_of_len(&id(8), 10).unwrap(), None);
}

#[test]
fn nothing_unverified_is_said_of_verified_packs() {
    let mut known = index(&[(9, &[&[1]])]);
    let said = index(&[(9, &[&[2], &[3]]), (8, &[&[4]]), (9, &[&[1], &[5]])]);
    known.add_unverified(said).unwrap();
    let mut model = Model::default();
    model.say(&[(id(9), pack(&[&[1]]))], true);
    model.say(&[(id(8), pack(&[&[4]]))], false);
    model.check(&known, (0..9).map(id));
}

#[test]
fn an_index_takes_over_what_another_has() {
    let mut known = index(&[(9, &[&[1], &[2]]), (8, &[&[3]])]);
    let other = index(&[(7, &[&[2, 4]]), (9, &[&[1], &[2]]), (6, &[&[4], &[4]])]);
    known.add_index(other).unwrap();
    let mut model = Model::default();
    for (number, contents) in [
        (9, pack(&[&[1], &[2]])),
        (8, pack(&[&[3]])),
        (7, pack(&[&[2, 4]])),
        (6, pack(&[&[4], &[4]])),
    ] {
        model.say(&[(id(number), contents)], true);
    }
    model.check(&known, (0..9).map(id));
    assert_eq!(known.len(), 4);
    let packs: Vec<_> = known.packs().map(|pack| pack.unwrap().id).collect();
    assert_eq!(packs, [id(9), id(8), id(7), id(6)]);
}

#[test]
fn blocks_of_excluded_packs_are_found_elsewhere_or_nowhere() {
    let mut index = index(&[(9, &[&[1, 2, 2]]), (8, &[&[2]]), (7, &[&[2, 3]])]);
    index.exclude_packs(|_| false).unwrap();
    assert_eq!(index.len(), 3);
    index.exclude_packs(|pack| pack.id == id(9)).unwrap();
    assert_eq!(index.len(), 2);
    let segments = |block| {
        let places = index.places(&id(block)).unwrap();
        places.iter().map(|place| place.segment).collect::<Vec<_>>()
    };
    assert_eq!(
        (segments(1), segments(2), segments(3)),
        (vec![], vec![1, 2], vec![2])
    );
    index.exclude_packs(|pack| pack.id == id(8)).unwrap();
    index.exclude_packs(|pack| pack.id == id(7)).unwrap();
    assert!(index.is_empty());
    // The packs are still known, and their segments keep their numbers.
    assert_eq!(index.packs().count(), 3);
    index.add(id(6), &pack(&[&[1]])).unwrap();
    assert_eq!(index.find(&id(1)).unwrap().unwrap().segment, 3);
}

#[test]
fn a_segment_that_does_not_exist_is_an_error() {
    let index = index(&[(9, &[&[1]])]);
    let text = "the cache is damaged: it names a segment or a pack that does not exist";
    assert_eq!(index.segment(1).unwrap_err().to_string(), text);
    assert_eq!(index.pack(1).unwrap_err().to_string(), text);
}
