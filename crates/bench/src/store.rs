//! `tabane-bench store`: whole backup programs as subprocesses, alternating between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tabane_bench::arguments::{Program, Report};
use tabane_bench::cpus::Model;
use tabane_bench::measure::{Sample, measure, median};
use tabane_bench::rounds::{self, round};
use tabane_bench::tools::{Kind, Places, Scenario, Tool, find_in_path};
use tabane_testing::disk::{self, Census};
use tabane_testing::tree;

use crate::changes;

/// The repository may be this many times the smallest peer's.
const BAR_REPOSITORY: f64 = 1.02;
/// Of restic's CPU time, restic's by ours.
const BAR_CPU: f64 = 3.0;
/// CPU time of a first backup and of a restore, of the floor's.
const BAR_FIRST_CPU: f64 = 1.2;
const BAR_RESTORE_CPU: f64 = 1.5;
/// Tabane may use this much memory, in MB.
const BAR_PEAK_RSS_MB: f64 = 250.0;
/// Part of the tree's size that a repository surely takes, for the refusal to start.
const REPOSITORY_PART_LIKELY: f64 = 0.6;
/// The same with incompressible data, for the warning.
const REPOSITORY_PART_WORST: f64 = 1.05;

/// Time first backup, unchanged second, forced rescan, few changes, restore and check of Tabane and
/// its peers, beside the least that any program has to do.
///
/// The tree is copied into the work directory, and the copy is what every tool backs up, so that
/// all its files can be touched for the rescan; the tree itself is only read. Within a run the
/// tools take turns scenario by scenario, and the next run starts with another tool. Memory is the
/// peak of the process itself; MB are 10^6 bytes.
#[derive(clap::Args)]
pub struct Args {
    /// The tree to back up
    #[arg(long, value_name = "DIR", required_unless_present = "make_tree")]
    tree: Option<PathBuf>,
    /// Build a mixed test tree in this new directory, keep it, and use it
    #[arg(long, value_name = "DIR", conflicts_with = "tree")]
    make_tree: Option<PathBuf>,
    /// Data files in the tree that --make-tree builds
    #[arg(long, value_name = "N", requires = "make_tree")]
    files: Option<u64>,
    /// Add a file of this many random MiB to the private copy
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    incompressible: u64,
    /// Peers to measure beside Tabane, those that are installed; "none" for none
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "vykar,restic,kopia,borg,rustic"
    )]
    peers: Vec<String>,
    /// How many times to run everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Where repositories and restored trees go [default: a new directory in /dev/shm if there is
    /// room, else in $TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Where the private copy of the tree goes [default: the work directory]
    #[arg(long, value_name = "DIR")]
    copy: Option<PathBuf>,
    #[command(flatten)]
    program: Program,
    /// Measure the peers only
    #[arg(long, conflicts_with = "tabane")]
    no_tabane: bool,
    /// Which scenarios to report; first backups are always made
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_enum,
        default_value = "first,unchanged,rescan,changes,restore,check"
    )]
    scenarios: Vec<Scenario>,
    /// Run everything on this many processors only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    processors: Option<u32>,
    /// Empty the page cache before each command, so that a disk is read; only root can
    #[arg(long, requires = "copy")]
    cold: bool,
    /// Compare what Tabane restored with the tree, attribute for attribute, in the last run
    #[arg(long)]
    compare: bool,
    #[command(flatten)]
    report: Report,
}

/// One measured run of one tool.
struct Row {
    kind: Kind,
    scenario: Scenario,
    run: u32,
    sample: Sample,
    /// Of the repository afterwards.
    repository_mb: f64,
    /// Whether the restored tree has as many files and bytes as the source.
    restored_whole: Option<bool>,
}

impl Row {
    fn wall_s(&self) -> f64 {
        self.sample.wall.as_secs_f64()
    }

    fn cpu_s(&self) -> f64 {
        self.sample.cpu.as_secs_f64()
    }

