//! `tabane unlock`

use clap::Args;
use serde_json::json;
use tabane_store::client::{Forgotten, Purpose, Seen};

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, print_json};

/// Remove the records of clients that crashed
#[derive(Args)]
#[command(after_help = "\
Nothing in a repository is ever locked. But each client leaves a record while it works, so that a \
prune keeps what the client may need, and a second prune does not begin. The record of a client \
that crashed expires after a day if it ran on another machine, and at once on this one. With \
--all, all records are removed: use it only while no client works. A client whose record was \
removed notices, and at worst has to be started again.

Examples:
  tabane unlock -r /mnt/backup
  tabane unlock -r /mnt/backup --all")]
pub struct Unlock {
    /// All clients, dead or not
    #[arg(long, alias = "remove-all")]
    all: bool,
}

impl Unlock {
    /// Runs `tabane unlock`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let Forgotten { removed, left } = repository.forget_dead_clients(self.all)?;
        if global.json {
            for seen in &removed {
                print_json(&json!({
                    "message_type": "removed",
                    "id": seen.id.to_string(),
                    "client": seen.client,
                }))?;
            }
        } else if !global.quiet {
            let mut output = Output::new();
            let shown = if removed.is_empty() { &left } else { &removed };
            for seen in shown {
                output.line(describe(seen))?;
            }
            output.line(match removed.is_empty() {
                true if left.is_empty() => "no client that died was found".to_owned(),
                true => "none of these is known to have died: --all removes them".to_owned(),
                false => format!("{} removed", format::count(removed.len() as u64, "client")),
            })?;
            output.finish()?;
        }
        Ok(Exit::Success)
    }
}

/// Who a client is, in a line.
pub fn describe(seen: &Seen) -> String {
    let Some(client) = &seen.client else {
        return format!("{}  cannot be read", seen.id.short());
    };
    let purpose = match client.purpose {
        Purpose::Backup => "backup",
        Purpose::Restore => "restore",
        Purpose::Prune => "prune",
    };
    let who = format!("{}@{}", client.username, client.hostname);
    format!(
        "{}  {purpose} by {} (process {})",
        seen.id.short(),
        format::printable(&who),
        client.pid
    )
}
