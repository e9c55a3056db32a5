//! What `tabane-bench mac` prints.

use serde_json::json;
use tabane_bench::memory::Memory;
use tabane_bench::peak::clock_hz;
use tabane_bench::peers::macs::{Library, Macs};
use tabane_engine::Algorithm;

use super::{Args, Line, Shape, find};

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Warm => "warm",
            Shape::Memory => "memory",
        }
    }
}

/// Prints the peers that there are, the data, and how fast memory is.
pub fn heading(args: &Args, data_bytes: usize, macs: Option<&Macs>, memory: &Memory) {
    let read = memory.read_bytes_per_s / 1e9;
    let versions = macs.map_or(&[][..], |macs| &macs.versions);
    if args.json {
        let version = |library: Library| {
            versions
                .iter()
                .find(|version| version.starts_with(library.name()))
        };
        let line = json!({
            "bench": "mac", "kind": "host", "crypto_pp": version(Library::CryptoPp),
            "xxhash": version(Library::XxHash), "data_bytes": data_bytes,
            "block_bytes": args.block * 1024, "rounds": args.rounds,
            "clock_ghz": clock_hz().map(|hz| hz / 1e9), "memory_read_gb_per_s": read,
        });
        println!("{line}");
        return;
    }
    println!(
        "messages of {} KiB, {:.2} GB of data in memory, which one core reads at {read:.1} GB/s",
        args.block,
        data_bytes as f64 / 1e9
    );
    for version in versions {
        println!("peer: {version}");
    }
    if args.no_peers {
        println!("peers: left out");
        return;
    }
    for library in [Library::CryptoPp, Library::XxHash] {
        if !macs.is_some_and(|macs| macs.has(library)) {
            println!(
                "peer: {} is NOT INSTALLED (Debian package {}), or there is no c++",
                library.name(),
                library.package()
            );
        }
    }
}

/// Prints the medians and the bars.
pub fn print(args: &Args, lines: &[Line]) {
    for shape in Shape::ALL {
        if !args.json {
            match shape {
                Shape::Warm => println!("\none message again and again, from the caches"),
                Shape::Memory => println!("\none message after the other, from memory"),
            }
            println!(
                "  {:<16} {:>8} {:>8} {:>11}   {:<9} {:>8} {:>14}",
                "", "GB/s", "Gbit/s", "÷ hmac-md5", "peer", "Gbit/s", "ours ÷ theirs"
            );
        }
        for line in lines.iter().filter(|line| line.shape == shape) {
            print_line(
                args,
                line,
                ratio(lines, shape, line.algorithm, Algorithm::HmacMd5),
            );
        }
    }
    print_bars(args, lines);
}

fn print_line(args: &Args, line: &Line, ratio_to_hmac_md5: Option<f64>) {
    let (gb_per_s, peer_gb_per_s) = (
        line.bytes_per_s() / 1e9,
        line.peer_bytes_per_s().map(|rate| rate / 1e9),
    );
    if args.json {
        let line = json!({
            "bench": "mac", "kind": "rate", "algorithm": line.algorithm.name(),
            "shape": line.shape.name(), "block_bytes": args.block * 1024, "rounds": args.rounds,
            "rate_gb_per_s": gb_per_s, "rate_gbit_per_s": 8.0 * gb_per_s,
            "ratio_to_hmac_md5": ratio_to_hmac_md5, "peer": line.peer.map(Library::name),
            "peer_gb_per_s": peer_gb_per_s, "ratio_to_peer": line.ratio_to_peer(),
        });
        println!("{line}");
        return;
    }
    let cell = |value: Option<f64>, decimals: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
    };
    println!(
        "  {:<16} {:>8.2} {:>8.1} {:>11}   {:<9} {:>8} {:>14}",
        line.algorithm.name(),
        gb_per_s,
        8.0 * gb_per_s,
        cell(ratio_to_hmac_md5, 2),
        line.peer.map_or("-", Library::name),
        cell(peer_gb_per_s.map(|rate| 8.0 * rate), 1),
        cell(line.ratio_to_peer(), 2),
    );
}

/// How many times as fast the one is as the other.
fn ratio(lines: &[Line], shape: Shape, fast: Algorithm, slow: Algorithm) -> Option<f64> {
    let rate = |algorithm| find(lines, algorithm, shape).map(Line::bytes_per_s);
    Some(rate(fast)? / rate(slow)?)
}

/// What the project asks of itself: of the MACs where nothing but they counts, of the article's
/// ratios where the article has them, from memory.
fn print_bars(args: &Args, lines: &[Line]) {
    use Algorithm::{HmacMd5, HmacSha256, Vmac64, Vmac128, Xxh128};
    use Shape::{Memory, Warm};
    let to_peer = |algorithm, shape| find(lines, algorithm, shape).and_then(Line::ratio_to_peer);
    let bars = [
        ("vmac-64 ÷ Crypto++, warm", to_peer(Vmac64, Warm), 1.2),
        ("vmac-128 ÷ Crypto++, warm", to_peer(Vmac128, Warm), 1.2),
        ("xxh128 ÷ xxHash, warm", to_peer(Xxh128, Warm), 0.95),
        ("xxh128 ÷ xxHash, memory", to_peer(Xxh128, Memory), 0.95),
        (
            "vmac-128 ÷ hmac-sha256, memory",
            ratio(lines, Memory, Vmac128, HmacSha256),
            6.0,
        ),
        (
            "xxh128 ÷ hmac-md5, memory",
            ratio(lines, Memory, Xxh128, HmacMd5),
            30.0,
        ),
    ];
    if !args.json {
        println!("\nbars");
    }
    for (what, value, bar) in bars {
        let Some(value) = value else {
            continue;
        };
        let ok = value >= bar;
        if args.json {
            println!(
                "{}",
                json!({"bench": "mac", "kind": "bar", "what": what, "value": value, "bar": bar,
                    "ok": ok})
            );
        } else {
            println!(
                "  {what:<34} {value:>6.2}  >= {bar:<5} {}",
                if ok { "ok" } else { "MISSED" }
            );
        }
    }
}
