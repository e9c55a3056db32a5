//! `tabane-bench lanes`: the kernels for many messages on one core, beside their bound and their
//! peers.

use std::process::ExitCode;

use anyhow::Result;
use tabane_bench::cpus::{Cpus, on_each};
use tabane_bench::data::{mixed_lens, noise};
use tabane_bench::memory::Memory;
use tabane_bench::peak;
use tabane_bench::peers::ipsec_mb::IpsecMb;
use tabane_bench::peers::isal_crypto::IsalCrypto;
use tabane_bench::peers::openssl::{self, OpenSsl};
use tabane_bench::timing::Rate;
use tabane_lanes::Backend;
use tabane_testing::progress;

mod here;
mod report;
mod rustcrypto;
mod subject;

use subject::{Instructions, Subject};

/// Time hashes, HMACs and AES of many messages on one core, beside the bound that the processor's
/// ports set, and beside peers.
///
/// Every round times every line once, in turn, peers' processes in between; the figures are medians
/// over the rounds, of CPU time. GB are 10^9 bytes. Peers: OpenSSL's EVP (`openssl speed`),
/// libipsec-mb and ISA-L crypto (where their headers and a C compiler are installed), the
/// RustCrypto crates, and for comparison blake3.
#[derive(clap::Args)]
pub struct Args {
    /// How many times to time everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long to time each line in each round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..))]
    time: u32,
    /// Length of a message, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=8192))]
    block: u32,
    /// Size of the memory that the lines "from memory" and "mixed lengths" read, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(8..65536))]
    arena: u32,
    /// Only these: names as in the output
    #[arg(long = "algorithms", value_name = "NAME,…", value_delimiter = ',',
        default_values_t = Subject::USUAL)]
    subjects: Vec<Subject>,
    /// Run no peers outside of this process
    #[arg(long)]
    no_peers: bool,
    /// Print one flat JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

/// The most messages of mixed lengths.
const MIXED_MESSAGES_MAX: usize = 10_000;

/// Messages of each thread in [`Shape::Threads`], which fill the lanes.
const THREAD_MESSAGES: usize = 32;

/// Who works.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Program {
    /// Tabane with its own choice of instructions.
    Automatic,
    /// Tabane with one backend.
    Only(Instructions),
    /// The crates of the RustCrypto project.
    RustCrypto,
    /// `openssl speed`.
    OpenSsl,
    /// libipsec-mb.
    IpsecMb,
    /// ISA-L crypto.
    IsalCrypto,
    /// The `blake3` crate: another hash, for comparison.
    Blake3,
}

/// On what.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// That many messages of equal length, again and again, from the caches.
    Equal(usize),
    /// The whole arena in messages of equal length.
    FromMemory,
    /// Messages of lengths from 1 B to 1 MiB, their logarithms uniform, from the arena.
    Mixed,
    /// That many pinned threads, each with messages of its own; the sum of their rates.
    Threads(usize),
}

/// One line of the table.
struct Line {
    subject: Subject,
    program: Program,
    shape: Shape,
    /// One a round.
    rates: Vec<Rate>,
}

/// The programs outside of this process.
struct Peers {
    openssl: Option<OpenSsl>,
    ipsec_mb: Option<IpsecMb>,
    isal_crypto: Option<IsalCrypto>,
}

/// Lengths of messages.
struct Lens {
    block: usize,
    /// Of the arena.
    equal: Vec<usize>,
    mixed: Vec<usize>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    Backend::forced()?;
    let cpus = Cpus::allowed()?.cores;
    let mut peers = Peers {
        openssl: None,
        ipsec_mb: None,
        isal_crypto: None,
    };
    if !args.no_peers {
        peers.openssl = OpenSsl::find();
        peers.ipsec_mb = IpsecMb::find()?;
        peers.isal_crypto = IsalCrypto::find()?;
    }
    let model = peak::measure();
    report::heading(args, &peers, model.as_ref());

    let block = args.block as usize * 1024;
    let counts = args.subjects.iter().flat_map(|subject| subject.counts());
    let most = counts
        .copied()
        .chain([cpus.len() * THREAD_MESSAGES])
        .max()
        .unwrap_or(1);
    let mut arena = noise((args.arena as usize * 1024 * 1024).max(most * block));
    let memory = Memory::measure(&mut arena);
    report::memory(args, &memory);
    let lens = Lens {
        block,
        equal: vec![block; arena.len() / block],
        mixed: mixed_lens(MIXED_MESSAGES_MAX, arena.len()),
    };
    let mut lines: Vec<_> = args
        .subjects
        .iter()
        .flat_map(|&subject| lines(subject, &peers, cpus.len()))
        .collect();
    for round in 0..args.rounds {
        for line in &mut lines {
            progress::show(&format!(
                "round {} of {}: {}",
                round + 1,
                args.rounds,
                line.subject
            ));
            let seconds = f64::from(args.time) / 1e3;
            let rate = line.rate(&mut arena, &lens, &peers, &cpus, seconds)?;
            line.rates.push(rate);
        }
    }
    progress::show("");
    report::print(args, &lines, &lens, model.as_ref(), &memory);
    Ok(ExitCode::SUCCESS)
}

