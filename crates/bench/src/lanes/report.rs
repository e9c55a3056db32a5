//! What `tabane-bench lanes` prints.

use serde_json::{Value, json};
use tabane_bench::measure::median;
use tabane_bench::memory::Memory;
use tabane_bench::peak::work::{AesMode, Peak};
use tabane_bench::peak::{Class, Model, Width, clock_hz};
use tabane_bench::peers::ipsec_mb::IpsecMb;
use tabane_bench::peers::isal_crypto::IsalCrypto;
use tabane_lanes::{Algorithm, Backend};

use super::subject::{Instructions, Subject};
use super::{Args, Lens, Line, Peers, Program, Shape, THREAD_MESSAGES};

/// Prints the peers that there are, and what was measured of the ports.
pub fn heading(args: &Args, peers: &Peers, model: Option<&Model>) {
    let openssl = peers.openssl.as_ref().map(|peer| peer.version.as_str());
    let ipsec_mb = peers.ipsec_mb.as_ref().map(|peer| peer.version.as_str());
    let isal_crypto = peers.isal_crypto.as_ref();
    let isal_crypto = isal_crypto.map(|peer| peer.version.as_str());
    if args.json {
        let line = json!({
            "bench": "lanes", "kind": "host", "openssl": openssl, "ipsec_mb": ipsec_mb,
            "isal_crypto": isal_crypto, "clock_ghz": clock_hz().map(|hz| hz / 1e9),
        });
        println!("{line}");
    } else if args.no_peers {
        println!("peers outside of this process: left out");
    } else {
        println!("peer: {}", openssl.unwrap_or("openssl is NOT INSTALLED"));
        match ipsec_mb {
            Some(version) => println!("peer: libipsec-mb {version}"),
            None => println!(
                "peer: libipsec-mb is NOT INSTALLED (Debian package libipsec-mb-dev), or there is \
                no cc"
            ),
        }
        match isal_crypto {
            Some(version) => println!("peer: ISA-L crypto {version}"),
            None => println!(
                "peer: ISA-L crypto is NOT INSTALLED (github.com/intel/isa-l_crypto), or there is \
                no cc"
            ),
        }
    }
    let lacking = Backend::ALL
        .iter()
        .filter(|backend| backend.is_of_this_architecture() && !backend.is_available());
    for backend in lacking.filter(|_| !args.json) {
        println!("backend {backend}: NOT RUN, this processor lacks it");
    }
    match model {
        Some(model) if args.json => print_ports_json(model),
        Some(model) => print_ports(model),
        None if args.json => {}
        None => println!("\nbound: NOT KNOWN, ports are only measured on x86-64"),
    }
}

/// Prints how fast memory is.
pub fn memory(args: &Args, memory: &Memory) {
    let (read, change) = (
        memory.read_bytes_per_s / 1e9,
        memory.change_bytes_per_s / 1e9,
    );
    if args.json {
        println!(
            "{}",
            json!({"bench": "lanes", "kind": "memory", "read_gb_per_s": read,
                "change_gb_per_s": change})
        );
    } else {
        println!(
            "\nmemory, one core, {} MiB in order: {read:.1} GB/s read, {change:.1} GB/s changed \
            in place",
            args.arena
        );
    }
}

fn print_ports_json(model: &Model) {
    for width in Width::ALL {
        let Some(ports) = model.ports(width) else {
            continue;
        };
        let width_bits = width.bits();
        for class in Class::ALL {
            let line = json!({
                "bench": "lanes", "kind": "ports", "width_bits": width_bits, "class": class.name(),
                "operations_per_cycle": ports.alone[class as usize],
                "latency_cycles": ports.latency[class as usize],
            });
            println!("{line}");
        }
        for &(a, b, rate) in &ports.pairs {
            let line = json!({
                "bench": "lanes", "kind": "ports_of_pair", "width_bits": width_bits,
                "class": a.name(), "other_class": b.name(), "operations_per_cycle": rate,
                "shared_ports": ports.shared(a, b),
            });
            println!("{line}");
        }
    }
}

