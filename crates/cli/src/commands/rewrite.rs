//! `tabane rewrite`

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use tabane_store::{ExcludeOptions, IncludeOptions};
use tabane_store::rewrite::{RewriteOptions, Rewritten};

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::Output;
use crate::select::{Selected, Selection};

/// Remove files from existing snapshots, or give these another host or time
#[derive(Args)]
#[command(after_help = "\
Makes a new snapshot of each that has something which matches, or has another host or time; the \
patterns are those of `tabane backup --exclude`. A snapshot of which nothing would stay is left as \
it is. Without --forget the old snapshots stay, and the new ones have the tag `rewrite`. Marks \
stay as they are: --new-time does not move the day of --delete-after.

What was left out stays in the repository until no snapshot needs it and it is pruned.

Examples:
  tabane rewrite -r /mnt/backup --exclude '*.iso' --dry-run
  tabane rewrite -r /mnt/backup --exclude /home/ada/Downloads --forget
  tabane rewrite -r /mnt/backup --host ada --exclude-larger-than 10G --forget latest
  tabane rewrite -r /mnt/backup --host ada.local --new-host ada --forget
  tabane rewrite -r /mnt/backup --include /home/ada/photos --forget 1a2b3c4d")]
#[command(group = clap::ArgGroup::new("excludes").required(true).multiple(true))]
pub struct Rewrite {
    /// Only these (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// Leave out what matches (repeatable)
    #[arg(short, long, value_name = "PATTERN", group = "excludes")]
    exclude: Vec<String>,
    /// Leave out what matches, whatever its case (repeatable)
    #[arg(
        long,
        value_name = "PATTERN",
        group = "excludes",
        hide_short_help = true
    )]
    iexclude: Vec<String>,
    /// Leave out what matches a line of this file (repeatable)
    #[arg(long, value_name = "FILE", group = "excludes")]
    exclude_file: Vec<PathBuf>,
    /// Leave out files that are larger (units of 1024: 100M, 2GiB)
    #[arg(long, value_name = "SIZE", value_parser = format::parse_bytes, group = "excludes")]
    exclude_larger_than: Option<u64>,
    /// Keep only what matches, and the directories above it (repeatable)
    #[arg(short, long, value_name = "PATTERN", group = "excludes")]
    include: Vec<String>,
    /// Keep only what matches, whatever its case (repeatable)
    #[arg(
        long,
        value_name = "PATTERN",
        group = "excludes",
        hide_short_help = true
    )]
    iinclude: Vec<String>,
    /// Keep only what matches a line of this file (repeatable)
    #[arg(
        long,
        value_name = "FILE",
        group = "excludes",
        hide_short_help = true
    )]
    include_file: Vec<PathBuf>,
    /// Give the snapshots this host
    #[arg(long, value_name = "HOST", group = "excludes")]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    new_host: Option<String>,
    /// Give the snapshots this time: 2026-01-02 15:04:05 (local), RFC 3339, or now
    #[arg(long, value_name = "TIME", value_parser = format::parse_time, group = "excludes")]
    new_time: Option<Timestamp>,
    /// Remove the old snapshots
    #[arg(long)]
    forget: bool,
    /// Show what would be left out, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Rewrite {
    /// Runs `tabane rewrite`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let excludes = ExcludeOptions::default()
            .patterns(self.exclude)
            .insensitive(self.iexclude)
            .files(self.exclude_file)
            .larger_than(self.exclude_larger_than);
        let includes = IncludeOptions::default()
            .include(self.include)
            .include_insensitive(self.iinclude)
            .include_files(self.include_file);
        let options = RewriteOptions::default()
            .excludes(excludes)
            .includes(includes)
            .hostname(self.new_host)
            .time(self.new_time)
            .forget(self.forget)
            .dry_run(self.dry_run);
        let Selected { snapshots, exit } = self.selection.list(&repository, &self.snapshots)?;
        let rewritten = repository.rewrite(&options, &snapshots)?;
        let mut output = Output::new();
        let count = rewritten.len() as u64;
        for Rewritten { old, new, excluded } in rewritten {
            if global.json {
                output.json(&json!({
                    "message_type": "rewritten",
                    "old_snapshot_id": old.to_string(),
                    "new_snapshot_id": new.map(|id| id.to_string()),
                    "excluded_entries": excluded.entries,
                    "excluded_bytes": excluded.bytes,
                }))?;
            } else if !global.quiet {
                let outcome =
                    new.map_or_else(String::new, |new| {
                        let how = if self.forget { "is now" } else { "stays, beside" };
                        format!(" {how} {}", new.short())
                    });
                output.line(format!(
                    "snapshot {}{outcome}: {} left out, {}",
                    old.short(),
                    format::count(excluded.entries, "entry"),
                    format::bytes(excluded.bytes),
                ))?;
            }
        }
        if global.json {
            output.json(&json!({
                "message_type": "summary",
                "dry_run": self.dry_run,
                "snapshots": snapshots.len(),
                "rewritten_snapshots": count,
            }))?;
        } else if !global.quiet {
            let verb = if self.dry_run {
                "would be rewritten"
            } else {
                "rewritten"
            };
            let all = format::count(snapshots.len() as u64, "snapshot");
            output.line(format!("{} of {all} {verb}", format::grouped(count)))?;
        }
        output.finish()?;
        Ok(exit)
    }
}
