//! `tabane snapshots`

use std::collections::HashMap;

use clap::Args;
use serde_json::Value;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, Table, snapshot_json};
use crate::select::{Selected, Selection};

/// List snapshots
#[derive(Args)]
#[command(after_help = "\
With --json, prints one array of objects.

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
    /// Only the latest N of each host with the same paths
    #[arg(long, value_name = "N", help_heading = "Choosing snapshots")]
    latest: Option<usize>,
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
            let mut seen: HashMap<(String, Vec<String>), usize> = HashMap::new();
            snapshots.reverse();
            snapshots.retain(|(_, snapshot)| {
                let group = (snapshot.hostname.clone(), snapshot.paths.clone());
                let count = seen.entry(group).or_default();
                *count += 1;
                *count <= latest
            });
            snapshots.reverse();
        }
        let mut output = Output::new();
        if global.json {
            let objects = snapshots
                .iter()
                .map(|(id, snapshot)| snapshot_json(*id, snapshot).into());
            output.json(&Value::Array(objects.collect()))?;
            output.finish()?;
            return Ok(exit);
        }
        let mut table = Table::new(&["ID", "Time", "Host", "Tags", "Size>", "Paths"]);
        for (id, snapshot) in &snapshots {
            let lines = |list: &[String]| {
                let lines: Vec<String> = list.iter().map(|text| format::printable(text)).collect();
                lines.join("\n")
            };
            table.row(vec![
                id.short(),
                format::local_time(snapshot.time),
                format::printable(&snapshot.hostname),
                lines(&snapshot.tags),
                format::bytes(snapshot.summary.total_bytes),
                lines(&snapshot.paths),
            ]);
        }
        if !snapshots.is_empty() {
            table.print(&mut output)?;
        }
        if !global.quiet {
            output.line(format::count(snapshots.len() as u64, "snapshot"))?;
        }
        output.finish()?;
        Ok(exit)
    }
}
