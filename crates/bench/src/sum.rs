//! `tabane-bench sum`: checksums of many files, beside the programs that `tabane sum` takes the
//! place of.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tabane_bench::arguments::{Program, Report};
use tabane_bench::data::make_file;
use tabane_bench::measure::{Sample, measure};
use tabane_bench::rounds::{self, cpu_s, median_of, ratio, round, wall_s};
use tabane_bench::tools::{find_in_path, version};
use tabane_testing::disk;
use tabane_testing::progress;

/// How many times a peer's wall time must exceed ours.
const BARS: [(&str, f64); 4] = [("md5", 8.0), ("sha1", 4.0), ("sha256", 2.5), ("etag", 10.0)];

/// Size of a part of the upload whose ETag is computed.
const ETAG_PART: &str = "8MiB";

/// Time checksums of many files and the ETag of a large one, beside `xargs` over coreutils and
/// OpenSSL.
///
/// Every program gets the same names and all processors. The files are read before each timing, so
/// that they come from memory. Programs take turns, and each round begins with another. What Tabane
/// prints is compared with what coreutils print. XXH3 shows what opening and reading alone take,
/// since it takes next to nothing itself.
#[derive(clap::Args)]
pub struct Args {
    /// The tree whose files are hashed
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// How many files to take of those with a fitting size: the first, in the order of their paths
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    count: usize,
    /// Take the largest instead of the first
    #[arg(long)]
    largest: bool,
    /// Leave out files that are smaller, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 0)]
    min_size: u64,
    /// Leave out files that are larger, in KiB
    #[arg(long, value_name = "KIB", default_value_t = u64::MAX >> 10, hide_default_value = true)]
    max_size: u64,
    /// Which algorithms
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "md5,sha1,sha256,xxh3"
    )]
    algorithms: Vec<String>,
    /// Size of the file whose ETag is computed, in MiB; 0 for none
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    etag: u64,
    /// How many times to run everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where lists, logs and the large file go [default: a new directory in $TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    report: Report,
}

/// All timings of a program at a job.
struct Line {
    /// What is computed: an algorithm, or `etag`.
    job: String,
    program: &'static str,
    /// The command.
    words: Vec<OsString>,
    /// What is read, in bytes.
    bytes: u64,
    samples: Vec<Sample>,
}

/// What everything is measured with.
struct Bench {
    tabane: PathBuf,
    work: tempfile::TempDir,
    files: Vec<PathBuf>,
    bytes: u64,
    processors: usize,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bench = Bench::new(args)?;
    if args.etag > 0 {
        make_file(&bench.large_file(), args.etag << 20)?;
    }
    let mut lines = bench.lines(args);
    bench.introduce(args);
    for round in 0..args.rounds {
        for programs in lines.chunk_by_mut(|one, next| one.job == next.job) {
            // Each round begins with another.
            let first = round as usize % programs.len();
            for turn in 0..programs.len() {
                let line = &mut programs[(first + turn) % programs.len()];
                let what = format!("{} with {}", line.job, line.program);
                progress::show(&format!("round {} of {}: {what}", round + 1, args.rounds));
                let sample = bench.time(line).with_context(|| what)?;
                line.samples.push(sample);
            }
        }
        if round == 0 {
            bench.compare(&lines)?;
        }
    }
    progress::show("");
    let met = report(&lines, bench.processors, args);
    Ok(args.report.exit_code(met))
}

