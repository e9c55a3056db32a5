//! `tabane-papers openssl`: many processes that use OpenSSL, as the paper measured that gave AES to
//! the cores of a Cell/B.E.
//!
//! The paper took 1 to 8 processes that encrypted 256 or 1024 bytes at a time with AES in CBC mode,
//! and the time from the start of all to the end of all. Here are five ways: the default provider,
//! the paper's design ([`paper`]), and ours: each process by itself, with the offload service, and
//! with jobs of OpenSSL.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tabane_bench::drawing::{self, Across};
use tabane_bench::rounds::round;
use tabane_lanes::Algorithm;
use tabane_offload::{Ask, Model, Server, ServerOptions, Task, status};
use tabane_testing::progress;

#[expect(unsafe_code, reason = "calls of OpenSSL")]
mod libcrypto;
mod paper;
pub mod worker;

/// Measure 1 to 8 processes that use OpenSSL: by the default provider, the design of the paper on
/// Cell/B.E., and the provider of Tabane by itself, with its service and with jobs.
///
/// The ways take turns in every round; a figure is the mean over the rounds. All processes begin at
/// once, and the time is that until the last has ended its share. The paper's design is given fewer
/// messages, and its time multiplied.
#[derive(clap::Args)]
pub struct Args {
    /// The provider: libtabane_provider.so
    #[arg(long, value_name = "FILE")]
    module: PathBuf,
    /// What to do
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "aes-128-cbc,md5,sha1"
    )]
    algorithms: Vec<String>,
    /// Bytes of a message
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "256,1024,4096,16384,65536"
    )]
    lengths: Vec<usize>,
    /// Processes
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "1,2,3,4,5,6,7,8"
    )]
    processes: Vec<usize>,
    /// How many times to time everything
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds that the default provider takes for each timing, about
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2)]
    seconds: f64,
    /// Draw a figure for each algorithm and length as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print one flat JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

/// Jobs at a time.
const JOBS: usize = 16;

/// A way to have messages done.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Default,
    Paper,
    Inline,
    Service,
    Jobs,
}

const WAYS: [(Way, &str); 5] = [
    (Way::Default, "default provider"),
    (Way::Paper, "paper's design"),
    (Way::Inline, "inline"),
    (Way::Service, "service"),
    (Way::Jobs, "16 jobs"),
];

/// Where everything is.
struct Bed {
    folder: tempfile::TempDir,
}

impl Bed {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn new(module: &Path) -> Result<Self> {
        let bed = Self {
            folder: tempfile::tempdir()?,
        };
        let module = module
            .canonicalize()
            .with_context(|| format!("{}", module.display()))?;
        let text = format!(
            "openssl_conf = init\n[init]\nproviders = providers\nalg_section = algorithms\n\
             [providers]\ntabane = tabane\ndefault = default_sect\n\
             [tabane]\nmodule = {}\nactivate = 1\nhashes = yes\n[default_sect]\nactivate = 1\n\
             [algorithms]\ndefault_properties = ?provider=tabane\n",
            module.display()
        );
        std::fs::write(bed.path("conf"), text)?;
        Ok(bed)
    }

