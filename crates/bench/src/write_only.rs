//! `tabane-bench write-only`: backups with a write-only key beside backups with a full one.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use serde_json::json;
use tabane_bench::arguments::{Program, Report};
use tabane_bench::measure::{Sample, measure};
use tabane_bench::rounds::{self, median_of, ratio, round, wall_s};
use tabane_bench::tools::{Kind, Places, Scenario, Tool};
use tabane_testing::disk;

/// A write-only backup takes at most so many times an ordinary one.
const BAR: f64 = 1.1;

/// Time first and unchanged backups with a write-only key, with a full key of such a repository,
/// and in a repository without write-only keys.
#[derive(clap::Args)]
pub struct Args {
    /// The tree to back up
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// How many keys each repository has
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    keys: u32,
    /// How many times to run everything
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Where the repositories go [default: $TMPDIR]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    report: Report,
}

/// The key that backs up, and the others of its repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A full key beside full ones.
    Ordinary,
    /// A full key beside write-only ones.
    Full,
    /// A write-only key beside a full one and write-only ones.
    WriteOnly,
}

const WAYS: [Way; 3] = [Way::Ordinary, Way::Full, Way::WriteOnly];

const SCENARIOS: [Scenario; 2] = [Scenario::First, Scenario::Unchanged];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Full => "full",
            Self::WriteOnly => "write-only",
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    rounds::load();
    let parent = args.work.clone().unwrap_or_else(std::env::temp_dir);
    let work = disk::work_in(&parent)?;
    let bench = Bench {
        tree: args.tree.canonicalize().context("there is no such tree")?,
        work: work.path().canonicalize()?,
        tabane: Tool::at(Kind::Tabane, args.program.find()?)?,
        keys: args.keys,
    };
    let samples = rounds::take_turns(
        args.runs,
        &WAYS.map(|way| (way, way.name())),
        &SCENARIOS,
        |way| bench.init(way),
        |way, scenario| bench.measure(way, scenario),
    )?;
    Ok(args.report.exit_code(report(args, &samples)))
}

/// Prints medians and ratios; returns whether the bar is met.
fn report(args: &Args, samples: &[Vec<Sample>]) -> bool {
    let mut met = true;
    if !args.report.json {
        println!(
            "medians of {} runs, {} keys; bar: {BAR} by the clock",
            args.runs, args.keys
        );
        println!(
            "{:<10} {:<11} {:>8} {:>8} {:>15} {:>15}",
            "scenario", "key", "wall s", "CPU s", "by ordinary", "CPU by ordinary"
        );
    }
    for (number, scenario) in SCENARIOS.into_iter().enumerate() {
        let ordinary = &samples[number];
        for (way, taken) in WAYS.into_iter().zip(samples.chunks(SCENARIOS.len())) {
            let taken = &taken[number];
            let by_wall = ratio(taken, ordinary, wall_s);
            let by_cpu = ratio(taken, ordinary, rounds::cpu_s);
            met &= way != Way::WriteOnly || by_wall <= BAR;
            let wall = median_of(taken, wall_s);
            let cpu = median_of(taken, rounds::cpu_s);
            if args.report.json {
                println!(
                    "{}",
                    json!({
                        "kind": "write-only", "scenario": scenario.name(), "key": way.name(),
                        "wall_s": round(wall), "cpu_s": round(cpu),
                        "wall_by_ordinary": round(by_wall), "cpu_by_ordinary": round(by_cpu),
                    })
                );
            } else {
                println!(
                    "{:<10} {:<11} {wall:>8.3} {cpu:>8.3} {by_wall:>15.3} {by_cpu:>15.3}",
                    scenario.name(),
                    way.name()
                );
            }
        }
    }
    met
}

struct Bench {
    tree: PathBuf,
    work: PathBuf,
    tabane: Tool,
    keys: u32,
}

impl Bench {
    fn folder(&self, way: Way) -> PathBuf {
        self.work.join(way.name())
    }

    fn places(&self, way: Way) -> Places {
        let folder = self.folder(way);
        Places {
            tree: self.tree.clone(),
            repository: folder.join("repository"),
            cache: folder.join("cache"),
            target: folder.join("target"),
        }
    }

    /// The password of the `number`-th key that was added.
    fn password(number: u32) -> String {
        format!("tabane-bench-{number}")
    }

    fn run(&self, command: Command) -> Result<Sample> {
        measure(command, &self.work.join("log"), &[0])
    }

    /// Makes a repository with all its keys.
    fn init(&self, way: Way) -> Result<()> {
        let places = self.places(way);
        disk::remove_tree(&self.folder(way))?;
        fs::create_dir_all(&places.cache)?;
        for command in self.tabane.init(&places)? {
            self.run(command)?;
        }
        let password_file = self.work.join("password");
        for number in 1..self.keys {
            fs::write(&password_file, Self::password(number))?;
            let mut add = self.tabane.command(&places);
            add.args(["key", "add", "--repo"]).arg(&places.repository);
            add.arg("--new-password-file").arg(&password_file);
            add.args((way != Way::Ordinary).then_some("--write-only"));
            self.run(add)?;
        }
        // The machine has used the key before: a password is tried on that key first.
        let mut used = self.tabane.command(&places);
        used.args(["key", "list", "--repo"]).arg(&places.repository);
        self.run(self.with_password(used, way))?;
        Ok(())
    }

    /// The command with the password of the key that backs up.
    fn with_password(&self, mut command: Command, way: Way) -> Command {
        if way == Way::WriteOnly {
            command.env("TABANE_PASSWORD", Self::password(1));
        }
        command
    }

    fn measure(&self, way: Way, scenario: Scenario) -> Result<Sample> {
        let places = self.places(way);
        // So that no way pays for the writes of another.
        let directory = fs::File::open(&self.work)?;
        rustix::fs::syncfs(&directory)?;
        disk::warm(&self.tree)?;
        let command = self.tabane.scenario(scenario, Scenario::First, &places);
        self.run(self.with_password(command, way))
            .with_context(|| format!("{}, {}", way.name(), scenario.name()))
    }
}
