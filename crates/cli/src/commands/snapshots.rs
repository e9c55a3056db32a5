//! `tabane snapshots`

use std::collections::HashSet;

use clap::Args;
use serde_json::{Value, json};
use tabane_store::Id;
use tabane_store::forget::{Group, GroupBy, group};
use tabane_store::snapshot::Snapshot;

use super::forget::describe;
use crate::args::{Global, parse};
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, Table, snapshot_json};
use crate::select::{Selected, Selection};

/// List snapshots
#[derive(Args)]
#[command(after_help = "\
Size is that of all files; Stored is what the snapshot added to the repository, compressed. The \
marks of --delete-never and --delete-after are in --json, as `delete`, and `forget -n` gives them \
as reasons.

With --json, prints one array of objects; with --group-by, of groups with an array of them each.

Examples:
  tabane snapshots --repo /mnt/backup
  tabane snapshots -r /mnt/backup --tag weekly --latest 3
  tabane snapshots -r /mnt/backup --json | jq -r '.[].id'")]
pub struct Snapshots {
    /// Only these (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    /// Only the latest N of each group, by default of each host with the same paths
    #[arg(long, value_name = "N", help_heading = "Choosing snapshots")]
    latest: Option<usize>,
    /// A table for each group of snapshots that have these in common: host, paths, tags, some of
    /// them with commas between
    #[arg(short, long, value_name = "LIST", value_parser = parse::<GroupBy>)]
    group_by: Option<GroupBy>,
}

impl Snapshots {
    /// Runs `tabane snapshots`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let Selected {
            mut snapshots,
            exit,
        } = self.selection.list(&repository, &self.snapshots)?;
        if let Some(latest) = self.latest {
            let by = self.group_by.unwrap_or(GroupBy::HOST_AND_PATHS);
            let latest_of = |group: Group| group.snapshots.into_iter().rev().take(latest);
            let kept: HashSet<Id> = group(snapshots.clone(), by)
                .into_iter()
                .flat_map(latest_of)
                .map(|(id, _)| id)
                .collect();
            snapshots.retain(|(id, _)| kept.contains(id));
        }
        let mut output = Output::new();
        let count = snapshots.len() as u64;
        match self.group_by {
            None if global.json => output.json(&array(&snapshots))?,
            None => print(&snapshots, &mut output)?,
            Some(by) if global.json => {
                let groups = group(snapshots, by).into_iter().map(|group| {
                    json!({
                        "group_key": {
                            "writer": group.writer.map(|writer| writer.to_string()),
                            "hostname": group.host,
                            "paths": group.paths,
                            "tags": group.tags,
                        },
                        "snapshots": array(&group.snapshots),
                    })
                });
                output.json(&Value::Array(groups.collect()))?;
            }
            Some(by) => {
                for group in group(snapshots, by) {
                    output.line(format!("For every {}:\n", describe(&group)))?;
                    print(&group.snapshots, &mut output)?;
                    output.line("")?;
                }
            }
        }
        if !global.json && !global.quiet {
            output.line(format::count(count, "snapshot"))?;
        }
        output.finish()?;
        Ok(exit)
    }
}

fn array(snapshots: &[(Id, Snapshot)]) -> Value {
    let objects = snapshots.iter();
    let objects = objects.map(|(id, snapshot)| snapshot_json(*id, snapshot).into());
    Value::Array(objects.collect())
}

/// Prints a table, unless it would be empty.
fn print(snapshots: &[(Id, Snapshot)], output: &mut Output) -> Result<()> {
    if snapshots.is_empty() {
        return Ok(());
    }
    let described = snapshots.iter().any(|(_, snapshot)| snapshot.description.is_some());
    let mut headings = vec!["ID", "Time", "Host", "Tags", "Size>", "Stored>", "Paths"];
    headings.extend(described.then_some("Description"));
    let has_writers = snapshots.iter().any(|(_, snapshot)| snapshot.writer.is_some());
    headings.extend(has_writers.then_some("Write-only key"));
    let mut table = Table::new(&headings);
    for (id, snapshot) in snapshots {
        let lines = |list: &[String]| {
            let lines: Vec<String> = list.iter().map(|text| format::printable(text)).collect();
            lines.join("\n")
        };
        let mut row = vec![
            id.short(),
            format::local_time(snapshot.time),
            format::printable(&snapshot.hostname),
            lines(&snapshot.tags),
            format::bytes(snapshot.summary.total_bytes),
            format::bytes(snapshot.summary.stored_bytes),
            lines(&snapshot.paths),
        ];
        let description = snapshot.description.as_deref().unwrap_or_default();
        row.extend(described.then(|| format::printable(description)));
        let writer = snapshot.writer.map(|writer| writer.short());
        row.extend(has_writers.then(|| writer.unwrap_or_default()));
        table.row(row);
    }
    table.print(output)
}
