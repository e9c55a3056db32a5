//! Random bytes of odd lengths.

use proptest::prelude::*;
use tabane_parity::{Error, Layout, encode, encode_plan, repair, repair_plan, update};

use crate::reference;

/// Roles, and as many different data cells as these have, of one length.
fn stripe() -> impl Strategy<Value = (Layout, Vec<Vec<u8>>)> {
    (3_usize..=13, 0_usize..=1600, any::<u64>()).prop_map(|(roles, len, seed)| {
        let layout = Layout::new(roles).unwrap();
        let mut state = seed;
        let mut byte = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        let cells = (0..layout.cells()).map(|_| (0..len).map(|_| byte()).collect());
        let cells = cells.collect();
        (layout, cells)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn encodes_as_the_equations_say((layout, mut cells) in stripe()) {
        let data: Vec<Vec<u8>> = layout.data_cells().iter().map(|&cell|
            cells[cell].clone()).collect();
        encode(&layout, &mut cells).unwrap();
        for (&cell, data) in layout.data_cells().iter().zip(&data) {
            prop_assert_eq!(&cells[cell], data);
        }
        for set in reference::equations(layout.roles()) {
            let mut sum = vec![0; cells[0].len()];
            for (role, row) in set {
                let cell = &cells[layout.cell(role, row)];
                sum.iter_mut().zip(cell).for_each(|(sum, byte)| *sum ^= byte);
            }
            prop_assert!(sum.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn what_is_lost_comes_back((layout, mut cells) in stripe(), one: usize, other: usize) {
        encode(&layout, &mut cells).unwrap();
        let whole = cells.clone();
        let mut lost = vec![one % layout.roles(), other % layout.roles()];
        lost.dedup();
        for cell in lost.iter().flat_map(|&role| layout.cells_of_role(role)) {
            cells[cell].fill(0x55);
        }
        // Through borrowed buffers, too.
        let mut borrowed: Vec<&mut [u8]> = cells.iter_mut().map(|cell| &mut cell[..]).collect();
        repair(&layout, &mut borrowed, &lost).unwrap();
        prop_assert_eq!(cells, whole);
    }

    #[test]
    fn an_update_is_an_encoding_anew((layout, mut cells) in stripe(), block: usize) {
        encode(&layout, &mut cells).unwrap();
        let block = block % layout.data_cells().len();
        let new: Vec<u8> = cells[0].iter().map(|byte| byte.wrapping_mul(3) ^ 0x77).collect();
        let mut anew = cells.clone();
        anew[layout.data_cells()[block]].clone_from(&new);
        encode_plan(&layout).run(&mut anew).unwrap();
        update(&layout, &mut cells, block, &new).unwrap();
        prop_assert_eq!(cells, anew);
    }
}

#[test]
fn cells_of_many_spans_are_encoded_as_the_plan_says() {
    // Of five roles 16 KiB are added up at a time, of many a page; of 40 the sources do not go in
    // one pass.
    for (roles, lens) in [
        (5, &[16_383, 16_384, 16_385, 32_768, 50_001][..]),
        (8, &[8_191, 8_192, 30_000][..]),
        (9, &[4_095, 4_096, 4_097, 12_289][..]),
        (40, &[100][..]),
    ] {
        let layout = Layout::new(roles).unwrap();
        for &len in lens {
            let byte = |cell: usize, at: usize| (cell * 31 + at * at / 7) as u8;
            let cells = 0..layout.cells();
            let mut cells: Vec<Vec<u8>> = cells
                .map(|cell| (0..len).map(|at| byte(cell, at)).collect())
                .collect();
            let mut by_plan = cells.clone();
            encode_plan(&layout).run(&mut by_plan).unwrap();
            encode(&layout, &mut cells).unwrap();
            assert!(cells == by_plan, "{roles} roles, cells of {len} bytes");
        }
    }
}

#[test]
fn an_update_of_another_length_is_refused() {
    let layout = Layout::new(4).unwrap();
    let mut cells = vec![vec![1; 5]; layout.cells()];
    let before = cells.clone();
    assert!(matches!(
        update(&layout, &mut cells, 0, &[2; 6]),
        Err(Error::CellLength(_))
    ));
    assert_eq!(cells, before);
}

/// As where no role is lost, or cells have no bytes.
#[test]
fn a_plan_without_steps_or_bytes_changes_nothing() {
    let layout = Layout::new(5).unwrap();
    let none = repair_plan(&layout, &[]).unwrap();
    none.run::<Vec<u8>>(&mut []).unwrap();
    let mut cells = vec![vec![1; 5]; layout.cells()];
    let before = cells.clone();
    none.run(&mut cells).unwrap();
    assert_eq!(cells, before);
    let mut empty = vec![Vec::new(); layout.cells()];
    encode(&layout, &mut empty).unwrap();
    assert!(empty.iter().all(Vec::is_empty));
}