    fn peak_rss_mb(&self) -> f64 {
        self.sample.peak_rss_bytes as f64 / 1e6
    }
}

/// A directory that is removed in the end, whatever permissions are in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new_in(parent: &Path) -> Result<Scratch> {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the work directory {}", parent.display()))?;
        let directory = disk::work_in(parent)?;
        // Without symlinks, as tools may store the resolved path.
        Ok(Scratch(directory.keep().canonicalize()?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = disk::remove_tree(&self.0) {
            eprintln!("tabane-bench: {error:#}; please remove it");
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        // The first ends the benchmark after the running child, tidily; the second at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, stopped.clone())?;
        signal_hook::flag::register(signal, stopped.clone())?;
    }
    if let Some(processors) = args.processors {
        pin(processors)?;
    }
    let tools = find_tools(args)?;
    let mut scenarios = args.scenarios.clone();
    scenarios.sort_unstable();
    scenarios.dedup();

    let source = match (&args.tree, &args.make_tree) {
        (Some(tree), _) => tree.clone(),
        (None, Some(directory)) => {
            eprintln!("building a mixed tree in {} ...", directory.display());
            tree::build(directory, tree::Kind::Mixed, args.files, None)?;
            directory.clone()
        }
        (None, None) => bail!("give a tree with --tree, or --make-tree to build one"),
    };
    if !source.is_dir() {
        bail!(
            "there is no directory {}; give an existing one with --tree, or build one with \
            --make-tree",
            source.display()
        );
    }
    let source = source
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", source.display()))?;
    eprintln!("counting {} ...", source.display());
    let mut census = disk::census(&source)?;
    if args.incompressible > 0 {
        census.files += 1;
        census.bytes += args.incompressible << 20;
        census.allocated_bytes += args.incompressible << 20;
    }
    if census.files == 0 {
        bail!("{} holds no files to measure with", source.display());
    }

    let needs = Needs::of(&census, tools.len(), args.copy.is_none());
    let work = match &args.work {
        Some(work) => {
            let scratch = Scratch::new_in(work)?;
            let free = disk::free_bytes(&scratch.0)?;
            if free < needs.likely {
                bail!(
                    "{} has room for {} MB, and repositories, restored trees{} need about {} MB; \
                    free some, or choose another with --work",
                    work.display(),
                    free / 1_000_000,
                    if args.copy.is_none() {
                        " and the private copy"
                    } else {
                        ""
                    },
                    needs.likely / 1_000_000
                );
            }
            scratch
        }
        None => choose_work(&needs)?,
    };
    let free = disk::free_bytes(&work.0)?;
    if free < needs.worst {
        eprintln!(
            "note: {} has room for {} MB; data that cannot be compressed might need {} MB",
            work.0.display(),
            free / 1_000_000,
            needs.worst / 1_000_000
        );
    }
    let copy_scratch = match &args.copy {
        Some(parent) => {
            let scratch = Scratch::new_in(parent)?;
            let free = disk::free_bytes(&scratch.0)?;
            if free < needs.copy {
                bail!(
                    "{} has room for {} MB, and the private copy of the tree needs {} MB; choose \
                    another with --copy",
                    parent.display(),
                    free / 1_000_000,
                    needs.copy / 1_000_000
                );
            }
            Some(scratch)
        }
        None => None,
    };

    let bench = Bench {
        tree: copy_scratch.as_ref().unwrap_or(&work).0.join("tree"),
        work: work.0.clone(),
        source,
        census,
        tools,
        scenarios,
        incompressible: args.incompressible,
        cold: args.cold,
        compare: args.compare,
        runs: args.runs,
        json: args.report.json,
        stopped,
    };
    bench.introduce();
    let rows = bench.run()?;
    let met = bench.report(&rows);
    drop(copy_scratch);
    drop(work);
    Ok(args.report.exit_code(met))
}

/// Room that the benchmark needs, in bytes.
struct Needs {
    likely: u64,
    worst: u64,
    copy: u64,
}

impl Needs {
    fn of(census: &Census, tools: usize, copy_in_work: bool) -> Needs {
        let tree = census.allocated_bytes.max(census.directories * 4096);
        let beside = if copy_in_work { 2.0 } else { 1.0 };
        let whole = |part: f64| (tree as f64 * (beside + part * tools as f64)) as u64 + (32 << 20);
        Needs {
            likely: whole(REPOSITORY_PART_LIKELY),
            worst: whole(REPOSITORY_PART_WORST),
            copy: tree + (16 << 20),
        }
    }
}

/// A new work directory: in memory if it takes at most half of what is free, else on disk.
fn choose_work(needs: &Needs) -> Result<Scratch> {
    let memory = Path::new("/dev/shm");
    let free_memory = disk::available_memory_bytes().unwrap_or(0);
    if memory.is_dir()
        && needs.likely <= disk::free_bytes(memory).unwrap_or(0)
        && needs.likely <= free_memory / 2
        && let Ok(scratch) = Scratch::new_in(memory)
    {
        return Ok(scratch);
    }
    let temporary = std::env::temp_dir();
    let free = disk::free_bytes(&temporary)?;
    if free < needs.likely {
        bail!(
            "neither /dev/shm nor {} has room for about {} MB (there are {} MB); choose a work \
            directory with --work",
            temporary.display(),
            needs.likely / 1_000_000,
            free / 1_000_000
        );
    }
    eprintln!(
        "note: too little memory to spare for /dev/shm; working in {}, whose disk may set the pace",
        temporary.display()
    );
    Scratch::new_in(&temporary)
}

/// Empties the page cache, but for the program that is measured.
fn chill(program: &Path) -> Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("cannot empty the page cache")?;
    fs::read(program)?;
    Ok(())
}

