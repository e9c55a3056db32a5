//! `tabane-bench far`: whole backup programs over a line to an S3 server that is far away.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tabane_bench::arguments::{Program, Report};
use tabane_bench::cpus::Model;
use tabane_bench::measure::{Sample, measure, median};
use tabane_bench::rounds::{self, round};
use tabane_bench::tools::{Kind, Tool, find_in_path};
use tabane_testing::gateway::{ACCESS_KEY, BUCKET, Gateway, SECRET_KEY};
use tabane_testing::line::{Line, Properties, Traffic};
use tabane_testing::{disk, tree};

/// Of restic's wall time, ours at most.
const BAR: f64 = 0.7;

/// The password of every repository made here.
const PASSWORD: &str = "tabane-bench";

/// Time backup, restore, check and prune over a line to an S3 server, and count requests.
///
/// The server is versitygw on this machine. Before it stands a proxy that adds a latency to every
/// round trip and to every new connection, carries no more than a rate, and counts: requests,
/// requests in sequence (the most of them each of which began after the end of the one before it),
/// connections and bytes. The tools take turns, scenario by scenario.
#[derive(clap::Args)]
pub struct Args {
    /// The tree to back up [default: a mixed one of --files files is made]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Data files in the tree that is made
    #[arg(long, value_name = "N", default_value_t = 15_000)]
    files: u64,
    /// Latencies of a round trip, in milliseconds
    #[arg(
        long,
        value_name = "MS",
        value_delimiter = ',',
        default_value = "0,20,100,300"
    )]
    latencies: Vec<u64>,
    /// Rates of the line in Mbit/s; 0 for no limit
    #[arg(
        long,
        value_name = "MBIT",
        value_delimiter = ',',
        default_value = "0,1000,50"
    )]
    rates: Vec<u64>,
    /// Peers beside Tabane, those that are installed; "none" for none
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "restic,kopia"
    )]
    peers: Vec<String>,
    /// How many times to run everything
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Which scenarios to report; first backups are always made
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_enum,
        default_value = "first,unchanged,snapshots,ls,restore,check,prune"
    )]
    scenarios: Vec<Scenario>,
    #[command(flatten)]
    program: Program,
    /// Another tabane to measure beside the first
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    #[command(flatten)]
    report: Report,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Scenario {
    /// The first backup into an empty repository
    First,
    /// A second backup of the unchanged tree
    Unchanged,
    /// A list of the snapshots
    Snapshots,
    /// A list of all files, without a local cache
    Ls,
    /// A restore of everything into an empty directory
    Restore,
    /// A check of the structure
    Check,
    /// All snapshots but the last are forgotten, and what they alone need is removed
    Prune,
}

/// A program over its own server and line.
struct Contender {
    name: String,
    tool: Tool,
    /// Stopped with its line.
    _gateway: Gateway,
    line: Line,
    cache: PathBuf,
    target: PathBuf,
}

/// One measured run of one program.
struct Row {
    name: String,
    setting: Setting,
    scenario: Scenario,
    sample: Sample,
    traffic: Traffic,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Setting {
    latency_ms: u64,
    /// 0 for no limit.
    mbit_per_s: u64,
}

impl Setting {
    fn properties(self) -> Properties {
        Properties {
            latency: Duration::from_millis(self.latency_ms),
            bits_per_s: (self.mbit_per_s > 0).then_some(self.mbit_per_s * 1_000_000),
        }
    }

