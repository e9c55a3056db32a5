//! `tabane forget`

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tabane_store::forget::{self, Age, Count, Group, GroupBy, Period, Rule};
use tabane_store::snapshot::{Retention, Snapshot, split_tags};
use tabane_store::{Id, Repository};

use super::prune::{self, Limits};
use crate::advice;
use crate::args::{Global, parse};
use crate::colour::Colour;
use crate::exit::{self, Exit, Failure, Result};
use crate::format;
use crate::metrics::{Metrics, MetricsFile};
use crate::retention::is_never_removed;
use crate::output::{Output, Table, snapshot_json, warn};
use crate::select::Selection;

/// Remove snapshots that are not needed any more
#[derive(Args)]
#[command(after_help = "\
Names of snapshots remove just these. Otherwise --keep options say which stay, in each group of \
snapshots with the same host and paths: one stays if any of the options wants it, and the others \
are removed. Try it with --dry-run, which shows what would stay and why.

Hours, days, weeks, months and years are those of the calendar and the local time zone, and only \
those that have a snapshot count; the latest snapshot of each stays. If fewer days have a snapshot \
than --keep-daily says, the oldest snapshot stays too; the same holds for weeks and the rest. \
--keep-within-daily and its kind keep the oldest snapshot too, if it is younger than their age. \
Ages, as 1y6m, 14d or 36h, are measured from the latest snapshot. The rules are those of restic \
0.19, but snapshots dated in the future stay and count for no rule.

What only the removed snapshots needed stays in the repository until it is pruned: by --prune, or \
later by `tabane prune`.

Snapshots of each write-only key are a group of their own. Those that are dated more than a day \
from the time at which they were stored stay and count for no rule; nor do those count that are \
marked with --delete-never or --delete-after.

Backups and checks report a snapshot that they have seen and that is gone, unless a command of \
Tabane has removed it. --lost records it as removed.

A snapshot that cannot be read is reported and stays, unless it is named; the exit code is 3 then, \
and also when one could not be removed. One that is marked with --delete-never stays even if it is \
named, which is reported with exit code 3, until `tabane tag --delete-by-rules` takes the mark away.

With --json, prints one array with an object for each group.

Examples:
  tabane forget -r /mnt/backup --dry-run --keep-daily 7 --keep-weekly 5 --keep-monthly 12 \
--keep-yearly 10
  tabane forget -r /mnt/backup --keep-within 14d --keep-within-weekly 2m --keep-monthly unlimited
  tabane forget -r /mnt/backup --host old --tag trial --keep-last 1 --keep-tag keep,always
  tabane forget -r /mnt/backup --prune 1a2b3c4d
  tabane forget -r /mnt/backup --lost --dry-run")]
pub struct Forget {
    /// Remove just these (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT", conflicts_with = "Keep")]
    snapshots: Vec<String>,
    /// What the snapshots of a group have in common: host, paths, tags, some of them with commas
    /// between, or '' for one group of all
    #[arg(short, long, value_name = "LIST", default_value = "host,paths")]
    #[arg(value_parser = parse::<GroupBy>)]
    #[arg(hide_short_help = true)]
    group_by: GroupBy,
    /// Allow removing every snapshot of a group; without --keep options, remove all chosen
    /// snapshots
    #[arg(long, hide_short_help = true)]
    unsafe_allow_remove_all: bool,
    /// Show what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Give up snapshots that are gone without having been removed, so that no client reports them
    /// any more: those with these whole IDs, or those that this machine misses
    #[arg(long, hide_short_help = true, conflicts_with_all = ["prune", "Keep"])]
    lost: bool,
    /// Prune afterwards, if snapshots were removed
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    metrics: MetricsFile,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    keep: Keep,
}

