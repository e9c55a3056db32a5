//! `tabane recover`

use clap::Args;
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, print_json};

/// Find directories that no snapshot leads to, after snapshots were lost
#[derive(Args)]
#[command(after_help = "\
Snapshots are small files; if some are lost, or forgotten by mistake, all that they held is still \
there until the next prune. This reads every directory in the repository, and makes a snapshot \
with the tag `recovered`, in which each directory that nothing leads to has a directory named by \
its ID. What belongs to which snapshot, its time and host are lost.

Examples:
  tabane recover -r /mnt/backup
  tabane ls -r /mnt/backup latest --no-recursive
  tabane restore -r /mnt/backup latest:/1a2b3c4d/home/ada -t /home/ada")]
pub struct Recover {
    /// Show what would be found, and store nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Recover {
    /// Runs `tabane recover`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let recovered = repository.recover(self.dry_run)?;
        let count = recovered.roots.len() as u64;
        if global.json {
            print_json(&json!({
                "message_type": "summary",
                "dry_run": self.dry_run,
                "roots": recovered.roots.iter().map(|id| id.to_string()).collect::<Vec<_>>(),
                "incomplete": recovered.incomplete,
                "snapshot_id": recovered.snapshot.map(|id| id.to_string()),
            }))?;
            return Ok(Exit::Success);
        }
        let mut output = Output::new();
        for id in &recovered.roots {
            output.line(format!("found {}", id.short()))?;
        }
        if recovered.incomplete > 0 {
            output.line(format!(
                "left out {}, of which something is gone",
                format::count(recovered.incomplete, "directory")
            ))?;
        }
        output.line(match (recovered.snapshot, count) {
            (Some(id), _) => format!(
                "{} in snapshot {}",
                format::count(count, "directory"),
                id.short()
            ),
            (None, 0) => "nothing was lost: snapshots lead to all directories".to_owned(),
            (None, _) => format!("dry run: {} would be in it", format::count(count, "directory")),
        })?;
        output.finish()?;
        Ok(Exit::Success)
    }
}
