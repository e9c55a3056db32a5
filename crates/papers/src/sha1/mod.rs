//! `tabane-papers sha1`: the evaluation of the paper that Tabane comes from, anew on this machine.
//!
//! The paper hashed blocks of a deduplicating store with SHA-1: a block in each lane of SSE, a
//! thread on each core, and compared with OpenSSL's single-block SIMD code and its scalar code.
//! Here are its table 3 (throughput and share of the peak), figure 5 (against threads), figure 6
//! (against the length of blocks), figure 7 (device by device), and what hyper-threading does.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use tabane_lanes::{Algorithm, Backend, hash_many, hash_one_on};

#[expect(
    unsafe_code,
    reason = "calls of code with features of the processor, and registers as words"
)]
mod devices;
mod plots;
mod report;

use devices::Device;
use tabane_bench::cpus::{Cpus, on_each};
use tabane_bench::data::noise;
use tabane_bench::measure::median;
use tabane_bench::peak::{self, clock_hz, work};
use tabane_bench::peers::openssl::{Instructions, OpenSsl};
use tabane_bench::timing::thread_cpu_seconds;
use tabane_testing::disk::available_memory_bytes;
use tabane_testing::progress;

/// Measure SHA-1 as the paper did: table 3, figures 5, 6 and 7, and hyper-threading.
///
/// Every round times every case once, in turn; the figures are medians over the rounds. A rate is
/// the sum over the threads of bytes a second of CPU time, so that other load counts little. The
/// threads are pinned and hash the whole data, which is in memory; `openssl speed`, where it is
/// installed, hashes one block again and again, which favours it.
#[derive(clap::Args)]
pub struct Args {
    /// Data in memory, in MiB [default: 6 GB as in the paper, or half of the free memory]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..1 << 24))]
    data: Option<u32>,
    /// Length of a block in table 3, figures 5 and 7, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    block: u32,
    /// How many times to time everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Leave `openssl speed` out
    #[arg(long)]
    no_openssl: bool,
    /// Draw figures 5, 6 and 7 as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print one flat JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

/// The paper's data.
const PAPER_DATA_BYTES: u64 = 6_000_000_000;

/// Lengths of blocks in figure 6, in KiB.
const BLOCKS_KIB: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Blocks that are handed to a kernel at once.
const BATCH_BLOCKS: usize = 1024;

/// A way to hash.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    /// The paper's, as Tabane has it: as many blocks as there are lanes at once.
    Lanes,
    /// One block after the other, by OpenSSL.
    OpenSsl(Instructions),
    /// One block after the other, by Tabane, where there is no OpenSSL to compare with.
    Single(Backend),
    /// One of the paper's steps.
    Device(Device),
}

/// One thing to time.
struct Case {
    method: Method,
    /// The threads' processors.
    cpus: Vec<usize>,
    block: usize,
    /// One a round.
    samples: Vec<Sample>,
}

/// One timing. GB are 10^9 bytes.
#[derive(Clone, Copy)]
struct Sample {
    /// Sum of the threads' rates by CPU time.
    cpu_gb_per_s: f64,
    /// Rate by the time from the start of the first thread to the end of the last; `None` for
    /// OpenSSL, which does not report it.
    wall_gb_per_s: Option<f64>,
    /// Of the threads' cores, on average.
    clock_hz: Option<f64>,
}

/// What is known of the machine and the data.
struct Setting {
    cpus: Cpus,
    openssl: Option<OpenSsl>,
    data_bytes: usize,
    /// Bytes a cycle of one core at best, by the port model.
    peak_bytes_per_cycle: Option<f64>,
    /// Operations a cycle of one core at best, lanes times instructions.
    lane_operations_per_cycle: Option<f64>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    Backend::forced()?;
    let block = args.block as usize * 1024;
    let cpus = Cpus::allowed()?;
    let openssl = if args.no_openssl {
        None
    } else {
        OpenSsl::find()
    };
    let data_bytes = match args.data {
        Some(mib) => mib as usize * 1024 * 1024,
        None => available_memory_bytes()
            .map_or(PAPER_DATA_BYTES, |free| PAPER_DATA_BYTES.min(free / 2))
            as usize,
    };
    let least = cpus.all().len() * block.max(BLOCKS_KIB[BLOCKS_KIB.len() - 1] * 1024);
    if data_bytes < least {
        bail!(
            "{} MiB are less than a block a thread; give --data {} or more",
            data_bytes >> 20,
            (least >> 20) + 1
        );
    }
    let model = peak::measure();
    let best = model.as_ref().and_then(|model| {
        let works = Backend::available().flat_map(|backend| work::hash(Algorithm::Sha1, backend));
        works
            .filter_map(|work| Some((work, work.peak(model)?, model.ports(work.width)?)))
            .max_by(|(_, a, _), (_, b, _)| a.bytes_per_cycle.total_cmp(&b.bytes_per_cycle))
    });
    let setting = Setting {
        data_bytes,
        peak_bytes_per_cycle: best.as_ref().map(|(_, peak, _)| peak.bytes_per_cycle),
        // Lanes are words of 32 bits.
        lane_operations_per_cycle: best
            .as_ref()
            .map(|(work, _, ports)| f64::from(work.width.bits() / 32) * ports.total()),
        cpus,
        openssl,
    };
    report::heading(args, &setting);

