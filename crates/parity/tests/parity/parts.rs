//! Nodes that do their parts, and know nothing else, end with the right cells.

use std::collections::VecDeque;

use tabane_parity::schedule::{Arrived, Kind, Part, Schedule};
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
            for (sectors, lag_max) in [(1, 0), (5, 0), (1, 3), (5, 3), (9, 1)] {
                let case = format!("{kind}, {roles} roles, {sectors} sectors, lag {lag_max}");
                run(&schedule, &layout, &cells, sectors, lag_max, &case);
            }
        }
    }
}

/// With room for all lags, a transfer is one sector behind the last of those that it waits for, and
/// what comes from the client is waited for by nobody.
#[test]
fn transfers_lag_by_one_behind_each_other() {
    for roles in 3..=20 {
        let layout = Layout::new(roles).unwrap();
        for kind in Kind::ALL {
            let Some(schedule) = kind.schedule(&layout) else {
                continue;
            };
            let whole: Vec<Part> = (0..roles)
                .map(|role| schedule.part(&layout, role, usize::MAX))
                .collect();
            for (role, part) in whole.iter().enumerate() {
                for sent in &part.sends {
                    let of = sent.of.iter();
                    let before = of.filter(|one| one.from < roles);
                    let lags = before.map(|one| part.receives[one.from][one.index] + 1);
                    assert_eq!(sent.lag, lags.max().unwrap_or(0), "{kind}, {roles}, {role}");
                }
                assert_eq!(part.longest_lag, whole[0].longest_lag);
            }
            let short = schedule.part(&layout, 0, 1);
            assert_eq!(
                short.longest_lag,
                whole[0].longest_lag.min(1),
                "{kind}, {roles}"
            );
        }
    }
}

/// A block of a sector, since no two are to be alike.
fn of_sector(cell: &[u8], sector: u64) -> u64 {
    u64::from_le_bytes(cell.try_into().unwrap()).rotate_left(sector as u32)
}

fn run(
    schedule: &Schedule,
    layout: &Layout,
    cells: &[Vec<u8>],
    sectors: u64,
    lag_max: usize,
    case: &str,
) {
    let roles = layout.roles();
    let parts: Vec<_> = (0..roles)
        .map(|role| schedule.part(layout, role, lag_max))
        .collect();
    let longest = parts[0].longest_lag;
    assert!(longest <= lag_max, "{case}");
    // What has arrived at each role from each, in order.
    let mut arrived = vec![vec![Vec::<u64>::new(); roles + 1]; roles];
    for (role, arrived) in arrived.iter_mut().enumerate() {
        for sector in 0..sectors {
            for cell in schedule.cells_from_client(layout, role) {
                arrived[roles].push(of_sector(&cells[cell], sector));
            }
        }
    }
    // A node sends the next that it can, and waits for what it lacks: in turns, until nobody has
    // anything left.
    let steps = 0..sectors + longest as u64;
    let mut left: Vec<VecDeque<_>> = parts
        .iter()
        .map(|part| {
            let all = steps
                .clone()
                .flat_map(|step| part.sends.iter().map(move |sent| (step, sent)));
            let with_sector =
                all.filter_map(|(step, sent)| Some((step.checked_sub(sent.lag as u64)?, sent)));
            with_sector
                .filter(|(sector, _)| *sector < sectors)
                .collect()
        })
        .collect();
    while left.iter().any(|sends| !sends.is_empty()) {
        let mut moved = false;
        for (role, sends) in left.iter_mut().enumerate() {
            while let Some((sector, sent)) = sends.front() {
                let Some(sum) = sum(&parts[role], &arrived[role], &sent.of, *sector, sectors)
                else {
                    break;
                };
                arrived[sent.to][role].push(sum);
                sends.pop_front();
                moved = true;
            }
        }
        assert!(moved, "{case}: nodes wait for each other");
    }
    for (role, part) in parts.iter().enumerate() {
        for (from, arrived) in arrived[role].iter().enumerate() {
            let all = arrived.len() as u64;
            assert_eq!(part.arrived_before(from, steps.end, sectors), all, "{case}");
            // Frames that are still needed are kept, all others are released.
            for sector in 0..sectors {
                let gone = part.arrived_before(from, part.step_of(from, sector), sectors);
                for index in 0..part.receives[from].len() {
                    let number = part.number(Arrived { from, index }, sector, sectors);
                    assert!((gone..all).contains(&number), "{case}");
                }
                let least = part.receives[from].iter().min().unwrap_or(&0);
                assert_eq!(part.step_of(from, sector), sector + *least as u64, "{case}");
            }
        }
        for sector in 0..sectors {
            for (cell, of) in layout.cells_of_role(role).zip(&part.stores) {
                let value = sum(part, &arrived[role], of, sector, sectors).unwrap();
                assert_eq!(
                    of_sector(&cells[cell], sector),
                    value,
                    "{case}, cell {cell}"
                );
            }
        }
    }
}

/// The sum of these transfers of a sector, if all of them have arrived.
fn sum(
    part: &Part,
    arrived: &[Vec<u64>],
    of: &[Arrived],
    sector: u64,
    sectors: u64,
) -> Option<u64> {
    of.iter().try_fold(0, |sum, &from| {
        let number = part.number(from, sector, sectors) as usize;
        Some(sum ^ arrived[from.from].get(number)?)
    })
}