/// The options that say which snapshots stay.
#[derive(Args)]
#[command(next_help_heading = "What stays")]
struct Keep {
    /// Keep the latest N snapshots (or unlimited, here and below)
    #[arg(short = 'l', long, value_name = "N", value_parser = parse::<Count>)]
    #[arg(allow_hyphen_values = true)]
    keep_last: Option<Count>,
    /// Keep the latest snapshot of each of the latest N minutes that have one
    #[arg(long, value_name = "N", value_parser = parse::<Count>, allow_hyphen_values = true)]
    #[arg(hide_short_help = true)]
    keep_minutely: Option<Count>,
    /// Keep the latest snapshot of each of the latest N hours that have one
    #[arg(long, value_name = "N", value_parser = parse::<Count>, allow_hyphen_values = true)]
    #[arg(hide_short_help = true)]
    keep_hourly: Option<Count>,
    /// Keep the latest snapshot of each of the latest N days that have one
    #[arg(short = 'd', long, value_name = "N", value_parser = parse::<Count>)]
    #[arg(allow_hyphen_values = true)]
    keep_daily: Option<Count>,
    /// The same for weeks, from Monday to Sunday
    #[arg(short = 'w', long, value_name = "N", value_parser = parse::<Count>)]
    #[arg(allow_hyphen_values = true)]
    keep_weekly: Option<Count>,
    /// The same for months
    #[arg(short = 'm', long, value_name = "N", value_parser = parse::<Count>)]
    #[arg(allow_hyphen_values = true)]
    keep_monthly: Option<Count>,
    /// The same for quarters of years
    #[arg(long, alias = "keep-quarterly", value_name = "N", value_parser = parse::<Count>)]
    #[arg(allow_hyphen_values = true, hide_short_help = true)]
    keep_quarter_yearly: Option<Count>,
    /// The same for halves of years
    #[arg(long, value_name = "N", value_parser = parse::<Count>, allow_hyphen_values = true)]
    #[arg(hide_short_help = true)]
    keep_half_yearly: Option<Count>,
    /// The same for years
    #[arg(short = 'y', long, value_name = "N", value_parser = parse::<Count>)]
    #[arg(allow_hyphen_values = true)]
    keep_yearly: Option<Count>,
    /// Keep all snapshots younger than this, counted from the latest
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>)]
    keep_within: Option<Age>,
    /// Keep the latest snapshot of each minute that is younger than AGE, and the oldest
    /// snapshot, if it too is younger than AGE
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    keep_within_minutely: Option<Age>,
    /// The same for hours
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    keep_within_hourly: Option<Age>,
    /// The same for days
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    keep_within_daily: Option<Age>,
    /// The same for weeks
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    keep_within_weekly: Option<Age>,
    /// The same for months
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    keep_within_monthly: Option<Age>,
    /// The same for quarters of years
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    #[arg(alias = "keep-within-quarterly")]
    keep_within_quarter_yearly: Option<Age>,
    /// The same for halves of years
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    keep_within_half_yearly: Option<Age>,
    /// The same for years
    #[arg(long, value_name = "AGE", value_parser = parse::<Age>, hide_short_help = true)]
    keep_within_yearly: Option<Age>,
    /// Keep snapshots with all of these tags, separated by commas (repeatable: any of them)
    #[arg(long, value_name = "TAG[,TAG…]", hide_short_help = true)]
    keep_tag: Vec<String>,
}

impl Keep {
    /// The rules, in the order in which restic gives its reasons; a count of 0 is none.
    fn rules(&self) -> Vec<Rule> {
        let counts = [
            self.keep_last,
            self.keep_minutely,
            self.keep_hourly,
            self.keep_daily,
            self.keep_weekly,
            self.keep_monthly,
            self.keep_quarter_yearly,
            self.keep_half_yearly,
            self.keep_yearly,
        ];
        let ages = [
            self.keep_within,
            self.keep_within_minutely,
            self.keep_within_hourly,
            self.keep_within_daily,
            self.keep_within_weekly,
            self.keep_within_monthly,
            self.keep_within_quarter_yearly,
            self.keep_within_half_yearly,
            self.keep_within_yearly,
        ];
        let counts = counts.map(|count| count.filter(|count| *count != Count::AtMost(0)));
        let tags = self.keep_tag.iter().map(|list| split_tags(list));
        let tags = tags.filter(|tags| !tags.is_empty()).map(Rule::Tags);
        let counts = Period::ALL.into_iter().zip(counts);
        let counts = counts.filter_map(|(period, count)| Some(Rule::Last(period, count?)));
        let ages = Period::ALL.into_iter().zip(ages);
        let mut ages = ages
            .filter_map(|(period, age)| Some(Rule::Within(period, age?)))
            .peekable();
        let within = ages.next_if(|rule| matches!(rule, Rule::Within(Period::Each, _)));
        tags.chain(within).chain(counts).chain(ages).collect()
    }
}

