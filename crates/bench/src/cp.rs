//! `tabane-bench cp`: copies of a large file and of many small ones, beside `cp -a` and a checked
//! `rsync -a`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tabane_bench::arguments::{Places, Program, Report};
use tabane_bench::data::{make_file, noise};
use tabane_bench::measure::{Sample, measure};
use tabane_bench::rounds::{self, cpu_s, median_of, ratio, round, wall_s};
use tabane_bench::tools::{find_in_path, version};
use tabane_testing::compare_trees::{self, compare};
use tabane_testing::disk;
use tabane_testing::progress;

/// How many times a peer's wall time must exceed that of a copy with `--verify=written`.
const BARS: [(&str, f64); 2] = [("cp", 0.95), ("rsync", 1.5)];

/// The copies of Tabane, with their options. Only a manifest or a second reading needs hashes.
const OURS: [(&str, &[&str]); 4] = [
    ("none", &["--verify=none"]),
    ("written", &["--verify=written"]),
    ("written+manifest", &["--verify=written", "--manifest"]),
    ("reread", &["--verify=reread"]),
];

/// The greatest length of a small file.
const SMALL_LEN_MAX: usize = 16 << 10;

/// Small files in a directory.
const DIRECTORY_FILES: usize = 250;

/// Time copies of a large file and of many small ones, beside cp, and beside rsync with its pass
/// over checksums.
///
/// The source is read before each timing, so that it comes from memory. The copy before is removed,
/// and everything is brought to the disk, before each timing and outside of it. Nobody waits for
/// the disk within it, but `reread`, which reads from there. Programs take turns, and each round
/// begins with another. The first copies are compared with the source.
#[derive(clap::Args)]
pub struct Args {
    /// Size of the large file in MiB; 0 for none
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    large: u64,
    /// How many small files, of up to 16 KiB; 0 for none
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    files: usize,
    /// How many times to run everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    places: Places,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    report: Report,
}

/// What is copied.
struct Job {
    name: &'static str,
    source: PathBuf,
    files: usize,
    bytes: u64,
}

/// All timings of a program at a job.
struct Line {
    program: &'static str,
    /// The command.
    words: Vec<OsString>,
    samples: Vec<Sample>,
}

/// A directory in which copies are timed.
struct Place {
    /// As it was given.
    shown: PathBuf,
    work: tempfile::TempDir,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let tabane = args.program.find()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let places = args.places.directories().into_iter().map(Place::new);
    let places = places.collect::<Result<Vec<_>>>()?;
    let peers: Vec<&str> = BARS
        .into_iter()
        .map(|(peer, _)| peer)
        .filter(|peer| {
            let found = find_in_path(peer).is_some();
            if !found {
                eprintln!("*** {peer} is NOT INSTALLED: it is not compared.");
            }
            found
        })
        .collect();
    introduce(args, &peers, processors);
    let mut met = true;
    for place in &places {
        for job in place.jobs(args)? {
            let mut lines = place.lines(&job, &tabane, &peers);
            place
                .time(&job, &mut lines, args.rounds)
                .with_context(|| format!("{} in {}", job.name, disk::show(&place.shown)))?;
            met &= report(place, &job, &lines, processors, args.report.json);
        }
    }
    Ok(args.report.exit_code(met))
}

impl Place {
    fn new(dir: PathBuf) -> Result<Self> {
        let work = disk::work_in(&dir)?;
        Ok(Self { shown: dir, work })
    }

    fn copy(&self) -> PathBuf {
        self.work.path().join("copy")
    }

    fn manifest(&self) -> PathBuf {
        self.work.path().join("manifest")
    }

