//! Nodes that do their parts, and know nothing else, end with the right cells.

use std::collections::VecDeque;

use tabane_parity::schedule::{Arrived, Kind, Part, Schedule, Sectors};
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
                let (schedules, sectors) = ([schedule.clone()], Sectors::alike(sectors));
                run(&schedules, &layout, &cells, &sectors, lag_max, &case);
            }
        }
    }
}

#[test]
fn every_node_stores_its_cells_of_sectors_that_go_by_several_schedules() {
    for roles in (3..=9).chain([14, 20]) {
        let layout = Layout::new(roles).unwrap();
        let cells = cells(&layout);
        let schedules = Kind::ALL.map(|kind| kind.schedule(&layout));
        let schedules: Vec<Schedule> = schedules.into_iter().flatten().collect();
        let count = schedules.len();
        let mixtures = [
            vec![count - 1, 0],
            vec![0, count - 1, 0, 0, count - 1, count - 1, 0],
            (0..9).map(|sector| sector % count).collect(),
            (0..11).map(|sector| sector * sector % count).collect(),
            // Schedules that no sector goes by change nothing.
            vec![1; 5],
            Vec::new(),
        ];
        for numbers in mixtures {
            for lag_max in [0, 1, 3, usize::MAX] {
                let case = format!("{numbers:?}, {roles} roles, lag {lag_max}");
                let sectors = Sectors::mixed(&numbers, count);
                run(&schedules, &layout, &cells, &sectors, lag_max, &case);
            }
        }
    }
}

#[test]
fn sectors_know_their_schedules() {
    let mixed = Sectors::mixed(&[2, 0, 2], 3);
    assert_eq!(mixed.count(), 3);
    let by: Vec<Option<usize>> = (0..5).map(|sector| mixed.schedule(sector)).collect();
    assert_eq!(by, [Some(2), Some(0), Some(2), None, None]);
    assert_eq!(Sectors::alike(2), Sectors::mixed(&[0, 0], 1));
    assert_eq!(Sectors::alike(0).schedule(0), None);
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
            let schedules = [schedule];
            let whole: Vec<Part> = (0..roles)
                .map(|role| Part::new(&schedules, &layout, role, usize::MAX))
                .collect();
            for (role, part) in whole.iter().enumerate() {
                for sent in &part.sends {
                    let of = sent.of.iter();
                    let before = of.filter(|one| one.from < roles);
                    let lags = before.map(|one| part.receives[one.from][one.index].lag + 1);
                    assert_eq!(sent.lag, lags.max().unwrap_or(0), "{kind}, {roles}, {role}");
                }
                assert_eq!(part.longest_lag, whole[0].longest_lag);
            }
            let short = Part::new(&schedules, &layout, 0, 1);
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
    schedules: &[Schedule],
    layout: &Layout,
    cells: &[Vec<u8>],
    sectors: &Sectors,
    lag_max: usize,
    case: &str,
) {
    let roles = layout.roles();
    let parts: Vec<_> = (0..roles)
        .map(|role| Part::new(schedules, layout, role, lag_max))
        .collect();
    let longest = parts[0].longest_lag;
    assert!(longest <= lag_max, "{case}");
    // What has arrived at each role from each, in order: when it was sent, and what it is.
    let mut arrived = vec![vec![Vec::<(u64, u64)>::new(); roles + 1]; roles];
    for (role, arrived) in arrived.iter_mut().enumerate() {
        for sector in 0..sectors.count() {
            let schedule = &schedules[sectors.schedule(sector).unwrap()];
            for cell in schedule.cells_from_client(layout, role) {
                arrived[roles].push((sector, of_sector(&cells[cell], sector)));
            }
        }
    }
    // A node sends the next that it can, and waits for what it lacks: in turns, until nobody has
    // anything left.
    let steps = 0..parts[0].steps(sectors);
    let mut left: Vec<VecDeque<_>> = parts
        .iter()
        .map(|part| {
            let all = steps
                .clone()
                .flat_map(|step| part.sends.iter().map(move |sent| (step, sent)));
            let with_sector =
                all.filter_map(|(step, sent)| Some((step.checked_sub(sent.lag as u64)?, sent)));
            with_sector
                .filter(|(sector, sent)| sectors.schedule(*sector) == Some(sent.schedule))
                .collect()
        })
        .collect();
    while left.iter().any(|sends| !sends.is_empty()) {
        let mut moved = false;
        for (role, sends) in left.iter_mut().enumerate() {
            while let Some((sector, sent)) = sends.front() {
                let sum = sum(&parts[role], &arrived[role], &sent.of, *sector, sectors);
                let Some(sum) = sum else {
                    break;
                };
                arrived[sent.to][role].push((sector + sent.lag as u64, sum));
                sends.pop_front();
                moved = true;
            }
        }
        assert!(moved, "{case}: nodes wait for each other");
    }
    for (role, part) in parts.iter().enumerate() {
        for (from, arrived) in arrived[role].iter().enumerate() {
            let all = arrived.len() as u64;
            assert_eq!(part.arrivals(from, sectors), all, "{case}");
            // What is needed is there, and all is given back that no later sector brings.
            let mut gone = 0;
            for sector in 0..sectors.count() {
                let received = part.receives[from].iter();
                for (index, one) in received.clone().enumerate() {
                    if sectors.schedule(sector) == Some(one.schedule) {
                        let number = part.number(Arrived { from, index }, sector, sectors);
                        assert!((gone..all).contains(&number), "{case}");
                    }
                }
                let spent = part.spent(from, sector, sectors);
                assert_eq!(spent.start, gone, "{case}");
                gone = spent.end;
                let least = received.map(|one| one.lag).min().unwrap_or(0) as u64;
                let is_before = |&(step, _): &(u64, u64)| {
                    sector + 1 == sectors.count() || step < sector + 1 + least
                };
                let before = arrived.partition_point(is_before) as u64;
                assert_eq!(gone, before, "{case}");
            }
        }
        for sector in 0..sectors.count() {
            let stores = &part.stores[sectors.schedule(sector).unwrap()];
            for (cell, of) in layout.cells_of_role(role).zip(stores) {
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
    arrived: &[Vec<(u64, u64)>],
    of: &[Arrived],
    sector: u64,
    sectors: &Sectors,
) -> Option<u64> {
    of.iter().try_fold(0, |sum, &from| {
        let number = part.number(from, sector, sectors) as usize;
        Some(sum ^ arrived[from.from].get(number)?.1)
    })
}