    fn rate(self) -> String {
        match self.mbit_per_s {
            0 => "unlimited".to_owned(),
            rate => format!("{rate} Mbit/s"),
        }
    }
}

impl Row {
    /// The part of the line that was used, in the direction in which more went.
    fn share(&self) -> Option<f64> {
        let bits = 8.0 * self.traffic.sent.max(self.traffic.received) as f64;
        let rate = (self.setting.mbit_per_s > 0).then_some(self.setting.mbit_per_s as f64 * 1e6)?;
        Some(bits / rate / self.sample.wall.as_secs_f64())
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let made = tempfile::tempdir_in(work_root())?;
    let work = tempfile::tempdir_in(work_root())?;
    let source = match &args.tree {
        Some(source) => source.canonicalize().context("cannot resolve the tree")?,
        None => {
            let source = made.path().join("tree");
            tree::build(&source, tree::Kind::Mixed, Some(args.files), None)?;
            source
        }
    };
    let census = disk::census(&source)?;
    let tools = tools(args)?;
    let model = Model::of_this().name;
    let load = rounds::load();
    if args.report.json {
        let versions: BTreeMap<_, _> = tools
            .iter()
            .map(|(name, tool)| (name, &tool.version))
            .collect();
        println!(
            "{}",
            json!({
                "kind": "host", "processor": model, "load": load, "files": census.files,
                "tree_mb": round(census.megabytes()), "versions": versions,
            })
        );
    } else {
        println!(
            "{model}; {} files, {:.0} MB; {} runs",
            census.files,
            census.megabytes(),
            args.runs
        );
        for (name, tool) in &tools {
            println!("{name} {}", tool.version);
        }
    }
    let mut rows = Vec::new();
    for &mbit_per_s in &args.rates {
        for &latency_ms in &args.latencies {
            let setting = Setting {
                latency_ms,
                mbit_per_s,
            };
            for round in 0..args.runs {
                one_run(
                    args,
                    &tools,
                    setting,
                    round as usize,
                    &source,
                    work.path(),
                    &mut rows,
                )?;
            }
            report(args, setting, &tools, &rows);
        }
    }
    Ok(args.report.exit_code(is_met(&rows)))
}

/// In memory, if there is such a place.
fn work_root() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    }
}

fn tools(args: &Args) -> Result<Vec<(String, Tool)>> {
    let mut tools = vec![(
        "tabane".to_owned(),
        Tool::at(Kind::Tabane, args.program.find()?)?,
    )];
    if let Some(before) = &args.before {
        tools.push(("before".to_owned(), Tool::at(Kind::Tabane, before.clone())?));
    }
    for name in args.peers.iter().filter(|name| *name != "none") {
        let kind = Kind::peer(name)?;
        if ![Kind::Restic, Kind::Kopia].contains(&kind) {
            bail!("{name} is not measured over S3: known are restic and kopia");
        }
        match find_in_path(name).map(|program| Tool::at(kind, program)) {
            Some(Ok(tool)) => tools.push((name.clone(), tool)),
            Some(Err(error)) => eprintln!("*** {name} DOES NOT RUN ({error:#}): not compared."),
            None => eprintln!("*** {name} is NOT INSTALLED: it is not compared."),
        }
    }
    Ok(tools)
}

fn one_run(
    args: &Args,
    tools: &[(String, Tool)],
    setting: Setting,
    round: usize,
    source: &Path,
    work: &Path,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let mut contenders = Vec::new();
    for (name, tool) in tools {
        let gateway = Gateway::start("far").context("versitygw is not installed")?;
        let line = Line::to(gateway.port(), setting.properties());
        let place = |what: &str| work.join(format!("{name}-{what}"));
        let contender = Contender {
            name: name.clone(),
            tool: tool.clone(),
            _gateway: gateway,
            line,
            cache: place("cache"),
            target: place("target"),
        };
        disk::remove_tree(&contender.cache)?;
        fs::create_dir(&contender.cache)?;
        measure(contender.init(), &work.join("log"), &[0])?;
        contenders.push(contender);
    }
    let count = contenders.len();
    contenders.rotate_left(round % count);
    for scenario in [
        Scenario::First,
        Scenario::Unchanged,
        Scenario::Snapshots,
        Scenario::Ls,
        Scenario::Restore,
        Scenario::Check,
        Scenario::Prune,
    ] {
        let is_wanted = args.scenarios.contains(&scenario);
        if !is_wanted && scenario != Scenario::First {
            continue;
        }
        for contender in &contenders {
            if scenario == Scenario::Prune {
                contender.prepare_prune(work, source)?;
            }
            disk::remove_tree(&contender.target)?;
            disk::warm(source)?;
            contender.line.take_traffic();
            let command = contender.scenario(scenario, source);
            let log = work.join("log");
            let sample = measure(command, &log, contender.tool.kind.accepted())
                .with_context(|| format!("{}, {scenario:?}", contender.name))?;
            // Connections end, and with them their last requests, a moment after the program.
            std::thread::sleep(Duration::from_millis(200 + setting.latency_ms));
            disk::remove_tree(&contender.target)?;
            if is_wanted {
                rows.push(Row {
                    name: contender.name.clone(),
                    setting,
                    scenario,
                    sample,
                    traffic: contender.line.take_traffic(),
                });
            }
        }
    }
    Ok(())
}

