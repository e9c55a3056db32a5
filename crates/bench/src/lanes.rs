//! `tabane-bench lanes`: hashing of many messages on one core, beside OpenSSL and the RustCrypto crates.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use sha2::Digest;
use tabane_lanes::{Algorithm, Backend, hash_many, hash_many_on};

use crate::measure::median;
use crate::tools::find_in_path;

/// Time SHA-1 and SHA-256 of many messages on one core, beside OpenSSL's EVP and RustCrypto.
///
/// Every round times every line once, in turn, and runs `openssl speed` in between; the figures are
/// medians over the rounds, of CPU time. GB are 10^9 bytes.
#[derive(clap::Args)]
pub struct Args {
    /// How many times to time everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long to time each line in each round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    time: u32,
    /// Length of a message, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..65536))]
    block: u32,
    /// Size of the memory that the lines "from memory" and "mixed lengths" read, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..65536))]
    arena: u32,
    /// Do not run `openssl speed`
    #[arg(long)]
    no_openssl: bool,
    /// Print one flat JSON object a line instead of tables
    #[arg(long)]
    json: bool,
}

/// Who hashes.
#[derive(Clone, Copy, PartialEq)]
enum Hasher {
    /// `hash_many` with its own choice.
    Automatic,
    /// `hash_many` with one backend.
    Only(Backend),
    /// The `sha1` and `sha2` crates.
    RustCrypto,
    /// `openssl speed`, a process of its own.
    OpenSsl,
}

/// What is hashed.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// That many messages of equal length, again and again.
    Equal(usize),
    /// The whole arena in messages of equal length.
    FromMemory,
    /// The whole arena in messages of lengths from 1 B to 1 MiB, their logarithms uniform.
    Mixed,
}

/// One line of the table.
struct Line {
    algorithm: Algorithm,
    hasher: Hasher,
    shape: Shape,
    /// One rate a round.
    rates: Vec<f64>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    Backend::forced()?;
    let block = args.block as usize * 1024;
    let arena = noise((args.arena as usize * 1024 * 1024).max(64 * block));
    let equal: Vec<&[u8]> = arena.chunks_exact(block).collect();
    let mixed = mixed(&arena);

    let openssl = (!args.no_openssl).then(openssl_version).flatten();
    if !args.json {
        match &openssl {
            Some(version) => println!("peer: {version}"),
            None if args.no_openssl => println!("peer: OpenSSL left out"),
            None => println!("peer: openssl is NOT INSTALLED, so there is nothing to compare with"),
        }
        for backend in Backend::ALL
            .iter()
            .filter(|backend| !backend.is_available())
        {
            println!("backend {backend}: NOT RUN, this processor lacks it");
        }
    } else if openssl.is_none() && !args.no_openssl {
        eprintln!("tabane-bench: openssl is not installed, so there is nothing to compare with");
    }

    let mut lines = lines(openssl.is_some());
    for round in 0..args.rounds {
        for line in &mut lines {
            let messages = match line.shape {
                Shape::Equal(count) => &equal[..count],
                Shape::FromMemory => &equal,
                Shape::Mixed => &mixed,
            };
            let seconds = f64::from(args.time) / 1e3;
            let rate = match line.hasher {
                Hasher::OpenSsl => openssl_rate(line.algorithm, block)?,
                hasher => rate(hasher, line.algorithm, messages, seconds),
            };
            line.rates.push(rate);
        }
        if !args.json {
            eprint!("\rround {} of {}", round + 1, args.rounds);
        }
    }
    if !args.json {
        eprintln!();
    }
    print(&lines, args, block, &mixed);
    Ok(ExitCode::SUCCESS)
}

/// What to time.
fn lines(openssl: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for &algorithm in Algorithm::ALL {
        let mut add = |hasher, shape| {
            lines.push(Line {
                algorithm,
                hasher,
                shape,
                rates: Vec::new(),
            });
        };
        if openssl {
            add(Hasher::OpenSsl, Shape::Equal(1));
        }
        add(Hasher::RustCrypto, Shape::Equal(1));
        for count in [1, 2, 4, 8, 16, 32, 64] {
            add(Hasher::Automatic, Shape::Equal(count));
        }
        add(Hasher::Automatic, Shape::FromMemory);
        add(Hasher::Automatic, Shape::Mixed);
        for backend in Backend::available().filter(|backend| backend.supports(algorithm)) {
            for count in [16, 32, 64] {
                add(Hasher::Only(backend), Shape::Equal(count));
            }
        }
    }
    lines
}

/// Bytes a second of CPU time, over at least `seconds`.
fn rate(hasher: Hasher, algorithm: Algorithm, messages: &[&[u8]], seconds: f64) -> f64 {
    let hash = || match hasher {
        Hasher::Automatic => drop(std::hint::black_box(hash_many(algorithm, messages))),
        Hasher::Only(backend) => drop(std::hint::black_box(hash_many_on(
            backend, algorithm, messages,
        ))),
        Hasher::RustCrypto | Hasher::OpenSsl => {
            for message in messages {
                match algorithm {
                    Algorithm::Sha1 => {
                        std::hint::black_box(sha1::Sha1::digest(message));
                    }
                    _ => {
                        std::hint::black_box(sha2::Sha256::digest(message));
                    }
                }
            }
        }
    };
    hash();
    let bytes: usize = messages.iter().map(|message| message.len()).sum();
    let start = cpu_seconds();
    let mut hashed = 0;
    loop {
        hash();
        hashed += bytes;
        let elapsed = cpu_seconds() - start;
        if elapsed >= seconds {
            return hashed as f64 / elapsed;
        }
    }
}

