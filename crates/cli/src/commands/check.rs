//! `tabane check`

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tabane_store::check::{CheckOptions, ReadData};
use tabane_store::snapshot::Filter;
use tabane_store::{Id, Repository};
use tabane_striped::{StripedStorage, TargetState};

use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::metrics::{Metrics, MetricsFile};
use crate::output::{Output, into_object, print_json, warn};
use crate::progress::Progress;
use crate::reporter::Reporter;
use crate::select::{Selected, Selection};

/// Clocks of two machines may differ by so much.
const CLOCK_DIFFERENCE_MAX: SignedDuration = SignedDuration::from_mins(10);

/// Look for damage in the repository
#[derive(Args)]
#[command(after_help = "\
Without options, checks that everything that snapshots need is there. --read-data also reads every \
byte, decrypts it and compares it with its digest. --read-data-subset does so for a part: 2/7 the \
second seventh (seven runs with 1/7 to 7/7 read everything), 5% a random share, 10G about as many \
random bytes.

With snapshots, or options that choose some, only these are checked, and --read-data reads only \
the packs that they need.

--expect-every 36h takes it for a problem if the latest snapshot of a host is older than that: a \
backup that no longer runs is found by a check that does. A snapshot that is dated more than ten \
minutes in the future is warned of, and does not count.

The exit code is 1 if there are problems. Of a striped repository it also says which targets could \
be lost now, as far as they list what they have; that some of it has less protection than it \
should is a warning, and no problem.

Examples:
  tabane check -r /mnt/backup
  tabane check -r /mnt/backup --read-data
  tabane check -r /mnt/backup --read-data-subset $(date +%u)/7
  tabane check -r /mnt/backup --read-data latest --host ada
  tabane check -r /mnt/backup --expect-every 36h")]
pub struct Check {
    /// Only these (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// Find hosts of which the latest snapshot is older than this: 36h, 2d
    #[arg(long, value_name = "DURATION", value_parser = format::parse_duration)]
    expect_every: Option<Duration>,
    /// Read all data
    #[arg(long, conflicts_with = "read_data_subset")]
    read_data: bool,
    /// Read a part of the data
    #[arg(long, value_name = "N/T|P%|SIZE", value_parser = parse_subset)]
    read_data_subset: Option<ReadData>,
    #[command(flatten)]
    metrics: MetricsFile,
    #[command(flatten)]
    selection: Selection,
}

fn parse_subset(text: &str) -> std::result::Result<ReadData, String> {
    if let Some((number, of)) = text.split_once('/') {
        return match (number.parse::<u32>(), of.parse::<u32>()) {
            (Ok(number), Ok(of)) if (1..=of).contains(&number) => Ok(ReadData::Part { number, of }),
            _ => Err("write a part as N/T with N from 1 to T, as 2/7".to_owned()),
        };
    }
    if let Some(percent) = text.strip_suffix('%') {
        return match percent.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(ReadData::Percent(percent)),
            _ => {
                Err("write a share as P% with P above 0 and at most 100, as 5% or 0.5%".to_owned())
            }
        };
    }
    format::parse_bytes(text)
        .ok()
        .filter(|&bytes| bytes > 0)
        .map(ReadData::Bytes)
        .ok_or_else(|| "write it as 2/7, 5% or 10G".to_owned())
}