impl Contender {
    /// The program as a user without settings runs it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.tool.program);
        let port = self.line.port();
        Gateway::credentials(&mut command).env("AWS_REGION", "us-east-1");
        match self.tool.kind {
            Kind::Tabane => command
                .env(
                    "TABANE_REPOSITORY",
                    format!("s3+http://127.0.0.1:{port}/{BUCKET}/r"),
                )
                .env("TABANE_PASSWORD", PASSWORD)
                .env("TABANE_CACHE_DIR", &self.cache),
            Kind::Restic => command
                .env(
                    "RESTIC_REPOSITORY",
                    format!("s3:http://127.0.0.1:{port}/{BUCKET}/r"),
                )
                .env("RESTIC_PASSWORD", PASSWORD)
                .env("RESTIC_CACHE_DIR", &self.cache),
            _ => command
                .env("KOPIA_PASSWORD", PASSWORD)
                .env("KOPIA_CHECK_FOR_UPDATES", "false")
                .env("KOPIA_CONFIG_PATH", self.cache.join("kopia.config"))
                .env("KOPIA_CACHE_DIRECTORY", self.cache.join("cache"))
                .env("KOPIA_LOG_DIR", self.cache.join("log")),
        };
        command
    }

    /// The command that makes an empty repository.
    fn init(&self) -> Command {
        let mut command = self.command();
        match self.tool.kind {
            Kind::Tabane | Kind::Restic => command.arg("init"),
            _ => command
                .args([
                    "repository",
                    "create",
                    "s3",
                    "--disable-tls",
                    "--bucket",
                    BUCKET,
                ])
                .arg(format!("--endpoint=127.0.0.1:{}", self.line.port()))
                .args([
                    "--access-key",
                    ACCESS_KEY,
                    "--secret-access-key",
                    SECRET_KEY,
                ]),
        };
        command
    }

    fn scenario(&self, scenario: Scenario, source: &Path) -> Command {
        let mut command = self.command();
        let is_kopia = self.tool.kind == Kind::Kopia;
        match scenario {
            Scenario::First | Scenario::Unchanged if is_kopia => {
                command.args(["snapshot", "create"]).arg(source)
            }
            Scenario::First | Scenario::Unchanged => command.arg("backup").arg(source),
            Scenario::Snapshots if is_kopia => command.args(["snapshot", "list"]),
            Scenario::Snapshots => command.arg("snapshots"),
            Scenario::Ls if is_kopia => command
                .args(["ls", "--recursive"])
                .arg(latest_of_kopia(self, source)),
            Scenario::Ls => command.args(["ls", "latest", "--no-cache"]),
            Scenario::Restore if is_kopia => command
                .args(["snapshot", "restore"])
                .arg(source)
                .arg(&self.target),
            Scenario::Restore => command
                .args(["restore", "latest", "--target"])
                .arg(&self.target),
            Scenario::Check if is_kopia => command.args(["snapshot", "verify"]),
            Scenario::Check => command.arg("check"),
            Scenario::Prune if is_kopia => command.args(["maintenance", "run", "--full"]),
            Scenario::Prune => {
                command.args(["forget", "--prune", "--group-by", "", "--keep-last", "1"])
            }
        };
        command
    }

    /// Makes something that a prune removes: a snapshot of other files, before the last one.
    fn prepare_prune(&self, work: &Path, source: &Path) -> Result<()> {
        let other = work.join("other");
        disk::remove_tree(&other)?;
        tree::build(&other, tree::Kind::Many, Some(2000), None)?;
        let log = work.join("log");
        let accepted = self.tool.kind.accepted();
        measure(self.scenario(Scenario::First, &other), &log, accepted)?;
        measure(self.scenario(Scenario::First, source), &log, accepted)?;
        Ok(())
    }
}

