//! `tabane key`

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tabane_store::key::{self, KeyKind};
use tabane_store::{Error, Id, ImportedKey, Repository};

use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::key_paper;
use crate::output::{Output, Table, print_json, warn};
use crate::password;

/// Manage the passwords that open the repository
#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Each key is one password for the whole repository. Removing a key does not help against someone \
who knows its password and has a copy of the key: the data stay encrypted with the same master key.

A write-only key backs up and reads nothing of what is stored, not even what it stored itself. It \
is for machines that may be broken into.

`key export` prints a key and the config of the repository, without which nothing in it can be \
decrypted, as numbered lines that fit a page. Whoever has the page needs the password, too. `key \
import` brings both back from such lines, where they are lost.

Examples:
  tabane key list -r /mnt/backup
  tabane key add -r /mnt/backup
  tabane key add -r /mnt/backup --write-only
  tabane key passwd -r /mnt/backup --new-password-file ~/.config/tabane/password
  tabane key remove -r /mnt/backup 1a2b3c4d
  tabane key export -r /mnt/backup --qr | lp
  tabane key import -r /mnt/backup typed.txt")]
pub struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List all keys; * marks the one in use
    List,
    /// Add a password
    #[command(after_help = "\
With --write-only, the password backs up, deduplicates against everything in the repository and \
finds unchanged files, and reads nothing. The first such key replaces the config and all index \
objects of the repository; programs before this version cannot open it afterwards. `tabane prune` \
with a full key verifies what write-only keys have stored, before other clients rely on it.

Examples:
  tabane key add -r /mnt/backup --new-password-file second
  tabane key add -r /mnt/backup --write-only --new-password-file laptop")]
    Add {
        /// Make a key that can back up and cannot read
        #[arg(long)]
        write_only: bool,
        #[command(flatten)]
        new: NewPassword,
    },
    /// Remove a key, by its ID or the beginning of it
    Remove {
        /// The key to remove; the key in use and the last key stay
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Change the password in use
    Passwd(NewPassword),
    /// Print a key and the config, to be kept on paper
    Export {
        /// Which key, by its ID or the beginning of it [default: the one in use]
        #[arg(value_name = "ID")]
        id: Option<String>,
        /// Print QR codes of the lines, too; the terminal must be 77 columns wide
        #[arg(long)]
        qr: bool,
    },
    /// Bring back a key and the config from the lines of `key export`
    #[command(after_help = "\
The password is that of the key in the text. Lines may be in any order, of upper or lower case, \
with the line ends of any system, and as scanners of QR codes give them. Nothing is changed where \
the text has a mistake or is of another repository.

Examples:
  tabane key import -r /mnt/backup typed.txt
  tabane key import -r /mnt/backup < scanned.txt")]
    Import {
        /// The text [default: standard input]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
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
        if let Action::Import { file } = &self.action {
            return import(global, file.as_deref());
        }
        let repository = global.open()?;
        match self.action {
            Action::Import { .. } => unreachable!("it opens no repository"),
            Action::Export { id, qr } => return export(global, &repository, id.as_deref(), qr),
            Action::List => return list(global, &repository),
            Action::Add { write_only, new } => {
                let id = if write_only {
                    add_write_only(&repository, &new)?
                } else {
                    add(&repository, &new)?
                };
                let is_write_only = write_only || repository.is_write_only();
                let value = json!({
                    "message_type": "key_added",
                    "id": id.to_string(),
                    "write_only": is_write_only,
                });
                let kind = if is_write_only {
                    "write-only key"
                } else {
                    "key"
                };
                say(global, value, || format!("added {kind} {}", id.short()))?;
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
                let password = password::of_new_key(new.new_password_file.as_deref())?;
                let id = repository.change_password(&password, password::cost())?;
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
                "write_only": key.file.kind == KeyKind::WriteOnly,
                "writer": key.file.writer.map(|writer| writer.to_string()),
            })
        });
        output.json(&Value::Array(objects.collect()))?;
        output.finish()?;
        return Ok(exit);
    }
    let mut headings = vec!["ID", "User", "Host", "Created"];
    let has_writers = keys.iter().any(|key| key.file.kind == KeyKind::WriteOnly);
    headings.extend(has_writers.then_some("Reads"));
    let mut table = Table::new(&headings);
    for key in &keys {
        let mark = if key.id == in_use { '*' } else { ' ' };
        let mut row = vec![
            format!("{mark}{}", key.id.short()),
            format::printable(&key.file.username),
            format::printable(&key.file.hostname),
            format::local_time(key.file.created),
        ];
        row.extend(has_writers.then(|| match key.file.writer {
            None => "everything".to_owned(),
            Some(writer) => format!("nothing; it writes as {}", writer.short()),
        }));
        table.row(row);
    }
    table.print(&mut output)?;
    output.finish()?;
    Ok(exit)
}