impl Check {
    /// Runs `tabane check`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let file = self.metrics.clone();
        file.record(global, "check", false, |metrics| self.check(global, metrics))
    }

    /// The snapshots that are named or chosen by options; none if all are meant.
    fn choose(&self, repository: &Repository) -> Result<Vec<Id>> {
        let Filter { hosts, tags, paths } = self.selection.filter();
        if self.snapshots.is_empty() && hosts.is_empty() && tags.is_empty() && paths.is_empty() {
            return Ok(Vec::new());
        }
        let Selected { snapshots, .. } = self.selection.list(repository, &self.snapshots)?;
        if snapshots.is_empty() {
            let text = "no snapshot matches: `tabane snapshots` lists what is there";
            return Err(Failure::Other(text.to_owned()));
        }
        Ok(snapshots.into_iter().map(|(id, _)| id).collect())
    }

    /// A sentence for each host of which the latest snapshot is too old. Snapshots of the future
    /// are warned of, and do not count.
    fn overdue(&self, repository: &Repository) -> Result<Vec<String>> {
        let Some(every) = self.expect_every else {
            return Ok(Vec::new());
        };
        let now = Timestamp::now();
        let mut latest: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
        let filter = self.selection.filter();
        for (id, snapshot) in repository.snapshots(&filter)?.snapshots {
            let (host, time) = (snapshot.hostname, snapshot.time);
            if time.duration_since(now) > CLOCK_DIFFERENCE_MAX {
                warn(format!(
                    "snapshot {} of {host} is of {}, which is still to come, and does not count: \
                     its clock was wrong, or its --time; `tabane forget` keeps it until it is \
                     named",
                    id.short(),
                    format::local_time(time)
                ));
                latest.entry(host).or_default();
            } else {
                // They come in the order of their times.
                latest.insert(host, Some(time));
            }
        }
        for host in filter.hosts {
            latest.entry(host).or_default();
        }
        if latest.is_empty() {
            return Ok(vec![
                "there is no snapshot, and one was expected".to_owned(),
            ]);
        }
        let age = |time| now.duration_since(time).max(SignedDuration::ZERO).unsigned_abs();
        let late = |(host, time): (String, Option<Timestamp>)| {
            let host = format::printable(&host);
            let what = match time {
                None => format!("{host} has no snapshot that counts"),
                Some(time) if age(time) > every => {
                    let time = format::local_time(time);
                    format!("the latest snapshot of {host} is of {time}")
                }
                Some(_) => return None,
            };
            Some(format!("{what}: see why its backups do not run"))
        };
        Ok(latest.into_iter().filter_map(late).collect())
    }

    fn check(self, global: &Global, metrics: &mut Metrics) -> Result<Exit> {
        let repository = global.open()?;
        let read_data = match self.read_data_subset {
            Some(subset) => subset,
            None if self.read_data => ReadData::All,
            None => ReadData::Nothing,
        };
        let progress = Progress::start(global);
        let reporter = Reporter::new(&progress).without_notes(global.quiet);
        let told = repository.with_progress(reporter);
        let options = CheckOptions::default().read_data(read_data);
        let checked = self
            .choose(&repository)
            .and_then(|chosen| Ok(told.check(options.snapshots(chosen))?));
        progress.stop();
        let mut report = checked?;
        let damages = report.problems - report.rolled_back;
        let overdue = self.overdue(&repository)?;
        for text in &overdue {
            progress.problem(text);
            metrics.explain(text);
        }
        report.problems += overdue.len() as u64;
        if report.unreferenced_packs > 0 && damages > 0 {
            warn("packs are in no index: run `tabane repair index` first, and remove nothing");
        }
        let elapsed = progress.elapsed();
        let is_write_only = repository.is_write_only();
        let failed = report.problems > 0;
        metrics.gauge("problems", "What the latest check found.", report.problems);
        metrics.gauge(
            "read_bytes",
            "Bytes of packs that it read.",
            report.read_bytes,
        );
        let striped = (repository.storage() as &dyn Any).downcast_ref::<StripedStorage>();
        let survey = striped.map(|storage| storage.survey());
        let statement = survey.as_ref().map(|survey| match survey {
            Ok(survey) if failed => {
                format!(
                    "apart from the problems above, {}",
                    advice::statement(survey)
                )
            }
            Ok(survey) => advice::statement(survey),
            Err(error) => format!("what targets hold cannot be told: {error}"),
        });
        // A target that is missing was spoken of already.
        let is_there = |target: &TargetState| target.missing.is_none();
        let incomplete = match &survey {
            Some(Ok(survey)) if survey.targets.iter().all(is_there) => survey.incomplete_objects,
            _ => 0,
        };
        let damage = striped.map_or_else(Vec::new, StripedStorage::damage_seen);
        if global.json {
            let mut object = into_object(json!({"message_type": "summary"}));
            if let Some(statement) = statement {
                object.insert("targets".to_owned(), statement.into());
            }
            if striped.is_some() {
                let seen = damage.iter();
                let seen = seen.map(|(url, objects)| json!({"url": url, "objects": objects}));
                object.insert("damaged_targets".to_owned(), seen.collect());
            }
            object.append(&mut into_object(
                serde_json::to_value(report).unwrap_or_default(),
            ));
            object.insert("elapsed_s".to_owned(), elapsed.as_secs_f64().into());
            print_json(&object.into())?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.line(format!(
                "checked {}, {} with {}, {}",
                format::count(report.snapshots, "snapshot"),
                format::count(report.packs, "pack"),
                format::count(report.blocks, "block"),
                format::count(report.index_objects, "index object"),
            ))?;
            if report.unverified_packs > 0 {
                output.line(format!(
                    "{} of write-only keys are not verified: `tabane prune` does that",
                    format::count(report.unverified_packs, "pack"),
                ))?;
            }
            match read_data {
                ReadData::Nothing if is_write_only => output.line(
                    "a write-only key reads neither data nor snapshots: only their presence was \
                     looked at",
                )?,
                ReadData::Nothing => output.line(
                    "the data themselves were not read: `tabane check --read-data` does that too",
                )?,
                _ => output.line(format!(
                    "read {} of {} in {}{}",
                    format::bytes(report.read_bytes),
                    format::count(report.read_packs, "pack"),
                    format::duration(elapsed),
                    format::rate(report.read_bytes, elapsed),
                ))?,
            }
            if let Some(statement) = statement {
                output.line(statement)?;
            }
            if !failed && !damage.is_empty() {
                output.line("no problems were found but damage that was read round (see below)")?;
            } else if !failed {
                output.line("no problems were found")?;
            }
            if report.keys == 1 {
                output.line(
                    "only one password opens the repository: `tabane key add` adds another",
                )?;
            }
            output.finish()?;
        }
        for (url, objects) in &damage {
            warn(format!(
                "{url}: parts of {} are not as they were written, and were computed from others: \
                 run `tabane scrub`, which mends them",
                format::count(*objects as u64, "object")
            ));
        }
        if incomplete > 0 {
            warn(format!(
                "{} incomplete, so less is protected than should be: run `tabane heal`",
                format::count(incomplete, "object")
            ));
        }
        if report.rolled_back > 0 {
            let what = "somebody has brought back an older state of the repository, or removed \
                        snapshots from it without a key";
            warn(format!(
                "{what}: bring back what is missing, if a target is; find out who can write to \
                 it; `tabane forget --lost` gives up what is lost"
            ));
            metrics.explain(what);
        }
        if damages > 0 {
            let were = if damages == 1 { "was" } else { "were" };
            let what = format!("{} {were} found", format::count(damages, "problem"));
            warn(format!(
                "{what} (see above): keep a copy of the repository as it is, restore what you \
                 need from the snapshots that still can be; then see `tabane repair --help`"
            ));
            metrics.explain(what);
        }
        if failed {
            return Ok(if report.problems == report.rolled_back {
                Exit::RolledBack
            } else {
                Exit::Failure
            });
        }
        Ok(Exit::Success)
    }
}
