//! The gear hash by a whole card.

use tabane_gpu::{Error, Gear};

use crate::bed::{FakeDriver, cards, noise};

/// Positions from 32 on at which the hash is below the limit, by the definition.
fn expected(table: &[u32; 256], data: &[u8], limit: u32) -> Vec<usize> {
    let below = |position: &usize| {
        let window = data[position - 31..=*position].iter().rev().enumerate();
        let hash = window.fold(0_u32, |hash, (k, &byte)| {
            hash.wrapping_add(table[usize::from(byte)] << k)
        });
        hash < limit
    };
    (32..data.len()).filter(below).collect()
}

fn table() -> [u32; 256] {
    let bytes = noise(1024, 11);
    std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..][..4].try_into().unwrap()))
}

#[test]
fn positions_below_limits_are_found() {
    let table = table();
    for card in cards() {
        let mut gear = Gear::new(&card, &table).unwrap();
        for len in [0, 31, 32, 33, 64, 1000, 200_001] {
            let mut bytes = noise(len, 12);
            bytes[len / 4..len / 2].fill(3);
            let mut data = card.allocate(len).unwrap();
            data.write(&bytes).unwrap();
            let limits = [1 << 20, 1 << 26];
            let marks = gear.marks(&data, limits[0], limits[1]).unwrap();
            for (limit, strict) in limits.into_iter().zip([true, false]) {
                let expected = expected(&table, &bytes, limit);
                // From every place, to the end and to one before what is found.
                let mut next = expected.iter().copied().peekable();
                for from in 0..len {
                    while next.next_if(|&position| position < from).is_some() {}
                    let found = marks.first_below(from..len, strict);
                    assert_eq!(found, next.peek().copied(), "{from} of {len}");
                    if let Some(position) = found {
                        assert_eq!(marks.first_below(from..position, strict), None);
                    }
                }
            }
        }
    }
}

#[test]
fn data_below_the_limit_everywhere_go_in_pieces() {
    // Of bytes that have the number 0 the hash is 0 too.
    let mut table = table();
    table[9] = 0;
    for card in cards() {
        let mut gear = Gear::new(&card, &table).unwrap();
        let len = (40 << 20) + 5;
        let mut data = card.allocate(len).unwrap();
        data.fill(9).unwrap();
        let marks = gear.marks(&data, 1, 1 << 10).unwrap();
        for from in [32, 33, 1 << 25, (1 << 25) + 1, len - 1] {
            assert_eq!(marks.first_below(from..len, true), Some(from));
        }
        assert_eq!(marks.first_below(len..len + 9, false), None);
    }
}

#[test]
fn a_card_that_hashes_wrongly_is_given_up() {
    // Opening launches once for each algorithm of hashes.
    let Some(driver) = FakeDriver::new("wrong 1\nafter 3") else {
        return;
    };
    let card = driver.open().unwrap();
    let error = Error::WrongAnswer("the gear hash");
    assert_eq!(Gear::new(&card, &table()).err(), Some(error.clone()));
    assert_eq!(card.failure(), Some(error));
}

#[test]
fn the_table_is_wiped() {
    let Some(driver) = FakeDriver::new("") else {
        return;
    };
    let card = driver.open().unwrap();
    let gear = Gear::new(&card, &table()).unwrap();
    let before = driver.count("fake_wiped");
    drop(gear);
    assert_eq!(driver.count("fake_wiped"), before + 1);
}
