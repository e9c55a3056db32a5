//! `tabane key`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tabane_store::key::{self, KdfCost};
use tabane_store::{Id, Repository};

use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, Table, print_json, warn};
use crate::password;

/// Manage the passwords that open the repository
#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Each key is one password for the whole repository. Removing a key does not help against someone \
who knows its password and has a copy of the key: the data stay encrypted with the same master key.

Examples:
  tabane key list -r /mnt/backup
  tabane key add -r /mnt/backup
  tabane key passwd -r /mnt/backup --new-password-file ~/.config/tabane/password
  tabane key remove -r /mnt/backup 1a2b3c4d")]
pub struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List all keys; * marks the one in use
    List,
    /// Add a password
    Add(NewPassword),
    /// Remove a key, by its ID or the beginning of it
    Remove {
        /// The key to remove; the key in use and the last key stay
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Change the password in use
    Passwd(NewPassword),
}

#[derive(Args)]
struct NewPassword {
    /// Read the new password from this file instead of asking for it
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
}

impl Key {
    /// Runs `tabane key`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        match self.action {
            Action::List => return list(global, &repository),
            Action::Add(new) => {
                let id = add(&repository, &new)?;
                say(
                    global,
                    json!({"message_type": "key_added", "id": id.to_string()}),
                    || format!("added key {}", id.short()),
                )?;
            }
            Action::Remove { id } => {
                let id = key::find(repository.storage(), &id)?;
                repository.remove_key(id)?;
                say(
                    global,
                    json!({"message_type": "key_removed", "id": id.to_string()}),
                    || format!("removed key {}", id.short()),
                )?;
            }
            Action::Passwd(new) => {
                let old = repository.key();
                let id = add(&repository, &new)?;
                repository.replace_key(id)?;
                let value = json!({
                    "message_type": "password_changed",
                    "id": id.to_string(),
                    "removed_id": old.to_string(),
                });
                say(global, value, || {
                    format!(
                        "the password is changed: key {} replaces {}",
                        id.short(),
                        old.short()
                    )
                })?;
            }
        }
        Ok(Exit::Success)
    }
}

fn list(global: &Global, repository: &Repository) -> Result<Exit> {
    let key::Listing { keys, damaged } = key::list(repository.storage())?;
    for error in &damaged {
        warn(advice::explain(error));
    }
    let exit = if damaged.is_empty() {
        Exit::Success
    } else {
        Exit::Failure
    };
    let in_use = repository.key();
    let mut output = Output::new();
    if global.json {
        let objects = keys.iter().map(|key| {
            json!({
                "current": key.id == in_use,
                "id": key.id.to_string(),
                "short_id": key.id.short(),
                "username": key.file.username,
                "hostname": key.file.hostname,
                "created": key.file.created.to_string(),
            })
        });
        output.json(&Value::Array(objects.collect()))?;
        output.finish()?;
        return Ok(exit);
    }
    let mut table = Table::new(&["ID", "User", "Host", "Created"]);
    for key in &keys {
        let mark = if key.id == in_use { '*' } else { ' ' };
        table.row(vec![
            format!("{mark}{}", key.id.short()),
            format::printable(&key.file.username),
            format::printable(&key.file.hostname),
            format::local_time(key.file.created),
        ]);
    }
    table.print(&mut output)?;
    output.finish()?;
    Ok(exit)
}

fn add(repository: &Repository, new: &NewPassword) -> Result<Id> {
    let password = password::of_new_key(new.new_password_file.as_deref())?;
    Ok(repository.add_key(&password, KdfCost::default())?)
}

fn say(global: &Global, value: Value, text: impl FnOnce() -> String) -> Result<()> {
    if global.json {
        return print_json(&value);
    }
    if !global.quiet {
        let mut output = Output::new();
        output.line(text())?;
        output.finish()?;
    }
    Ok(())
}