/// Binds this process and its children to the first processors it may use.
fn pin(processors: u32) -> Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None).context("cannot ask for processors")?;
    let mut chosen = rustix::thread::CpuSet::new();
    let mut left = processors;
    for index in 0..rustix::thread::CpuSet::MAX_CPU {
        if left > 0 && allowed.is_set(index) {
            chosen.set(index);
            left -= 1;
        }
    }
    if left > 0 {
        bail!("there are only {} processors", processors - left);
    }
    rustix::thread::sched_setaffinity(None, &chosen).context("cannot choose processors")
}

/// Tabane and those peers that are installed, saying which are not.
fn find_tools(args: &Args) -> Result<Vec<Tool>> {
    let mut tools = Vec::new();
    if !args.no_tabane {
        let program = args
            .program
            .find()
            .context("to measure the peers alone, give --no-tabane")?;
        tools.push(Tool::at(Kind::Tabane, program)?);
    }
    for name in &args.peers {
        if name == "none" || name.is_empty() {
            continue;
        }
        let kind = Kind::peer(name)?;
        if tools.iter().any(|tool: &Tool| tool.kind == kind) {
            continue;
        }
        match find_in_path(name).map(|program| Tool::at(kind, program)) {
            Some(Ok(tool)) => tools.push(tool),
            Some(Err(error)) => {
                eprintln!("*** {name} DOES NOT RUN ({error:#}): it is not compared.");
            }
            None => eprintln!("*** {name} is NOT INSTALLED: it is not compared."),
        }
    }
    if tools.is_empty() {
        bail!("there is nothing to measure");
    }
    tools.push(Tool::floor()?);
    Ok(tools)
}

/// Everything that stays the same over the runs.
struct Bench {
    /// The private copy that is backed up.
    tree: PathBuf,
    work: PathBuf,
    source: PathBuf,
    census: Census,
    tools: Vec<Tool>,
    scenarios: Vec<Scenario>,
    incompressible: u64,
    /// Whether each command finds the page cache empty.
    cold: bool,
    compare: bool,
    runs: u32,
    json: bool,
    stopped: Arc<AtomicBool>,
}