    /// Seconds from the start of all to the end of all.
    fn time(
        &self,
        way: Way,
        algorithm: &str,
        len: usize,
        count: usize,
        processes: usize,
    ) -> Result<f64> {
        let ours = matches!(way, Way::Inline | Way::Service | Way::Jobs);
        let conf = if ours {
            self.path("conf")
        } else {
            "/dev/null".into()
        };
        let offload = match way {
            Way::Service => self.path("offload.sock"),
            _ => "no".into(),
        };
        let program = std::env::current_exe()?;
        let start = || -> Result<_> {
            let mut command = Command::new(&program);
            command.args([
                "openssl-worker",
                algorithm,
                &len.to_string(),
                &count.to_string(),
            ]);
            match way {
                Way::Paper => drop(command.arg("--paper").arg(self.path("paper.sock"))),
                Way::Jobs => drop(command.arg("--jobs")),
                _ => {}
            }
            command
                .env("OPENSSL_CONF", &conf)
                .env("TABANE_OFFLOAD", &offload);
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let (input, mut output) = (child.stdin.take(), child.stdout.take());
            let ready = output.as_mut().map(|output| output.read_exact(&mut [0]));
            ready.context("a pipe")?.context("a worker is not ready")?;
            Ok((child, input.context("a pipe")?))
        };
        let mut workers = (0..processes)
            .map(|_| start())
            .collect::<Result<Vec<_>>>()?;
        let begun = Instant::now();
        for (_, input) in &mut workers {
            input.write_all(b"g")?;
        }
        for (child, _) in &mut workers {
            ensure!(child.wait()?.success(), "a worker failed");
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bed = Bed::new(&args.module)?;
    paper::serve(&bed.path("paper.sock"))?;
    // Before the units of the service run.
    let model = Model::measure(0);
    let server = Server::start(ServerOptions {
        socket: bed.path("offload.sock"),
        mode: 0o600,
        clients_max: 1024,
        ask: Ask::Sooner,
    })?;
    for algorithm in &args.algorithms {
        for &len in &args.lengths {
            let count_of = |way| count(&bed, way, algorithm, len, args.seconds);
            let count = count_of(Way::Default)?;
            // So many would take it minutes.
            let count_of_paper = count_of(Way::Paper)?.min(count);
            if !args.json {
                println!(
                    "\n{algorithm}, {len} bytes, {count} messages a process, GB/s of all (times \
                    the default provider):\n"
                );
                let names = WAYS.map(|(_, name)| name).join(" | ");
                println!(
                    "| processes | {names} |\n|---|{}",
                    "---|".repeat(WAYS.len())
                );
            }
            let mut lines = Vec::new();
            for &processes in &args.processes {
                progress::show(&format!("{algorithm}, {len} bytes, {processes} processes"));
                let mut seconds = [0.0; WAYS.len()];
                for _ in 0..args.rounds {
                    for (sum, (way, _)) in seconds.iter_mut().zip(WAYS) {
                        let own = match way {
                            Way::Paper => count_of_paper,
                            _ => count,
                        };
                        // Scales the time to as many messages as the other ways get.
                        let seconds = bed.time(way, algorithm, len, own, processes)?;
                        *sum += seconds * count as f64 / own as f64 / f64::from(args.rounds);
                    }
                }
                let bytes = (processes * count * len) as f64;
                print(args.json, algorithm, len, processes, &seconds, bytes);
                lines.push((processes, seconds.map(|seconds| bytes / seconds / 1e9)));
            }
            if let Some((processes, rates)) = lines.last() {
                budget(args.json, &model, algorithm, len, *processes, rates);
            }
            if let Some(folder) = &args.plots {
                draw(
                    &folder.join(format!("openssl-{algorithm}-{len}.svg")),
                    &lines,
                )?;
            }
        }
    }
    let status = status(&bed.path("offload.sock"))?;
    if !args.json {
        println!("\nThe service: {:.1} messages a bundle.", status.fill());
    }
    server.stop();
    Ok(ExitCode::SUCCESS)
}

/// As many messages as one process has done in so many seconds.
fn count(bed: &Bed, way: Way, algorithm: &str, len: usize, seconds: f64) -> Result<usize> {
    let some = 1 + (4 << 20) / len;
    let took = bed.time(way, algorithm, len, some, 1)?;
    Ok((some as f64 * seconds / took).ceil() as usize)
}

fn print(json: bool, algorithm: &str, len: usize, processes: usize, seconds: &[f64], bytes: f64) {
    if json {
        for (own, (_, way)) in seconds.iter().zip(WAYS) {
            println!(
                "{}",
                json!({
                    "algorithm": algorithm, "bytes": len, "processes": processes, "way": way,
                    "seconds": own, "gb_per_s": round(bytes / own / 1e9),
                    "ratio_to_default": round(seconds[0] / own),
                })
            );
        }
        return;
    }
    let cell = |own: &f64| format!("{:.2} ({:.2})", bytes / own / 1e9, seconds[0] / own);
    let cells: Vec<String> = seconds.iter().map(cell).collect();
    println!("| {processes} | {} |", cells.join(" | "));
}

/// Prints for how long a message occupies a core, beside what that comes to in the end: with so
/// many processes.
fn budget(
    json: bool,
    model: &Model,
    algorithm: &str,
    len: usize,
    processes: usize,
    rates: &[f64; WAYS.len()],
) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let task = match algorithm.parse::<Algorithm>() {
        Ok(algorithm) => Task::Hash(algorithm),
        Err(_) => Task::Encrypt,
    };
    let messages = (processes / cores) as f64;
    let Some(parts) = model.budget(task, len, messages).filter(|_| messages > 1.0) else {
        return;
    };
    let us = |seconds: f64| round(seconds * 1e6);
    let measured = |way: Way| {
        let way = WAYS.iter().position(|(known, _)| *known == way);
        us((cores * len) as f64 / rates[way.expect("one of them")] / 1e9)
    };
    let (alone, with) = (measured(Way::Default), measured(Way::Service));
    if json {
        println!(
            "{}",
            json!({
                "algorithm": algorithm, "bytes": len, "processes": processes, "kind": "budget",
                "alone_us": us(parts.alone_s), "copies_us": us(parts.copies_s),
                "switches_us": us(parts.handover_s), "share_us": us(parts.share_s),
                "asked_us": us(parts.asked_s()), "measured_default_us": alone,
                "measured_service_us": with,
            })
        );
        return;
    }
    println!(
        "\nA message occupies a core for {} us alone (measured with {processes} processes: \
        {alone}); with the service for {} us: copies {}, \
         switches {}, its share of a bundle of {messages} {} (measured: {with}).",
        us(parts.alone_s),
        us(parts.asked_s()),
        us(parts.copies_s),
        us(parts.handover_s),
        us(parts.share_s),
    );
}

/// GB/s of all by the number of processes.
fn draw(file: &Path, rates: &[(usize, [f64; WAYS.len()])]) -> Result<()> {
    let lines = WAYS.iter().enumerate().map(|(way, (_, name))| {
        let points = rates
            .iter()
            .map(|(processes, rates)| (*processes as f64, rates[way]));
        (*name, points.collect())
    });
    let lines: Vec<_> = lines.collect();
    drawing::lines(
        file,
        Across::Numbers("processes"),
        "GB/s of all",
        0.2,
        &lines,
    )
}