    /// Makes what is to be copied.
    fn jobs(&self, args: &Args) -> Result<Vec<Job>> {
        let lens = small_lens(args.files);
        let small_bytes = lens.iter().sum::<usize>() as u64;
        let large_bytes = args.large << 20;
        // A file may take up a block more than it has bytes.
        let needed = 2 * (large_bytes + small_bytes + 4096 * args.files as u64);
        if disk::free_bytes(self.work.path())? < needed {
            bail!(
                "{} lacks room for sources and copies, {} MB",
                disk::show(&self.shown),
                needed / 1_000_000
            );
        }
        let mut jobs = Vec::new();
        if args.large > 0 {
            let source = self.work.path().join("large");
            make_file(&source, large_bytes)?;
            jobs.push(Job {
                name: "large",
                source,
                files: 1,
                bytes: large_bytes,
            });
        }
        if args.files > 0 {
            let source = self.work.path().join("small");
            make_small_files(&source, &lens).context("cannot make the small files")?;
            jobs.push(Job {
                name: "small",
                source,
                files: args.files,
                bytes: small_bytes,
            });
        }
        Ok(jobs)
    }

    /// What to time: the peers first.
    fn lines(&self, job: &Job, tabane: &Path, peers: &[&'static str]) -> Vec<Line> {
        let (source, copy) = (job.source.as_os_str(), self.copy());
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let line = |program, words| Line {
            program,
            words,
            samples: Vec::new(),
        };
        let peers = peers.iter().map(|&peer| {
            let mut from = source.to_owned();
            let mut command = match peer {
                "rsync" => {
                    if job.source.is_dir() {
                        // With the slash, rsync copies the directory's contents, not the directory
                        // itself.
                        from.push("/");
                    }
                    let script = "rsync -a \"$0\" \"$1\" && exec rsync -a --checksum --dry-run \
                    \"$0\" \"$1\"";
                    words(&["sh", "-c", script])
                }
                _ => words(&[peer, "-a"]),
            };
            command.extend([from, copy.clone().into()]);
            line(peer, command)
        });
        let ours = OURS.iter().map(|(program, options)| {
            let mut command = vec![tabane.into()];
            command.extend(words(&["cp", "--no-sync"]));
            command.extend(words(options));
            if options.contains(&"--manifest") {
                command.push(self.manifest().into());
            }
            command.extend(["-T".into(), source.into(), copy.clone().into()]);
            line(program, command)
        });
        peers.chain(ours).collect()
    }

    fn time(&self, job: &Job, lines: &mut [Line], rounds: u32) -> Result<()> {
        for round in 0..rounds {
            // Each round begins with another.
            lines.rotate_left(usize::from(round > 0));
            for line in &mut *lines {
                progress::show(&format!(
                    "round {} of {rounds}: {} with {}",
                    round + 1,
                    job.name,
                    line.program
                ));
                self.prepare(job)?;
                let mut command = Command::new(&line.words[0]);
                command.args(&line.words[1..]);
                let sample = measure(command, &self.work.path().join("log"), &[0])?;
                line.samples.push(sample);
                if round == 0 {
                    self.compare(job, line.program)?;
                }
            }
        }
        progress::show("");
        Ok(())
    }

    /// Removes the copy before, and has the source in memory.
    fn prepare(&self, job: &Job) -> Result<()> {
        disk::remove_tree(&self.copy())?;
        disk::remove_tree(&self.manifest())?;
        rustix::fs::sync();
        disk::warm(&job.source)
    }

    /// Whether the copy is one.
    fn compare(&self, job: &Job, program: &str) -> Result<()> {
        let outcome = compare(
            &job.source,
            &self.copy(),
            &compare_trees::Options::default(),
        )?;
        match outcome.differences.first() {
            Some(difference) => bail!("the copy by {program} differs: {difference}"),
            None => Ok(()),
        }
    }
}

/// Lengths of so many small files, all up to the greatest equally likely.
fn small_lens(files: usize) -> Vec<usize> {
    let random = noise(2 * files);
    let pairs = random.as_chunks().0.iter();
    pairs
        .map(|&pair| usize::from(u16::from_le_bytes(pair)) % (SMALL_LEN_MAX + 1))
        .collect()
}

/// Makes files of these lengths in directories below `tree`.
fn make_small_files(tree: &Path, lens: &[usize]) -> Result<()> {
    let noise = noise(1 << 20);
    for (number, lens) in lens.chunks(DIRECTORY_FILES).enumerate() {
        let directory = tree.join(number.to_string());
        fs::create_dir_all(&directory)?;
        for (file, &len) in lens.iter().enumerate() {
            let start = (number * DIRECTORY_FILES + file) % (noise.len() - SMALL_LEN_MAX);
            fs::write(directory.join(file.to_string()), &noise[start..start + len])?;
        }
    }
    Ok(())
}

fn introduce(args: &Args, peers: &[&str], processors: usize) {
    let load = rounds::load();
    let versions: Vec<String> = peers.iter().filter_map(|peer| version(peer)).collect();
    if args.report.json {
        let object = json!({
            "bench": "cp", "kind": "host", "processors": processors, "load": load,
            "rounds": args.rounds, "peers": versions.join("; "),
        });
        println!("{object}");
        return;
    }
    println!("{processors} processors, {} rounds", args.rounds);
    for version in versions {
        println!("peer: {version}");
    }
}

/// Prints medians, ratios and bars; returns whether all bars are met.
fn report(place: &Place, job: &Job, lines: &[Line], processors: usize, json: bool) -> bool {
    let shown = disk::show(&place.shown);
    if !json {
        println!(
            "\n{} in {shown}: {}, {:.0} MB",
            job.name,
            match job.files {
                1 => "1 file".to_owned(),
                files => format!("{files} files"),
            },
            job.bytes as f64 / 1e6
        );
        println!(
            "{:<17} {:>7} {:>7} {:>7} {:>8}  theirs / ours, wall (CPU)",
            "program", "wall s", "CPU s", "GB/s", "peak MB"
        );
    }
    let find = |program: &str| lines.iter().find(|line| line.program == program);
    let mut met = true;
    let programs = BARS.iter().map(|(program, _)| program);
    for line in programs
        .chain(OURS.iter().map(|(program, _)| program))
        .filter_map(|program| find(program))
    {
        let wall = median_of(&line.samples, wall_s);
        let cpu = median_of(&line.samples, cpu_s);
        let rate = job.bytes as f64 / 1e9 / wall;
        let peak = median_of(&line.samples, |sample| sample.peak_rss_bytes as f64 / 1e6);
        if json {
            let object = json!({
                "bench": "cp", "kind": "line", "work": shown, "what": job.name, "files": job.files,
                "total_bytes": job.bytes, "program": line.program, "rounds": line.samples.len(),
                "wall_s": round(wall), "cpu_s": round(cpu), "rate_gb_per_s": round(rate),
                "peak_rss_mb": round(peak),
            });
            println!("{object}");
        } else {
            print!(
                "{:<17} {wall:>7.3} {cpu:>7.3} {rate:>7.2} {peak:>8.0}",
                line.program
            );
        }
        let ours = OURS.iter().any(|(program, _)| *program == line.program);
        for (peer, bar) in BARS.into_iter().filter(|_| ours) {
            let Some(theirs) = find(peer) else { continue };
            let wall = ratio(&theirs.samples, &line.samples, wall_s);
            let cpu = ratio(&theirs.samples, &line.samples, cpu_s);
            let bar = line.program.starts_with("written").then_some(bar);
            let ok = bar.map(|bar| wall >= bar);
            met &= ok != Some(false);
            if json {
                let object = json!({
                    "bench": "cp", "kind": "ratio", "work": shown, "what": job.name,
                    "program": line.program, "peer": peer, "wall_theirs_by_ours": round(wall),
                    "cpu_theirs_by_ours": round(cpu), "bar": bar, "ok": ok,
                });
                println!("{object}");
                continue;
            }
            let bar = match (bar, ok) {
                (Some(bar), Some(true)) => format!(" >= {bar} ok"),
                (Some(bar), _) => format!(" >= {bar} MISSED"),
                (None, _) => String::new(),
            };
            print!("  {peer} {wall:.2} ({cpu:.2}){bar}");
        }
        if !json {
            println!();
        }
    }
    if !json {
        println!("medians; theirs / ours: paired within each round");
    }
    rounds::warn_of_others(lines.iter().flat_map(|line| &line.samples), processors);
    met
}