fn print_ports(model: &Model) {
    let clock = clock_hz().map_or(String::new(), |hz| format!(", at {:.2} GHz", hz / 1e9));
    println!("\nmeasured on this processor{clock}: operations a cycle (cycles of latency)");
    let widths: Vec<_> = Width::ALL
        .into_iter()
        .filter_map(|width| Some((width, model.ports(width)?)))
        .collect();
    print!("  {:<16}", "");
    for (width, _) in &widths {
        print!("{:>16}", format!("{} bits", width.bits()));
    }
    println!();
    let cell = |rate: Option<f64>, latency: Option<f64>| match (rate, latency) {
        (Some(rate), Some(latency)) => format!("{rate:.1} ({latency:.0})"),
        (Some(rate), None) => format!("{rate:.1}    "),
        (None, _) => "-    ".to_owned(),
    };
    for class in Class::ALL {
        print!("  {:<16}", class.name());
        for (_, ports) in &widths {
            let number = class as usize;
            print!("{:>16}", cell(ports.alone[number], ports.latency[number]));
        }
        println!();
    }
    print!("  {:<16}", "all together");
    for (_, ports) in &widths {
        print!("{:>16}", cell(ports.together, None));
    }
    println!();
    for (width, ports) in &widths {
        let shared: Vec<_> = ports
            .pairs
            .iter()
            .filter(|(a, b, _)| a.computes() && b.computes())
            .filter_map(|&(a, b, _)| {
                let shared = ports
                    .shared(a, b)
                    .filter(|&shared| shared < ports.total())?;
                Some(format!("{} + {}: {shared:.0}", a.name(), b.name()))
            })
            .collect();
        if !shared.is_empty() {
            println!(
                "  ports that two share, {} bits: {}",
                width.bits(),
                shared.join(", ")
            );
        }
    }
}

/// Bounds of the kernels for a subject.
type Peaks = [(Instructions, Peak)];

/// The highest of them.
fn highest<'a>(peaks: impl Iterator<Item = &'a (Instructions, Peak)>) -> Option<&'a Peak> {
    peaks
        .map(|(_, peak)| peak)
        .max_by(|a, b| a.bytes_per_cycle.total_cmp(&b.bytes_per_cycle))
}

/// One line's figures.
struct Figures {
    gb_per_s: f64,
    bytes_per_cycle: Option<f64>,
    fraction_of_bound: Option<f64>,
}

/// Prints the medians, what they are of the bound, and beside the peers.
pub fn print(args: &Args, lines: &[Line], lens: &Lens, model: Option<&Model>, memory: &Memory) {
    let mut bars = Vec::new();
    for &subject in &args.subjects {
        let lines: Vec<_> = lines
            .iter()
            .filter(|line| line.subject == subject)
            .collect();
        let peaks = model.map_or(Vec::new(), |model| subject.peaks(model));
        print_peaks(args, subject, &peaks);
        print_lines(args, subject, &lines, lens, &peaks);
        bars.extend(subject_bars(subject, &lines, &peaks, memory));
    }
    if !args.json {
        println!("\n{:<72} {:>8} {:>6}", "bar", "measured", "bar");
    }
    for (what, value, bar) in bars {
        let ok = value >= bar;
        if args.json {
            println!(
                "{}",
                json!({"bench": "lanes", "kind": "bar", "what": what, "value": value, "bar": bar,
                    "ok": ok})
            );
        } else {
            println!(
                "  {what:<70} {value:>8.2} {bar:>6.2} {}",
                if ok { "ok" } else { "NOT REACHED" }
            );
        }
    }
}

/// The bounds of each kernel: by the number of its operations, and by these and its latency.
fn print_peaks(args: &Args, subject: Subject, peaks: &Peaks) {
    if !args.json && !peaks.is_empty() {
        println!(
            "\n{:<24} {:>8} {:>8} {:>8} {:>14}   by",
            format!("bounds of {subject}"),
            "cycles",
            "latency",
            "B/cycle",
            "lanes alone"
        );
    }
    for (instructions, peak) in peaks {
        if args.json {
            let line = json!({
                "bench": "lanes", "kind": "bound", "algorithm": subject.to_string(),
                "backend": instructions.name(), "lanes": peak.lanes, "block_cycles": peak.cycles,
                "latency_cycles": peak.latency_cycles,
                "bound_bytes_per_cycle": peak.bytes_per_cycle,
                "bound_of_lanes_alone_bytes_per_cycle": peak.alone_bytes_per_cycle, "by": peak.by,
            });
            println!("{line}");
        } else {
            println!(
                "  {:<10} {:>3} lanes {:>9.1} {:>8.0} {:>8.2} {:>14.2}   {}",
                instructions.name(),
                peak.lanes,
                peak.cycles,
                peak.latency_cycles,
                peak.bytes_per_cycle,
                peak.alone_bytes_per_cycle,
                peak.by
            );
        }
    }
}

