//! `tabane schedule`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, print_json, warn};
use crate::schedule::{Job, Keeper, Place, Sandbox, When, installed, lines_of, split};

/// Start commands at set times, with systemd or cron
#[derive(Args)]
#[command(after_help = "\
`install` writes a timer and a service of systemd, or a file in /etc/cron.d where there is no \
systemd, and switches it on. What it starts are commands of tabane with the profile, the \
repository and the password file that are given now; a timer cannot type a password. Each command \
is split into words as a shell does it, with quotes, but there is no shell: put what needs $NAME \
or $(…) into a script, and start that with cron or a timer of your own. Write paths from / on.

The service may read everything, and write nothing but the repository, its cache and what \
--writable names. `restore`, `drill` and backups with --use-fs-snapshot need more: --no-sandbox.

Exit code 3 of a command, as of a backup that could not read some files, lets the next one start; \
any other but 0 does not.

Examples:
  tabane -P daily schedule install backup forget
  tabane -P daily schedule install --name check --at '1 12:00' 'check --read-data-subset 8%'
  tabane schedule list
  tabane schedule remove check")]
pub struct Schedule {
    #[command(subcommand)]
    command: ScheduleCommand,
}

#[derive(Subcommand)]
enum ScheduleCommand {
    /// Start commands at set times
    Install(Install),
    /// List what was installed
    List,
    /// Stop what was installed
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Args)]
struct Install {
    /// What to start, one after the other: names of commands, or such with options in quotation
    /// marks
    #[arg(value_name = "COMMAND", required = true)]
    commands: Vec<String>,
    /// When: hourly, daily, weekly, monthly, or at HH:MM, 'mon HH:MM' or, on a day of the month (1
    /// to 28), '15 HH:MM'
    #[arg(long, value_name = "WHEN", default_value = "daily")]
    at: When,
    /// What to call it [default: the name of the profile, or of the first command]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Who starts it: systemd or cron [default: systemd, if it runs]
    #[arg(long, value_name = "PROGRAM")]
    with: Option<Keeper>,
    /// Install it for this user and not for the system [default: for the system, if root]
    #[arg(long)]
    user: bool,
    /// Take variables such as AWS_SECRET_ACCESS_KEY from this file (repeatable)
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    environment_file: Vec<PathBuf>,
    /// Let the service write to this directory, too (repeatable)
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    writable: Vec<PathBuf>,
    /// Let the service do all that its user may do
    #[arg(long, conflicts_with = "writable", hide_short_help = true)]
    no_sandbox: bool,
    /// Only write the files, into this directory
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    into: Option<PathBuf>,
}

impl Schedule {
    /// Runs `tabane schedule`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        match self.command {
            ScheduleCommand::Install(install) => install.run(global),
            ScheduleCommand::List => list(global),
            ScheduleCommand::Remove { name } => remove(global, &name),
        }
    }
}

impl Install {
    fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.for_schedule()?;
        let mut commands = Vec::new();
        for given in &self.commands {
            let refused = |why| Failure::Usage(format!("{given:?} cannot be started: {why}"));
            let words = split(given).map_err(refused)?;
            crate::check_arguments(repository.options.iter().chain(&words)).map_err(refused)?;
            if let Some(path) = words[1..].iter().find(|word| is_path_from_here(word)) {
                let absolute = std::path::absolute(path).unwrap_or_default();
                return Err(refused(format!(
                    "it is not started in this directory, in which {path} is: write {}",
                    absolute.display()
                )));
            }
            commands.push(words);
        }
        let name = self.name.or_else(|| global.profile.clone());
        let name = name.unwrap_or_else(|| commands[0][0].clone());
        let is_name = |text: &str| {
            let mut characters = text.chars();
            !text.is_empty() && characters.all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        if !is_name(&name) {
            return Err(Failure::Usage(format!(
                "{name:?} is no name for a schedule: use letters, digits, - and _, as in --name \
                 daily"
            )));
        }
        let mut environment_files = Vec::new();
        for file in self.environment_file {
            let file = std::path::absolute(&file).unwrap_or(file);
            // What is only written may be for another machine.
            if self.into.is_none()
                && let Err(error) = std::fs::File::open(&file)
            {
                let path = format::path(&file);
                return Err(Failure::Usage(format!("cannot read {path}: {error}")));
            }
            environment_files.push(file);
        }
        let sandbox = match (self.no_sandbox, repository.directory) {
            (true, _) => Sandbox::None,
            (false, directory) => {
                let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
                let writable = self.writable.into_iter().map(absolute);
                Sandbox::Writable(directory.into_iter().chain(writable).collect())
            }
        };
        let program = std::env::current_exe()
            .map_err(|error| Failure::Other(format!("cannot tell where tabane is: {error}")))?;
        let job = Job {
            name,
            at: self.at,
            program,
            options: repository.options,
            commands,
            environment_files,
            sandbox,
        };
        let place = Place::choose(self.with, self.user, self.into).map_err(Failure::Other)?;
        let (written, before) = place.install(&job).map_err(Failure::Other)?;
        let after = place.commands_of(&job.name);
        let replaced: Vec<&String> = before.iter().filter(|old| !after.contains(old)).collect();
        for old in &replaced {
            warn(format!(
                "{} ran this before and does not any more: {old}; give each job a --name of its \
                 own to have both",
                job.name
            ));
        }
        if global.json {
            let files: Vec<String> = written.iter().map(|path| format::path(path)).collect();
            print_json(&json!({
                "message_type": "installed",
                "name": job.name,
                "files": files,
            }))?;
        } else if !global.quiet {
            let mut output = Output::new();
            for path in &written {
                output.line(format!("written: {}", format::path(path)))?;
            }
            for line in lines_of(&job) {
                output.line(line)?;
            }
            output.finish()?;
        }
        Ok(Exit::Success)
    }
}

/// Whether a word is a path of something that is there, from the current directory on.
fn is_path_from_here(word: &str) -> bool {
    let path = Path::new(word);
    !word.starts_with('-') && path.is_relative() && path.symlink_metadata().is_ok()
}

fn list(global: &Global) -> Result<Exit> {
    let mut output = Output::new();
    for found in installed() {
        if global.json {
            output.json(&json!({
                "name": found.name,
                "when": found.when,
                "commands": found.commands,
                "file": format::path(&found.file),
            }))?;
        } else {
            output.line(format!("{}: {}", found.name, found.when))?;
            for command in &found.commands {
                output.line(format!("    {command}"))?;
            }
            output.line(format!("    {}", format::path(&found.file)))?;
        }
    }
    output.finish()?;
    Ok(Exit::Success)
}

fn remove(global: &Global, name: &str) -> Result<Exit> {
    let mut found = installed();
    found.retain(|found| found.name == name);
    if found.is_empty() {
        return Err(Failure::Other(format!(
            "nothing called {name:?} was installed: `tabane schedule list` lists what was"
        )));
    }
    for found in found {
        found.remove().map_err(Failure::Other)?;
        if !global.quiet {
            println!("removed: {}", format::path(&found.file));
        }
    }
    Ok(Exit::Success)
}