/// The object of kopia's latest snapshot of `source`.
fn latest_of_kopia(contender: &Contender, source: &Path) -> String {
    let mut command = contender.command();
    command.args(["snapshot", "list", "--json"]).arg(source);
    let output = command
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    let snapshots: serde_json::Value = serde_json::from_slice(&output).unwrap_or_default();
    let latest = snapshots.as_array().and_then(|snapshots| snapshots.last());
    let id = latest.and_then(|latest| latest["id"].as_str());
    id.unwrap_or_default().to_owned()
}

/// The rows of a program in a scenario.
fn of<'a>(
    rows: &'a [Row],
    setting: Setting,
    scenario: Scenario,
    name: &'a str,
) -> impl Iterator<Item = &'a Row> + Clone {
    rows.iter()
        .filter(move |row| row.setting == setting && row.scenario == scenario && row.name == name)
}

fn wall_s(rows: &[Row], setting: Setting, scenario: Scenario, name: &str) -> Option<f64> {
    median(of(rows, setting, scenario, name).map(|row| row.sample.wall.as_secs_f64()))
}

fn report(args: &Args, setting: Setting, tools: &[(String, Tool)], rows: &[Row]) {
    if !args.report.json {
        println!("\n{} ms, {}", setting.latency_ms, setting.rate());
        println!(
            "{:<11}{:<9}{:>8}{:>8}{:>10}{:>13}{:>13}{:>9}{:>8}{:>8}",
            "",
            "",
            "wall s",
            "CPU s",
            "requests",
            "in sequence",
            "connections",
            "MB",
            "line",
            "ratio"
        );
    }
    let mut scenarios = args.scenarios.clone();
    scenarios.sort_unstable();
    for scenario in scenarios {
        let ours = wall_s(rows, setting, scenario, "tabane");
        for (name, _) in tools {
            let found = of(rows, setting, scenario, name);
            let middle = |of: &dyn Fn(&Row) -> f64| median(found.clone().map(of));
            let Some(wall) = middle(&|row| row.sample.wall.as_secs_f64()) else {
                continue;
            };
            let cpu = middle(&|row| row.sample.cpu.as_secs_f64()).unwrap_or_default();
            let requests = middle(&|row| row.traffic.requests as f64).unwrap_or_default();
            let chain = middle(&|row| row.traffic.in_sequence as f64).unwrap_or_default();
            let connections = middle(&|row| row.traffic.connections as f64).unwrap_or_default();
            let bytes = middle(&|row| (row.traffic.sent + row.traffic.received) as f64 / 1e6);
            let bytes = bytes.unwrap_or_default();
            let share = middle(&|row| row.share().unwrap_or_default()).unwrap_or_default();
            let ratio = ours.map_or(f64::NAN, |ours| ours / wall);
            if args.report.json {
                println!(
                    "{}",
                    json!({
                        "kind": "far", "latency_ms": setting.latency_ms,
                        "mbit_per_s": setting.mbit_per_s, "scenario": format!("{scenario:?}"),
                        "tool": name, "wall_s": round(wall), "cpu_s": round(cpu),
                        "requests": requests, "in_sequence": chain, "connections": connections,
                        "mb": round(bytes), "line_share": round(share), "ratio": round(ratio),
                    })
                );
            } else {
                println!(
                    "{:<11}{name:<9}{wall:>8.2}{cpu:>8.2}{requests:>10.0}{chain:>13.0}\
                     {connections:>13.0}{bytes:>9.1}{share:>8.2}{ratio:>8.2}",
                    format!("{scenario:?}").to_lowercase()
                );
            }
        }
    }
}

/// Whether Tabane takes at most its part of restic's time at 100 ms, wherever both were measured.
fn is_met(rows: &[Row]) -> bool {
    let far = rows
        .iter()
        .filter(|row| row.setting.latency_ms == 100 && row.setting.mbit_per_s == 0);
    far.filter(|row| row.scenario != Scenario::Snapshots && row.scenario != Scenario::Ls)
        .all(|row| {
            let wall = |name| wall_s(rows, row.setting, row.scenario, name);
            match (wall("tabane"), wall("restic")) {
                (Some(ours), Some(theirs)) => ours <= BAR * theirs,
                _ => true,
            }
        })
}
