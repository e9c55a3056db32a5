//! `tabane heal`

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tabane_store::storage::striped::{HealOptions, HealReport};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, into_object, print_json, warn};
use crate::progress::Progress;
use crate::reporter::Reporter;

/// Bring the targets of a striped repository up to date
#[derive(Args)]
#[command(after_help = "\
Rebuilds what targets lack: after one was away or was replaced, or after `tabane targets add`. It reads as little as it can, \
and may be interrupted and run again, beside backups and beside another heal. It needs no password. With --read-data it \
reads everything, and so also finds and mends what a disk has changed in silence; `tabane scrub` does that at a set rate.

The exit code is 1 if something could not be healed.

Examples:
  tabane heal -r striped:set.toml
  tabane heal -r striped:set.toml --read-data")]
pub struct Heal {
    /// Read everything, and heal what is damaged
    #[arg(long)]
    read_data: bool,
}

impl Heal {
    /// Does it.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let options = HealOptions {
            read_data: self.read_data,
            limit_kib_per_s: None,
        };
        heal(global, options)
    }
}

/// Heals, and says what was done.
pub fn heal(global: &Global, options: HealOptions) -> Result<Exit> {
    let storage = global.set()?;
    let progress = Progress::start(global);
    let reporter = Reporter {
        progress: Arc::clone(&progress),
        quiet: global.quiet,
    };
    let report = storage.heal(options, &reporter);
    progress.stop();
    let report = report.map_err(|error| Failure::Other(format!("cannot heal: {error}")))?;
    if global.json {
        let mut object = into_object(json!({"message_type": "summary"}));
        let report = serde_json::to_value(report).unwrap_or_default();
        object.append(&mut into_object(report));
        let elapsed = progress.elapsed().as_secs_f64();
        object.insert("elapsed_s".to_owned(), elapsed.into());
        print_json(&object.into())?;
    } else if !global.quiet {
        print(&report, options.read_data)?;
    }
    let left = report.unhealed_objects;
    if left > 0 {
        warn(format!(
            "{} could not be healed (see above): bring back missing targets and run it again, then see `tabane check`",
            format::count(left, "object")
        ));
        return Ok(Exit::Failure);
    }
    Ok(Exit::Success)
}

fn print(report: &HealReport, read_data: bool) -> Result<()> {
    let mut output = Output::new();
    let looked = if read_data { "read" } else { "looked at" };
    output.line(format!(
        "{looked} {}",
        format::count(report.objects, "object")
    ))?;
    if report.damaged_parts > 0 {
        let parts = format::count(report.damaged_parts, "part");
        output.line(format!("{parts} of objects found to be damaged"))?;
    }
    if report.applied_deletions > 0 {
        let objects = format::count(report.applied_deletions, "object");
        output.line(format!(
            "{objects} deleted meanwhile removed from targets that were away"
        ))?;
    }
    if report.fragments > 0 {
        output.line(format!(
            "{} of which too few parts are there: an interrupted backup left them (`tabane prune` removes them), or more than two \
             targets have lost theirs (`tabane check` says whether they are missed)",
            format::count(report.fragments, "name")
        ))?;
    }
    output.line(match report.healed_objects {
        0 => "nothing had to be healed".to_owned(),
        healed => format!(
            "{} healed: read {}, wrote {}",
            format::count(healed, "object"),
            format::bytes(report.read_bytes),
            format::bytes(report.written_bytes)
        ),
    })?;
    if report.missing_targets > 0 {
        let targets = format::count(report.missing_targets, "target");
        output.line(format!(
            "{targets} missing: run it again when they are back"
        ))?;
    }
    output.finish()
}
