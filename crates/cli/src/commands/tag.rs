//! `tabane tag`

use clap::Args;
use serde_json::json;
use tabane_store::snapshot::split_tags;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::Output;
use crate::retention::RetentionArgs;
use crate::select::{Selected, Selection};

/// Change the tags and descriptions of snapshots, and how long they stay
#[derive(Args)]
#[command(after_help = "\
Changes the snapshots that are named, or all that --host, --tag and --path choose. A snapshot gets \
a new ID, since IDs are made of what snapshots say; `tabane snapshots --json` shows the one that \
it had first as `original`.

Examples:
  tabane tag -r /mnt/backup --add release 1a2b3c4d
  tabane tag -r /mnt/backup --host ada --remove trial
  tabane tag -r /mnt/backup --set a,b latest
  tabane tag -r /mnt/backup --set '' latest    # no tags at all
  tabane tag -r /mnt/backup --description 'before the move' --delete-never latest")]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["delete_after", "delete_never", "delete_by_rules"]))]
pub struct Tag {
    /// Only these (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// Give exactly these tags, separated by commas (repeatable)
    #[arg(long, value_name = "TAG[,TAG…]", group = "change")]
    #[arg(conflicts_with_all = ["add", "remove"])]
    set: Vec<String>,
    /// Add these tags
    #[arg(long, value_name = "TAG[,TAG…]", group = "change")]
    add: Vec<String>,
    /// Take these tags away
    #[arg(long, value_name = "TAG[,TAG…]", group = "change")]
    remove: Vec<String>,
    /// Describe them so; '' for no description
    #[arg(long, value_name = "TEXT", group = "change")]
    description: Option<String>,
    #[command(flatten)]
    retention: RetentionArgs,
    /// Let the rules of `forget` decide
    #[arg(long, conflicts_with_all = ["delete_after", "delete_never"])]
    delete_by_rules: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Tag {
    /// Runs `tabane tag`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let mut output = Output::new();
        let Selected { snapshots, exit } = self.selection.list(&repository, &self.snapshots)?;
        let mut changed = Vec::new();
        for (id, mut snapshot) in snapshots {
            let before = snapshot.clone();
            snapshot.tags = self.change(&snapshot.tags);
            if let Some(text) = &self.description {
                snapshot.description = Some(text.clone()).filter(|text| !text.is_empty());
            }
            match self.retention.of(snapshot.time) {
                Some(retention) => snapshot.retention = Some(retention),
                None if self.delete_by_rules => snapshot.retention = None,
                None => {}
            }
            if snapshot == before {
                continue;
            }
            snapshot.original = Some(snapshot.original.unwrap_or(id));
            snapshot.changes += 1;
            changed.push((id, snapshot));
        }
        let replaced = repository.replace_snapshots(&changed)?;
        for ((id, _), new) in changed.iter().zip(replaced) {
            if global.json {
                output.json(&json!({
                    "message_type": "changed",
                    "old_snapshot_id": id.to_string(),
                    "new_snapshot_id": new.to_string(),
                }))?;
            } else if global.verbose > 0 {
                output.line(format!("snapshot {} is now {}", id.short(), new.short()))?;
            }
        }
        if global.json {
            let summary = json!({"message_type": "summary", "changed_snapshots": changed.len()});
            output.json(&summary)?;
        } else if !global.quiet {
            output.line(format!(
                "changed {}",
                format::count(changed.len() as u64, "snapshot")
            ))?;
        }
        output.finish()?;
        Ok(exit)
    }

    fn change(&self, tags: &[String]) -> Vec<String> {
        let split = |lists: &[String]| lists.iter().flat_map(|list| split_tags(list)).collect();
        let removed: Vec<String> = split(&self.remove);
        let added: Vec<String> = if self.set.is_empty() {
            split(&self.add)
        } else {
            split(&self.set)
        };
        let mut changed: Vec<String> = if self.set.is_empty() {
            tags.to_vec()
        } else {
            Vec::new()
        };
        for tag in added {
            if !changed.iter().any(|own| own.trim() == tag) {
                changed.push(tag);
            }
        }
        changed.retain(|tag| !removed.iter().any(|removed| removed == tag.trim()));
        changed
    }
}