fn print_lines(args: &Args, subject: Subject, lines: &[&Line], lens: &Lens, peaks: &Peaks) {
    let openssl = rate_of(lines, Program::OpenSsl, Shape::Equal(1));
    let ipsec_mb = rate_of(lines, Program::IpsecMb, Shape::Equal(IpsecMb::MESSAGES));
    if !args.json {
        println!(
            "{:<50} {:>8} {:>8} {:>9} {:>10} {:>12} {:>8}",
            format!("{subject}, messages of {} KiB", args.block),
            "GB/s",
            "B/cycle",
            "of bound",
            "x OpenSSL",
            "x ipsec-mb",
            "x ISA-L"
        );
    }
    for line in lines {
        let figures = figures(line, peaks);
        let ratio = |peer: Option<f64>| peer.map(|peer| figures.gb_per_s / peer);
        let isal_crypto = rate_of(lines, Program::IsalCrypto, line.shape);
        let (program, backend) = names(line.program);
        let (shape, count, what) = describe(line.shape, lens);
        if args.json {
            let mut object = json!({
                "bench": "lanes", "kind": "rate", "algorithm": subject.to_string(),
                "program": program, "backend": backend, "shape": shape, "messages": count,
                "block_bytes": args.block * 1024, "rounds": line.rates.len(),
                "rate_gb_per_s": figures.gb_per_s,
            });
            let optional = [
                ("rate_bytes_per_cycle", figures.bytes_per_cycle),
                ("fraction_of_bound", figures.fraction_of_bound),
                ("ratio_to_openssl", ratio(openssl)),
                ("ratio_to_ipsec_mb", ratio(ipsec_mb)),
                ("ratio_to_isal_crypto", ratio(isal_crypto)),
            ];
            for (name, value) in optional {
                if let Some(value) = value {
                    object[name] = Value::from(value);
                }
            }
            println!("{object}");
        } else {
            let cell =
                |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
            let percent = |value: Option<f64>| {
                value.map_or("-".to_owned(), |value| format!("{:.0} %", 100.0 * value))
            };
            println!(
                "  {program:<12} {backend:<10} {what:<24} {:>8.2} {:>8} {:>9} {:>10} {:>12} \
                {:>8}",
                figures.gb_per_s,
                cell(figures.bytes_per_cycle),
                percent(figures.fraction_of_bound),
                cell(ratio(openssl)),
                cell(ratio(ipsec_mb)),
                cell(ratio(isal_crypto)),
            );
        }
    }
}

/// Medians over the rounds.
fn figures(line: &Line, peaks: &Peaks) -> Figures {
    let bytes_per_cycle = line.rates.iter().map(|rate| rate.bytes_per_cycle());
    let bytes_per_cycle: Option<Vec<f64>> = bytes_per_cycle.collect();
    let bytes_per_cycle = bytes_per_cycle.and_then(median);
    // One backend is held against its own bound, everybody else against the best of this processor.
    let peak = match line.program {
        Program::Only(of) => highest(peaks.iter().filter(|(instructions, _)| *instructions == of)),
        Program::Blake3 => None,
        _ => highest(peaks.iter()),
    };
    Figures {
        gb_per_s: gb_per_s(line),
        bytes_per_cycle,
        fraction_of_bound: peak
            .zip(bytes_per_cycle)
            .map(|(peak, rate)| rate / peak.bytes_per_cycle),
    }
}

fn gb_per_s(line: &Line) -> f64 {
    median(line.rates.iter().map(|rate| rate.bytes_per_s)).unwrap_or_default() / 1e9
}

fn find<'a>(lines: &[&'a Line], program: Program, shape: Shape) -> Option<&'a Line> {
    let mut lines = lines.iter();
    lines
        .find(|line| (line.program, line.shape) == (program, shape))
        .copied()
}

fn rate_of(lines: &[&Line], program: Program, shape: Shape) -> Option<f64> {
    find(lines, program, shape).map(gb_per_s)
}

