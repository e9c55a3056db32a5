//! `tabane-bench striped`: what a repository over several directories costs beside one in a single
//! directory, how a lost directory is healed, and what bad sectors do to either.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tabane_bench::arguments::{Places, Program, Report};
use tabane_bench::measure::{Sample, measure, median};
use tabane_bench::rounds::{self, cpu_s, median_of, ratio, round, wall_s};
use tabane_parity::{Layout, repair_plan};
use tabane_testing::disk;
use tabane_testing::progress;
use tabane_testing::random::Random;
use tabane_testing::tree;

/// A striped backup may take so many times the CPU time of a plain one.
const CPU_BAR: f64 = 1.15;
/// A heal may read so many times what the code must, since it reads checksums and headers too.
const READ_BAR: f64 = 1.01;
/// The part of the disk's own speed that a heal must reach.
const SPEED_BAR: f64 = 0.8;

const PASSWORD: &str = "tabane-bench";

/// Bytes of a sector that turns bad.
const BAD_SECTOR_LEN: u64 = 4096;

/// Pieces in which the disk's own speed is measured.
const PIECE_LEN: usize = 1 << 20;

/// Time a first backup to several directories beside one to a single directory, and the heal of a
/// lost one.
///
/// The two backups take turns. For the heal, one directory is removed and replaced by an empty one,
/// and everything is brought to the disk and out of memory. What it may read at the least is what
/// the code's plan says for each object. The disk's own speed is that of files of the same bytes,
/// read one behind the other and written one behind the other, to the disk; with all directories on
/// one disk a heal can be no faster than both of them. MB are 10^6 bytes.
#[derive(clap::Args)]
pub struct Args {
    /// The tree to back up [default: a mixed one is built]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Data files in the tree that is built
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5000,
        conflicts_with = "tree"
    )]
    files: u64,
    /// Over how many directories
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u8).range(3..=32))]
    targets: u8,
    /// Then restore, in each round, while so many sectors of 4 KiB have other bytes, anywhere in
    /// the repository
    #[arg(long, value_name = "N", value_delimiter = ',')]
    bad_sectors: Vec<u32>,
    #[command(flatten)]
    places: Places,
    /// How many times to run everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    report: Report,
}

/// A directory in which everything happens.
struct Place<'a> {
    tabane: &'a Path,
    tree: &'a Path,
    shown: String,
    work: tempfile::TempDir,
    targets: usize,
}

/// A heal of one lost directory.
struct Heal {
    sample: Sample,
    /// What the command says.
    read_bytes: f64,
    written_bytes: f64,
    /// What the code must read.
    least_bytes: f64,
    /// How long the disk takes to read and write as much.
    disk_s: f64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let tabane = args.program.find()?;
    rounds::load();
    let mut met = true;
    for dir in &args.places.directories() {
        let work = disk::work_in(dir)?;
        let built = work.path().join("tree");
        if args.tree.is_none() {
            tree::build(&built, tree::Kind::Mixed, Some(args.files), None)?;
        }
        let place = Place {
            tabane: &tabane,
            tree: args.tree.as_deref().unwrap_or(&built),
            shown: disk::show(dir),
            work,
            targets: args.targets.into(),
        };
        met &= place.run(args)?;
        for &sectors in &args.bad_sectors {
            place.rot(sectors, args)?;
        }
    }
    Ok(args.report.exit_code(met))
}

