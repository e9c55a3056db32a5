//! `tabane-bench mac`: every hash and MAC of the engine's table on one core, beside Crypto++ and
//! xxHash in C.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use tabane_bench::data::noise;
use tabane_bench::measure::median;
use tabane_bench::memory::Memory;
use tabane_bench::peers::macs::{Library, Macs};
use tabane_bench::timing::Rate;
use tabane_engine::{Algorithm, Function, Key, KeyRule};
use tabane_lanes::Backend;
use tabane_testing::disk::available_memory_bytes;
use tabane_testing::progress;

mod plot;
mod report;

/// Time every hash and MAC on one core, one message after the other, beside Crypto++ and xxHash in
/// C.
///
/// Messages of equal length come from the level 2 cache (one again and again) and from memory
/// (through all data). Every round times every line once, in turn, the peers' process in between;
/// the figures are medians over the rounds, of CPU time. Gbit are 10^9 bits. Nonces of VMAC are
/// given, as Crypto++ wants them, and not drawn.
#[derive(clap::Args)]
pub struct Args {
    /// Data in memory, in MiB; the peers have as much [default: 8 GB, or a third of the free
    /// memory]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..1 << 24))]
    data: Option<u32>,
    /// Length of a message, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    block: u32,
    /// How many times to time everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long to time each line in each round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200,
        value_parser = clap::value_parser!(u32).range(1..))]
    time: u32,
    /// Only these: names as in the output
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    algorithms: Vec<Algorithm>,
    /// Leave Crypto++ and xxHash out
    #[arg(long)]
    no_peers: bool,
    /// Draw the rates from memory as an SVG file in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print one flat JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

/// The article's data.
const ARTICLE_DATA_BYTES: u64 = 8_000_000_000;

/// Messages between two looks at the clock.
const BATCH_MESSAGES: usize = 16;

/// Of how much data the speed of memory is measured.
const MEMORY_BYTES: usize = 1 << 30;

/// Where messages come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// One message again and again, from the caches.
    Warm,
    /// All data, one message after the other.
    Memory,
}

impl Shape {
    const ALL: [Shape; 2] = [Shape::Warm, Shape::Memory];
}

/// An algorithm and what was measured of it. Bytes a second, one a round.
struct Line {
    algorithm: Algorithm,
    shape: Shape,
    /// The library to compare with, if it is installed.
    peer: Option<Library>,
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Line {
    fn bytes_per_s(&self) -> f64 {
        median(self.ours.iter().copied()).unwrap_or_default()
    }

    fn peer_bytes_per_s(&self) -> Option<f64> {
        median(self.theirs.iter().copied())
    }

    /// Ours to theirs: the median of the rounds' ratios, since both were slowed by the same.
    fn ratio_to_peer(&self) -> Option<f64> {
        median(
            self.ours
                .iter()
                .zip(&self.theirs)
                .map(|(ours, theirs)| ours / theirs),
        )
    }
}

fn find(lines: &[Line], algorithm: Algorithm, shape: Shape) -> Option<&Line> {
    lines
        .iter()
        .find(|line| (line.algorithm, line.shape) == (algorithm, shape))
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    Backend::forced()?;
    let block = args.block as usize * 1024;
    let data_bytes = match args.data {
        Some(mib) => mib as usize * 1024 * 1024,
        None => available_memory_bytes()
            .map_or(ARTICLE_DATA_BYTES, |free| ARTICLE_DATA_BYTES.min(free / 3))
            as usize,
    };
    if data_bytes < block {
        bail!(
            "{} MiB are less than a message; give --data more",
            data_bytes >> 20
        );
    }
    let mut macs = if args.no_peers {
        None
    } else {
        Macs::start(block, data_bytes)?
    };
    let mut data = noise(data_bytes);
    let memory = Memory::measure(&mut data[..data_bytes.min(MEMORY_BYTES)]);
    report::heading(args, data_bytes, macs.as_ref(), &memory);

    let chosen =
        |algorithm: &Algorithm| args.algorithms.is_empty() || args.algorithms.contains(algorithm);
    let mut lines: Vec<Line> = Algorithm::all()
        .filter(chosen)
        .flat_map(|algorithm| Shape::ALL.map(|shape| (algorithm, shape)))
        .map(|(algorithm, shape)| Line {
            algorithm,
            shape,
            peer: Library::with(algorithm.name())
                .filter(|&library| macs.as_ref().is_some_and(|macs| macs.has(library))),
            ours: Vec::new(),
            theirs: Vec::new(),
        })
        .collect();
    let seconds = f64::from(args.time) / 1e3;
    let mut next = 0;
    for round in 0..args.rounds {
        for line in &mut lines {
            progress::show(&format!(
                "round {} of {}: {}",
                round + 1,
                args.rounds,
                line.algorithm
            ));
            let function = function(line.algorithm);
            let mut digest_next = || {
                let start = match line.shape {
                    Shape::Warm => 0,
                    Shape::Memory => next * block,
                };
                next = (next + 1) % (data_bytes / block);
                black_box(function.digest(black_box(&data[start..][..block])));
            };
            let rate = Rate::of(BATCH_MESSAGES * block, seconds, || {
                (0..BATCH_MESSAGES).for_each(|_| digest_next())
            });
            line.ours.push(rate.bytes_per_s);
            if let (Some(macs), Some(_)) = (&mut macs, line.peer) {
                let run = macs.run(line.algorithm.name(), line.shape == Shape::Memory, seconds)?;
                line.theirs.push(run.bytes_per_s());
            }
        }
    }
    progress::show("");
    report::print(args, &lines);
    if let Some(folder) = &args.plots {
        plot::draw(folder, &lines)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The algorithm under a key of zeros, and under one nonce.
fn function(algorithm: Algorithm) -> Function {
    let key = match algorithm.key_rule() {
        KeyRule::None => return Function::keyless(algorithm),
        KeyRule::Exactly(len) => Key::new(vec![0; len]),
        KeyRule::AnyLength => Key::new(vec![0; 32]),
    };
    let function = Function::new(algorithm, Some(&key)).expect("a key as it is asked for");
    // A function that checks takes the nonce that it is given.
    function.to_check(&function.digest(&[]))
}
