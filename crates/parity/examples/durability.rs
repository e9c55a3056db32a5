//! How long a cluster goes without losing data, for given rates of failure and of heals.
//!
//! ```sh
//! cargo run --release -p tabane-parity --example durability -- --help
//! ```
//!
//! Nodes have a disk each and form groups; a stripe is on all nodes of one group, so data are lost
//! when three nodes of one group lack theirs at once. Disks fail independently, at a constant rate.
//! A failed one is replaced after some hours and filled at some speed; until all is there, nothing
//! of it counts. Besides, bytes become unreadable, which a scrub finds; where they meet two nodes
//! that lack theirs, a stripe is lost.
//!
//! Losses of three disks are too rare to wait for, so disks fail faster in the simulation, at a
//! rate at which it sees hundreds. What it finds is compared with a formula for that rate, and the
//! formula then says how long it takes at the real one.

use clap::Parser;

const HOURS_A_YEAR: f64 = 24.0 * 365.25;

/// Years until a cluster loses data, by simulation and by a formula
#[derive(Parser)]
struct Args {
    /// Numbers of nodes
    #[arg(long, value_delimiter = ',', default_values_t = [6, 12, 24, 100, 1000])]
    nodes: Vec<usize>,
    /// Nodes of a group
    #[arg(long, default_value_t = 6)]
    group: usize,
    #[command(flatten)]
    rates: Rates,
    /// How much faster disks fail in the simulation
    #[arg(long, default_value_t = 100.0)]
    times: f64,
    /// Losses after which the simulation of a cluster ends
    #[arg(long, default_value_t = 1000)]
    losses: u64,
}

/// What happens to disks.
#[derive(Clone, Copy, clap::Args)]
struct Rates {
    /// Share of the disks that fail in a year, in percent
    #[arg(long, default_value_t = 1.5)]
    failures_percent: f64,
    /// Hours until a failed disk is replaced
    #[arg(long, default_value_t = 24.0)]
    replaced_after_hours: f64,
    /// Bytes on a disk, in TB
    #[arg(long, default_value_t = 8.0)]
    disk_tb: f64,
    /// How fast a new disk is filled, in MB/s
    #[arg(long, default_value_t = 100.0)]
    heal_mb_s: f64,
    /// Unreadable places that a disk gets in a year
    #[arg(long, default_value_t = 0.1)]
    unreadable: f64,
    /// Days between two scrubs
    #[arg(long, default_value_t = 30.0)]
    scrub_days: f64,
}

impl Rates {
    /// Failures of a disk in a year.
    fn failures(&self) -> f64 {
        self.failures_percent / 100.0
    }

    /// Years during which a failed disk is missing.
    fn missing(&self) -> f64 {
        let fill_hours = self.disk_tb * 1e6 / self.heal_mb_s / 3600.0;
        (self.replaced_after_hours + fill_hours) / HOURS_A_YEAR
    }

    /// The chance that a disk has an unreadable place which no scrub has found.
    fn is_unreadable(&self) -> f64 {
        1.0 - (-self.unreadable * self.scrub_days / 365.25 / 2.0).exp()
    }

    /// Losses of three disks, and of a stripe to an unreadable place, in a year of a group, where
    /// disks are seldom missing.
    ///
    /// A first disk fails, a second one while it is missing, and a third one while both are: in
    /// half of that time on average.
    fn losses(&self, group: usize) -> [f64; 2] {
        let (n, rate, missing) = (group as f64, self.failures(), self.missing());
        let two = n * rate * (n - 1.0) * rate * missing;
        let third = (n - 2.0) * rate * missing / 2.0;
        let unreadable = 1.0 - (1.0 - self.is_unreadable()).powf(n - 2.0);
        [two * third, two * unreadable]
    }

    /// The same disks, that fail so much oftener.
    fn faster(self, times: f64) -> Self {
        Self {
            failures_percent: self.failures_percent * times,
            ..self
        }
    }
}

