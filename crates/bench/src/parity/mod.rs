//! `tabane-bench parity`: encoding and repair on one core, beside what memory lets exclusive ors
//! do.

use std::mem;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;
use tabane_bench::arguments::Report;
use tabane_bench::data::noise;
use tabane_bench::measure::median;
use tabane_bench::timing::Rate;
use tabane_lanes::xor_of;
use tabane_parity::{Layout, Plan, Step, encode, encode_plan, repair_plan};
use tabane_testing::progress;

mod verify;

/// The part of the bound that encoding from memory must reach.
const BOUND_PART_BAR: f64 = 0.8;

/// All cells together of a stripe that stays in the level 2 cache.
const WARM_STRIPE_BYTES: usize = 512 << 10;

/// Time encoding and repair of stripes on one core, beside the bound that memory sets; or check the
/// code.
///
/// The bound is exclusive or at the speed of memory: the same cells are read and the same cells are
/// written, each once, from beginning to end, as sums of any of those read. A second one does that
/// twice with each part of the cells that is worked on at a time, as every cell is in two sums. All
/// alternate, and figures are medians of CPU time. GB are 10^9 bytes of cells read.
#[derive(clap::Args)]
pub struct Args {
    /// Numbers of targets
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [3, 5, 7, 9, 16, 32])]
    targets: Vec<usize>,
    /// Lengths of cells that come from memory, in KiB
    #[arg(long, value_name = "KIB,…", value_delimiter = ',', default_values_t = [16, 128, 1024])]
    cells: Vec<usize>,
    /// Size of the memory that the stripes are in, in MiB; what has no room in it is left out
    #[arg(long, value_name = "MIB", default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(8..65536))]
    arena: u32,
    /// How many times to time everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long to time each line in each round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..))]
    time: u32,
    /// Instead: rebuild every one and two lost targets, verify every schedule, and try every other
    /// way to rebuild one, for 3 up to so many targets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=32))]
    verify: Option<u32>,
    #[command(flatten)]
    report: Report,
}

/// What is done to a stripe.
struct Work {
    name: &'static str,
    /// Roles that are lost; none to encode.
    lost: &'static [usize],
    plan: Plan,
    /// Each cell that is written, as the sum of a share of those that are read.
    bound: Vec<Step>,
    /// The same two times.
    bound_twice: Plan,
}

impl Work {
    fn new(name: &'static str, layout: &Layout, lost: &'static [usize]) -> Result<Work> {
        let plan = match lost {
            [] => encode_plan(layout),
            _ => repair_plan(layout, lost)?,
        };
        let (reads, writes): (Vec<usize>, Vec<usize>) = (
            plan.reads().into_iter().collect(),
            plan.writes().into_iter().collect(),
        );
        let share = |number: usize| number * reads.len() / writes.len();
        let steps = writes.iter().enumerate().map(|(number, &into)| {
            // One at least, where more is written than read.
            let end = share(number + 1).max(share(number) + 1);
            let from = reads[share(number)..end].to_vec();
            Step { into, from }
        });
        let bound: Vec<Step> = steps.collect();
        let bound_twice = Plan {
            steps: [&bound[..], &bound].concat(),
        };
        Ok(Work {
            name,
            lost,
            plan,
            bound,
            bound_twice,
        })
    }

    fn run(&self, layout: &Layout, cells: &mut [&mut [u8]]) {
        let done = match self.lost {
            [] => encode(layout, cells),
            // Who repairs many stripes makes the plan once.
            _ => self.plan.run(cells),
        };
        done.expect("cells of one length");
    }

    /// Encoding, repair of one target and of two.
    fn all(layout: &Layout) -> Result<[Work; 3]> {
        Ok([
            Work::new("encode", layout, &[])?,
            Work::new("repair 1", layout, &[0])?,
            Work::new("repair 2", layout, &[0, 1])?,
        ])
    }
}