impl Bench {
    fn places(&self, kind: Kind, scenario: Scenario) -> Places {
        let half = match scenario {
            Scenario::Half => "half-",
            _ => "",
        };
        let own = |what: &str| self.work.join(format!("{}-{half}{what}", kind.name()));
        Places {
            tree: self.tree.clone(),
            repository: own("repository"),
            cache: own("cache"),
            target: own("target"),
        }
    }

    /// Says on what is measured.
    fn introduce(&self) {
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let load = rounds::load();
        let model = Model::of_this().name;
        if self.json {
            println!(
                "{}",
                json!({
                    "kind": "host", "processor": model, "processors": processors, "load": load,
                    "tree": self.source.to_string_lossy(),
                    "tree_mb": round(self.census.megabytes()),
                    "files": self.census.files, "directories": self.census.directories,
                    "symlinks": self.census.symlinks, "work": self.work.to_string_lossy(),
                    "runs": self.runs,
                })
            );
            for tool in &self.tools {
                println!(
                    "{}",
                    json!({
                        "kind": "tool", "tool": tool.kind.name(), "version": tool.version,
                        "program": tool.program.to_string_lossy(), "settings": tool.kind.settings(),
                    })
                );
            }
            return;
        }
        println!("{model}, {processors} processors; {} runs", self.runs);
        println!(
            "{}: {} files, {} directories, {} symlinks, {:.0} MB; work in {}",
            self.source.display(),
            self.census.files,
            self.census.directories,
            self.census.symlinks,
            self.census.megabytes(),
            self.work.display()
        );
        for tool in &self.tools {
            println!(
                "{} {}: {}",
                tool.kind.name(),
                tool.version,
                tool.kind.settings()
            );
        }
        println!();
    }

    /// All runs of all tools.
    fn run(&self) -> Result<Vec<Row>> {
        eprintln!("copying the tree to {} ...", self.tree.display());
        disk::copy_tree(&self.source, &self.tree)?;
        if self.incompressible > 0 {
            changes::add_incompressible(&self.tree, self.incompressible)?;
        }
        let mut rows = Vec::new();
        for run in 1..=self.runs {
            self.one_run(run, &mut rows)?;
        }
        Ok(rows)
    }

    /// One run: every scenario, in each every tool.
    fn one_run(&self, run: u32, rows: &mut Vec<Row>) -> Result<()> {
        let mut order: Vec<&Tool> = self.tools.iter().collect();
        let first = (run as usize - 1) % order.len();
        order.rotate_left(first);
        for tool in &order {
            self.initialise(tool, &self.places(tool.kind, Scenario::First))?;
        }
        self.each(Scenario::First, Scenario::First, &order, run, rows)?;
        let mut latest = Scenario::First;
        for &scenario in &self.scenarios {
            match scenario {
                Scenario::First => continue,
                Scenario::Unchanged => latest = scenario,
                Scenario::Rescan | Scenario::Changes => {
                    if scenario == Scenario::Rescan {
                        disk::touch_all(&self.tree)?;
                    } else {
                        changes::change_few(&self.tree, u64::from(run))?;
                    }
                    // So that no tool takes the files for ones that may still be changing.
                    std::thread::sleep(Duration::from_millis(1500));
                    latest = scenario;
                }
                Scenario::Restore | Scenario::Check | Scenario::Half => {}
            }
            self.each(scenario, latest, &order, run, rows)?;
        }
        Ok(())
    }

    /// Makes an empty repository.
    fn initialise(&self, tool: &Tool, places: &Places) -> Result<()> {
        for path in [&places.repository, &places.cache, &places.target] {
            disk::remove_tree(path)?;
        }
        fs::create_dir(&places.cache)
            .with_context(|| format!("cannot make {}", places.cache.display()))?;
        for command in tool.init(places)? {
            measure(command, &self.work.join("log"), &[0])?;
        }
        Ok(())
    }