/// What a simulation has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Years of one cluster.
    years: f64,
    /// Losses of three disks, and of a stripe to an unreadable place.
    losses: [u64; 2],
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    /// A number above 0 and below 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^= value >> 31;
        ((value >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

/// Lets disks of a cluster fail until so many losses of three have been seen.
fn simulate(rates: Rates, nodes: usize, group: usize, losses: u64, seed: u64) -> Seen {
    let mut random = Random(seed);
    let (rate, missing) = (rates.failures(), rates.missing());
    // When the disk of each node is whole again.
    let mut whole_at = vec![0.0_f64; nodes];
    let mut seen = Seen::default();
    while seen.losses[0] < losses {
        // The next failure of any disk; one that is missing cannot fail.
        seen.years += -random.next().ln() / (rate * nodes as f64);
        let now = seen.years;
        let node = (random.next() * nodes as f64) as usize;
        if whole_at[node] > now {
            continue;
        }
        let first = node / group * group;
        let others = first..(first + group).min(nodes);
        let gone = others
            .clone()
            .filter(|&other| whole_at[other] > now)
            .count();
        whole_at[node] = now + missing;
        if gone >= 2 {
            seen.losses[0] += 1;
            // It begins anew, with what is left.
            others.for_each(|other| whole_at[other] = now);
        } else if gone == 1 {
            let left = others.len() as i32 - 2;
            let all_readable = (1.0 - rates.is_unreadable()).powi(left);
            seen.losses[1] += u64::from(random.next() > all_readable);
        }
    }
    seen
}

fn main() {
    let args = Args::parse();
    let rates = args.rates;
    let fast = rates.faster(args.times);
    println!(
        "groups of {}, {} % of disks fail in a year, {:.0} h until a failed one is whole again",
        args.group,
        rates.failures_percent,
        rates.missing() * HOURS_A_YEAR,
    );
    println!(
        "{:>6} {:>7} {:>16} {:>16} {:>22} {:>22}",
        "nodes", "groups", "simulated", "simulated", "years to a loss", "years to a loss"
    );
    println!(
        "{:>6} {:>7} {:>16} {:>16} {:>22} {:>22}",
        "", "", "÷ formula", "÷ formula, place", "of three disks", "to an unreadable place"
    );
    for (seed, &nodes) in args.nodes.iter().enumerate() {
        assert!(
            nodes >= args.group,
            "{nodes} nodes are no group of {}",
            args.group
        );
        let nodes = nodes / args.group * args.group;
        let groups = (nodes / args.group) as f64;
        let seen = simulate(fast, nodes, args.group, args.losses, seed as u64);
        let formula = fast.losses(args.group);
        let ratio = |kind: usize| seen.losses[kind] as f64 / seen.years / groups / formula[kind];
        let years = rates.losses(args.group).map(|losses| 1.0 / losses / groups);
        println!(
            "{nodes:>6} {groups:>7} {:>16.2} {:>16.2} {:>22.3e} {:>22.3e}",
            ratio(0),
            ratio(1),
            years[0],
            years[1],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        failures_percent: 1.5,
        replaced_after_hours: 24.0,
        disk_tb: 8.0,
        heal_mb_s: 100.0,
        unreadable: 0.1,
        scrub_days: 30.0,
    };

    /// With rare failures both are the same, but for chance: 1000 losses, so 3 % are one deviation.
    #[test]
    fn simulation_and_formula_agree_where_failures_are_rare() {
        for (nodes, group) in [(6, 6), (24, 8), (5, 5)] {
            let fast = RATES.faster(60.0);
            let seen = simulate(fast, nodes, group, 1000, 7);
            let groups = (nodes / group) as f64;
            for (losses, formula) in seen.losses.into_iter().zip(fast.losses(group)) {
                let ratio = losses as f64 / seen.years / groups / formula;
                assert!((0.85..1.15).contains(&ratio), "{nodes} by {group}: {ratio}");
            }
        }
    }

    #[test]
    fn a_disk_is_missing_until_it_is_replaced_and_full() {
        let hours = RATES.missing() * HOURS_A_YEAR;
        assert!((hours - 24.0 - 8e6 / 100.0 / 3600.0).abs() < 1e-9);
    }
}