/// CPU time of this thread so far.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What `openssl version` says, if it is installed.
fn openssl_version() -> Option<String> {
    find_in_path("openssl")?;
    let output = Command::new("openssl").arg("version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Bytes a second of CPU time, as `openssl speed` counts it for one second.
fn openssl_rate(algorithm: Algorithm, block: usize) -> Result<f64> {
    let output = Command::new("openssl")
        .args(["speed", "-mr", "-seconds", "1", "-evp", algorithm.name()])
        .args(["-bytes", &block.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("cannot run openssl speed")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // +F:25:sha1:1922231686.60
    let rate = text
        .lines()
        .filter(|line| line.starts_with("+F:"))
        .find_map(|line| line.rsplit(':').next()?.parse().ok());
    match rate {
        Some(rate) => Ok(rate),
        None => bail!("openssl speed printed no rate: {}", text.trim()),
    }
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random(&mut state).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The next of a fixed sequence of random numbers (splitmix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Cuts the arena into messages of lengths from 1 B to 1 MiB, their logarithms uniform.
fn mixed(arena: &[u8]) -> Vec<&[u8]> {
    let mut state = 2;
    let mut messages = Vec::new();
    let mut rest = arena;
    while !rest.is_empty() {
        let uniform = random(&mut state) as f64 / u64::MAX as f64;
        let len = (20.0 * uniform).exp2() as usize;
        let (message, after) = rest.split_at(len.clamp(1, rest.len()));
        messages.push(message);
        rest = after;
    }
    messages
}

/// Prints the medians.
fn print(lines: &[Line], args: &Args, block: usize, mixed: &[&[u8]]) {
    let rate = |line: &Line| median(line.rates.iter().copied()).unwrap_or_default() / 1e9;
    for &algorithm in Algorithm::ALL {
        let of = |hasher, shape| {
            lines
                .iter()
                .find(|line| {
                    (line.algorithm, line.hasher, line.shape) == (algorithm, hasher, shape)
                })
                .map(rate)
        };
        let openssl = of(Hasher::OpenSsl, Shape::Equal(1));
        let from_memory = of(Hasher::Automatic, Shape::FromMemory);
        if !args.json {
            println!(
                "\n{:<60} {:>8} {:>10}",
                format!("{algorithm}, messages of {} KiB, one core", args.block),
                "GB/s",
                "x OpenSSL"
            );
        }
        for line in lines.iter().filter(|line| line.algorithm == algorithm) {
            let rate = rate(line);
            let times_openssl = openssl.map(|openssl| rate / openssl);
            let (program, backend) = match line.hasher {
                Hasher::OpenSsl => ("openssl", "own choice"),
                Hasher::RustCrypto => ("rustcrypto", "own choice"),
                Hasher::Automatic => ("tabane", "automatic"),
                Hasher::Only(backend) => ("tabane", backend.name()),
            };
            let (shape, messages, bytes) = match line.shape {
                Shape::Equal(count) => ("equal", count, block * count),
                Shape::FromMemory => {
                    let count = args.arena as usize * 1024 * 1024 / block;
                    ("from memory", count, count * block)
                }
                Shape::Mixed => {
                    let bytes = mixed.iter().map(|message| message.len()).sum();
                    ("mixed lengths", mixed.len(), bytes)
                }
            };
            if args.json {
                let mut object = json!({
                    "bench": "lanes",
                    "algorithm": algorithm.name(),
                    "program": program,
                    "backend": backend,
                    "shape": shape,
                    "messages": messages,
                    "total_bytes": bytes,
                    "rounds": line.rates.len(),
                    "rate_gb_per_s": rate,
                });
                if let Some(times) = times_openssl {
                    object["ratio_to_openssl"] = json!(times);
                }
                println!("{object}");
                continue;
            }
            let what = match line.shape {
                Shape::Equal(1) => "1 message".to_owned(),
                Shape::Equal(count) => format!("{count} messages"),
                Shape::FromMemory => format!("{} MiB from memory", bytes >> 20),
                Shape::Mixed => format!(
                    "{messages} of 1 B to 1 MiB, {:.0} % of equal ones",
                    rate / from_memory.unwrap_or(f64::NAN) * 100.0
                ),
            };
            let times = times_openssl.map_or("-".to_owned(), |times| format!("{times:.2}"));
            println!("  {program:<10} {backend:<10} {what:<36} {rate:>8.2} {times:>10}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_the_whole_arena() {
        let arena = noise(5 << 20);
        let messages = mixed(&arena);
        assert_eq!(messages.concat(), arena);
        assert!(messages.iter().any(|message| message.len() < 100));
        assert!(messages.iter().any(|message| message.len() > 100_000));
    }

    #[test]
    fn times_every_hasher() {
        let data = noise(4096);
        let messages: Vec<&[u8]> = data.chunks(1024).collect();
        for line in lines(false) {
            let rate = rate(line.hasher, line.algorithm, &messages, 1e-4);
            assert!(rate > 1e6, "{rate}");
        }
    }
}
