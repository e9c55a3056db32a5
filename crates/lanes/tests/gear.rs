//! The gear hash with every instruction set, compared with its definition.

#![forbid(unsafe_code)]

use proptest::prelude::*;
use tabane_lanes::gear::{Gear, WINDOW};
use tabane_lanes::{Backend, BackendError};

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn table() -> [u32; 256] {
    let bytes = noise(1024, 99);
    core::array::from_fn(|byte| u32::from_le_bytes(bytes[4 * byte..][..4].try_into().unwrap()))
}

/// The definition, at every position that has a window; the others are far above any limit.
fn hashes(data: &[u8]) -> Vec<u32> {
    let table = table();
    let hash = |end: usize| {
        let Some(start) = (end + 1).checked_sub(WINDOW) else {
            return u32::MAX;
        };
        (0..WINDOW).fold(0_u32, |sum, k| {
            let byte = data[start + 31 - k];
            sum.wrapping_add(table[usize::from(byte)] << k)
        })
    };
    (0..data.len()).map(hash).collect()
}

fn on_every_backend(check: impl Fn(Backend, &Gear)) {
    for backend in Backend::available() {
        check(backend, &Gear::new_on(backend, table()).unwrap());
    }
}

/// Goes from hit to hit, so that every hit is the first of some stretch of data.
fn assert_all_found(gear: &Gear, data: &[u8], hashes: &[u32], from: usize, limit: u32, what: &str) {
    let mut at = from;
    while at <= data.len() {
        let found = gear.first_below(data, at, limit);
        let defined = (at..data.len()).find(|&position| hashes[position] < limit);
        assert_eq!(found, defined, "{what}, from {at}, below {limit}");
        let Some(hit) = found else { break };
        at = hit + 1;
    }
}

#[test]
fn every_length_and_start() {
    let data = noise(1400, 1);
    let hashes = hashes(&data);
    on_every_backend(|backend, gear| {
        for len in WINDOW..data.len() {
            let data = &data[..len];
            for from in [WINDOW, WINDOW + 1, len / 2, len] {
                let from = from.clamp(WINDOW, len);
                let what = format!("{backend}, {len} bytes");
                assert_all_found(gear, data, &hashes, from, 1 << 23, &what);
            }
        }
    });
}

#[test]
fn around_the_edges_of_what_goes_side_by_side() {
    let data = noise(3 * 4096 + 100, 2);
    let hashes = hashes(&data);
    on_every_backend(|backend, gear| {
        for edge in [2048, 4096, 8192, 12288] {
            for len in (edge - 20..edge + 70).filter(|&len| len <= data.len()) {
                for limit in [0, 1 << 20, 1 << 22, u32::MAX] {
                    let what = format!("{backend}, {len} bytes");
                    let found = gear.first_below(&data[..len], WINDOW, limit);
                    let defined = (WINDOW..len).find(|&position| hashes[position] < limit);
                    assert_eq!(found, defined, "{what}, below {limit}");
                }
            }
        }
    });
}

#[test]
fn a_hit_at_every_place_is_the_first() {
    // Where the hash is least, and nowhere else, the limit is passed.
    let data = noise(9000, 3);
    let hashes = hashes(&data);
    let least = (WINDOW..data.len()).min_by_key(|&at| hashes[at]).unwrap();
    let limit = hashes[least] + 1;
    on_every_backend(|backend, gear| {
        for from in WINDOW..data.len() {
            let found = gear.first_below(&data, from, limit);
            let defined = (from <= least).then_some(least);
            assert_eq!(found, defined, "{backend}, from {from}");
        }
        assert_eq!(gear.first_below(&data, WINDOW, limit - 1), None);
    });
}

#[test]
fn data_of_one_byte() {
    for byte in [0, 1, 127, 128, 255] {
        let data = vec![byte; 5000];
        let hash = hashes(&data[..WINDOW])[WINDOW - 1];
        on_every_backend(|backend, gear| {
            let name = format!("{backend}, {byte}");
            assert_eq!(gear.first_below(&data, 40, hash), None, "{name}");
            let above = hash.saturating_add(1);
            assert_eq!(gear.first_below(&data, 40, above), Some(40), "{name}");
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_data(data in proptest::collection::vec(any::<u8>(), WINDOW..20_000),
        from: prop::sample::Index, bits in 16_u32..32) {
        let hashes = hashes(&data);
        let from = WINDOW + from.index(data.len() - WINDOW + 1);
        on_every_backend(|backend, gear| {
            assert_all_found(gear, &data, &hashes, from, 1 << bits.min(24), &backend.to_string());
        });
    }
}

#[test]
#[should_panic(expected = "no window")]
fn a_start_without_a_window_is_refused() {
    Gear::new(table()).first_below(&[0; 100], WINDOW - 1, 1);
}

#[test]
fn a_backend_that_is_not_there_is_refused() {
    for &backend in Backend::ALL {
        if !backend.is_available() {
            let error = Gear::new_on(backend, table()).err();
            assert_eq!(error, Some(BackendError::Unavailable(backend)));
        }
    }
}

#[test]
fn the_table_does_not_show() {
    let shown = format!("{:?}", Gear::new(table()));
    assert!(!shown.contains(&table()[0].to_string()), "{shown}");
}
