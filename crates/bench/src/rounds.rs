//! Timings of programs that took turns, round by round.

use std::fs;

use anyhow::Result;

use crate::measure::{Sample, median};
use crate::tools::Scenario;

/// Part of the machine's CPU time taken by others from which a timing counts as disturbed.
const OTHERS_PART_WARN: f64 = 0.08;

/// Wall time in seconds.
pub fn wall_s(sample: &Sample) -> f64 {
    sample.wall.as_secs_f64()
}

/// CPU time in seconds.
pub fn cpu_s(sample: &Sample) -> f64 {
    sample.cpu.as_secs_f64()
}

/// The median over the rounds; NaN of none.
pub fn median_of(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(of)).unwrap_or(f64::NAN)
}

/// Theirs by ours, paired within each round: the median.
pub fn ratio(theirs: &[Sample], ours: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let pairs = theirs.iter().zip(ours);
    median(pairs.map(|(theirs, ours)| of(theirs) / of(ours))).unwrap_or(f64::NAN)
}

/// To a thousandth, for reading.
pub fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Runs everything `runs` times: each way is prepared, then each scenario is measured in every way,
/// each run beginning with another way. Says how long each took. The samples of a way follow those
/// of the way before it, with those of each scenario together.
///
/// # Errors
/// The first of `prepare` and `measure`.
pub fn take_turns<W: Copy>(
    runs: u32,
    ways: &[(W, &str)],
    scenarios: &[Scenario],
    prepare: impl Fn(W) -> Result<()>,
    measure: impl Fn(W, Scenario) -> Result<Sample>,
) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); ways.len() * scenarios.len()];
    let mut order: Vec<usize> = (0..ways.len()).collect();
    for run in 1..=runs {
        for &way in &order {
            prepare(ways[way].0)?;
        }
        for (number, &scenario) in scenarios.iter().enumerate() {
            for &at in &order {
                let (way, name) = ways[at];
                let sample = measure(way, scenario)?;
                let wall = wall_s(&sample);
                eprintln!("run {run}: {:<9} {name:<12} {wall:>7.2} s", scenario.name());
                samples[at * scenarios.len() + number].push(sample);
            }
        }
        order.rotate_left(1);
    }
    Ok(samples)
}

/// How many others want a processor, the mean of a minute; says so where it is too much to measure
/// beside.
pub fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    if load > 0.3 {
        eprintln!(
            "*** This machine is busy (load {load:.1}): do not quote absolute figures from it."
        );
    }
    Some(load)
}

/// Says so where others took part in the machine during timings.
pub fn warn_of_others<'a>(samples: impl Iterator<Item = &'a Sample> + Clone, processors: usize) {
    let others = |sample: &&Sample| {
        let part = sample.others_cpu.as_secs_f64() / (wall_s(sample) * processors as f64);
        // Ticks are coarse: short runs cannot be judged.
        wall_s(sample) > 0.3 && part > OTHERS_PART_WARN
    };
    let disturbed = samples.clone().filter(others).count();
    if disturbed > 0 {
        eprintln!(
            "*** Others took part in the machine during {disturbed} of {} timings: ratios of wall \
            time are not to be quoted.",
            samples.count()
        );
    }
}
