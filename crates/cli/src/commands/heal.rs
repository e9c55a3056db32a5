//! `tabane heal`

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tabane_striped::{HealOptions, HealReport, StripedStorage};

use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, into_object, print_json, warn};
use crate::progress::Progress;
use crate::reporter::Reporter;

/// Bring the targets of a striped repository up to date
#[derive(Args)]
#[command(after_help = "\
Rebuilds what targets lack: after one was away or was replaced, or after `tabane targets add`. It \
reads as little as it can, and may be interrupted and run again, beside backups and beside another \
heal. It needs no password, but to make tags for what older programs wrote: then give it one in a \
file or the environment. With --read-data it reads everything, and so also finds and mends what \
a disk has changed in silence; `tabane scrub` does that at a set rate.

The exit code is 1 if something could not be healed, or a target is missing.

Examples:
  tabane heal -r striped:set.toml
  tabane heal -r striped:set.toml --read-data")]
pub struct Heal {
    /// Read everything, and heal what is damaged
    #[arg(long)]
    read_data: bool,
}

impl Heal {
    /// Runs `tabane heal`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let options = HealOptions::default().read_data(self.read_data);
        heal(global, options)
    }
}

/// Heals a set, and shows how far it has come; returns the report and the time that it took.
pub fn heal_set(
    global: &Global,
    storage: &StripedStorage,
    options: HealOptions,
) -> Result<(HealReport, Duration)> {
    let progress = Progress::start(global);
    let reporter = Reporter::new(&progress).without_notes(global.quiet);
    let report = storage.heal(options, &reporter);
    progress.stop();
    let report = report.map_err(|error| Failure::Storage("cannot heal: ", error))?;
    Ok((report, progress.elapsed()))
}

/// Heals, and prints the report.
pub fn heal(global: &Global, options: HealOptions) -> Result<Exit> {
    let storage = global.set_with_secret()?;
    let (report, elapsed) = heal_set(global, &storage, options)?;
    if global.json {
        let mut object = into_object(json!({"message_type": "summary"}));
        let report = serde_json::to_value(report).unwrap_or_default();
        object.append(&mut into_object(report));
        object.insert("elapsed_s".to_owned(), elapsed.as_secs_f64().into());
        print_json(&object.into())?;
    } else if !global.quiet {
        print(&report, options.read_data)?;
    }
    if report.refusing_targets > 0 {
        let (are, them) = match report.refusing_targets {
            1 => ("1 target is".to_owned(), "it"),
            more => (format!("{more} targets are"), "them"),
        };
        warn(format!(
            "{are} full or cannot be written to (see above), so some objects have too few \
             parts: free some space there, or replace {them} with `{}`, and run this again",
            advice::replace_command(storage.is_of_nodes())
        ));
    }
    match (report.unhealed_objects, report.missing_targets) {
        (0, 0) if report.refusing_targets == 0 => return Ok(Exit::Success),
        (0, _) => {}
        (left, missing) => warn(format!(
            "{} could not be healed (see above): {}",
            format::count(left, "object"),
            match missing {
                0 =>
                    "too much of them is lost; `tabane check --read-data` says which files that \
                     affects, `tabane repair --help` what to do",
                _ => "a missing target may hold the parts that they need",
            }
        )),
    }
    if report.missing_targets > 0 {
        warn(format!(
            "{} missing, so some objects lack parts: bring the missing targets back and \
             run this again, or replace them with `{}` first",
            format::count(report.missing_targets, "target"),
            advice::replace_command(storage.is_of_nodes())
        ));
    }
    Ok(Exit::Failure)
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
    if report.forged_parts > 0 {
        let parts = format::count(report.forged_parts, "part");
        output.line(format!(
            "{parts} of these with wrong bytes and right checksums: something changes data and \
             computes checksums after that"
        ))?;
    }
    if report.untagged_objects > 0 {
        let objects = format::count(report.untagged_objects, "object");
        output.line(format!(
            "{objects} with parts that have no tags, since older programs wrote them: give the \
             password, as with --password-file, and run this again"
        ))?;
    }
    if report.applied_deletions > 0 {
        let objects = format::count(report.applied_deletions, "object");
        output.line(format!(
            "{objects} deleted meanwhile removed from targets that were away"
        ))?;
    }
    if report.fragments > 0 {
        output.line(fragments(report.fragments))?;
    }
    match report.healed_objects {
        0 if report.unhealed_objects > 0 => {}
        0 => output.line("nothing had to be healed")?,
        healed => output.line(format!(
            "{} healed: read {}, wrote {}",
            format::count(healed, "object"),
            format::bytes(report.read_bytes),
            format::bytes(report.written_bytes)
        ))?,
    }
    if report.relayed_parts > 0 {
        let parts = format::count(report.relayed_parts, "part");
        output.line(format!("{parts} rebuilt by nodes among themselves"))?;
    }
    output.finish()
}

/// Explains objects with too few parts.
pub fn fragments(count: u64) -> String {
    format!(
        "too few parts of {} are there: leftovers of an interrupted write, most likely, which \
         `tabane prune` removes when they are a day old; `tabane check` says if anything is missed",
        format::count(count, "object")
    )
}
