//! No repair reads less.

use tabane_parity::{Layout, fewest_reads, repair_plan};

use crate::reference;

/// Whether these cells determine all of a role.
fn determine(roles: usize, lost: usize, read: &[reference::Place]) -> bool {
    // The unread are to drop out of the equations first, then each lost cell must stand alone.
    let rows = reference::prime(roles) - 1;
    let place = |(role, row): reference::Place| role * rows + row;
    let read = read.iter().fold(0_u64, |set, &cell| set | 1 << place(cell));
    let mut equations: Vec<u64> = reference::equations(roles)
        .iter()
        .map(|set| set.iter().fold(0, |mask, &cell| mask | 1 << place(cell)) & !read)
        .collect();
    let of_lost = |cell: usize| cell / rows == lost;
    let (lost_cells, others): (Vec<usize>, Vec<usize>) =
        (0..roles * rows).partition(|&cell| of_lost(cell));
    for cell in others {
        eliminate(&mut equations, cell);
    }
    lost_cells
        .into_iter()
        .all(|cell| eliminate(&mut equations, cell))
}

/// Uses up one equation for a cell; whether there was one.
fn eliminate(equations: &mut Vec<u64>, cell: usize) -> bool {
    let Some(with) = equations
        .iter()
        .position(|equation| equation >> cell & 1 == 1)
    else {
        return false;
    };
    let pivot = equations.swap_remove(with);
    for equation in equations
        .iter_mut()
        .filter(|equation| **equation >> cell & 1 == 1)
    {
        *equation ^= pivot;
    }
    true
}

#[test]
fn no_fewer_cells_determine_a_role() {
    for roles in 3..=5 {
        let layout = Layout::new(roles).unwrap();
        for lost in 0..roles {
            let fewest = repair_plan(&layout, &[lost]).unwrap().reads().len();
            let others: Vec<reference::Place> = (0..roles)
                .filter(|&role| role != lost)
                .flat_map(|role| (0..layout.rows()).map(move |row| (role, row)))
                .collect();
            let mut enough = [false; 2];
            for set in 0_u32..1 << others.len() {
                let size = set.count_ones() as usize;
                if size != fewest && size + 1 != fewest {
                    continue;
                }
                let chosen = (0..others.len()).filter(|&number| set >> number & 1 == 1);
                let read: Vec<reference::Place> = chosen.map(|number| others[number]).collect();
                if determine(roles, lost, &read) {
                    enough[usize::from(size == fewest)] = true;
                }
            }
            assert_eq!(enough, [false, true], "{roles}, {lost}");
        }
    }
}

/// Cells read where these rows come from diagonals, counted one by one.
fn reads_of_choice(roles: usize, lost: usize, by_diagonal: u32) -> usize {
    let p = reference::prime(roles);
    let chosen = |row: usize| by_diagonal >> row & 1 == 1;
    let mut reads = by_diagonal.count_ones() as usize;
    for row in 0..p - 1 {
        for column in (0..roles - 1).filter(|&column| column != lost) {
            let its_diagonal = (row + column) % p;
            let source = (its_diagonal + p - lost) % p;
            reads += usize::from(!chosen(row) || (source < p - 1 && chosen(source)));
        }
    }
    reads
}

#[test]
fn no_choice_of_rows_reads_less() {
    for roles in 3..=12 {
        let layout = Layout::new(roles).unwrap();
        let rows = layout.rows();
        for lost in 0..roles - 1 {
            let without_diagonal =
                (0..rows).find(|&row| layout.diagonal_of(layout.cell(lost, row)).is_none());
            let fewest = (0_u32..1 << rows)
                .filter(|choice| without_diagonal.is_none_or(|row| choice >> row & 1 == 0))
                .map(|choice| reads_of_choice(roles, lost, choice))
                .min();
            let reads = repair_plan(&layout, &[lost]).unwrap().reads().len();
            assert_eq!(Some(reads), fewest, "{roles}, {lost}");
        }
    }
}

#[test]
fn the_bound_is_reached_where_it_is_said_to_be() {
    for roles in 3..=32 {
        let layout = Layout::new(roles).unwrap();
        let data = layout.data_cells().len();
        let reads = |lost: &[usize]| repair_plan(&layout, lost).unwrap().reads().len();
        let bound = |lost: &[usize]| fewest_reads(&layout, lost).unwrap();
        assert_eq!(bound(&[]), 0);
        assert_eq!(
            (reads(&[roles - 1]), bound(&[roles - 1])),
            (data, data),
            "{roles}"
        );
        assert_eq!(
            (reads(&[0, roles - 2]), bound(&[0, roles - 2])),
            (data, data),
            "{roles}"
        );
        let prime = layout.prime();
        for lost in [0, 1, roles - 2] {
            assert!(reads(&[lost]) >= bound(&[lost]), "{roles}");
            if prime == roles || prime == roles - 1 {
                assert_eq!(reads(&[lost]), bound(&[lost]), "{roles}")
            } else {
                assert!(reads(&[lost]) * 10 <= bound(&[lost]) * 11, "{roles}")
            }
        }
    }
}
