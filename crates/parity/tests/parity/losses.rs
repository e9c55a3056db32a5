//! Any two roles may be lost.

use std::collections::BTreeSet;

use tabane_parity::{
    Error, Layout, encode, encode_plan, fewest_reads, recover_plan, repair, repair_plan,
};

use crate::reference;

/// A stripe whose data are short, and different everywhere.
fn stripe(layout: &Layout) -> Vec<Vec<u8>> {
    let mut cells = vec![vec![0; 8]; layout.cells()];
    for (block, &cell) in layout.data_cells().iter().enumerate() {
        let mixed = (block as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        cells[cell] = (mixed ^ mixed >> 29).to_le_bytes().to_vec();
    }
    encode(layout, &mut cells).unwrap();
    cells
}

/// One, then two different of these roles.
fn losses(roles: usize) -> impl Iterator<Item = Vec<usize>> {
    let pairs = (0..roles).flat_map(move |one| (0..one).map(move |other| vec![one, other]));
    (0..roles).map(|one| vec![one]).chain(pairs)
}

#[test]
fn every_one_and_two_losses_are_repaired() {
    for roles in 3..=16 {
        let layout = Layout::new(roles).unwrap();
        let whole = stripe(&layout);
        for lost in losses(roles) {
            let plan = repair_plan(&layout, &lost).unwrap();
            let lost_cells: BTreeSet<usize> = lost
                .iter()
                .flat_map(|&role| layout.cells_of_role(role))
                .collect();
            assert_eq!(plan.writes(), lost_cells, "{roles}, {lost:?}");
            assert!(plan.reads().is_disjoint(&lost_cells));
            assert!(plan.reads().len() >= fewest_reads(&layout, &lost).unwrap());
            // Without anything that the plan should not need.
            let mut cells = whole.clone();
            for (number, cell) in cells.iter_mut().enumerate() {
                if lost_cells.contains(&number) {
                    cell.fill(0xee);
                } else if !plan.reads().contains(&number) {
                    cell.clear();
                }
            }
            repair(&layout, &mut cells, &lost).unwrap();
            assert!(
                lost_cells.iter().all(|&cell| cells[cell] == whole[cell]),
                "{roles}, {lost:?}"
            );
        }
    }
}

#[test]
fn elimination_gives_the_same() {
    for roles in 3..=10 {
        let layout = Layout::new(roles).unwrap();
        let cells = stripe(&layout);
        let value = |(role, row)| cells[layout.cell(role, row)].clone();
        for lost in losses(roles) {
            let missing: Vec<reference::Place> = lost
                .iter()
                .flat_map(|&role| (0..layout.rows()).map(move |row| (role, row)))
                .collect();
            let solved = reference::solve(roles, &missing, value, 8).expect("recoverable");
            assert!(
                missing
                    .iter()
                    .zip(solved)
                    .all(|(&place, bytes)| value(place) == bytes)
            );
        }
        let parities: Vec<reference::Place> = encode_plan(&layout)
            .writes()
            .into_iter()
            .map(|cell| (layout.role_of(cell), layout.row_of(cell)))
            .collect();
        let solved = reference::solve(roles, &parities, value, 8).expect("encodable");
        assert!(
            parities
                .iter()
                .zip(solved)
                .all(|(&place, bytes)| value(place) == bytes)
        );
    }
}

#[test]
fn single_cells_of_many_roles_are_recovered() {
    let layout = Layout::new(7).unwrap();
    let whole = stripe(&layout);
    // One cell in each of five roles.
    let missing: BTreeSet<usize> = (0..5).map(|role| layout.cell(role, role)).collect();
    let mut cells = whole.clone();
    missing.iter().for_each(|&cell| cells[cell].fill(0));
    let plan = recover_plan(&layout, &missing, &BTreeSet::new()).unwrap();
    plan.run(&mut cells).unwrap();
    assert_eq!(cells, whole);
    // Of two lost roles, what one cell takes is less than all.
    let missing: BTreeSet<usize> = [1, 4]
        .into_iter()
        .flat_map(|role| layout.cells_of_role(role))
        .collect();
    let wanted = BTreeSet::from([layout.cell(4, 2)]);
    let one = recover_plan(&layout, &missing, &wanted).unwrap();
    let all = recover_plan(&layout, &missing, &BTreeSet::new()).unwrap();
    assert!(one.steps.len() < all.steps.len() && one.writes().contains(&layout.cell(4, 2)));
    assert_eq!(all, repair_plan(&layout, &[4, 1]).unwrap());
    // Three roles are one too many.
    let missing: BTreeSet<usize> = (0..layout.cell(3, 0)).collect();
    let error = recover_plan(&layout, &missing, &BTreeSet::new()).unwrap_err();
    assert!(matches!(error, Error::Unrecoverable(cells) if !cells.is_empty()));
}

#[test]
fn nonsense_is_refused() {
    let layout = Layout::new(5).unwrap();
    for (lost, error) in [
        (vec![5], Error::NoSuchRole { role: 5, roles: 5 }),
        (vec![2, 2], Error::RoleTwice(2)),
        (vec![0, 1, 2], Error::TooManyLost(3)),
    ] {
        assert_eq!(repair_plan(&layout, &lost), Err(error.clone()));
        assert_eq!(fewest_reads(&layout, &lost), Err(error));
    }
    assert!(repair_plan(&layout, &[]).unwrap().steps.is_empty());
    let mut few = vec![vec![0; 4]; 19];
    let error = Error::CellCount {
        given: 19,
        expected: 20,
    };
    assert_eq!(encode(&layout, &mut few), Err(error));
    let mut uneven = vec![vec![1; 4]; 20];
    uneven[7].push(0);
    assert_eq!(encode(&layout, &mut uneven), Err(Error::CellLength(7)));
    assert!(uneven.iter().all(|cell| cell[..4] == [1; 4]));
}
