//! `tabane diff`

use std::os::unix::ffi::OsStrExt;

use clap::Args;
use serde_json::json;
use tabane_store::browse::Browser;
use tabane_store::diff::{self, ChangeKind};

use crate::args::Global;
use crate::colour::Colour;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, into_object, put_path};
use crate::select::{Place, PlaceParser, Selection};

/// Show what is different between two snapshots
#[derive(Args)]
#[command(after_help = "\
Each line begins with
  +  only the second has it
  -  only the first has it
  M  its content is different
  T  it is another kind of file
  U  only its attributes are different (shown with --metadata)

Examples:
  tabane diff -r /mnt/backup 1a2b3c4d latest
  tabane diff -r /mnt/backup 1a2b3c4d:/home/ada latest:/srv/ada --metadata")]
pub struct Diff {
    /// The first snapshot (an ID, its beginning, or latest), and where in it
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = PlaceParser)]
    old: Place,
    /// The second
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = PlaceParser)]
    new: Place,
    /// Show what differs in attributes only, too
    #[arg(long)]
    metadata: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Diff {
    /// Runs `tabane diff`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let mut browser = Browser::new(&repository)?;
        let mut find = |place: &Place| {
            let (id, snapshot) = place.find(&repository, &self.selection)?;
            Ok::<_, Failure>((id, browser.find(id, &snapshot, &place.path)?))
        };
        let (old_id, old) = find(&self.old)?;
        let (new_id, new) = find(&self.new)?;
        let mut output = Output::new();
        let summary = diff::diff::<Failure>(&mut browser, &old, &new, |change| {
            if change.kind == ChangeKind::Metadata && !self.metadata {
                return Ok(());
            }
            let letter = match change.kind {
                ChangeKind::Added => "+",
                ChangeKind::Removed => "-",
                ChangeKind::Content => "M",
                ChangeKind::Type => "T",
                ChangeKind::Metadata => "U",
            };
            let mut path = change.path.as_os_str().as_bytes().to_vec();
            let shown = change.new.as_ref().or(change.old.as_ref());
            if shown.is_some_and(|entry| entry.directory().is_some()) {
                path.push(b'/');
            }
            if global.json {
                let mut object = into_object(json!({"message_type": "change", "modifier": letter}));
                put_path(&mut object, "path", &path);
                return output.json(&object.into());
            }
            let text = format!("{letter:<5}");
            let text = match change.kind {
                ChangeKind::Added => Colour::Green.on_stdout(&text),
                ChangeKind::Removed => Colour::Red.on_stdout(&text),
                ChangeKind::Content | ChangeKind::Type => Colour::Yellow.on_stdout(&text),
                ChangeKind::Metadata => text,
            };
            output.text(&text)?;
            output.name(&path)?;
            output.line("")
        })?;
        if global.json {
            output.json(&json!({
                "message_type": "statistics",
                "old_snapshot_id": old_id.to_string(),
                "new_snapshot_id": new_id.to_string(),
                "files_added": summary.files_added,
                "files_removed": summary.files_removed,
                "files_changed": summary.files_changed,
                "metadata_changed": summary.metadata_changed,
                "directories_added": summary.directories_added,
                "directories_removed": summary.directories_removed,
                "blocks_added": summary.blocks_added,
                "blocks_removed": summary.blocks_removed,
                "added_bytes": summary.added_bytes,
                "removed_bytes": summary.removed_bytes,
            }))?;
        } else if !global.quiet {
            output.line("")?;
            output.line(format!(
                "Files:    {} added, {} removed, {} changed, {} with other attributes only",
                format::grouped(summary.files_added),
                format::grouped(summary.files_removed),
                format::grouped(summary.files_changed),
                format::grouped(summary.metadata_changed),
            ))?;
            output.line(format!(
                "Dirs:     {} added, {} removed",
                format::grouped(summary.directories_added),
                format::grouped(summary.directories_removed),
            ))?;
            output.line(format!(
                "Blocks:   {} added, {} removed",
                format::grouped(summary.blocks_added),
                format::grouped(summary.blocks_removed),
            ))?;
            output.line(format!("Added:    {}", format::bytes(summary.added_bytes)))?;
            output.line(format!(
                "Removed:  {}",
                format::bytes(summary.removed_bytes)
            ))?;
        }
        output.finish()?;
        Ok(Exit::Success)
    }
}
