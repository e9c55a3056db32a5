//! What `tabane-papers sha1` prints.

use serde_json::{Value, json};
use tabane_bench::peak::clock_hz;
use tabane_bench::peers::openssl::Instructions;
use tabane_lanes::Backend;

use super::devices::{Device, Layout};
use super::{Args, BLOCKS_KIB, Case, Method, Setting, find};

/// Operations of SHA-1 for 64 bytes by the paper's count (its table 1), which has no instruction of
/// three operands.
const PAPER_OPERATIONS: f64 = 976.0;

impl Method {
    /// For tables and legends.
    pub fn name(self) -> &'static str {
        match self {
            Method::Lanes => "Tabane, a block a lane",
            Method::OpenSsl(Instructions::All) => "OpenSSL, SHA instructions",
            Method::OpenSsl(Instructions::NoSha) => "OpenSSL, single-block SIMD",
            Method::OpenSsl(Instructions::Scalar) => "OpenSSL, scalar",
            Method::Single(Backend::ShaNi | Backend::ArmCe) => "Tabane, SHA instructions",
            Method::Single(_) => "Tabane, scalar",
            Method::Device(Device::Scalar) => "scalar",
            Method::Device(Device::Sse2(Layout::Strided)) => "4 lanes, W[4][80]",
            Method::Device(Device::Sse2(Layout::SideBySide)) => "4 lanes, W[80][4]",
            Method::Device(Device::Avx512(Layout::Strided)) => "16 lanes, W[16][80]",
            Method::Device(Device::Avx512(Layout::SideBySide)) => "16 lanes, W[80][16]",
        }
    }
}

/// The methods of figure 7: the paper's steps, then what Tabane made of them.
pub fn steps() -> Vec<Method> {
    let devices = Device::available().into_iter().map(Method::Device);
    devices.chain([Method::Lanes]).collect()
}

/// Prints the machine and the data.
pub fn heading(args: &Args, setting: &Setting) {
    let clock = clock_hz();
    let (cores, all) = (setting.cpus.cores.len(), setting.cpus.all().len());
    let operations = clock
        .zip(setting.lane_operations_per_cycle)
        .map(|(clock, operations)| clock * operations * cores as f64);
    let peak = clock.and_then(|clock| setting.peak_gb_per_s(all, clock));
    let paper_peak = operations.map(|operations| 64.0 * operations / PAPER_OPERATIONS / 1e9);
    let openssl = setting
        .openssl
        .as_ref()
        .map(|openssl| openssl.version.as_str());
    if args.json {
        let line = json!({
            "bench": "sha1", "kind": "host", "processors": all, "cores": cores, "openssl": openssl,
            "data_bytes": setting.data_bytes, "block_bytes": args.block * 1024,
            "rounds": args.rounds, "clock_ghz": clock.map(|hz| hz / 1e9),
            "peak_gigaoperations_per_s": operations.map(|rate| rate / 1e9), "peak_gb_per_s": peak,
            "peak_by_count_of_paper_gb_per_s": paper_peak,
        });
        println!("{line}");
        return;
    }
    println!(
        "{cores} cores, {all} hardware threads; {:.2} GB of data in memory",
        setting.data_bytes as f64 / 1e9
    );
    match openssl {
        Some(version) => println!("peer: {version}"),
        None if args.no_openssl => println!("peer: OpenSSL left out"),
        None => println!(
            "peer: openssl is NOT INSTALLED, Tabane's own code for single blocks stands in"
        ),
    }
    match (operations, peak, paper_peak) {
        (Some(operations), Some(peak), Some(paper_peak)) => println!(
            "peak P = {:.0} G operations/s, T = {peak:.2} GB/s = {:.1} Gbit/s ({:.1} Gbit/s by \
            the paper's {PAPER_OPERATIONS} operations)",
            operations / 1e9,
            8.0 * peak,
            8.0 * paper_peak,
        ),
        _ => println!("peak: NOT KNOWN, ports are only measured on x86-64"),
    }
}

