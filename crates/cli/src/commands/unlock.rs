//! `tabane unlock`

use clap::Args;
use serde_json::json;
use tabane_store::client::{Forgotten, Purpose, Seen};

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, print_json};

/// Forget clients that died at work
#[derive(Args)]
#[command(after_help = "\
Nothing in a repository is ever locked. But clients at work say so, so that a prune leaves alone what they may need, \
and a second prune does not begin. One that died on another machine is taken for dead after a day; on this \
machine at once. Who cannot wait for that removes what it left with --all, when no client is at work any more; if \
one is, it will notice, and at worst has to be started again.

Examples:
  tabane unlock -r /mnt/backup
  tabane unlock -r /mnt/backup --all")]
pub struct Unlock {
    /// All clients, dead or not
    #[arg(long, alias = "remove-all")]
    all: bool,
}

impl Unlock {
    /// Does it.
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

fn describe(seen: &Seen) -> String {
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