/// A group, and why each of its snapshots stays; one without a reason goes.
struct Judged {
    group: Group,
    reasons: Vec<Vec<String>>,
}

impl Judged {
    fn removed(&self) -> impl Iterator<Item = &(Id, Snapshot)> {
        let pairs = self.group.snapshots.iter().zip(&self.reasons);
        pairs
            .filter(|(_, reasons)| reasons.is_empty())
            .map(|(snapshot, _)| snapshot)
    }

    fn kept(&self) -> impl Iterator<Item = (&(Id, Snapshot), &Vec<String>)> {
        let pairs = self.group.snapshots.iter().zip(&self.reasons);
        pairs.filter(|(_, reasons)| !reasons.is_empty())
    }
}

impl Forget {
    /// Runs `tabane forget`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let file = self.metrics.clone();
        file.record(global, "forget", self.dry_run, |metrics| self.forget(global, metrics))
    }

    fn forget(self, global: &Global, metrics: &mut Metrics) -> Result<Exit> {
        let rules = self.keep.rules();
        self.validate(&rules)?;
        let repository = global.open()?;
        if self.lost {
            return self.give_up(global, &repository);
        }
        if !self.dry_run {
            repository.expect_to_remove_snapshots();
        }
        let (exit, going) = if self.snapshots.is_empty() {
            self.remove_by_rules(global, &repository, &rules, metrics)?
        } else {
            self.remove_named(global, &repository)?
        };
        if exit == Exit::Incomplete {
            metrics.explain("some snapshots could not be read or removed");
        }
        if self.prune && !going.is_empty() {
            let pruned = if self.dry_run {
                let going = going.into_iter().collect();
                prune::dry_run(global, &repository, &self.limits, &going)?
            } else {
                let rest = "the snapshots are removed: `tabane prune` does the rest";
                exit::go_on_by(rest);
                let pruned = prune::run(global, &repository, &self.limits, metrics);
                pruned.inspect_err(|_| warn(rest))?
            };
            if exit == Exit::Success {
                return Ok(pruned);
            }
        }
        Ok(exit)
    }

    /// Removes what no rule keeps; says which those were.
    fn remove_by_rules(
        &self,
        global: &Global,
        repository: &Repository,
        rules: &[Rule],
        metrics: &mut Metrics,
    ) -> Result<(Exit, Vec<Id>)> {
        let listing = repository.snapshots(&self.selection.filter())?;
        for error in &listing.damaged {
            warn(format!("{error}; it stays, unless it is named"));
        }
        let (zone, now) = (TimeZone::system(), Timestamp::now());
        let listed = listing.snapshots.iter().map(|(id, made)| (id, made));
        let misdated = forget::misdated(repository, listed)?;
        let judge = |group: Group| {
            let reasons = forget::reasons(rules, &group.snapshots, &zone, now, &misdated);
            Judged { group, reasons }
        };
        let groups = forget::group(listing.snapshots, self.group_by);
        let groups: Vec<Judged> = groups.into_iter().map(judge).collect();
        // What was to go after a time goes, also when it is the last of its group.
        let is_awaited = |(_, snapshot): &(Id, Snapshot)| {
            matches!(snapshot.retention, Some(Retention::Until(time)) if time <= now)
        };
        let emptied = groups.iter().find(|judged| {
            judged.kept().next().is_none() && !judged.group.snapshots.iter().all(is_awaited)
        });
        if let Some(judged) = emptied
            && !self.unsafe_allow_remove_all
        {
            return Err(Failure::Other(format!(
                "no {} would stay, so nothing is removed: change the --keep options, or allow it \
                 with --unsafe-allow-remove-all",
                describe(&judged.group)
            )));
        }
        if !global.json {
            print(global, &groups)?;
        }
        let going = groups.iter().flat_map(|judged| judged.removed());
        let going: Vec<Id> = going.map(|&(id, _)| id).collect();
        let kept: usize = groups.iter().map(|judged| judged.kept().count()).sum();
        let counts = [("kept", kept as u64), ("removed", going.len() as u64)];
        let help = "Snapshots that the latest policy kept, and that it did not.";
        metrics.gauges("snapshots", help, &counts);
        let failed = self.remove(global, repository, &going)?;
        if global.json {
            let mut output = Output::new();
            let groups = groups.iter().map(group_json);
            output.json(&Value::Array(groups.collect()))?;
            output.finish()?;
        }
        let exit = if failed || !listing.damaged.is_empty() {
            Exit::Incomplete
        } else {
            Exit::Success
        };
        Ok((exit, going))
    }

    fn validate(&self, rules: &[Rule]) -> Result<()> {
        let wrong = |text: &str| Err(Failure::Usage(text.to_owned()));
        let filter = self.selection.filter();
        let filtered =
            !(filter.hosts.is_empty() && filter.tags.is_empty() && filter.paths.is_empty());
        match (self.snapshots.is_empty(), rules.is_empty()) {
            (_, true) if self.lost => Ok(()),
            (true, true) if !self.unsafe_allow_remove_all => wrong(
                "nothing says which snapshots stay: use --keep-daily 7 or the like, or name \
                 snapshots to remove",
            ),
            (true, true) if !filtered => wrong(
                "this would remove every snapshot of the repository: choose some with --host, \
                 --tag or --path",
            ),
            _ => Ok(()),
        }
    }

    /// Removes the snapshots that were named, whether or not they can be read, but none that is
    /// never to be removed; says which those were.
    fn remove_named(&self, global: &Global, repository: &Repository) -> Result<(Exit, Vec<Id>)> {
        let filter = self.selection.filter();
        let mut named = self
            .snapshots
            .iter()
            .map(|name| repository.find_snapshot_id(name, &filter))
            .collect::<tabane_store::Result<Vec<Id>>>()?;
        named.sort();
        named.dedup();
        let before = named.len();
        named.retain(|&id| {
            let read = repository.load_snapshot(id);
            !read.is_ok_and(|snapshot| is_never_removed(id, &snapshot))
        });
        let is_kept = named.len() < before;
        let failed = self.remove(global, repository, &named)?;
        if global.json {
            let ids = named.iter().map(|id| Value::from(id.to_string()));
            let mut output = Output::new();
            output.json(&json!({
                "message_type": "removed",
                "dry_run": self.dry_run,
                "ids": Value::Array(ids.collect()),
            }))?;
            output.finish()?;
        }
        let exit = if failed || is_kept {
            Exit::Incomplete
        } else {
            Exit::Success
        };
        Ok((exit, named))
    }

    /// Gives up snapshots that are gone: those named, or those that this machine misses.
    fn give_up(&self, global: &Global, repository: &Repository) -> Result<Exit> {
        let named = self.snapshots.iter().map(|name| {
            name.parse().map_err(|_| {
                Failure::Usage(format!(
                    "{name} is no whole ID of a snapshot, with 64 digits"
                ))
            })
        });
        let mut lost = named.collect::<Result<Vec<Id>>>()?;
        let mut misses = !lost.is_empty();
        if lost.is_empty() {
            let rollback = repository.compare_with_memory()?.unwrap_or_default();
            misses = !rollback.is_none();
            lost = rollback.missing;
        }
        if misses && !self.dry_run {
            repository.give_up_snapshots(&lost)?;
        }
        if global.json {
            let ids = lost.iter().map(|id| Value::from(id.to_string()));
            let mut output = Output::new();
            output.json(&json!({
                "message_type": "given_up",
                "dry_run": self.dry_run,
                "ids": Value::Array(ids.collect()),
            }))?;
            output.finish()?;
        } else if !global.quiet {
            let mut output = Output::new();
            for id in &lost {
                output.line(format!("lost: {id}"))?;
            }
            let count = format::count(lost.len() as u64, "snapshot");
            output.line(match (misses, self.dry_run) {
                (false, _) => "this machine misses nothing".to_owned(),
                (true, true) => format!("dry run: {count} would be given up"),
                (true, false) => format!("{count} given up: no client reports them any more"),
            })?;
            output.finish()?;
        }
        Ok(Exit::Success)
    }

    /// Says whether some could not be removed.
    fn remove(&self, global: &Global, repository: &Repository, going: &[Id]) -> Result<bool> {
        let mut removed = 0;
        if !self.dry_run {
            let failed = repository.remove_snapshots(going)?;
            removed = (going.len() - failed.len()) as u64;
            for (_, error) in &failed {
                warn(advice::explain(error));
            }
        }
        if !global.json && !global.quiet {
            let mut output = Output::new();
            if !self.snapshots.is_empty() {
                for id in going {
                    output.line(format!("remove {}", id.short()))?;
                }
            }
            if self.dry_run {
                output.line(format!(
                    "dry run: {} would be removed",
                    format::count(going.len() as u64, "snapshot")
                ))?
            } else {
                output.line(format!("{} removed", format::count(removed, "snapshot")))?
            }
            output.finish()?;
        }
        Ok(!self.dry_run && removed < going.len() as u64)
    }
}

