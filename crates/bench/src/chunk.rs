//! `tabane-bench chunk`: what cutting finds, and how fast it is, beside the fastcdc crate.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use fastcdc::v2020::FastCDC;
use serde_json::json;
use tabane_bench::arguments::Report;
use tabane_bench::measure::median;
use tabane_bench::timing::thread_cpu_seconds;
use tabane_engine::Algorithm;
use tabane_store::Id;
use tabane_store::chunker::{Chunker, Chunking};
use tabane_testing::disk;
use tabane_testing::progress;

/// What cutting and hashing must reach, as a multiple of the fastcdc crate's cutting alone.
const BARS: [(Algorithm, f64); 2] = [(Algorithm::Sha1, 1.2), (Algorithm::Sha256, 0.8)];

/// What is cut and hashed in one go, as in a backup.
const BUNDLE_LEN: usize = 8 << 20;

/// Cut generations of data into blocks in different ways, and compare what is found twice, and the
/// speed.
///
/// First every file is cut in every way and the blocks are looked up among those before, of all
/// generations. Then part of the data is cut, and cut and hashed, from memory, on one core, all in
/// turn. Speeds are by CPU time, and medians over the rounds. GB are 10^9 bytes.
#[derive(clap::Args)]
pub struct Args {
    /// The generations of the data, in order: directories or files
    #[arg(value_name = "PATH", required = true)]
    generations: Vec<PathBuf>,
    /// Average length of content-defined blocks, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 128)]
    average: u32,
    /// Lengths of fixed blocks, in KiB
    #[arg(long, value_name = "KIB,…", value_delimiter = ',', default_values_t = [4, 64, 512])]
    fixed: Vec<u32>,
    /// How much of the data is cut from memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(8..65536))]
    arena: u32,
    /// How many times to time that
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    report: Report,
}

/// A way to cut.
enum Cutter {
    Ours(Chunker),
    FastCdc { min: usize, avg: usize, max: usize },
}

impl Cutter {
    /// The lengths of all blocks of a file.
    fn cut(&self, data: &[u8]) -> Vec<usize> {
        match self {
            Self::Ours(chunker) => chunker.blocks(data, true).collect(),
            Self::FastCdc { min, avg, max } => FastCDC::new(data, *min, *avg, *max)
                .map(|chunk| chunk.length)
                .collect(),
        }
    }
}

/// What one way to cut has found so far.
struct Subject {
    name: String,
    cutter: Cutter,
    cpu_s: f64,
    /// The first half of the digest of each block, and its length.
    known: HashSet<([u8; 16], usize)>,
    unique_bytes: u64,
}

impl Subject {
    fn new(name: String, cutter: Cutter) -> Self {
        Self {
            name,
            cutter,
            cpu_s: 0.0,
            known: HashSet::new(),
            unique_bytes: 0,
        }
    }

    fn add_file(&mut self, data: &[u8]) {
        let start = thread_cpu_seconds();
        let lens = self.cutter.cut(data);
        self.cpu_s += thread_cpu_seconds() - start;
        let blocks = split(data, &lens);
        for (block, digest) in blocks.iter().zip(Algorithm::Sha256.digest_many(&blocks)) {
            let half = *digest.as_ref().first_chunk().expect("it has 32 bytes");
            if self.known.insert((half, block.len())) {
                self.unique_bytes += block.len() as u64;
            }
        }
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let content = Chunking::content(args.average << 10);
    let Chunking::Content { min, avg, max } = content else {
        unreachable!("it is content-defined");
    };
    // Nothing here is secret.
    let chunker = |chunking| Chunker::new(chunking, &Id([1; 32]));
    let fastcdc = || Cutter::FastCdc {
        min: min as usize,
        avg: avg as usize,
        max: max as usize,
    };
    let mut subjects = vec![
        Subject::new(
            format!("content {} KiB", args.average),
            Cutter::Ours(chunker(content)?),
        ),
        Subject::new(format!("fastcdc {} KiB", args.average), fastcdc()),
    ];
    for kib in &args.fixed {
        let cutter = Cutter::Ours(chunker(Chunking::Fixed { len: kib << 10 })?);
        subjects.push(Subject::new(format!("fixed {kib} KiB"), cutter));
    }

    let arena_bytes = (args.arena as usize) << 20;
    let (mut arena, mut total_bytes) = (Vec::new(), 0);
    for generation in &args.generations {
        progress::show(&generation.display().to_string());
        disk::walk(generation, &mut |path, metadata| {
            if !metadata.is_file() {
                return Ok(());
            }
            let data = fs::read(path).with_context(|| path.display().to_string())?;
            total_bytes += data.len() as u64;
            arena.extend_from_slice(&data[..data.len().min(arena_bytes - arena.len())]);
            subjects
                .iter_mut()
                .for_each(|subject| subject.add_file(&data));
            Ok(())
        })?;
    }
    report_subjects(args, &subjects, total_bytes);

    let (ours, theirs) = (&chunker(content)?, fastcdc());
    let arena = arena.as_slice();
    let mut works: Vec<(String, Box<dyn Fn() + '_>)> = vec![
        (
            "fastcdc, cut".to_owned(),
            Box::new(|| {
                std::hint::black_box(theirs.cut(arena));
            }),
        ),
        (
            "ours, cut".to_owned(),
            Box::new(|| {
                std::hint::black_box(ours.blocks(arena, true).count());
            }),
        ),
    ];
    for (algorithm, _) in BARS {
        works.push((
            format!("ours, cut and {algorithm}"),
            Box::new(move || cut_and_hash(ours, arena, algorithm)),
        ));
    }
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        progress::show(&format!("round {} of {}", round + 1, args.rounds));
        let rates = works.iter().map(|(_, work)| {
            let start = thread_cpu_seconds();
            work();
            arena.len() as f64 / (thread_cpu_seconds() - start) / 1e9
        });
        rounds.push(rates.collect());
    }
    progress::show("");
    let names: Vec<&str> = works.iter().map(|(name, _)| name.as_str()).collect();
    let met = report_rates(args, &names, &rounds);
    Ok(args.report.exit_code(met))
}

