//! Searches for the factors of `coded` schedules.
//!
//! ```sh
//! cargo run --release -p tabane-parity --example search_coded -- TARGETS [FACTORS]
//! ```
//!
//! Tries all sets of so many factors (one, two or three), by which diagonals are assigned to roles,
//! and prints a line for each that gives a schedule: the factors, the transfers and the fewest that
//! there can be, the longest sequence of transfers that wait for one another, what the busiest role
//! receives and sends by the data, and exclusive ors a data block. The best ones come first: with
//! the shortest sequence, then with the fewest transfers, with a busiest role that receives least,
//! and with the fewest exclusive ors.

use tabane_parity::Layout;
use tabane_parity::schedule::{by_factors, fewest_transfers};

/// All sets of so many numbers from 1 to `limit`, each ascending.
fn sets(count: usize, limit: usize) -> Vec<Vec<usize>> {
    let Some(count) = count.checked_sub(1) else {
        return vec![Vec::new()];
    };
    let of_last = |last: usize| {
        let mut all = sets(count, last - 1);
        all.iter_mut().for_each(|set| set.push(last));
        all
    };
    (1..=limit).flat_map(of_last).collect()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().map(|arg| arg.parse().expect("a number"));
    let targets: usize = next().expect("TARGETS [FACTORS]");
    let counts = next().map_or(1..=2, |count| count..=count);
    let layout = Layout::new(targets).expect("three targets at least");
    let mut found = Vec::new();
    for factors in counts.flat_map(|count| sets(count, layout.rows())) {
        let Some(schedule) = by_factors(&layout, &factors) else {
            continue;
        };
        assert_eq!(schedule.verify(&layout), Ok(()));
        let costs = schedule.costs(&layout);
        let line = format!(
            "{factors:?}: {} transfers ({}), {} hops, {:.3} / {:.3}, {:.2} exclusive ors",
            costs.transfers,
            fewest_transfers(&layout),
            costs.hops,
            costs.busiest_ingress(),
            costs.busiest_egress(),
            costs.xors as f64 / costs.data as f64
        );
        let busiest = costs.ingress.iter().copied().max();
        found.push(((costs.hops, costs.transfers, busiest, costs.xors), line));
    }
    found.sort();
    for (_, line) in found {
        println!("{line}");
    }
}
