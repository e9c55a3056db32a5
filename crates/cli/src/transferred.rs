//! Snapshots that were copied or imported from another repository.

use serde_json::json;
use tabane_store::Id;

use crate::exit::Result;
use crate::format;
use crate::output::Output;

/// Snapshots by their IDs there and here.
pub struct Transferred<'a> {
    /// What became of them: `copied`, `imported`.
    pub done: &'a str,
    /// Each new one; a dry run has no ID here.
    pub new: &'a [(Id, Option<Id>)],
    /// Those that were here already.
    pub present: &'a [(Id, Id)],
}

impl Transferred<'_> {
    /// Prints a line for each new one, for each present one if `verbose`, and the numbers.
    pub fn print(&self, output: &mut Output, verbose: bool, dry_run: bool) -> Result<()> {
        let Self { done, new, present } = self;
        for (from, to) in *new {
            output.line(match to {
                Some(to) => format!("snapshot {} {done} as {}", from.short(), to.short()),
                None => format!("snapshot {} would be {done}", from.short()),
            })?;
        }
        if verbose {
            for (from, to) in *present {
                output.line(format!(
                    "snapshot {} is there as {}",
                    from.short(),
                    to.short()
                ))?;
            }
        }
        output.line(format!(
            "{}: {} {}{done}, {} there already",
            format::count((new.len() + present.len()) as u64, "snapshot"),
            format::grouped(new.len() as u64),
            if dry_run { "would be " } else { "" },
            format::grouped(present.len() as u64),
        ))
    }

    /// Prints an object for each.
    pub fn print_json(&self, output: &mut Output) -> Result<()> {
        for (from, to) in self.new {
            output.json(&json!({
                "message_type": self.done,
                "source_id": from.to_string(),
                "snapshot_id": to.map(|to| to.to_string()),
            }))?;
        }
        for (from, to) in self.present {
            output.json(&json!({
                "message_type": "present",
                "source_id": from.to_string(),
                "snapshot_id": to.to_string(),
            }))?;
        }
        Ok(())
    }
}