    /// One scenario with every tool.
    fn each(
        &self,
        scenario: Scenario,
        latest: Scenario,
        order: &[&Tool],
        run: u32,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        for tool in order {
            let places = self.places(tool.kind, scenario);
            if scenario == Scenario::Half {
                self.initialise(tool, &places)?;
                if tool.kind != Kind::Floor {
                    let seed = tool.seed(&changes::half_of(&self.tree)?, &places);
                    measure(seed, &self.work.join("log"), tool.kind.accepted())?;
                }
            }
            if scenario == Scenario::Restore {
                fs::create_dir(&places.target)
                    .with_context(|| format!("cannot make {}", places.target.display()))?;
            }
            // Each time anew: a machine may drop pages that nobody has touched for a while.
            match scenario {
                _ if self.cold => chill(&tool.program)?,
                Scenario::Restore | Scenario::Check => disk::warm(&places.repository)?,
                _ => disk::warm(&self.tree)?,
            }
            settle(&self.work);
            if matches!(scenario, Scenario::First | Scenario::Restore) {
                disk::claim_memory(&self.work, self.census.bytes)?;
            }
            let command = tool.scenario(scenario, latest, &places);
            let log = self.work.join("log");
            let sample = measure(command, &log, tool.kind.accepted())
                .with_context(|| format!("{}, {}, run {run}", tool.kind.name(), scenario.name()))?;
            if self.stopped.load(Ordering::SeqCst) {
                bail!("stopped by a signal");
            }
            if sample.exit_code != 0 {
                eprintln!(
                    "*** {}, {}: exit code {}, a warning. The end of its output:\n{}",
                    tool.kind.name(),
                    scenario.name(),
                    sample.exit_code,
                    tabane_bench::measure::tail(&log)
                );
            }
            let mut restored_whole = None;
            if scenario == Scenario::Restore {
                restored_whole = Some(self.check_restored(tool, &places, run)?);
                disk::remove_tree(&places.target)?;
            }
            let repository_mb = disk::size_mb(&places.repository);
            if scenario == Scenario::Half {
                disk::remove_tree(&places.repository)?;
            }
            let row = Row {
                kind: tool.kind,
                scenario,
                run,
                sample,
                repository_mb,
                restored_whole,
            };
            eprintln!(
                "run {run}: {:<9} {:<7} {:>8.2} s",
                scenario.name(),
                tool.kind.name(),
                row.wall_s()
            );
            if self.scenarios.contains(&scenario) {
                if self.json {
                    println!("{}", self.json_of(tool, &row));
                }
                rows.push(row);
            }
        }
        Ok(())
    }

    /// Whether the restored tree has the source's files and bytes; with `--compare`, and in the
    /// last run, whether Tabane's is equal in everything.
    fn check_restored(&self, tool: &Tool, places: &Places, run: u32) -> Result<bool> {
        let restored = tool.restored(places);
        let found = disk::census(&restored).unwrap_or_default();
        // Changes may have made it longer.
        let source = disk::census(&self.tree)?;
        let mut whole = (found.files, found.symlinks, found.bytes)
            == (source.files, source.symlinks, source.bytes);
        if !whole {
            eprintln!(
                "*** {} restored {} of {} files, {} of {} symlinks, {} of {} bytes.",
                tool.kind.name(),
                found.files,
                source.files,
                found.symlinks,
                source.symlinks,
                found.bytes,
                source.bytes
            );
        }
        if self.compare && tool.kind == Kind::Tabane && run == self.runs {
            // In a process of its own: its memory must not become part of what is measured here.
            let program = std::env::current_exe().context("cannot find this program")?;
            let output = Command::new(program)
                .arg("compare-trees")
                .args([&self.tree, &restored])
                .output()
                .context("cannot compare the trees")?;
            let text = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<&str> = text.lines().collect();
            for line in lines
                .iter()
                .take(20)
                .chain(lines.last().filter(|_| lines.len() > 20))
            {
                eprintln!("    {line}");
            }
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            whole &= output.status.success();
        }
        Ok(whole)
    }

