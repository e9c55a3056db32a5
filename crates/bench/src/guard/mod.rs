//! `tabane-bench guard`: the ratios to peers that the documentation claims, measured again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tabane_bench::cpus::Model;
use tabane_bench::measure::median;
use tabane_bench::rounds;
use tabane_testing::{scratch, tree};

mod claims;
mod results;

use claims::{Claim, Claims};
use results::{Measured, Results};

/// A ratio has fallen where it is less than this part of what it was.
const FALLEN_BELOW: f64 = 0.9;

/// How many times a benchmark is run where a ratio seems to have fallen; the medians count.
const RUNS_MAX: usize = 3;

/// Data files of the test tree, some 500 MB.
const TREE_FILES: u64 = 20_000;

/// Measure the ratios to peers that the documentation claims, and fail where one has fallen by more
/// than a tenth.
///
/// Each is compared with the last result of the same processor, and with the documented figure if
/// that is of a processor of the same family. Ratios to peers that are not installed are left out.
/// A benchmark with a ratio that seems to have fallen is run twice more, and medians count. If
/// nothing has fallen, the ratios become the last result.
#[derive(clap::Args)]
pub struct Args {
    /// The last results, a JSON file
    #[arg(long, value_name = "FILE", default_value = "docs/results/guard.json")]
    results: PathBuf,
    /// The commit that the programs were built from
    #[arg(long, value_name = "COMMIT")]
    commit: String,
    /// Run only these benchmarks of the list
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    benches: Vec<String>,
    /// Make the ratios the last result even if some have fallen
    #[arg(long)]
    accept: bool,
}

/// Runs the guard.
pub fn run(args: &Args) -> Result<ExitCode> {
    let Claims { benches, claims } = Claims::read()?;
    let chosen = |name: &str| args.benches.is_empty() || args.benches.iter().any(|of| of == name);
    for name in &args.benches {
        let names: Vec<&str> = benches.keys().map(String::as_str).collect();
        ensure!(
            benches.contains_key(name),
            "there is no benchmark {name}; there are {}",
            names.join(", ")
        );
    }
    rounds::load();
    let mut results = Results::read(&args.results)?;
    let model = Model::of_this();
    let last = results.of(&model.full()).cloned();
    let guard = Guard {
        family: model.family(),
        last: last.unwrap_or_default(),
        work: scratch(),
    };
    let mut peers = BTreeSet::new();
    let mut measured = BTreeMap::new();
    let mut fallen = Vec::new();
    let mut left: Vec<&Claim> = claims.iter().filter(|claim| chosen(&claim.bench)).collect();
    while let Some(bench) = left.first().map(|claim| claim.bench.clone()) {
        let (own, others) = left.into_iter().partition(|claim| claim.bench == bench);
        left = others;
        let own: Vec<&Claim> = own;
        let mut outputs = Vec::new();
        loop {
            let turn = outputs.len() + 1;
            eprintln!("{bench}, {turn}: {}", benches[&bench]);
            outputs.push(guard.output(&benches[&bench])?);
            let down = |claim: &&&Claim| guard.has_fallen(claim, &outputs);
            if turn == RUNS_MAX || !own.iter().any(|claim| down(&claim)) {
                fallen.extend(own.iter().filter(down).map(|claim| claim.name.as_str()));
                break;
            }
        }
        peers.extend(outputs.iter().flatten().flat_map(versions));
        for claim in own {
            guard.print(claim, &outputs);
            if let Some(ratio) = ratio(claim, &outputs) {
                measured.insert(claim.name.clone(), rounds::round(ratio));
            }
        }
    }
    guard.print_changed(&peers);
    if fallen.is_empty() || args.accept {
        peers.extend(
            guard
                .last
                .peers
                .iter()
                .filter(|_| !args.benches.is_empty())
                .cloned(),
        );
        results.put(Measured {
            processor: model.full(),
            model_name: model.name,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            commit: args.commit.clone(),
            date: jiff::Zoned::now().date().to_string(),
            peers,
            ratios: measured,
        });
        results.write(&args.results)?;
        println!("written: {}", args.results.display());
    }
    for name in &fallen {
        println!("FALLEN by more than a tenth: {name}");
    }
    Ok(ExitCode::from(u8::from(!fallen.is_empty())))
}

/// What the ratios are compared with.
struct Guard {
    /// Vendor and family of this processor.
    family: String,
    /// The last result of this processor.
    last: Measured,
    /// A directory for the benchmarks.
    work: tempfile::TempDir,
}

