//! `tabane merge`

use clap::Args;
use serde_json::json;

use tabane_store::snapshot::split_tags;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, print_json};
use crate::retention::is_never_removed;
use crate::select::{Selected, Selection};

/// Make one snapshot of several
#[derive(Args)]
#[command(after_help = "\
The new snapshot has every file of those that are named, or of all that --host, --tag and --path \
choose. Of a file that several have, it gets the version that was changed last; where one has a \
directory and another something else of that name, it gets that of the later snapshot. No data are \
copied. It has the time of the latest of them. The others stay, unless --delete is given, and also \
then if they are marked with --delete-never.

Examples:
  tabane merge -r /mnt/backup 1a2b3c4d 5e6f7a8b --add-tag all
  tabane merge -r /mnt/backup --host laptop --path /home --path /etc -n")]
pub struct Merge {
    /// These (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// Give the new one these tags, beside those of the others (repeatable)
    #[arg(long = "add-tag", value_name = "TAG[,TAG…]")]
    add_tag: Vec<String>,
    /// Remove the snapshots that were merged
    #[arg(long)]
    delete: bool,
    /// Show what would be made, and make nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Merge {
    /// Runs `tabane merge`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let filter = self.selection.filter();
        let is_chosen = !(self.snapshots.is_empty()
            && filter.hosts.is_empty()
            && filter.tags.is_empty()
            && filter.paths.is_empty());
        if !is_chosen {
            let text = "no snapshots named: name them, or choose them with --host, --tag or --path";
            return Err(Failure::Usage(text.to_owned()));
        }
        let repository = global.open()?;
        let Selected { snapshots, exit } = self.selection.list(&repository, &self.snapshots)?;
        let tags = self.add_tag.iter().flat_map(|list| split_tags(list));
        let tags: Vec<String> = tags.collect();
        let (id, merged) = repository.merge(&snapshots, &tags, self.dry_run)?;
        if self.delete && id.is_some() {
            for (old, snapshot) in snapshots.iter().filter(|(old, _)| Some(*old) != id) {
                if !is_never_removed(*old, snapshot) {
                    repository.remove_snapshot(*old)?;
                }
            }
        }
        let summary = &merged.summary;
        if global.json {
            print_json(&json!({
                "message_type": "summary",
                "dry_run": self.dry_run,
                "snapshot_id": id.map(|id| id.to_string()),
                "merged": snapshots.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(),
                "deleted": self.delete && id.is_some(),
                "files": summary.files_unmodified,
                "directories": summary.directories,
                "others": summary.others,
                "total_bytes": summary.total_bytes,
                "stored_bytes": summary.stored_bytes,
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.line(format!(
                "{} with {} and {}",
                format::count(snapshots.len() as u64, "snapshot"),
                format::count(summary.files_unmodified, "file"),
                format::bytes(summary.total_bytes)
            ))?;
            output.line(match id {
                Some(id) if self.delete => {
                    format!("merged as snapshot {}, and the others removed", id.short())
                }
                Some(id) => format!("merged as snapshot {}", id.short()),
                None => "dry run: nothing was stored".to_owned(),
            })?;
            output.finish()?;
        }
        Ok(exit)
    }
}
