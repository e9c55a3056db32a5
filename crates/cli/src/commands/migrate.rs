//! `tabane migrate`

use clap::Args;
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::output::{Output, print_json};

/// Bring the repository to the latest format
#[derive(Args)]
#[command(after_help = "\
Format 2 stores the names of owners and groups, file flags (immutable, append, nodump), and copies \
of the objects without which nothing opens. Nothing that is stored is rewritten, so a migration \
takes seconds. All targets of a striped repository, and all nodes of a cluster, must be there.

Programs of versions before this one cannot open the repository afterwards. A command that is \
running meanwhile ends with an error; run it again. If the migration is interrupted, run it again.

Examples:
  tabane migrate -r /mnt/backup")]
pub struct Migrate {}

impl Migrate {
    /// Migrates the repository.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let from = repository.format();
        let migrated = repository.migrate()?;
        let to = tabane_store::FORMAT;
        if global.json {
            print_json(&json!({
                "message_type": "migrated",
                "migrated": migrated,
                "from_format": from,
                "format": to,
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            output.line(if migrated {
                format!("migrated the repository from format {from} to format {to}")
            } else {
                format!("the repository has format {to}, the latest: nothing to do")
            })?;
            output.finish()?;
        }
        Ok(Exit::Success)
    }
}