impl Guard {
    /// The JSON lines that a benchmark prints.
    fn output(&self, bench: &str) -> Result<Vec<Value>> {
        let this = std::env::current_exe().context("cannot find this program's directory")?;
        let programs = this.parent().unwrap_or(Path::new("."));
        let tree = self.work.path().join("tree");
        if bench.contains("{tree}") && !tree.exists() {
            tree::build(&tree, tree::Kind::Mixed, Some(TREE_FILES), None)?;
        }
        let mut words = bench.split(' ').map(|word| {
            word.replace("{work}", &self.work.path().to_string_lossy())
                .replace("{tree}", &tree.to_string_lossy())
                .replace("{programs}", &programs.to_string_lossy())
        });
        let program = programs.join(words.next().unwrap_or_default());
        let output = Command::new(&program)
            .args(words)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| {
                format!(
                    "cannot run {}; build it with `make guard`",
                    program.display()
                )
            })?;
        ensure!(
            output.status.success(),
            "`{bench}` failed ({}); what it said is above",
            output.status
        );
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect())
    }

    /// The figures with which a ratio is compared: the last result, and the documented one.
    fn expected(&self, claim: &Claim) -> [Option<f64>; 2] {
        let last = self.last.ratios.get(&claim.name).copied();
        [last, claim.claimed_of(&self.family)]
    }

    /// Whether a ratio has fallen; a ratio that is no longer measured has not.
    fn has_fallen(&self, claim: &Claim, outputs: &[Vec<Value>]) -> bool {
        let Some(ratio) = ratio(claim, outputs) else {
            return false;
        };
        let mut expected = self.expected(claim).into_iter().flatten();
        expected.any(|expected| ratio < FALLEN_BELOW * expected)
    }

    fn print(&self, claim: &Claim, outputs: &[Vec<Value>]) {
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let [last, claimed] = self.expected(claim);
        let ratio = ratio(claim, outputs);
        let note = if self.has_fallen(claim, outputs) {
            "  FALLEN"
        } else if ratio.is_none() && last.is_some() {
            "  NOT MEASURED: is the peer no longer installed?"
        } else {
            ""
        };
        println!(
            "{:<70} {:>6}  last {:>6}  claimed {:>6}{note}",
            claim.name,
            cell(ratio),
            cell(last),
            cell(claimed),
        );
    }

    /// Says which peers are others than the last time.
    fn print_changed(&self, peers: &BTreeSet<String>) {
        if self.last.peers.is_empty() {
            println!("there is no result of this processor to compare with");
        }
        for peer in peers.difference(&self.last.peers) {
            println!("peer: {peer}, which the last result does not name");
        }
    }
}

/// The median of a claim's ratio over the runs.
fn ratio(claim: &Claim, outputs: &[Vec<Value>]) -> Option<f64> {
    median(outputs.iter().filter_map(|output| claim.find(output)))
}

/// The versions of peers that a line of a benchmark names.
fn versions(line: &Value) -> Vec<String> {
    let text = |field: &str| line[field].as_str();
    let of_tool = text("tool")
        .zip(text("version"))
        .filter(|(tool, _)| *tool != "tabane");
    let fields = ["openssl", "crypto_pp", "xxhash"]
        .into_iter()
        .filter_map(text);
    let named = |field: &str, name: &str| Some(format!("{name} {}", text(field)?));
    let libraries = [
        named("ipsec_mb", "libipsec-mb"),
        named("isal_crypto", "ISA-L crypto"),
    ];
    fields
        .chain(of_tool.map(|(_, version)| version))
        .chain(
            text("peers")
                .into_iter()
                .flat_map(|peers| peers.split("; ")),
        )
        .map(str::to_owned)
        .chain(libraries.into_iter().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A guard that knows `last` of the first claim of the list, and that claim.
    fn guard(last: &[f64]) -> (Guard, Claim) {
        let claim = Claims::read().unwrap().claims.remove(0);
        let ratios = last
            .iter()
            .map(|&ratio| (claim.name.clone(), ratio))
            .collect();
        let guard = Guard {
            family: "of no claim".to_owned(),
            last: Measured {
                ratios,
                ..Measured::default()
            },
            work: tempfile::tempdir().unwrap(),
        };
        (guard, claim)
    }

    fn outputs(ratios: &[f64]) -> Vec<Vec<Value>> {
        let line = |value: &f64| {
            let what = "md5: x OpenSSL, best number of messages";
            vec![json!({"kind": "bar", "what": what, "value": value})]
        };
        ratios.iter().map(line).collect()
    }

    #[test]
    fn a_ratio_has_fallen_by_more_than_a_tenth_of_the_last_result() {
        let (guard, claim) = guard(&[20.0]);
        assert!(!guard.has_fallen(&claim, &outputs(&[18.1])));
        assert!(guard.has_fallen(&claim, &outputs(&[17.9])));
        assert!(!guard.has_fallen(&claim, &outputs(&[17.9, 20.0, 18.1])));
        assert!(guard.has_fallen(&claim, &outputs(&[17.9, 20.0, 17.0])));
        assert!(!guard.has_fallen(&claim, &outputs(&[])));
    }

    #[test]
    fn a_documented_figure_counts_on_its_own_family_only() {
        let (mut guard, claim) = guard(&[]);
        assert!(!guard.has_fallen(&claim, &outputs(&[1.0])));
        guard.family = "AuthenticAMD 26, avx512bw".to_owned();
        assert!(guard.has_fallen(&claim, &outputs(&[1.0])));
    }

    #[test]
    fn versions_of_peers_are_told() {
        let tool = json!({"kind": "tool", "tool": "restic", "version": "restic 0.19"});
        assert_eq!(versions(&tool), ["restic 0.19"]);
        assert!(versions(&json!({"tool": "tabane", "version": "tabane 0.1"})).is_empty());
        let host = json!({"openssl": "OpenSSL 3.5", "ipsec_mb": "2.0", "isal_crypto": "2.26",
            "peers": "cp 9; rsync 3"});
        assert_eq!(
            versions(&host),
            [
                "OpenSSL 3.5",
                "cp 9",
                "rsync 3",
                "libipsec-mb 2.0",
                "ISA-L crypto 2.26"
            ]
        );
    }
}