/// As a backup reads a large file.
fn cut_and_hash(chunker: &Chunker, mut data: &[u8], algorithm: Algorithm) {
    while !data.is_empty() {
        let bundle = &data[..data.len().min(BUNDLE_LEN)];
        let lens: Vec<usize> = chunker.blocks(bundle, bundle.len() == data.len()).collect();
        std::hint::black_box(algorithm.digest_many(&split(bundle, &lens)));
        data = &data[lens.iter().sum()..];
    }
}

/// Splits `data` into consecutive blocks of these lengths.
fn split<'a>(mut data: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let blocks = lens
        .iter()
        .map(|&len| data.split_off(..len).expect("cut from it"));
    blocks.collect()
}

fn report_subjects(args: &Args, subjects: &[Subject], total_bytes: u64) {
    if !args.report.json {
        println!(
            "| blocks | data MB | unique MB | data ÷ unique | blocks | mean KiB | cutting, GB/s |"
        );
        println!("|---|---|---|---|---|---|---|");
    }
    for subject in subjects {
        let (total_mb, unique_mb) = (total_bytes as f64 / 1e6, subject.unique_bytes as f64 / 1e6);
        let ratio = total_mb / unique_mb;
        let blocks = subject.known.len();
        let mean_kib = subject.unique_bytes as f64 / blocks as f64 / 1024.0;
        let rate = total_mb / 1e3 / subject.cpu_s;
        if args.report.json {
            let line = json!({
                "bench": "chunk", "kind": "blocks", "chunking": subject.name, "data_mb": total_mb,
                "unique_mb": unique_mb, "dedup_ratio": ratio, "blocks": blocks,
                "mean_kib": mean_kib, "rate_gb_per_s": rate,
            });
            println!("{line}");
        } else {
            println!(
                "| {} | {total_mb:.1} | {unique_mb:.1} | {ratio:.3} | {blocks} | {mean_kib:.1} | \
                {rate:.1} |",
                subject.name
            );
        }
    }
}

/// Prints the rates, of which the first is the peer's and the last ones belong to [`BARS`]; returns
/// whether those are met.
fn report_rates(args: &Args, names: &[&str], rounds: &[Vec<f64>]) -> bool {
    if !args.report.json {
        println!("\n| from memory, one core | GB/s | ÷ fastcdc's | |\n|---|---|---|---|");
    }
    let first_bar = names.len() - BARS.len();
    let mut all_met = true;
    for (number, name) in names.iter().enumerate() {
        let middle = |of: &dyn Fn(&Vec<f64>) -> f64| median(rounds.iter().map(of)).unwrap_or(0.0);
        let rate = middle(&|round| round[number]);
        let ratio = middle(&|round| round[number] / round[0]);
        let bar = number.checked_sub(first_bar).map(|index| BARS[index].1);
        let met = bar.is_none_or(|bar| ratio >= bar);
        all_met &= met;
        if args.report.json {
            let line = json!({
                "bench": "chunk", "kind": "rate", "work": name, "rounds": args.rounds,
                "rate_gb_per_s": rate, "ratio_to_fastcdc": ratio, "bar": bar, "ok": met,
            });
            println!("{line}");
        } else {
            let word = if met { "ok" } else { "not reached" };
            let bar = bar.map_or(String::new(), |bar| format!("bar ≥ {bar}: {word}"));
            println!("| {name} | {rate:.2} | {ratio:.2} | {bar} |");
        }
    }
    all_met
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_is_counted_once() {
        let cutter = Chunker::new(Chunking::Fixed { len: 4096 }, &Id([1; 32])).unwrap();
        let mut subject = Subject::new("fixed".to_owned(), Cutter::Ours(cutter));
        let data = tabane_bench::data::noise(3 * 4096 + 5);
        subject.add_file(&data);
        subject.add_file(&data[4096..]);
        assert_eq!(subject.unique_bytes, data.len() as u64);
        assert_eq!(subject.known.len(), 4);
    }
}
