//! `tabane self-test`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::Output;
use crate::self_test::{Outcome, encoding, kernels, round_trip};

/// Check that this machine computes rightly
#[derive(Args)]
#[command(after_help = "\
Hashes, encrypts, compresses and cuts what has known results, with every instruction set that the \
processor has, on each of its cores again and again; then backs a few files up and restores them. \
Run it when `tabane check` or a backup found something that cannot be, before the disk is blamed. \
A machine that fails computes wrongly: bad memory, a bad or overclocked processor. One that passes \
may still have bad memory elsewhere: memtest86+ reads all of it.

It needs no repository.

Examples:
  tabane self-test
  tabane self-test --seconds 3600")]
pub struct SelfTest {
    /// How long to repeat the computations
    #[arg(long, value_name = "N", default_value_t = 3)]
    seconds: u64,
    /// Where the files of the backup are put for a moment [default: the system's place for such]
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

impl SelfTest {
    /// Runs `tabane self-test`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        global.open_card()?;
        let until = Instant::now() + Duration::from_secs(self.seconds);
        let found: Vec<Found> = std::thread::scope(|scope| {
            let threads: Vec<_> = processors()
                .into_iter()
                .map(|processor| scope.spawn(move || repeat(processor, until)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.flatten().collect()
        });
        let mut checks: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut rounds = 0;
        for found in found {
            rounds += found.rounds;
            for (outcome, processor) in found.outcomes {
                let problems = checks.entry(outcome.what).or_default();
                if let Err(problem) = outcome.result {
                    problems.push(format!("on processor {processor}: {problem}"));
                }
            }
        }
        let directory = self.directory.unwrap_or_else(std::env::temp_dir);
        let backup = round_trip(&directory);
        let problems = backup.result.err().into_iter().collect();
        checks.insert(backup.what, problems);
        let failed = checks.values().any(|problems| !problems.is_empty());
        let mut output = Output::new();
        for (what, problems) in &checks {
            if global.json {
                output.json(&json!({
                    "message_type": "check",
                    "name": what,
                    "ok": problems.is_empty(),
                    "problems": problems,
                }))?;
            } else if problems.is_empty() {
                if !global.quiet {
                    output.line(format!("ok      {}", format::printable(what)))?;
                }
            } else {
                output.line(format!("FAILED  {}", format::printable(what)))?;
                for problem in problems {
                    output.line(format!("          {}", format::printable(problem)))?;
                }
            }
        }
        if global.json {
            let summary = json!({"message_type": "summary", "ok": !failed, "rounds": rounds});
            output.json(&summary)?;
        } else if failed {
            output.line(
                "this machine computes wrongly: do not trust backups that it makes; test its \
                 memory (memtest86+) and restore elsewhere",
            )?;
        } else if !global.quiet {
            output.line(format!(
                "this machine computes rightly, as far as {} show",
                format::count(rounds, "round")
            ))?;
        }
        output.finish()?;
        if failed {
            Ok(Exit::Failure)
        } else {
            Ok(Exit::Success)
        }
    }
}

/// The outcomes of one processor.
struct Found {
    rounds: u64,
    /// The outcomes of the round that failed, or else of the first round.
    outcomes: Vec<(Outcome, usize)>,
}

/// Computes on one processor until the time is over, once at least.
fn repeat(processor: usize, until: Instant) -> Found {
    let mut set = CpuSet::new();
    set.set(processor);
    // Without permission, the system chooses the processor.
    let _ = sched_setaffinity(None, &set);
    let mut found = Found {
        rounds: 0,
        outcomes: Vec::new(),
    };
    loop {
        let outcomes = kernels().into_iter().chain(encoding());
        let outcomes: Vec<_> = outcomes.map(|outcome| (outcome, processor)).collect();
        found.rounds += 1;
        let failed = outcomes.iter().any(|(outcome, _)| outcome.result.is_err());
        if failed || found.rounds == 1 {
            found.outcomes = outcomes;
        }
        if failed || Instant::now() >= until {
            return found;
        }
    }
}

/// The numbers of the processors that this program may use.
fn processors() -> Vec<usize> {
    let usable = sched_getaffinity(None).map(|set| {
        (0..CpuSet::MAX_CPU)
            .filter(|&processor| set.is_set(processor))
            .collect()
    });
    usable.unwrap_or_else(|_| vec![0])
}