    fn json_of(&self, tool: &Tool, row: &Row) -> Value {
        json!({
            "kind": "run", "tool": row.kind.name(), "version": tool.version,
            "scenario": row.scenario.name(), "run": row.run, "wall_s": round(row.wall_s()),
            "cpu_s": round(row.cpu_s()),
            "others_cpu_s": round(row.sample.others_cpu.as_secs_f64()),
            "peak_rss_mb": round(row.peak_rss_mb()), "tree_mb": round(self.census.megabytes()),
            "files": self.census.files,
            "speed_mb_per_s": round(self.census.megabytes() / row.wall_s()),
            "repository_mb": round(row.repository_mb), "exit_code": row.sample.exit_code,
            "restored_whole": row.restored_whole,
        })
    }

    /// Prints medians, ratios and bars; whether all bars are met.
    fn report(&self, rows: &[Row]) -> bool {
        let summary = Summary::of(rows);
        let bars = if self.cold {
            Vec::new()
        } else {
            summary.bars()
        };
        if self.json {
            for ratio in &summary.ratios {
                println!("{}", ratio.json());
            }
            for bar in &bars {
                println!(
                    "{}",
                    json!({
                        "kind": "bar", "what": bar.what, "value": round(bar.value),
                        "bar": bar.limit, "at_least": bar.at_least, "ok": bar.met(),
                    })
                );
            }
        } else {
            self.print_tables(&summary, &bars);
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        rounds::warn_of_others(rows.iter().map(|row| &row.sample), processors);
        bars.iter().all(Bar::met) && rows.iter().all(|row| row.restored_whole != Some(false))
    }

    fn print_tables(&self, summary: &Summary, bars: &[Bar]) {
        println!(
            "{:<10} {:<7} {:>9} {:>9} {:>9} {:>8} {:>14} {:>15} {:>16}",
            "scenario",
            "tool",
            "wall s",
            "CPU s",
            "MB/s",
            "peak MB",
            "repository MB",
            "theirs / ours",
            "repository / ours"
        );
        for &scenario in &self.scenarios {
            for tool in &self.tools {
                let Some(line) = summary.medians.get(&(scenario, tool.kind.name())) else {
                    continue;
                };
                let ratio = summary
                    .ratios
                    .iter()
                    .find(|ratio| ratio.scenario == scenario && ratio.peer == tool.kind);
                let (times, sizes) = ratio.map_or_else(Default::default, |ratio| {
                    (
                        format!(
                            "{:.2} [{:.2}-{:.2}]",
                            ratio.wall, ratio.least, ratio.greatest
                        ),
                        format!("{:.3}", 1.0 / ratio.repository),
                    )
                });
                println!(
                    "{:<10} {:<7} {:>9.2} {:>9.2} {:>9.0} {:>8.0} {:>14.1} {:>15} {:>16}",
                    scenario.name(),
                    tool.kind.name(),
                    line.wall_s,
                    line.cpu_s,
                    self.census.megabytes() / line.wall_s,
                    line.peak_rss_mb,
                    line.repository_mb,
                    times,
                    sizes
                );
            }
        }
        println!(
            "medians of {}; theirs / ours: wall time, paired within each run, median \
            [least-greatest]",
            self.runs
        );
        if bars.is_empty() {
            println!("no bars: they are set for Tabane beside its peers, with all files in memory");
            return;
        }
        println!("\n{:<40} {:>9} {:>9}", "bar", "measured", "bar");
        for bar in bars {
            println!(
                "{:<40} {:>9.2} {:>9} {}",
                bar.what,
                bar.value,
                format!("{} {}", if bar.at_least { ">=" } else { "<=" }, bar.limit),
                if bar.met() { "ok" } else { "MISSED" }
            );
        }
    }
}

/// Waits until writes of what came before have reached the disk that is worked on, if it is one.
fn settle(work: &Path) {
    let start = Instant::now();
    if let Ok(directory) = fs::File::open(work) {
        let _ = rustix::fs::syncfs(&directory);
    }
    if start.elapsed() > Duration::from_secs(10) {
        eprintln!(
            "note: this disk is slow to settle ({:.0?})",
            start.elapsed()
        );
    }
}

/// Medians of one tool in one scenario.
struct Medians {
    wall_s: f64,
    cpu_s: f64,
    peak_rss_mb: f64,
    repository_mb: f64,
}

/// A peer beside Tabane in one scenario.
#[derive(Debug)]
struct Ratio {
    scenario: Scenario,
    peer: Kind,
    /// Theirs by ours, wall time: the median of the runs' own ratios, and their range.
    wall: f64,
    least: f64,
    greatest: f64,
    /// Theirs by ours, CPU time.
    cpu: f64,
    /// Ours by theirs, repository.
    repository: f64,
}

impl Ratio {
    fn json(&self) -> Value {
        let bar = (self.peer == Kind::Restic).then(|| self.scenario.bar());
        json!({
            "kind": "ratio", "scenario": self.scenario.name(), "peer": self.peer.name(),
            "wall_theirs_by_ours": round(self.wall), "wall_least": round(self.least),
            "wall_greatest": round(self.greatest), "cpu_theirs_by_ours": round(self.cpu),
            "repository_ours_by_theirs": round(self.repository), "bar": bar,
            "ok": bar.map(|bar| self.wall >= bar),
        })
    }
}

/// Something that has to be reached.
struct Bar {
    what: String,
    value: f64,
    limit: f64,
    at_least: bool,
}

impl Bar {
    fn met(&self) -> bool {
        if self.at_least {
            self.value >= self.limit
        } else {
            self.value <= self.limit
        }
    }
}

/// All runs, summed up.
struct Summary {
    medians: BTreeMap<(Scenario, &'static str), Medians>,
    ratios: Vec<Ratio>,
    /// The most memory that Tabane took anywhere.
    peak_rss_mb: Option<f64>,
}

impl Summary {
    fn of(rows: &[Row]) -> Summary {
        let mut groups: BTreeMap<(Scenario, &'static str), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            groups
                .entry((row.scenario, row.kind.name()))
                .or_default()
                .push(row);
        }
        let middle = |group: &[&Row], of: fn(&Row) -> f64| {
            median(group.iter().map(|row| of(row))).unwrap_or(f64::NAN)
        };
        let mut ratios = Vec::new();
        let mut medians = BTreeMap::new();
        for (&key, theirs) in &groups {
            medians.insert(
                key,
                Medians {
                    wall_s: middle(theirs, Row::wall_s),
                    cpu_s: middle(theirs, Row::cpu_s),
                    peak_rss_mb: middle(theirs, Row::peak_rss_mb),
                    repository_mb: middle(theirs, |row| row.repository_mb),
                },
            );
            let peer = theirs[0].kind;
            let ours = groups.get(&(key.0, Kind::Tabane.name()));
            let (Some(ours), true) = (ours, peer != Kind::Tabane) else {
                continue;
            };
            let paired = |of: fn(&Row) -> f64| -> Vec<f64> {
                theirs
                    .iter()
                    .filter_map(|their| {
                        let our = ours.iter().find(|our| our.run == their.run)?;
                        Some(of(their) / of(our))
                    })
                    .collect()
            };
            let walls = paired(Row::wall_s);
            ratios.push(Ratio {
                scenario: key.0,
                peer,
                least: walls.iter().copied().fold(f64::INFINITY, f64::min),
                greatest: walls.iter().copied().fold(0.0, f64::max),
                wall: median(walls).unwrap_or(f64::NAN),
                cpu: median(paired(Row::cpu_s)).unwrap_or(f64::NAN),
                repository: 1.0 / median(paired(|row| row.repository_mb)).unwrap_or(f64::NAN),
            });
        }
        Summary {
            medians,
            ratios,
            peak_rss_mb: rows
                .iter()
                .filter(|row| row.kind == Kind::Tabane)
                .map(Row::peak_rss_mb)
                .reduce(f64::max),
        }
    }

