//! `tabane-bench levels`: speed against size, over levels of compression.

mod plot;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tabane_bench::arguments::Program;
use tabane_bench::measure::{measure, median};
use tabane_bench::tools::{Kind, Places, Tool, find_in_path};
use tabane_testing::disk;

/// What the peers can be set to: restic's three, some of borg's, and some levels of rustic.
const SETTINGS: [(Kind, &[&str]); 3] = [
    (Kind::Restic, &["off", "auto", "max"]),
    (Kind::Borg, &["lz4", "zstd,1", "zstd,3"]),
    (Kind::Rustic, &["-3", "1", "3"]),
];

/// Time first backups at several levels of compression, beside those that the installed peers have.
///
/// Speed is by CPU time: what one processor does in a second. So it says nothing of how well a
/// program uses several.
#[derive(clap::Args)]
pub struct Args {
    /// The tree to back up; it is only read
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// Tabane's levels, as for `tabane backup --compression`
    #[arg(
        long,
        value_name = "LEVELS",
        value_delimiter = ',',
        allow_hyphen_values = true,
        default_value = "-7,-3,-1,1,2,3,6,9"
    )]
    levels: Vec<String>,
    /// How many times to run each; medians are shown
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Where repositories go
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    work: PathBuf,
    #[command(flatten)]
    program: Program,
    /// Draw levels.svg in this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Print one flat JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

/// A program at one of its settings.
struct Point {
    kind: Kind,
    setting: String,
    /// Of the tree, for each second of CPU time.
    mb_per_cpu_s: f64,
    wall_s: f64,
    repository_mb: f64,
}

impl Point {
    /// Whether this is both faster and smaller.
    fn beats(&self, other: &Point) -> bool {
        self.mb_per_cpu_s > other.mb_per_cpu_s && self.repository_mb < other.repository_mb
    }
}

/// Whether a curve of points, taken as straight between neighbours, lies above this one: as fast at
/// the same size.
fn is_below(point: &Point, curve: &[&Point]) -> bool {
    let mut curve = curve.to_vec();
    curve.sort_by(|a, b| a.repository_mb.total_cmp(&b.repository_mb));
    if curve.iter().any(|on_curve| on_curve.beats(point)) {
        return true;
    }
    curve.windows(2).any(|pair| {
        let part = (point.repository_mb - pair[0].repository_mb)
            / (pair[1].repository_mb - pair[0].repository_mb);
        let speed = pair[0].mb_per_cpu_s + part * (pair[1].mb_per_cpu_s - pair[0].mb_per_cpu_s);
        (0.0..=1.0).contains(&part) && speed >= point.mb_per_cpu_s
    })
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<ExitCode> {
    let tabane = Tool::at(Kind::Tabane, args.program.find()?)?;
    let mut settings: Vec<(Tool, String)> = args
        .levels
        .iter()
        .map(|level| (tabane.clone(), level.clone()))
        .collect();
    for (kind, names) in SETTINGS {
        match find_in_path(kind.name()) {
            Some(program) => {
                let tool = Tool::at(kind, program)?;
                settings.extend(names.iter().map(|&name| (tool.clone(), name.to_owned())));
            }
            None => eprintln!("*** {} is NOT INSTALLED: it is not compared.", kind.name()),
        }
    }
    let tree = args
        .tree
        .canonicalize()
        .with_context(|| format!("there is no tree at {}", args.tree.display()))?;
    let census = disk::census(&tree)?;
    if census.files == 0 {
        bail!("{} holds no files to measure with", tree.display());
    }
    let mut points = Vec::new();
    for (tool, setting) in &settings {
        let (mut cpu, mut wall, mut repository_mb) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..args.runs {
            let scratch = tempfile::tempdir_in(&args.work)
                .with_context(|| format!("cannot work in {}", args.work.display()))?;
            let places = Places {
                tree: tree.clone(),
                repository: scratch.path().join("repository"),
                cache: scratch.path().join("cache"),
                target: scratch.path().join("target"),
            };
            fs::create_dir(&places.cache)?;
            let log = scratch.path().join("log");
            let [init, backup] = tool.first_compressed(setting, &places);
            measure(init, &log, &[0])?;
            disk::warm(&tree)?;
            let sample = measure(backup, &log, tool.kind.accepted())
                .with_context(|| format!("{} at {setting}", tool.kind.name()))?;
            cpu.push(sample.cpu.as_secs_f64());
            wall.push(sample.wall.as_secs_f64());
            repository_mb = disk::size_mb(&places.repository);
        }
        let point = Point {
            kind: tool.kind,
            setting: setting.clone(),
            mb_per_cpu_s: census.megabytes() / median(cpu).context("it ran")?,
            wall_s: median(wall).context("it ran")?,
            repository_mb,
        };
        if args.json {
            println!(
                "{}",
                json!({
                    "bench": "levels", "kind": "rate", "tool": point.kind.name(),
                    "setting": point.setting, "runs": args.runs,
                    "tree_mb": census.megabytes().round(),
                    "rate_mb_per_cpu_s": point.mb_per_cpu_s.round(),
                    "wall_s": point.wall_s, "repository_mb": point.repository_mb,
                })
            );
        } else {
            println!(
                "{:<8} {:>8} {:>8.0} MB per CPU s {:>8.2} s wall {:>9.1} MB repository",
                point.kind.name(),
                point.setting,
                point.mb_per_cpu_s,
                point.wall_s,
                point.repository_mb
            );
        }
        points.push(point);
    }
    let (ours, theirs): (Vec<&Point>, Vec<&Point>) =
        points.iter().partition(|point| point.kind == Kind::Tabane);
    let above: Vec<String> = theirs
        .iter()
        .filter(|point| !is_below(point, &ours))
        .map(|point| format!("{} at {}", point.kind.name(), point.setting))
        .collect();
    if args.json {
        let what = "no point of a peer above our curve";
        println!(
            "{}",
            json!({ "bench": "levels", "kind": "bar", "what": what, "ok": above.is_empty() })
        );
    } else if theirs.is_empty() {
        println!("no peer to compare with");
    } else if above.is_empty() {
        println!("ok: no point of a peer lies above our curve");
    } else {
        println!("MISSED: above our curve: {}", above.join("; "));
    }
    if let Some(folder) = &args.plots {
        plot::draw(&folder.join("levels.svg"), &points)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kind: Kind, mb_per_cpu_s: f64, repository_mb: f64) -> Point {
        Point {
            kind,
            setting: String::new(),
            mb_per_cpu_s,
            wall_s: 1.0,
            repository_mb,
        }
    }

    #[test]
    fn points_above_and_below_a_curve() {
        let ours = [
            point(Kind::Tabane, 100.0, 500.0),
            point(Kind::Tabane, 200.0, 700.0),
        ];
        let curve: Vec<&Point> = ours.iter().collect();
        let below = |speed, size| is_below(&point(Kind::Restic, speed, size), &curve);
        assert!(below(90.0, 510.0)); // slower and larger than a point
        assert!(below(149.0, 600.0)); // under the line between two
        assert!(!below(151.0, 600.0));
        assert!(below(199.0, 900.0));
        assert!(!below(201.0, 900.0)); // faster than all
        assert!(!below(50.0, 499.0)); // smaller than all
    }
}