impl Bench {
    fn new(args: &Args) -> Result<Bench> {
        let tabane = args.program.find()?;
        let parent = args.work.clone().unwrap_or_else(std::env::temp_dir);
        let work = disk::work_in(&parent)?;
        let files = choose(args)?;
        let bytes = files.iter().map(|(_, len)| len).sum();
        let files: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
        let bench = Bench {
            tabane,
            work,
            files,
            bytes,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut list = Vec::new();
        for file in &bench.files {
            list.extend_from_slice(file.as_os_str().as_bytes());
            list.push(0);
        }
        fs::write(bench.list(), list).context("cannot write the list of files")?;
        Ok(bench)
    }

    fn list(&self) -> PathBuf {
        self.work.path().join("list")
    }

    fn large_file(&self) -> PathBuf {
        self.work.path().join("large")
    }

    fn log(&self, line: &Line) -> PathBuf {
        self.work
            .path()
            .join(format!("{}-{}", line.job, line.program))
    }

    /// What to time, without what is not installed.
    fn lines(&self, args: &Args) -> Vec<Line> {
        let words = |words: &[&str], file: &Path| -> Vec<OsString> {
            let words = words.iter().map(OsString::from);
            words.chain([file.into()]).collect()
        };
        let tabane = |options: &[&str], file: &Path| {
            let mut command: Vec<OsString> = vec![self.tabane.clone().into()];
            command.extend(words(options, file));
            command
        };
        let mut lines = Vec::new();
        let mut add = |job: &str, program, words: Vec<OsString>, bytes| {
            lines.push(Line {
                job: job.to_owned(),
                program,
                words,
                bytes,
                samples: Vec::new(),
            });
        };
        let list = self.list();
        let processors = self.processors.to_string();
        for algorithm in &args.algorithms {
            let ours = tabane(&["sum", "-a", algorithm, "--files0-from"], &list);
            add(algorithm, "tabane", ours, self.bytes);
            for (program, peer) in installed(algorithm) {
                let mut theirs = words(&["xargs", "-0", "-P", &processors, "-a"], &list);
                theirs.extend(peer.into_iter().map(OsString::from));
                add(algorithm, program, theirs, self.bytes);
            }
        }
        if args.etag > 0 {
            let (file, bytes) = (self.large_file(), args.etag << 20);
            add(
                "etag",
                "tabane",
                tabane(&["sum", "--etag", ETAG_PART], &file),
                bytes,
            );
            // The MD5 of the whole takes them as long as those of the parts would.
            for (program, peer) in installed("md5") {
                let peer: Vec<&str> = peer.iter().map(String::as_str).collect();
                add("etag", program, words(&peer, &file), bytes);
            }
        }
        lines
    }

    fn introduce(&self, args: &Args) {
        let load = rounds::load();
        let versions: Vec<String> = ["md5sum", "openssl"]
            .into_iter()
            .filter_map(version)
            .collect();
        if args.report.json {
            let object = json!({
                "bench": "sum", "kind": "host", "processors": self.processors, "load": load,
                "tree": args.tree.to_string_lossy(), "files": self.files.len(),
                "total_bytes": self.bytes, "rounds": args.rounds, "peers": versions.join("; "),
            });
            println!("{object}");
            return;
        }
        println!(
            "{} files of {}, {:.0} MB; {} processors, {} rounds",
            self.files.len(),
            args.tree.display(),
            self.bytes as f64 / 1e6,
            self.processors,
            args.rounds
        );
        for version in versions {
            println!("peer: {version}");
        }
    }

    /// Times one run, from the page cache.
    fn time(&self, line: &Line) -> Result<Sample> {
        // Each time anew: a machine may drop pages that nobody has touched for a while.
        match line.job.as_str() {
            "etag" => warm(&self.large_file())?,
            _ => self.files.iter().try_for_each(|file| warm(file))?,
        }
        let mut command = Command::new(&line.words[0]);
        command.args(&line.words[1..]);
        measure(command, &self.log(line), &[0])
    }

    /// Whether the lines are those of coreutils: ours in the order of the list, theirs as their
    /// processes were done.
    fn compare(&self, lines: &[Line]) -> Result<()> {
        for theirs in lines
            .iter()
            .filter(|line| line.program == "coreutils" && line.job != "etag")
        {
            let sorted = |line: &Line| -> Result<Vec<Vec<u8>>> {
                let text = fs::read(self.log(line)).context("cannot read a log")?;
                let mut lines: Vec<Vec<u8>> = text
                    .split(|&byte| byte == b'\n')
                    .map(<[u8]>::to_vec)
                    .collect();
                lines.sort_unstable();
                Ok(lines)
            };
            let ours = ours(lines, theirs);
            if sorted(ours)? != sorted(theirs)? {
                bail!("{}: tabane and coreutils print different lines", theirs.job);
            }
        }
        Ok(())
    }
}

/// The line of Tabane at the same job.
fn ours<'a>(lines: &'a [Line], line: &Line) -> &'a Line {
    lines
        .iter()
        .find(|ours| ours.job == line.job && ours.program == "tabane")
        .expect("Tabane does every job")
}