/// Prints the medians.
pub fn print(args: &Args, setting: &Setting, cases: &[Case]) {
    if args.json {
        cases
            .iter()
            .for_each(|case| print_json(args, setting, case));
        return;
    }
    let block = args.block as usize * 1024;
    let (cores, all) = (setting.cpus.cores.len(), setting.cpus.all().len());
    let percent = |value: Option<f64>| {
        value.map_or("-".to_owned(), |value| format!("{:.0} %", 100.0 * value))
    };
    let methods = setting.methods();

    println!("\ntable 3: blocks of {} KiB, {all} threads", args.block);
    println!(
        "  {:<28} {:>8} {:>8} {:>9} {:>11}",
        "", "GB/s", "Gbit/s", "of peak", "wall GB/s"
    );
    for case in methods
        .iter()
        .filter_map(|&method| find(cases, method, all, block))
    {
        let wall = case.median(|sample| sample.wall_gb_per_s);
        println!(
            "  {:<28} {:>8.2} {:>8.1} {:>9} {:>11}",
            case.method.name(),
            case.gb_per_s(),
            8.0 * case.gb_per_s(),
            percent(case.of_peak(setting)),
            wall.map_or("-".to_owned(), |wall| format!("{wall:.2}")),
        );
    }

    let rates = |methods: &[Method], threads, block| {
        for &method in methods {
            let rate = find(cases, method, threads, block).map(Case::gb_per_s);
            print!(
                "{:>28}",
                rate.map_or("-".to_owned(), |rate| format!("{rate:.2}"))
            );
        }
        println!();
    };
    let header = |what: &str, methods: &[Method]| {
        print!("  {what:>8}");
        methods
            .iter()
            .for_each(|method| print!("{:>28}", method.name()));
        println!();
    };
    println!(
        "\nfigure 5: GB/s against threads, blocks of {} KiB",
        args.block
    );
    header("threads", &methods);
    for threads in setting.threads() {
        print!("  {threads:>8}");
        rates(&methods, threads, block);
    }

    println!("\nfigure 6: GB/s against the length of blocks, {all} threads");
    header("KiB", &methods);
    for kib in BLOCKS_KIB {
        print!("  {kib:>8}");
        rates(&methods, all, kib * 1024);
    }

    println!(
        "\nfigure 7: GB/s device by device, blocks of {} KiB",
        args.block
    );
    print!("  {:<28}", "threads");
    setting
        .threads()
        .iter()
        .for_each(|threads| print!("{threads:>8}"));
    println!();
    for method in steps() {
        print!("  {:<28}", method.name());
        for threads in setting.threads() {
            let rate = find(cases, method, threads, block).map(Case::gb_per_s);
            print!(
                "{:>8}",
                rate.map_or("-".to_owned(), |rate| format!("{rate:.2}"))
            );
        }
        println!();
    }

    println!();
    if all == cores {
        println!("hyper-threading: NOT MEASURED, there is one hardware thread a core here");
    } else {
        println!("hyper-threading: GB/s with one thread a core ({cores}), and with all ({all})");
        for &method in &methods {
            let rate = |threads| find(cases, method, threads, block).map_or(0.0, Case::gb_per_s);
            println!(
                "  {:<28} {:>8.2} {:>8.2}",
                method.name(),
                rate(cores),
                rate(all)
            );
        }
    }
}

fn print_json(args: &Args, setting: &Setting, case: &Case) {
    let block = args.block as usize * 1024;
    let all = setting.cpus.all().len();
    let step = steps().contains(&case.method);
    let usual = setting.methods().contains(&case.method);
    let shown = [
        (
            "table_3",
            usual && case.cpus.len() == all && case.block == block,
        ),
        ("figure_5", usual && case.block == block),
        (
            "figure_6",
            usual && case.cpus.len() == all && BLOCKS_KIB.contains(&(case.block / 1024)),
        ),
        ("figure_7", step && case.block == block),
    ];
    let shown: Vec<_> = shown
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    let mut line = json!({
        "bench": "sha1", "kind": "rate", "shown_in": shown.join(" "), "method": case.method.name(),
        "threads": case.cpus.len(), "block_bytes": case.block, "rounds": case.samples.len(),
        "rate_gb_per_s": case.gb_per_s(), "rate_gbit_per_s": 8.0 * case.gb_per_s(),
    });
    let optional = [
        (
            "wall_rate_gb_per_s",
            case.median(|sample| sample.wall_gb_per_s),
        ),
        (
            "clock_ghz",
            case.median(|sample| Some(sample.clock_hz? / 1e9)),
        ),
        ("fraction_of_peak", case.of_peak(setting)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            line[name] = Value::from(value);
        }
    }
    println!("{line}");
}
