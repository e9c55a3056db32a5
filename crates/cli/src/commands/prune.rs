//! `tabane prune`

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tabane_store::prune::{MaxUnused, PlanStats, PruneOptions, PruneReport};
use tabane_store::{Id, Repository};

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::metrics::{Metrics, MetricsFile};
use crate::output::{Output, into_object, print_json};
use crate::progress::Progress;
use crate::reporter::Reporter;

/// Remove what no snapshot needs
#[derive(Args)]
#[command(after_help = "\
Says first what it is going to do. Packs of which nothing is needed are removed; of packs of which \
little is needed, what is needed is copied into new ones first, as long as more than --max-unused \
would be left.

Other clients can go on: backups may run and begin meanwhile, and nothing is locked. Packs that a \
running backup or restore may need stay until the next prune. A prune that is killed loses \
nothing, and the next prune continues.

Examples:
  tabane forget -r /mnt/backup --keep-daily 7 --keep-monthly 12 && tabane prune -r /mnt/backup
  tabane prune -r /mnt/backup --dry-run
  tabane prune -r /mnt/backup --max-unused 0%          as small as can be
  tabane prune -r /mnt/backup --max-unused unlimited   copy nothing: quick, and good where \
transfer costs")]
pub struct Prune {
    #[command(flatten)]
    limits: Limits,
    /// Say what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    metrics: MetricsFile,
}

/// The options that say how thoroughly to prune.
#[derive(Args, Clone, Debug)]
pub struct Limits {
    /// Tolerate this much unused data: a share of the rest, a size such as 500M, or unlimited
    #[arg(long, value_name = "LIMIT", default_value = "5%", value_parser = parse_max_unused)]
    max_unused: MaxUnused,
    /// Copy packs of no more than this size in all
    #[arg(long, value_name = "SIZE", value_parser = format::parse_bytes, hide_short_help = true)]
    max_repack_size: Option<u64>,
    /// Combine packs that are shorter than this, if there are several; at most 16 MiB, the size of
    /// full packs
    #[arg(long, value_name = "SIZE", value_parser = parse_small_pack, hide_short_help = true)]
    repack_smaller_than: Option<u64>,
    /// Combine packs that are not nearly full, which is below 12.8 MiB
    #[arg(long, conflicts_with = "repack_smaller_than", hide_short_help = true)]
    repack_small: bool,
    /// Copy only packs with directories, which are small
    #[arg(long, hide_short_help = true)]
    repack_cacheable_only: bool,
    /// Do not touch packs younger than this; delete unneeded packs only this long after a prune
    /// marked them (2d, 36h)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = format::parse_duration)]
    #[arg(hide_short_help = true)]
    grace: Duration,
}

fn parse_max_unused(text: &str) -> std::result::Result<MaxUnused, String> {
    match format::parse_bytes(text) {
        Ok(bytes) => Ok(MaxUnused::Bytes(bytes)),
        Err(_) => text
            .parse()
            .map_err(|error: tabane_store::Error| error.to_string()),
    }
}

fn parse_small_pack(text: &str) -> std::result::Result<u64, String> {
    let bytes = format::parse_bytes(text)?;
    if bytes > PruneOptions::FULL_PACK_BYTES {
        let full = format::bytes(PruneOptions::FULL_PACK_BYTES);
        return Err(format!("a full pack has {full}: give a size up to that"));
    }
    Ok(bytes)
}

impl Prune {
    /// Runs `tabane prune`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let file = self.metrics.clone();
        file.record(global, "prune", self.dry_run, |metrics| {
            let repository = global.open()?;
            if self.dry_run {
                dry_run(global, &repository, &self.limits, &HashSet::new())
            } else {
                run(global, &repository, &self.limits, metrics)
            }
        })
    }
}

impl Limits {
    fn options(&self) -> PruneOptions {
        PruneOptions::default()
            .max_unused(self.max_unused)
            .max_repack_bytes(self.max_repack_size.unwrap_or(u64::MAX))
            .combine_below_bytes(match self.repack_smaller_than {
                Some(bytes) => bytes,
                None if self.repack_small => PruneOptions::SMALL_PACK_BYTES,
                None => 0,
            })
            .only_trees(self.repack_cacheable_only)
            .grace(self.grace)
    }
}

/// Says what a prune would do once the snapshots `forgotten` are gone.
pub fn dry_run(
    global: &Global,
    repository: &Arc<Repository>,
    limits: &Limits,
    forgotten: &HashSet<Id>,
) -> Result<Exit> {
    let progress = Progress::start(global);
    let plan = repository.preview_prune(limits.options(), forgotten);
    progress.stop();
    report_plan(global, plan?.stats(), true)?;
    Ok(Exit::Success)
}