/// The programs that compute this, those that are installed, and their command lines.
fn installed(algorithm: &str) -> Vec<(&'static str, Vec<String>)> {
    let words = |words: &str| words.split(' ').map(str::to_owned).collect();
    let peers: Vec<(&'static str, Vec<String>)> = match algorithm {
        "blake3" => vec![("b3sum", words("b3sum"))],
        "xxh64" => vec![("xxhsum", words("xxhsum -H1"))],
        "xxh128" => vec![("xxhsum", words("xxhsum -H2"))],
        "xxh3" => vec![("xxhsum", words("xxhsum -H3"))],
        _ => vec![
            ("coreutils", words(&format!("{algorithm}sum"))),
            ("openssl", words(&format!("openssl dgst -{algorithm}"))),
        ],
    };
    let is_installed = |(_, words): &(&'static str, Vec<String>)| {
        let found = find_in_path(&words[0]).is_some();
        if !found {
            eprintln!("*** {} is NOT INSTALLED: it is not compared.", words[0]);
        }
        found
    };
    peers.into_iter().filter(is_installed).collect()
}

/// The files to hash with their lengths, in the order of their paths.
fn choose(args: &Args) -> Result<Vec<(PathBuf, u64)>> {
    let sizes = args.min_size << 10..=args.max_size << 10;
    let mut files = Vec::new();
    disk::walk(&args.tree, &mut |path, metadata| {
        // xargs takes no name apart, but lines of names with these are escaped, and cannot be
        // sorted one by one.
        let plain = !path
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| b"\n\\".contains(byte));
        if metadata.is_file() && plain && sizes.contains(&metadata.len()) {
            files.push((path.to_owned(), metadata.len()));
        }
        Ok(())
    })?;
    if args.largest {
        files.sort_unstable_by(|(a, a_len), (b, b_len)| b_len.cmp(a_len).then_with(|| a.cmp(b)));
        files.truncate(args.count);
    }
    files.sort_unstable();
    files.truncate(args.count);
    if files.is_empty() {
        bail!("{} holds no fitting files", args.tree.display());
    }
    Ok(files)
}

/// Reads a file, so that it is in the page cache.
fn warm(path: &Path) -> Result<()> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut buffer = [0; 64 << 10];
    while file
        .read(&mut buffer)
        .with_context(|| format!("cannot read {}", path.display()))?
        > 0
    {}
    Ok(())
}

/// Prints medians, ratios and bars; returns whether all bars are met.
fn report(lines: &[Line], processors: usize, args: &Args) -> bool {
    if !args.report.json {
        println!(
            "\n{:<8} {:<10} {:>8} {:>8} {:>8} {:>8} {:>13} {:>12}  bar",
            "what", "program", "wall s", "CPU s", "GB/s", "peak MB", "theirs / ours", "of CPU time"
        );
    }
    let mut met = true;
    for line in lines {
        let ours = ours(lines, line);
        let wall = median_of(&line.samples, wall_s);
        let peer = ["coreutils", "openssl"].contains(&line.program);
        let bar = BARS
            .iter()
            .find(|(job, _)| peer && *job == line.job)
            .map(|(_, bar)| *bar);
        let wall_ratio = ratio(&line.samples, &ours.samples, wall_s);
        let cpu_ratio = ratio(&line.samples, &ours.samples, cpu_s);
        let ok = bar.map(|bar| wall_ratio >= bar);
        met &= ok != Some(false);
        let rate = line.bytes as f64 / 1e9 / wall;
        let peak = median_of(&line.samples, |sample| sample.peak_rss_bytes as f64 / 1e6);
        if args.report.json {
            let object = json!({
                "bench": "sum", "kind": "line", "what": line.job, "program": line.program,
                "rounds": line.samples.len(), "wall_s": round(wall),
                "cpu_s": round(median_of(&line.samples, cpu_s)), "rate_gb_per_s": round(rate),
                "peak_rss_mb": round(peak), "wall_theirs_by_ours": round(wall_ratio),
                "cpu_theirs_by_ours": round(cpu_ratio), "bar": bar, "ok": ok,
            });
            println!("{object}");
            continue;
        }
        let bar = bar.map_or(String::new(), |bar| {
            format!(
                ">= {bar} {}",
                if ok == Some(true) { "ok" } else { "MISSED" }
            )
        });
        println!(
            "{:<8} {:<10} {wall:>8.3} {:>8.3} {rate:>8.2} {peak:>8.0} {wall_ratio:>13.2} \
            {cpu_ratio:>12.2}  {bar}",
            line.job,
            line.program,
            median_of(&line.samples, cpu_s),
        );
    }
    if !args.report.json {
        println!("medians; theirs / ours: paired within each round");
    }
    rounds::warn_of_others(lines.iter().flat_map(|line| &line.samples), processors);
    met
}