impl Place<'_> {
    fn run(&self, args: &Args) -> Result<bool> {
        let (mut plain, mut striped, mut heals) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=args.rounds {
            let mut backups = [(false, &mut plain), (true, &mut striped)];
            // Each round begins with another.
            backups.rotate_left(round as usize % 2);
            for (is_striped, samples) in backups {
                let what = if is_striped { "striped" } else { "plain" };
                progress::show(&format!("round {round} of {}: {what} backup", args.rounds));
                samples.push(self.back_up(is_striped)?);
            }
            progress::show(&format!("round {round} of {}: heal", args.rounds));
            heals.push(self.heal(round as usize % self.targets)?);
        }
        progress::show("");
        let stored_mb = [
            disk::size_mb(&self.path("plain")),
            (0..self.targets)
                .map(|number| disk::size_mb(&self.target(number)))
                .sum(),
        ];
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        rounds::warn_of_others(plain.iter().chain(&striped), processors);
        Ok(self.report(args.report.json, [&plain, &striped], stored_mb, &heals))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn target(&self, number: usize) -> PathBuf {
        self.path(&format!("target-{number}"))
    }

    fn command(&self, is_striped: bool, words: &[&str]) -> Command {
        let repository = if is_striped {
            format!("striped:{}", self.path("set.toml").display())
        } else {
            self.path("plain").display().to_string()
        };
        let mut command = Command::new(self.tabane);
        command
            .args(words)
            .env_remove("TABANE_PASSWORD_FILE")
            .env_remove("TABANE_PASSWORD_COMMAND")
            .env("TABANE_REPOSITORY", repository)
            .env("TABANE_PASSWORD", PASSWORD)
            .env("TABANE_CACHE_DIR", self.path("cache"))
            .env("TABANE_STATE_DIR", self.path("state"));
        command
    }

    fn measure(&self, command: Command) -> Result<Sample> {
        measure(command, &self.path("log"), &[0])
    }

    /// The directories of a repository.
    fn directories(&self, is_striped: bool) -> Vec<PathBuf> {
        if is_striped {
            let numbers = 0..self.targets;
            numbers.map(|number| self.target(number)).collect()
        } else {
            vec![self.path("plain")]
        }
    }

    /// A first backup into a new repository.
    fn back_up(&self, is_striped: bool) -> Result<Sample> {
        let mut init = self.command(is_striped, &["init"]);
        for old in &self.directories(is_striped) {
            disk::remove_tree(old)?;
            if is_striped {
                init.arg("--target").arg(old);
            }
        }
        if is_striped {
            disk::remove_tree(&self.path("set.toml"))?;
        }
        disk::remove_tree(&self.path("cache"))?;
        self.measure(init)?;
        rustix::fs::sync();
        disk::warm(self.tree)?;
        let mut backup = self.command(is_striped, &["backup", "--quiet"]);
        backup.arg(self.tree);
        self.measure(backup)
    }

    /// Loses a target, replaces it, and heals.
    fn heal(&self, lost: usize) -> Result<Heal> {
        let target = self.target(lost);
        let least_bytes = least_reads(&target)?;
        disk::remove_tree(&target)?;
        let mut replace = self.command(true, &["targets", "replace"]);
        replace.arg(&target).arg(&target);
        self.measure(replace)?;
        disk::evict(self.work.path())?;
        let sample = self.measure(self.command(true, &["heal", "--json"]))?;
        let log = fs::read_to_string(self.path("log")).context("cannot read the log")?;
        let summary = last_object(&log).context("`tabane heal --json` printed nothing")?;
        let number = |name: &str| summary[name].as_f64().with_context(|| format!("no {name}"));
        if number("unhealed_objects")? > 0.0 {
            bail!("not everything could be healed: {summary}");
        }
        let (read_bytes, written_bytes) = (number("read_bytes")?, number("written_bytes")?);
        let disk_s = self.disk_s(read_bytes as usize, written_bytes as usize)?;
        Ok(Heal {
            sample,
            read_bytes,
            written_bytes,
            least_bytes,
            disk_s,
        })
    }

    /// Restores either repository while so many of its sectors are bad, others in each round.
    fn rot(&self, sectors: u32, args: &Args) -> Result<()> {
        for is_striped in [false, true] {
            let (mut samples, mut lost) = (Vec::new(), Vec::new());
            for round in 1..=args.rounds {
                let (sample, entries) = self.restore_damaged(is_striped, sectors, round)?;
                samples.push(sample);
                lost.push(entries);
            }
            let whole = lost.iter().filter(|&&entries| entries == Some(0)).count();
            let ended = lost.iter().filter(|entries| entries.is_none()).count();
            let entries = lost.iter().flatten().map(|&entries| entries as f64);
            let (entries, wall_s) = (median(entries), median_of(&samples, wall_s));
            let repository = if is_striped { "striped" } else { "plain" };
            if args.report.json {
                let object = json!({
                    "bench": "striped", "kind": "bad sectors", "work": self.shown,
                    "targets": self.targets, "repository": repository, "sectors": sectors,
                    "rounds": args.rounds, "whole": whole, "ended": ended,
                    "entries_lost": entries, "wall_s": round(wall_s),
                });
                println!("{object}");
            } else {
                let entries = entries.map_or("-".to_owned(), |entries| entries.to_string());
                println!(
                    "{sectors} bad sectors, {repository}: {whole} of {} restores whole, {entries} \
                    entries lost, {ended} ended at once; {wall_s:.2} s",
                    args.rounds
                );
            }
        }
        Ok(())
    }

    /// A restore while so many sectors are bad, and how many entries it lacks; `None` if it ends
    /// before it restores any. Afterwards the sectors are as before.
    fn restore_damaged(
        &self,
        is_striped: bool,
        sectors: u32,
        seed: u32,
    ) -> Result<(Sample, Option<u64>)> {
        let mut files = Vec::new();
        for directory in self.directories(is_striped) {
            disk::walk(&directory, &mut |path, metadata| {
                if metadata.is_file() {
                    files.push((path.to_owned(), metadata.len()));
                }
                Ok(())
            })?;
        }
        let len = files.iter().map(|(_, len)| len).sum();
        let mut random = Random::new(seed.into());
        let mut good = Vec::new();
        for _ in 0..sectors {
            let mut at = random.below(len);
            let place = files.iter().find(|(_, len)| {
                let is_here = at < *len;
                at -= if is_here { 0 } else { *len };
                is_here
            });
            let (path, len) = place.context("a file")?;
            at -= at % BAD_SECTOR_LEN;
            let mut bytes = vec![0; BAD_SECTOR_LEN.min(len - at) as usize];
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            file.read_exact_at(&mut bytes, at)?;
            file.write_all_at(&random.noise(bytes.len()), at)?;
            good.push((path, at, bytes));
        }
        let target = self.path("restored");
        let words = ["restore", "latest", "--json", "--no-cache", "--target"];
        let mut restore = self.command(is_striped, &words);
        restore.arg(&target);
        let sample = measure(restore, &self.path("log"), &[0, 1])?;
        disk::remove_tree(&target)?;
        for (path, at, bytes) in good.iter().rev() {
            let file = OpenOptions::new().write(true).open(path)?;
            file.write_all_at(bytes, *at)?;
        }
        let log = fs::read_to_string(self.path("log"))?;
        let lost = last_object(&log).and_then(|summary| summary["errors"].as_u64());
        Ok((sample, lost))
    }

    /// How long it takes to read, and then to write to the disk, so many bytes.
    fn disk_s(&self, read_bytes: usize, written_bytes: usize) -> Result<f64> {
        let path = self.path("disk");
        self.write(&path, read_bytes)?;
        disk::evict(&path)?;
        let mut piece = vec![0; PIECE_LEN];
        let start = Instant::now();
        let mut file = File::open(&path)?;
        while file.read(&mut piece)? > 0 {}
        let read = start.elapsed();
        disk::remove_tree(&path)?;
        let written = self.write(&path, written_bytes)?;
        disk::remove_tree(&path)?;
        Ok((read + written).as_secs_f64())
    }

    fn write(&self, path: &Path, len: usize) -> Result<Duration> {
        let piece = tabane_bench::data::noise(PIECE_LEN);
        rustix::fs::sync();
        let start = Instant::now();
        let mut file = File::create(path)?;
        for at in (0..len).step_by(PIECE_LEN) {
            file.write_all(&piece[..PIECE_LEN.min(len - at)])?;
        }
        file.sync_all()?;
        Ok(start.elapsed())
    }

    /// Prints everything; returns whether all bars are met.
    fn report(
        &self,
        json: bool,
        backups: [&[Sample]; 2],
        stored_mb: [f64; 2],
        heals: &[Heal],
    ) -> bool {
        let of = |figure: fn(&Heal) -> f64| median(heals.iter().map(figure)).unwrap_or(f64::NAN);
        let heal_s = of(|heal| wall_s(&heal.sample));
        let (read_mb, written_mb) = (
            of(|heal| heal.read_bytes / 1e6),
            of(|heal| heal.written_bytes / 1e6),
        );
        let bars = [
            (
                "CPU of a backup, striped / plain",
                ratio(backups[1], backups[0], cpu_s),
                CPU_BAR,
                false,
            ),
            (
                "heal, read / least that can be",
                of(|heal| heal.read_bytes / heal.least_bytes),
                READ_BAR,
                false,
            ),
            (
                "heal, of the disk's own speed",
                of(|heal| heal.disk_s / wall_s(&heal.sample)),
                SPEED_BAR,
                true,
            ),
        ];
        let is_met = |value: f64, bar: f64, at_least: bool| {
            if at_least { value >= bar } else { value <= bar }
        };
        let lines = ["plain", "striped"].into_iter().zip(backups).zip(stored_mb);
        let lines = lines.map(|((program, samples), stored_mb)| {
            (
                program,
                median_of(samples, wall_s),
                median_of(samples, cpu_s),
                stored_mb,
            )
        });
        if json {
            for (program, wall_s, cpu_s, stored_mb) in lines {
                let object = json!({
                    "bench": "striped", "kind": "backup", "work": self.shown,
                    "targets": self.targets, "repository": program, "rounds": heals.len(),
                    "wall_s": round(wall_s), "cpu_s": round(cpu_s), "stored_mb": round(stored_mb),
                });
                println!("{object}");
            }
            let object = json!({
                "bench": "striped", "kind": "heal", "work": self.shown, "targets": self.targets,
                "rounds": heals.len(), "wall_s": round(heal_s),
                "cpu_s": round(of(|heal| cpu_s(&heal.sample))), "read_mb": round(read_mb),
                "written_mb": round(written_mb), "disk_s": round(of(|heal| heal.disk_s)),
            });
            println!("{object}");
        } else {
            println!(
                "{} directories in {}, {} rounds\n",
                self.targets,
                self.shown,
                heals.len()
            );
            println!("| first backup | wall s | CPU s | stored MB |\n|---|---|---|---|");
            for (program, wall_s, cpu_s, stored_mb) in lines {
                println!("| {program} | {wall_s:.2} | {cpu_s:.2} | {stored_mb:.0} |");
            }
            println!(
                "\nheal of one: {heal_s:.2} s, read {read_mb:.0} MB, wrote {written_mb:.0} MB; \
                the disk alone takes {:.2} s\n",
                of(|heal| heal.disk_s)
            );
        }
        let mut met = true;
        for (what, value, bar, at_least) in bars {
            let ok = is_met(value, bar, at_least);
            met &= ok;
            if json {
                let object = json!({
                    "bench": "striped", "kind": "bar", "work": self.shown, "targets": self.targets,
                    "what": what, "value": round(value), "bar": bar, "at_least": at_least, "ok": ok,
                });
                println!("{object}");
            } else {
                let sign = if at_least { ">=" } else { "<=" };
                let word = if ok { "ok" } else { "not reached" };
                println!("{what}: {value:.3}, bar {sign} {bar}: {word}");
            }
        }
        met
    }
}