/// A line of the table.
struct Line {
    targets: usize,
    /// None for a stripe that stays in the cache.
    memory: bool,
    cell_bytes: usize,
    work: &'static str,
    gb_per_s: f64,
    bound_gb_per_s: f64,
    bound_twice_gb_per_s: f64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(targets) = args.verify {
        verify::run(targets as usize, args.report.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut arena = noise((args.arena as usize) << 20);
    let mut lines = Vec::new();
    for &targets in &args.targets {
        let layout = Layout::new(targets).context("--targets")?;
        let warm = WARM_STRIPE_BYTES / layout.cells() / 64 * 64;
        let from_memory = args.cells.iter().map(|kib| (kib << 10, true));
        for (cell_bytes, memory) in [(warm, false)].into_iter().chain(from_memory) {
            let stripe_bytes = cell_bytes * layout.cells();
            if stripe_bytes == 0 || stripe_bytes > arena.len() {
                continue;
            }
            let bytes = if memory { arena.len() } else { stripe_bytes };
            for work in Work::all(&layout)? {
                progress::show(&format!(
                    "{targets} targets, cells of {cell_bytes} B: {}",
                    work.name
                ));
                lines.push(time(
                    args,
                    &layout,
                    &work,
                    cell_bytes,
                    memory,
                    &mut arena[..bytes],
                )?);
            }
        }
    }
    progress::show("");
    let met = report(args, &lines);
    Ok(args.report.exit_code(met))
}

/// Times one kind of work and its bound, in turn.
fn time(
    args: &Args,
    layout: &Layout,
    work: &Work,
    cell_bytes: usize,
    memory: bool,
    data: &mut [u8],
) -> Result<Line> {
    let mut stripes: Vec<Vec<&mut [u8]>> = data
        .chunks_exact_mut(cell_bytes * layout.cells())
        .map(|stripe| stripe.chunks_exact_mut(cell_bytes).collect())
        .collect();
    let seconds = f64::from(args.time) / 1e3;
    let read_bytes = work.plan.reads().len() * cell_bytes;
    let mut rate = |work: &dyn Fn(&mut [&mut [u8]])| {
        let mut next = (0..stripes.len()).cycle();
        let run = || work(&mut stripes[next.next().expect("there are stripes")]);
        Rate::of(read_bytes, seconds, run).bytes_per_s / 1e9
    };
    let plan = |cells: &mut [&mut [u8]]| work.run(layout, cells);
    let twice = |cells: &mut [&mut [u8]]| work.bound_twice.run(cells).expect("cells of one length");
    let bound = |cells: &mut [&mut [u8]]| work.bound.iter().for_each(|step| add_up(cells, step));
    let rates: Vec<[f64; 3]> = (0..args.rounds)
        .map(|_| [rate(&plan), rate(&bound), rate(&twice)])
        .collect();
    let middle = |which: usize| median(rates.iter().map(|of| of[which])).context("no rounds");
    Ok(Line {
        targets: layout.roles(),
        memory,
        cell_bytes,
        work: work.name,
        gb_per_s: middle(0)?,
        bound_gb_per_s: middle(1)?,
        bound_twice_gb_per_s: middle(2)?,
    })
}

/// Takes a step on whole cells.
fn add_up(cells: &mut [&mut [u8]], step: &Step) {
    let into = mem::take(&mut cells[step.into]);
    let from: Vec<&[u8]> = step.from.iter().map(|&cell| &*cells[cell]).collect();
    xor_of(into, &from);
    cells[step.into] = into;
}

impl Line {
    fn of_bound(&self) -> f64 {
        self.gb_per_s / self.bound_gb_per_s
    }

    fn of_bound_twice(&self) -> f64 {
        self.gb_per_s / self.bound_twice_gb_per_s
    }

    fn place(&self) -> &'static str {
        if self.memory { "memory" } else { "cache" }
    }
}

/// Prints everything; returns whether the bar is met.
fn report(args: &Args, lines: &[Line]) -> bool {
    let encodes = lines
        .iter()
        .filter(|line| line.memory && line.work == "encode");
    let worst = encodes.map(Line::of_bound).min_by(f64::total_cmp);
    let met = worst.is_none_or(|worst| worst >= BOUND_PART_BAR);
    if args.report.json {
        for line in lines {
            let object = json!({
                "bench": "parity", "kind": "rate", "targets": line.targets, "place": line.place(),
                "cell_bytes": line.cell_bytes, "work": line.work, "rounds": args.rounds,
                "rate_gb_per_s": line.gb_per_s, "bound_gb_per_s": line.bound_gb_per_s,
                "fraction_of_bound": line.of_bound(),
                "bound_twice_gb_per_s": line.bound_twice_gb_per_s,
                "fraction_of_bound_twice": line.of_bound_twice(),
            });
            println!("{object}");
        }
        let object = json!({
            "bench": "parity", "kind": "bar", "what": "encode from memory, of the bound, worst",
            "value": worst, "bar": BOUND_PART_BAR, "ok": met,
        });
        println!("{object}");
        return met;
    }
    println!("GB/s of cells read (of the bound; of that with each cell twice), one core\n");
    println!("| targets | cells | encode | repair of 1 | repair of 2 |");
    println!("|---|---|---|---|---|");
    for row in lines.chunk_by(|one, next| {
        (one.targets, one.memory, one.cell_bytes) == (next.targets, next.memory, next.cell_bytes)
    }) {
        let first = &row[0];
        let cells = if first.memory {
            format!("{} KiB, from memory", first.cell_bytes >> 10)
        } else {
            format!("{} B, in the cache", first.cell_bytes)
        };
        let figures: Vec<String> = row
            .iter()
            .map(|line| {
                let (once, twice) = (100.0 * line.of_bound(), 100.0 * line.of_bound_twice());
                format!("{:.1} ({once:.0}%; {twice:.0}%)", line.gb_per_s)
            })
            .collect();
        println!("| {} | {cells} | {} |", first.targets, figures.join(" | "));
    }
    if let Some(worst) = worst {
        let word = if met { "ok" } else { "not reached" };
        println!(
            "\nencode from memory, of the bound, worst: {worst:.2}, bar >= {BOUND_PART_BAR}: {word}"
        );
    }
    met
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bounds_read_and_write_the_same_once() {
        for targets in [3, 5, 6, 9, 16] {
            let layout = Layout::new(targets).unwrap();
            for work in Work::all(&layout).unwrap() {
                let (reads, writes) = (work.plan.reads(), work.plan.writes());
                let of_bound: Vec<usize> = work
                    .bound
                    .iter()
                    .flat_map(|step| step.from.clone())
                    .collect();
                assert_eq!(of_bound.iter().copied().collect::<BTreeSet<_>>(), reads);
                assert_eq!(of_bound.len(), reads.len().max(writes.len()));
                assert!(work.bound.iter().map(|step| step.into).eq(writes));
            }
        }
    }
}
