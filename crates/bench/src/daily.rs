//! `tabane-bench daily`: what administrators do beside backups and restores of one repository.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tabane_bench::arguments::{Program, Report};
use tabane_bench::measure::{Sample, measure};
use tabane_bench::rounds::{self, cpu_s, median_of, ratio, round, wall_s};
use tabane_bench::tools::{Kind, Places, Scenario, Tool, find_in_path};
use tabane_testing::compare_trees::{Options, compare};
use tabane_testing::disk;

/// A file in so many changes from one of restic's snapshots to the next.
const CHANGED_EVERY: usize = 100;

/// The repositories that also get a backup.
const FURTHER: [&str; 2] = ["second", "third"];

/// Time the import of a restic repository beside restoring and backing up its snapshots, a backup
/// to three repositories beside one to a single repository, and a drill beside a restore.
#[derive(clap::Args)]
pub struct Args {
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    measure: Vec<What>,
    /// The tree to back up
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// Snapshots of the restic repository
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    snapshots: u32,
    /// The restic that makes it [default: the one in PATH]
    #[arg(long, value_name = "PATH")]
    restic: Option<PathBuf>,
    /// How many times to run everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Where repositories and restored trees go [default: $TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    report: Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// `tabane import` against `restic restore` and `tabane backup` of every snapshot
    Import,
    /// `tabane backup --also-to` two more repositories against one repository
    AlsoTo,
    /// `tabane drill` of one file in a hundred against a restore of all
    Drill,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::AlsoTo => "also-to",
            Self::Drill => "drill",
        }
    }

    /// What is measured by what it is measured against: at most this.
    fn bar(self) -> f64 {
        match self {
            Self::Import => 1.0,
            Self::AlsoTo => 1.3,
            Self::Drill => 0.02,
        }
    }

    /// Processor time where others would only wait for the same disk.
    fn time(self) -> (&'static str, fn(&Sample) -> f64) {
        match self {
            Self::AlsoTo => ("CPU", cpu_s),
            Self::Import | Self::Drill => ("wall", wall_s),
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    rounds::load();
    let parent = args.work.clone().unwrap_or_else(std::env::temp_dir);
    let work = disk::work_in(&parent)?;
    let mut met = true;
    for &what in &args.measure {
        let bench = Bench {
            args,
            tabane: Tool::at(Kind::Tabane, args.program.find()?)?,
            tree: args.tree.canonicalize().context("there is no such tree")?,
            work: work.path().canonicalize()?.join(what.name()),
        };
        fs::create_dir(&bench.work)?;
        let (ours, beside) = match what {
            What::Import => bench.import()?,
            What::AlsoTo => bench.also_to()?,
            What::Drill => bench.drill()?,
        };
        let (time, of) = what.time();
        let part = ratio(&ours, &beside, of);
        met &= part <= what.bar();
        let (ours, beside) = (median_of(&ours, of), median_of(&beside, of));
        if args.report.json {
            let line = json!({
                "kind": "daily", "measure": what.name(), "time": time, "s": round(ours),
                "beside_s": round(beside), "ratio": round(part), "bar": what.bar(),
            });
            println!("{line}");
        } else {
            println!(
                "{:<8} {time:<4} {ours:>8.2} s, beside {beside:>8.2} s: {part:.3} (bar {})",
                what.name(),
                what.bar()
            );
        }
        disk::remove_tree(&bench.work)?;
    }
    Ok(args.report.exit_code(met))
}

/// Timings, and those of what they are compared with.
type Timings = (Vec<Sample>, Vec<Sample>);

struct Bench<'a> {
    args: &'a Args,
    tabane: Tool,
    tree: PathBuf,
    work: PathBuf,
}