/// What to time of a subject.
fn lines(subject: Subject, peers: &Peers, cores: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add = |program, shape| {
        lines.push(Line {
            subject,
            program,
            shape,
            rates: Vec::new(),
        });
    };
    if peers.openssl.is_some() {
        add(Program::OpenSsl, Shape::Equal(1));
    }
    if peers.ipsec_mb.is_some() && subject.ipsec_mb_name().is_some() {
        add(Program::IpsecMb, Shape::Equal(IpsecMb::MESSAGES));
    }
    if let Subject::Hash(algorithm) = subject
        && peers.isal_crypto.is_some()
        && IsalCrypto::has(algorithm)
    {
        for count in IsalCrypto::MESSAGES {
            add(Program::IsalCrypto, Shape::Equal(count));
        }
    }
    if subject.in_lanes() {
        add(Program::RustCrypto, Shape::Equal(1));
    }
    if matches!(subject, Subject::Hash(_)) {
        add(Program::Blake3, Shape::Equal(1));
    }
    for &count in subject.counts() {
        add(Program::Automatic, Shape::Equal(count));
    }
    add(Program::Automatic, Shape::FromMemory);
    if subject.in_lanes() {
        add(Program::Automatic, Shape::Mixed);
        if cores > 1 {
            add(Program::Automatic, Shape::Threads(1));
            add(Program::Automatic, Shape::Threads(2));
        }
        if cores > 2 {
            add(Program::Automatic, Shape::Threads(cores));
        }
    }
    for backend in subject.backends() {
        for &count in subject.counts_of_backend() {
            add(Program::Only(backend), Shape::Equal(count));
        }
    }
    lines
}

impl Line {
    /// Times the line once, for at least `seconds` of CPU time.
    fn rate(
        &self,
        arena: &mut [u8],
        lens: &Lens,
        peers: &Peers,
        cpus: &[usize],
        seconds: f64,
    ) -> Result<Rate> {
        let (subject, program) = (self.subject, self.program);
        let of_process = |bytes_per_s| Rate {
            bytes_per_s,
            clock_hz: peak::clock_hz(),
        };
        if let (Program::OpenSsl, Some(openssl)) = (program, &peers.openssl) {
            let all = openssl::Instructions::All;
            let arguments = subject.openssl_arguments();
            return Ok(of_process(openssl.rate(&arguments, lens.block, all)?));
        }
        if let (Program::IpsecMb, Some(ipsec_mb)) = (program, &peers.ipsec_mb) {
            let name = subject.ipsec_mb_name().unwrap_or_default();
            return Ok(of_process(ipsec_mb.rate(&name, lens.block, seconds)?));
        }
        if let (Program::IsalCrypto, Some(isal_crypto)) = (program, &peers.isal_crypto)
            && let (Subject::Hash(algorithm), Shape::Equal(count)) = (subject, self.shape)
        {
            let rate = isal_crypto.rate(algorithm, lens.block, count, seconds)?;
            return Ok(of_process(rate));
        }
        match self.shape {
            Shape::Threads(threads) => {
                let equal = &lens.equal[..THREAD_MESSAGES];
                let rates = on_each(&cpus[..threads], |number| {
                    let bytes = THREAD_MESSAGES * lens.block;
                    let mut own = arena[number * bytes..][..bytes].to_vec();
                    Ok(here::rate(subject, program, &mut own, equal, seconds))
                })?;
                let clocks: Option<Vec<f64>> = rates.iter().map(|rate| rate.clock_hz).collect();
                Ok(Rate {
                    bytes_per_s: rates.iter().map(|rate| rate.bytes_per_s).sum(),
                    // All threads' cycles, so that bytes a cycle stay those of one core.
                    clock_hz: clocks.map(|clocks| clocks.iter().sum()),
                })
            }
            shape => {
                let lens = match shape {
                    Shape::Equal(count) => &lens.equal[..count],
                    Shape::Mixed => &lens.mixed,
                    _ => &lens.equal,
                };
                Ok(here::rate(subject, program, arena, lens, seconds))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_rate() {
        let mut data = noise(256 << 10);
        let lens = Lens {
            block: 1024,
            equal: vec![1024; 256],
            mixed: vec![0, 1, 15, 16, 17, 1000, 5000],
        };
        let peers = Peers {
            openssl: None,
            ipsec_mb: None,
            isal_crypto: None,
        };
        let cpus = Cpus::allowed().unwrap().cores;
        for subject in Subject::USUAL {
            for line in lines(subject, &peers, cpus.len()) {
                let rate = line.rate(&mut data, &lens, &peers, &cpus, 1e-4).unwrap();
                assert!(
                    rate.bytes_per_s > 1e5,
                    "{subject} {:?} {rate:?}",
                    line.shape
                );
            }
        }
    }
}