/// Prunes an open repository.
pub fn run(
    global: &Global,
    repository: &Arc<Repository>,
    limits: &Limits,
    metrics: &mut Metrics,
) -> Result<Exit> {
    let progress = Progress::start(global);
    let plan = repository.plan_prune(limits.options());
    progress.stop();
    let plan = plan?;
    let stats = *plan.stats();
    report_plan(global, &stats, false)?;
    let progress = Progress::start(global);
    let report = plan.with_progress(Reporter::new(&progress)).execute();
    progress.stop();
    let report = report?;
    let deleted = "Bytes of packs that the latest run deleted.";
    metrics.gauge("deleted_bytes", deleted, report.deleted_bytes);
    let left = stats.pack_bytes + report.written_bytes - report.deleted_bytes;
    metrics.gauge("pack_bytes", "Bytes of all packs afterwards.", left);
    report_done(global, &report, left)?;
    Ok(Exit::Success)
}

fn report_plan(global: &Global, stats: &PlanStats, dry_run: bool) -> Result<()> {
    if global.json {
        return print(
            json!({"message_type": "plan", "dry_run": dry_run}),
            json!(stats),
        );
    }
    if global.quiet {
        return Ok(());
    }
    let mut output = Output::new();
    let line = |packs: u64, bytes: u64, what: &str| {
        (packs > 0).then(|| {
            let packs = format::count(packs, "pack");
            format!("{what}{:>11}  in {packs}", format::bytes(bytes))
        })
    };
    let copied = stats.repacked_bytes - stats.repacked_unused_bytes;
    let lines = [
        line(stats.packs, stats.pack_bytes, "there are        "),
        Some(format!(
            "needed           {:>11}  by {}",
            format::bytes(stats.used_bytes),
            format::count(stats.snapshots, "snapshot")
        )),
        line(stats.unused_packs, stats.unused_bytes, "to remove        "),
        line(
            stats.repacked_packs,
            stats.repacked_bytes,
            "to copy and remove",
        ),
        (stats.repacked_packs > 0).then(|| {
            let copied = format::bytes(copied);
            format!("  of which needed {copied:>11}")
        }),
        line(
            stats.condemned_packs,
            stats.condemned_bytes,
            "to go since before",
        ),
        line(stats.young_packs, stats.young_bytes, "too young        "),
        line(
            stats.unverified_packs,
            stats.unverified_bytes,
            "to verify        ",
        ),
        Some(format!(
            "left unused      {:>11}",
            format::bytes(stats.left_unused_bytes)
        )),
        (stats.clients > 0).then(|| {
            let clients = format::count(stats.clients, "other client");
            format!(
                "{clients} at work: what is to go stays until they have ended and the next prune"
            )
        }),
    ];
    for line in lines.into_iter().flatten() {
        output.line(line)?;
    }
    if dry_run {
        output.line("dry run: nothing was changed")?;
    }
    output.finish()
}

fn report_done(global: &Global, report: &PruneReport, left: u64) -> Result<()> {
    if global.json {
        return print(json!({"message_type": "summary"}), json!(report));
    }
    if global.quiet {
        return Ok(());
    }
    let mut output = Output::new();
    output.line(format!(
        "removed {} in {}, wrote {}; {} are left, with {}",
        format::bytes(report.deleted_bytes),
        format::count(report.deleted_packs, "pack"),
        format::bytes(report.written_bytes),
        format::bytes(left),
        format::count(report.index_objects, "index object"),
    ))?;
    if report.verified_packs > 0 {
        output.line(format!(
            "verified {} of write-only keys: all clients rely on what is in them now",
            format::count(report.verified_packs, "pack"),
        ))?;
    }
    if report.refuted_packs > 0 {
        output.line(format!(
            "{} of write-only keys do not hold what these keys say (see above): \
             `tabane check --read-data` names the snapshots that are damaged",
            format::count(report.refuted_packs, "pack"),
        ))?;
    }
    if report.extended_locks > 0 {
        let count = format::count(report.extended_locks, "object");
        output.line(format!("extended the locks of {count} that snapshots need"))?;
    }
    for (day, (packs, bytes)) in &report.locked.until {
        output.line(format!(
            "{} in {} are locked until {day}: a prune after that removes what is not needed",
            format::bytes(*bytes),
            format::count(*packs, "pack"),
        ))?;
    }
    if report.waiting_packs > 0 {
        output.line(format!(
            "{} in {} will go with the next prune, when nobody can need them any more",
            format::bytes(report.waiting_bytes),
            format::count(report.waiting_packs, "pack"),
        ))?;
    }
    output.finish()
}

/// Prints `head` and the fields of `rest` as one object.
fn print(head: Value, rest: Value) -> Result<()> {
    let mut object = into_object(head);
    object.append(&mut into_object(rest));
    print_json(&object.into())
}