impl Bench<'_> {
    fn places(&self, name: &str) -> Places {
        Places {
            tree: self.tree.clone(),
            repository: self.work.join(name),
            cache: self.work.join(format!("{name}-cache")),
            target: self.work.join(format!("{name}-target")),
        }
    }

    /// Tabane with these arguments, for the repository of `places`.
    fn command(&self, places: &Places, arguments: &[&str]) -> Command {
        let mut command = self.tabane.command(places);
        command
            .arg("--repo")
            .arg(&places.repository)
            .args(arguments);
        let password = tabane_bench::tools::PASSWORD;
        command.env("TABANE_FROM_PASSWORD", password);
        command
    }

    fn time(&self, command: Command) -> Result<Sample> {
        // So that no command pays for the writes of another.
        rustix::fs::syncfs(fs::File::open(&self.work)?)?;
        measure(command, &self.work.join("log"), &[0])
    }

    /// An empty repository, that cuts files as the one at `like` does if there is one.
    fn init(&self, name: &str, like: Option<&Places>) -> Result<Places> {
        let places = self.places(name);
        for path in [&places.repository, &places.cache, &places.target] {
            disk::remove_tree(path)?;
        }
        fs::create_dir(&places.cache)?;
        let mut command = self.command(&places, &["init"]);
        if let Some(like) = like {
            command
                .arg("--copy-chunker-params")
                .arg("--from-repo")
                .arg(&like.repository);
        }
        self.time(command)?;
        Ok(places)
    }

    fn also_to(&self) -> Result<Timings> {
        let ways = [(true, "three"), (false, "one")];
        let first = |to_three| if to_three { "three" } else { "one" };
        let prepare = |to_three| {
            let first = self.init(first(to_three), None)?;
            for other in FURTHER.into_iter().filter(|_| to_three) {
                self.init(other, Some(&first))?;
            }
            Ok(())
        };
        let measure = |to_three, _| {
            disk::warm(&self.tree)?;
            let mut command = self.command(&self.places(first(to_three)), &["backup"]);
            command.arg(&self.tree);
            for other in FURTHER.into_iter().filter(|_| to_three) {
                command.arg("--also-to").arg(self.places(other).repository);
            }
            self.time(command)
        };
        let runs = self.args.runs;
        let mut samples =
            rounds::take_turns(runs, &ways, &[Scenario::First], prepare, measure)?.into_iter();
        let mut next = || samples.next().expect("each way has its samples");
        Ok((next(), next()))
    }

    fn drill(&self) -> Result<Timings> {
        let places = self.init("repository", None)?;
        let mut command = self.command(&places, &["backup"]);
        command.arg(&self.tree);
        self.time(command)?;
        let (mut drills, mut restores) = (Vec::new(), Vec::new());
        for _ in 0..self.args.runs {
            let command = self
                .tabane
                .scenario(Scenario::Restore, Scenario::First, &places);
            fs::create_dir(&places.target)?;
            restores.push(self.time(command)?);
            disk::remove_tree(&places.target)?;
            fs::create_dir(&places.target)?;
            let mut command = self.command(&places, &["drill", "--sample", "1%", "--directory"]);
            command.arg(&places.target);
            drills.push(self.time(command)?);
            disk::remove_tree(&places.target)?;
        }
        Ok((drills, restores))
    }

    fn import(&self) -> Result<Timings> {
        let program = self.args.restic.clone().or_else(|| find_in_path("restic"));
        let program = program.context("there is no restic to import from")?;
        let restic = Tool::at(Kind::Restic, program)?;
        eprintln!("restic {}", restic.version);
        let mut source = self.places("restic");
        source.tree = self.work.join("tree");
        disk::copy_tree(&self.tree, &source.tree)?;
        for command in restic.init(&source)? {
            self.time(command)?;
        }
        for number in 0..self.args.snapshots as usize {
            change(&source.tree, number)?;
            self.time(restic.scenario(Scenario::First, Scenario::First, &source))?;
        }
        let ids = snapshots(restic.command(&source).args(["snapshots", "--json"]), "id")?;
        ensure!(
            ids.len() == self.args.snapshots as usize,
            "{} snapshots",
            ids.len()
        );

        let (mut imports, mut detours) = (Vec::new(), Vec::new());
        for run in 0..self.args.runs {
            let imported = self.init("imported", None)?;
            let mut command = self.command(&imported, &["import"]);
            command.arg(format!("restic:{}", source.repository.display()));
            imports.push(self.time(command)?);
            let list = &mut self.command(&imported, &["snapshots", "--json"]);
            let copies = snapshots(list, "id")?;
            ensure!(copies.len() == ids.len(), "{} were imported", copies.len());

            let by_hand = self.init("by-hand", None)?;
            let mut detour: Option<Sample> = None;
            for (id, copy) in ids.iter().zip(&copies) {
                let mut command = restic.command(&source);
                command
                    .args(["restore", id, "--target"])
                    .arg(&source.target);
                let restored = self.time(command)?;
                let path = restic.restored(&source);
                let mut command = self.command(&by_hand, &["backup"]);
                command.arg("--as-path").arg(&source.tree).arg(&path);
                let stored = self.time(command)?;
                detour = Some(sum(sum(detour.unwrap_or(NOTHING), restored), stored));
                // Every file of every snapshot, once.
                if run == 0 {
                    let mut command = self.command(&imported, &["restore", copy, "--target"]);
                    command.arg(&imported.target);
                    self.time(command)?;
                    let relative = source.tree.strip_prefix("/").expect("it is absolute");
                    same(&path, &imported.target.join(relative))?;
                    disk::remove_tree(&imported.target)?;
                }
                disk::remove_tree(&source.target)?;
            }
            detours.extend(detour);
        }
        Ok((imports, detours))
    }
}

const NOTHING: Sample = Sample {
    wall: std::time::Duration::ZERO,
    cpu: std::time::Duration::ZERO,
    peak_rss_bytes: 0,
    others_cpu: std::time::Duration::ZERO,
    exit_code: 0,
};

fn sum(a: Sample, b: Sample) -> Sample {
    Sample {
        wall: a.wall + b.wall,
        cpu: a.cpu + b.cpu,
        peak_rss_bytes: a.peak_rss_bytes.max(b.peak_rss_bytes),
        others_cpu: a.others_cpu + b.others_cpu,
        exit_code: b.exit_code,
    }
}

/// Adds a line to some of the files, others for each `number`.
fn change(tree: &Path, number: usize) -> Result<()> {
    let mut at = number;
    disk::walk(tree, &mut |path, metadata| {
        if metadata.is_file() {
            if at.is_multiple_of(CHANGED_EVERY) {
                let mut file = OpenOptions::new().append(true).open(path)?;
                writeln!(file, "line {number}")?;
            }
            at += 1;
        }
        Ok(())
    })
}

/// A field of every snapshot that a command lists, oldest first.
fn snapshots(command: &mut Command, field: &str) -> Result<Vec<String>> {
    let output = command.output()?;
    ensure!(output.status.success(), "snapshots cannot be listed");
    let mut listed: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    listed.sort_by_key(|snapshot| snapshot["time"].as_str().map(str::to_owned));
    let ids = listed
        .iter()
        .map(|snapshot| Some(snapshot[field].as_str()?.to_owned()));
    ids.collect::<Option<_>>().context("a snapshot has no ID")
}

/// Fails if the trees differ.
fn same(expected: &Path, found: &Path) -> Result<()> {
    let options = Options {
        ignore_root: true,
        ..Options::default()
    };
    let outcome = compare(expected, found, &options)?;
    match outcome.differences.first() {
        Some(difference) => bail!("an imported snapshot differs: {difference}"),
        None => Ok(()),
    }
}