/// `snapshot of host ada, paths /home, /srv`
pub fn describe(group: &Group) -> String {
    let list = |list: &[String]| format::printable(&list.join(", "));
    let parts = [
        group
            .writer
            .map(|writer| format!("write-only key {}", writer.short())),
        group
            .host
            .as_ref()
            .map(|host| format!("host {}", format::printable(host))),
        group
            .paths
            .as_ref()
            .map(|paths| format!("paths {}", list(paths))),
        group.tags.as_ref().map(|tags| {
            if tags.is_empty() {
                "no tags".to_owned()
            } else {
                format!("tags {}", list(tags))
            }
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "snapshot".to_owned()
    } else {
        format!("snapshot with {}", parts.join(" and "))
    }
}

/// Prints a table of kept snapshots with the reasons, and one of removed snapshots.
fn print(global: &Global, groups: &[Judged]) -> Result<()> {
    if global.quiet {
        return Ok(());
    }
    let mut output = Output::new();
    let lines = |list: &[String]| {
        let lines: Vec<String> = list.iter().map(|text| format::printable(text)).collect();
        lines.join("\n")
    };
    let row = |(id, snapshot): &(Id, Snapshot), reasons: Option<&Vec<String>>| {
        let mut row = vec![
            id.short(),
            format::local_time(snapshot.time),
            format::printable(&snapshot.hostname),
            lines(&snapshot.tags),
        ];
        row.extend(reasons.map(|reasons| lines(reasons)));
        row.push(lines(&snapshot.paths));
        row
    };
    for judged in groups {
        output.line(format!("For every {}:", describe(&judged.group)))?;
        let mut kept = Table::new(&["ID", "Time", "Host", "Tags", "Reasons", "Paths"]);
        for (snapshot, reasons) in judged.kept() {
            kept.row(row(snapshot, Some(reasons)));
        }
        let mut removed = Table::new(&["ID", "Time", "Host", "Tags", "Paths"]);
        for snapshot in judged.removed() {
            removed.row(row(snapshot, None));
        }
        for (verb, colour, table, count) in [
            ("keep", Colour::Green, kept, judged.kept().count()),
            ("remove", Colour::Red, removed, judged.removed().count()),
        ] {
            if count > 0 {
                let count = format::count(count as u64, "snapshot");
                let heading = colour.on_stdout(&format!("{verb} {count}:"));
                output.line(format!("\n{heading}"))?;
                table.print(&mut output)?;
            }
        }
        output.line("")?;
    }
    output.finish()
}

fn group_json(judged: &Judged) -> Value {
    let snapshot = |(id, snapshot): &(Id, Snapshot)| Value::from(snapshot_json(*id, snapshot));
    let kept = judged.kept().map(|(kept, _)| snapshot(kept));
    let removed = judged.removed().map(snapshot);
    let reasons = judged
        .kept()
        .map(|(kept, matches)| json!({"snapshot": snapshot(kept), "matches": matches}));
    json!({
        "writer": judged.group.writer.map(|writer| writer.to_string()),
        "host": judged.group.host,
        "paths": judged.group.paths,
        "tags": judged.group.tags,
        "keep": Value::Array(kept.collect()),
        "remove": Value::Array(removed.collect()),
        "reasons": Value::Array(reasons.collect()),
    })
}