/// The last line of a log that is JSON.
fn last_object(log: &str) -> Option<Value> {
    let lines = log.lines().rev();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .next()
}

/// Bytes to read from other targets to rebuild this one: the code's plan for each stripe, and one
/// copy of each object stored whole. Found in the headers of its shards (docs/reference/format.md).
fn least_reads(target: &Path) -> Result<f64> {
    let mut sum = 0;
    disk::walk(target, &mut |path, metadata| {
        let mut header = [0; 64];
        if !metadata.is_file() || metadata.len() < 64 {
            return Ok(());
        }
        File::open(path)?.read_exact(&mut header)?;
        if !header.starts_with(b"TABANE#") {
            return Ok(());
        }
        let (roles, role) = (usize::from(header[17]), usize::from(header[18]));
        if header[16] == 0 {
            sum += metadata.len();
            return Ok(());
        }
        let len = u64::from_le_bytes(*header[8..].first_chunk().context("a header")?);
        let layout = Layout::new(roles).context("a header with too few roles")?;
        let cell_len = len
            .div_ceil(layout.data_cells().len() as u64)
            .next_multiple_of(16);
        sum += repair_plan(&layout, &[role])?.reads().len() as u64 * cell_len;
        Ok(())
    })?;
    if sum == 0 {
        bail!("{} has nothing of a striped repository", target.display());
    }
    Ok(sum as f64)
}