fn export(global: &Global, repository: &Repository, id: Option<&str>, qr: bool) -> Result<Exit> {
    let id = match id {
        Some(prefix) => key::find(repository.storage(), prefix)?,
        None => repository.key(),
    };
    let lines = repository.export_key(id)?;
    if global.json {
        print_json(&json!({
            "message_type": "key_exported",
            "id": id.to_string(),
            "repository": repository.config().id.to_string(),
            "lines": lines,
        }))?;
        return Ok(Exit::Success);
    }
    let mut output = Output::new();
    let kind = match key::load(repository.storage(), id)?.file.kind {
        KeyKind::Full => "key",
        KeyKind::WriteOnly => "write-only key",
    };
    output.line(format!(
        "Tabane: {kind} {} of the repository {}. Keep it away from the password.",
        id.short(),
        repository.config().id.short()
    ))?;
    output.line("It comes back with `tabane key import FILE`, FILE being the lines below.")?;
    output.line("")?;
    for line in &lines {
        output.line(line)?;
    }
    if qr {
        for code in key_paper::codes(&lines, std::io::stdout().is_terminal()) {
            output.line("")?;
            output.line(code)?;
        }
    }
    output.finish()?;
    Ok(Exit::Success)
}

fn import(global: &Global, file: Option<&Path>) -> Result<Exit> {
    let text = read(file)?;
    let imported = global.import_key(&text)?;
    let ImportedKey {
        key,
        repository,
        mended,
        ..
    } = &imported;
    let value = json!({
        "message_type": "key_imported",
        "id": key.to_string(),
        "repository": repository.to_string(),
        "mended": mended,
    });
    say(global, value, || {
        let of = format!(
            "key {} of the repository {}",
            key.short(),
            repository.short()
        );
        match &mended[..] {
            [] => format!("{of} and the config are there, as the text has them: nothing to do"),
            mended => format!(
                "{of} is there again; found and put right: {}",
                mended.join("; ")
            ),
        }
    })?;
    Ok(Exit::Success)
}

/// No text of a key is longer, in bytes.
const TEXT_LEN_MAX: u64 = 1 << 20;

fn read(file: Option<&Path>) -> Result<String> {
    let mut bytes = Vec::new();
    let (name, read) = match file {
        Some(path) => {
            let file = File::open(path);
            let read = file.and_then(|file| file.take(TEXT_LEN_MAX).read_to_end(&mut bytes));
            (path.display().to_string(), read)
        }
        None => {
            let input = std::io::stdin().lock();
            let read = input.take(TEXT_LEN_MAX).read_to_end(&mut bytes);
            ("standard input".to_owned(), read)
        }
    };
    read.map_err(|error| Failure::Other(format!("cannot read {name}: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn add(repository: &Repository, new: &NewPassword) -> Result<Id> {
    let password = password::of_new_key(new.new_password_file.as_deref())?;
    Ok(repository.add_key(&password, password::cost())?)
}

fn add_write_only(repository: &Repository, new: &NewPassword) -> Result<Id> {
    if repository.is_write_only() {
        return Err(Error::WriteOnly("adding a write-only key".to_owned()).into());
    }
    let password = password::of_new_key(new.new_password_file.as_deref())?;
    Ok(repository.add_write_only_key(&password, password::cost())?)
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