/// What the project set itself: a name, what was measured, what it should be at least.
fn subject_bars(
    subject: Subject,
    lines: &[&Line],
    peaks: &Peaks,
    memory: &Memory,
) -> Vec<(String, f64, f64)> {
    let mut bars = Vec::new();
    let mut bar = |what: &str, value: Option<f64>, bar: f64| {
        bars.extend(value.map(|value| (format!("{subject}: {what}"), value, bar)));
    };
    let automatic = |shape| rate_of(lines, Program::Automatic, shape);
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let openssl = rate_of(lines, Program::OpenSsl, Shape::Equal(1));
    let ipsec_mb = rate_of(lines, Program::IpsecMb, Shape::Equal(IpsecMb::MESSAGES));
    let equal = |&count: &usize| find(lines, Program::Automatic, Shape::Equal(count));
    let fastest = subject
        .counts()
        .iter()
        .filter_map(equal)
        .max_by(|a, b| gb_per_s(a).total_cmp(&gb_per_s(b)));
    let most = fastest.map(gb_per_s);
    let targets = match subject {
        Subject::Hash(Algorithm::Md5) => Some((0.93, 20.0)),
        Subject::Hash(Algorithm::Sha1) => Some((0.93, 4.3)),
        Subject::Hash(Algorithm::Sha256) => Some((0.95, 2.4)),
        Subject::Aes(AesMode::CbcEncrypt, 128) => Some((0.9, 11.0)),
        _ => None,
    };
    if let Some((of_bound, of_openssl)) = targets {
        let fraction = fastest.and_then(|line| figures(line, peaks).fraction_of_bound);
        bar("of the bound, best number of messages", fraction, of_bound);
        bar(
            "x OpenSSL, best number of messages",
            ratio(most, openssl),
            of_openssl,
        );
    }
    bar(
        "x libipsec-mb, best number of messages",
        ratio(most, ipsec_mb),
        1.03,
    );
    for count in IsalCrypto::MESSAGES {
        let what = format!("x ISA-L crypto, {count} messages");
        let isal_crypto = rate_of(lines, Program::IsalCrypto, Shape::Equal(count));
        bar(
            &what,
            ratio(automatic(Shape::Equal(count)), isal_crypto),
            1.0,
        );
    }
    bar(
        "x OpenSSL, 1 message",
        ratio(automatic(Shape::Equal(1)), openssl),
        0.99,
    );
    if subject == Subject::Hash(Algorithm::Sha1) {
        for (count, least) in [(4, 1.05), (5, 1.3), (6, 1.55)] {
            let what = format!("x OpenSSL, {count} messages");
            bar(&what, ratio(automatic(Shape::Equal(count)), openssl), least);
        }
    }
    if subject.in_lanes() {
        let from_memory = automatic(Shape::FromMemory);
        // From memory, at most a tenth slower than from the caches, or than memory itself.
        let memory = match subject {
            Subject::Aes(..) => memory.change_bytes_per_s,
            _ => memory.read_bytes_per_s,
        };
        let most = most.map(|most| most.min(memory / 1e9));
        bar(
            "from memory, of the best number of messages or of memory's speed",
            ratio(from_memory, most),
            0.9,
        );
        bar(
            "mixed lengths, of equal ones from memory",
            ratio(automatic(Shape::Mixed), from_memory),
            0.85,
        );
        let threads = ratio(automatic(Shape::Threads(2)), automatic(Shape::Threads(1)));
        bar("two pinned threads, of one", threads, 1.9);
    }
    bars
}

/// The names of a program and of its instructions.
fn names(program: Program) -> (&'static str, &'static str) {
    match program {
        Program::OpenSsl => ("openssl", "own choice"),
        Program::IpsecMb => ("ipsec-mb", "own choice"),
        Program::IsalCrypto => ("isa-l_crypto", "own choice"),
        Program::RustCrypto => ("rustcrypto", "own choice"),
        Program::Blake3 => ("blake3", "own choice"),
        Program::Automatic => ("tabane", "automatic"),
        Program::Only(backend) => ("tabane", backend.name()),
    }
}

/// A shape's name, its number of messages, and both in words.
fn describe(shape: Shape, lens: &Lens) -> (&'static str, usize, String) {
    match shape {
        Shape::Equal(1) => ("equal", 1, "1 message".to_owned()),
        Shape::Equal(count) => ("equal", count, format!("{count} messages")),
        Shape::FromMemory => {
            let (count, bytes) = (lens.equal.len(), lens.equal.iter().sum::<usize>());
            (
                "from memory",
                count,
                format!("{} MiB from memory", bytes >> 20),
            )
        }
        Shape::Mixed => {
            let count = lens.mixed.len();
            ("mixed lengths", count, format!("{count} of 1 B to 1 MiB"))
        }
        Shape::Threads(1) => ("threads", THREAD_MESSAGES, "1 pinned thread".to_owned()),
        Shape::Threads(count) => (
            "threads",
            count * THREAD_MESSAGES,
            format!("{count} pinned threads"),
        ),
    }
}