    /// The bars that can be judged: those against restic, the best of all peers, and memory.
    fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        let of = |peer: Kind| self.ratios.iter().filter(move |ratio| ratio.peer == peer);
        for ratio in of(Kind::Restic) {
            let name = ratio.scenario.name();
            bars.push(Bar {
                what: format!("{name}: restic / ours, wall"),
                value: ratio.wall,
                limit: ratio.scenario.bar(),
                at_least: true,
            });
            bars.push(Bar {
                what: format!("{name}: restic / ours, CPU"),
                value: ratio.cpu,
                limit: BAR_CPU,
                at_least: true,
            });
        }
        for ratio in of(Kind::Floor) {
            let limit = match ratio.scenario {
                Scenario::First => BAR_FIRST_CPU,
                Scenario::Restore => BAR_RESTORE_CPU,
                _ => continue,
            };
            bars.push(Bar {
                what: format!("{}: ours / floor, CPU", ratio.scenario.name()),
                value: 1.0 / ratio.cpu,
                limit,
                at_least: false,
            });
        }
        let others = || {
            self.ratios
                .iter()
                .filter(|ratio| ![Kind::Restic, Kind::Floor].contains(&ratio.peer))
        };
        if let Some(wall) = others().map(|ratio| ratio.wall).reduce(f64::min) {
            bars.push(Bar {
                what: "fastest other peer / ours, wall, worst".to_owned(),
                value: wall,
                limit: 1.0,
                at_least: true,
            });
        }
        let programs = self.ratios.iter().filter(|ratio| ratio.peer != Kind::Floor);
        let repositories = programs.map(|ratio| ratio.repository);
        if let Some(worst) = repositories.reduce(f64::max) {
            bars.push(Bar {
                what: "repository: ours / smallest, worst".to_owned(),
                value: worst,
                limit: BAR_REPOSITORY,
                at_least: false,
            });
        }
        if let Some(peak) = self.peak_rss_mb {
            bars.push(Bar {
                what: "our peak memory anywhere, MB".to_owned(),
                value: peak,
                limit: BAR_PEAK_RSS_MB,
                at_least: false,
            });
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, scenario: Scenario, run: u32, wall_ms: u64, repository_mb: f64) -> Row {
        Row {
            kind,
            scenario,
            run,
            sample: Sample {
                wall: Duration::from_millis(wall_ms),
                cpu: Duration::from_millis(wall_ms),
                peak_rss_bytes: 310_000_000,
                others_cpu: Duration::ZERO,
                exit_code: 0,
            },
            repository_mb,
            restored_whole: None,
        }
    }