    let data = noise(data_bytes);
    let mut cases = cases(&setting, block);
    for round in 0..args.rounds {
        let count = cases.len();
        for (number, case) in cases.iter_mut().enumerate() {
            progress::show(&format!(
                "round {} of {}, {} of {count}",
                round + 1,
                args.rounds,
                number + 1
            ));
            case.samples
                .push(sample(case, &data, setting.openssl.as_ref())?);
        }
    }
    progress::show("");
    report::print(args, &setting, &cases);
    if let Some(folder) = &args.plots {
        plots::draw(folder, args, &setting, &cases)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Setting {
    /// The methods of table 3, figure 5 and figure 6.
    fn methods(&self) -> Vec<Method> {
        let mut methods = vec![Method::Lanes];
        if self.openssl.is_some() {
            if Backend::ShaNi.is_available() || Backend::ArmCe.is_available() {
                methods.push(Method::OpenSsl(Instructions::All));
            }
            methods.push(Method::OpenSsl(Instructions::NoSha));
            methods.push(Method::OpenSsl(Instructions::Scalar));
        } else {
            let single = [Backend::ShaNi, Backend::ArmCe, Backend::Portable];
            let available = single.into_iter().filter(|backend| backend.is_available());
            methods.extend(available.map(Method::Single));
        }
        methods
    }

    /// Numbers of threads: each up to eight, then powers of two; always the number of cores and of
    /// all processors.
    fn threads(&self) -> Vec<usize> {
        let (cores, all) = (self.cpus.cores.len(), self.cpus.all().len());
        (1..=all)
            .filter(|&count| {
                count <= 8 || count.is_power_of_two() || count == cores || count == all
            })
            .collect()
    }

    /// Processors for that many threads.
    fn processors(&self, threads: usize) -> Vec<usize> {
        self.cpus.all()[..threads].to_vec()
    }

    /// GB a second that as many threads could do at best at that clock. Hardware threads of a core
    /// share its ports.
    fn peak_gb_per_s(&self, threads: usize, clock_hz: f64) -> Option<f64> {
        let cores = threads.min(self.cpus.cores.len());
        Some(self.peak_bytes_per_cycle? * clock_hz * cores as f64 / 1e9)
    }
}

impl Case {
    /// The middle one of the samples' values.
    fn median(&self, value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(self.samples.iter().filter_map(value))
    }

    /// The figure.
    fn gb_per_s(&self) -> f64 {
        self.median(|sample| Some(sample.cpu_gb_per_s))
            .unwrap_or_default()
    }

    /// What share of the peak that is, at the clock of each sample.
    fn of_peak(&self, setting: &Setting) -> Option<f64> {
        self.median(|sample| {
            Some(sample.cpu_gb_per_s / setting.peak_gb_per_s(self.cpus.len(), sample.clock_hz?)?)
        })
    }
}

/// Everything to time, each once however many figures show it.
fn cases(setting: &Setting, block: usize) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut add = |method, threads, block| {
        let known =
            |case: &Case| (case.method, case.cpus.len(), case.block) == (method, threads, block);
        if !cases.iter().any(known) {
            cases.push(Case {
                method,
                cpus: setting.processors(threads),
                block,
                samples: Vec::new(),
            });
        }
    };
    let all = setting.cpus.all().len();
    for method in setting.methods() {
        for threads in setting.threads() {
            add(method, threads, block);
        }
        for kib in BLOCKS_KIB {
            add(method, all, kib * 1024);
        }
    }
    for device in Device::available() {
        for threads in setting.threads() {
            add(Method::Device(device), threads, block);
        }
    }
    cases
}

/// The case of that method, number of threads and length of blocks.
fn find(cases: &[Case], method: Method, threads: usize, block: usize) -> Option<&Case> {
    let mut cases = cases.iter();
    cases.find(|case| (case.method, case.cpus.len(), case.block) == (method, threads, block))
}

/// Times a case once.
fn sample(case: &Case, data: &[u8], openssl: Option<&OpenSsl>) -> Result<Sample> {
    let share = data.len() / case.cpus.len() / case.block * case.block;
    let timings = on_each(&case.cpus, |number| {
        let clock_before = clock_hz();
        let (start, cpu_before) = (Instant::now(), thread_cpu_seconds());
        let cpu_gb_per_s = match (case.method, openssl) {
            (Method::OpenSsl(instructions), Some(openssl)) => {
                openssl.rate(&["-evp", "sha1"], case.block, instructions)? / 1e9
            }
            _ => {
                hash(case.method, &data[number * share..][..share], case.block);
                share as f64 / (thread_cpu_seconds() - cpu_before) / 1e9
            }
        };
        let end = Instant::now();
        let clock = clock_before
            .zip(clock_hz())
            .map(|(before, after)| (before + after) / 2.0);
        Ok((cpu_gb_per_s, start, end, clock))
    })?;
    let first = timings.iter().map(|&(_, start, ..)| start).min();
    let last = timings.iter().map(|&(_, _, end, _)| end).max();
    let wall = first
        .zip(last)
        .map(|(first, last)| (last - first).as_secs_f64());
    let clocks: Option<Vec<f64>> = timings.iter().map(|&(.., clock)| clock).collect();
    Ok(Sample {
        cpu_gb_per_s: timings.iter().map(|&(rate, ..)| rate).sum(),
        wall_gb_per_s: wall
            .filter(|_| !matches!(case.method, Method::OpenSsl(_)))
            .map(|wall| (share * case.cpus.len()) as f64 / wall / 1e9),
        clock_hz: clocks.map(|clocks| clocks.iter().sum::<f64>() / clocks.len() as f64),
    })
}

/// Hashes all blocks of the data.
fn hash(method: Method, data: &[u8], block: usize) {
    let mut batch = Vec::with_capacity(BATCH_BLOCKS);
    for bytes in data.chunks(BATCH_BLOCKS * block) {
        batch.clear();
        batch.extend(bytes.chunks_exact(block));
        match method {
            Method::Single(backend) => {
                for block in &batch {
                    let _ = black_box(hash_one_on(backend, Algorithm::Sha1, block));
                }
            }
            Method::Device(device) => {
                let mut digests = Vec::with_capacity(batch.len());
                device.hash(&batch, &mut digests);
                black_box(digests);
            }
            Method::Lanes | Method::OpenSsl(_) => {
                black_box(hash_many(Algorithm::Sha1, &batch));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(cores: usize, siblings: usize) -> Setting {
        Setting {
            cpus: Cpus {
                cores: (0..cores).collect(),
                siblings: (cores..cores + siblings).collect(),
            },
            openssl: None,
            data_bytes: 0,
            peak_bytes_per_cycle: Some(4.0),
            lane_operations_per_cycle: None,
        }
    }

    #[test]
    fn numbers_of_threads() {
        assert_eq!(setting(2, 0).threads(), [1, 2]);
        assert_eq!(
            setting(12, 12).threads(),
            [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24]
        );
    }

    #[test]
    fn hardware_threads_share_a_peak() {
        assert_eq!(setting(2, 2).peak_gb_per_s(1, 3e9), Some(12.0));
        assert_eq!(setting(2, 2).peak_gb_per_s(4, 3e9), Some(24.0));
    }

    #[test]
    fn every_case_has_a_rate() {
        let mut setting = setting(1, 0);
        setting.cpus.cores = Cpus::allowed().unwrap().cores[..1].to_vec();
        let data = noise(1 << 20);
        for case in cases(&setting, 4096) {
            let sample = sample(&case, &data, None).unwrap();
            assert!(sample.cpu_gb_per_s > 1e-3, "{:?}", case.method);
        }
    }
}
