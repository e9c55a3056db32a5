//! Nodes that do their parts, and know nothing else, end with the right cells.

use std::collections::VecDeque;

use tabane_parity::schedule::{Arrived, Kind};
use tabane_parity::{Layout, encode};

/// Numbers that stand for blocks: their exclusive or is that of the blocks.
fn cells(layout: &Layout) -> Vec<Vec<u8>> {
    let mut cells = vec![vec![0; 8]; layout.cells()];
    for (number, &cell) in (1_u64..).zip(layout.data_cells()) {
        cells[cell] = number
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_le_bytes()
            .to_vec();
    }
    encode(layout, &mut cells).unwrap();
    cells
}

#[test]
fn every_node_stores_its_cells() {
    for roles in 3..=20 {
        let layout = Layout::new(roles).unwrap();
        let cells = cells(&layout);
        for kind in Kind::ALL {
            let Some(schedule) = kind.schedule(&layout) else {
                continue;
            };
            let parts: Vec<_> = (0..roles)
                .map(|role| schedule.part(&layout, role))
                .collect();
            // What has arrived at each role from each, in order.
            let mut arrived = vec![vec![Vec::<u64>::new(); roles + 1]; roles];
            for (role, arrived) in arrived.iter_mut().enumerate() {
                for cell in schedule.cells_from_client(&layout, role) {
                    let value = u64::from_le_bytes(cells[cell].clone().try_into().unwrap());
                    arrived[roles].push(value);
                }
            }
            // A node sends the next that it can, and waits for what it lacks: in turns, until nobody has anything left.
            let mut left: Vec<VecDeque<_>> = parts
                .iter()
                .map(|part| part.sends.iter().collect())
                .collect();
            while left.iter().any(|sends| !sends.is_empty()) {
                let mut moved = false;
                for (role, sends) in left.iter_mut().enumerate() {
                    while let Some(sent) = sends.front() {
                        let Some(sum) = sum(&arrived[role], &sent.of) else {
                            break;
                        };
                        arrived[sent.to][role].push(sum);
                        sends.pop_front();
                        moved = true;
                    }
                }
                assert!(moved, "{kind}, {roles}: nodes wait for each other");
            }
            for (role, part) in parts.iter().enumerate() {
                let counts: Vec<usize> = arrived[role].iter().map(Vec::len).collect();
                assert_eq!(counts, part.receives, "{kind}, {roles}");
                for (cell, of) in layout.cells_of_role(role).zip(&part.stores) {
                    let value = sum(&arrived[role], of).unwrap().to_le_bytes();
                    assert_eq!(cells[cell], value, "{kind}, {roles}, cell {cell}");
                }
            }
        }
    }
}

fn sum(arrived: &[Vec<u64>], of: &[Arrived]) -> Option<u64> {
    of.iter().try_fold(0, |sum, from| {
        Some(sum ^ arrived[from.from].get(from.index)?)
    })
}