    #[test]
    fn ratios_are_paired_within_runs() {
        let rows = [
            row(Kind::Tabane, Scenario::First, 1, 100, 102.0),
            row(Kind::Restic, Scenario::First, 1, 300, 100.0),
            row(Kind::Tabane, Scenario::First, 2, 1000, 102.0),
            row(Kind::Restic, Scenario::First, 2, 2000, 100.0),
            row(Kind::Tabane, Scenario::First, 3, 100, 102.0),
            row(Kind::Restic, Scenario::First, 3, 260, 100.0),
        ];
        let summary = Summary::of(&rows);
        assert_eq!(summary.ratios.len(), 1);
        let ratio = &summary.ratios[0];
        assert!((ratio.wall - 2.6).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.least - 2.0).abs() < 1e-9 && (ratio.greatest - 3.0).abs() < 1e-9);
        assert!((ratio.repository - 1.02).abs() < 1e-9);
        let met: Vec<bool> = summary.bars().iter().map(Bar::met).collect();
        assert_eq!(met, [false, false, true, false]); // speed, CPU, repository, memory
    }

    #[test]
    fn needs_grow_with_the_tools() {
        let census = Census {
            allocated_bytes: 1 << 30,
            ..Census::default()
        };
        let one = Needs::of(&census, 1, false);
        let three = Needs::of(&census, 3, true);
        assert!(one.likely < three.likely && three.likely < three.worst);
    }
}
