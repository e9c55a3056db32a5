//! `tabane targets`

use clap::{Args, Subcommand};
use serde_json::json;
use tabane_striped::{Survey, set_file};

use super::heal::fragments;
use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, Table, into_object, print_json};

/// Show, add or replace the targets of a striped repository
#[derive(Args)]
#[command(after_help = "\
Without a subcommand, shows what each target has and lacks, and which of them could be lost now \
without losing data.

Examples:
  tabane targets -r striped:set.toml
  tabane targets -r striped:set.toml add /mnt/f/backup
  tabane targets -r striped:set.toml replace /mnt/b/backup s3://bucket/b")]
pub struct Targets {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Spread what is stored from now on over another place as well
    #[command(after_help = "\
The place must be empty, and no target missing. What is stored already stays where it is.

Example:
  tabane targets -r striped:set.toml add /mnt/f/backup")]
    Add {
        /// A directory or a URL
        url: String,
    },
    /// Put a new, empty place where a target was
    #[command(after_help = "\
What belongs there is rebuilt by `tabane heal`, which is to be run next. The old target need not \
be there any more, and is left as it is.

Example:
  tabane targets -r striped:set.toml replace /mnt/b/backup /mnt/new/backup")]
    Replace {
        /// The URL or the ID of the target that is replaced
        #[arg(value_name = "OLD-URL|ID")]
        old: String,
        /// A directory or a URL
        #[arg(value_name = "NEW-URL")]
        new: String,
        /// Also if no more than half of the targets are there: the others are lost, and no client
        /// reaches them any more
        #[arg(long)]
        others_are_lost: bool,
    },
}

impl Targets {
    /// Runs `tabane targets`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        match self.action {
            None => show(global),
            Some(Action::Add { url }) => change(global, None, &url),
            Some(Action::Replace {
                old,
                new,
                others_are_lost,
            }) => change(global, Some((&old, others_are_lost)), &new),
        }
    }
}

fn show(global: &Global) -> Result<Exit> {
    let storage = global.set()?;
    let survey = storage.survey()?;
    if global.json {
        let mut object = into_object(json!({"message_type": "targets"}));
        object.insert("statement".to_owned(), advice::statement(&survey).into());
        let survey = serde_json::to_value(survey).unwrap_or_default();
        object.append(&mut into_object(survey));
        print_json(&object.into())?;
    } else {
        print(&survey)?;
    }
    Ok(Exit::Success)
}

fn print(survey: &Survey) -> Result<()> {
    let mut output = Output::new();
    let mut table = Table::new(&["ID", "Parts>", "Size>", "Lacks>", "State", "Place"]);
    for target in &survey.targets {
        let state = match &target.missing {
            Some(_) => "missing",
            None if target.lacks > 0 => "behind",
            None => "ok",
        };
        let lacks = match target.missing {
            Some(_) => "?".to_owned(),
            None => format::grouped(target.lacks),
        };
        table.row(vec![
            target.id.short(),
            format::grouped(target.objects),
            format::bytes(target.bytes),
            lacks,
            state.to_owned(),
            format::printable(&target.url),
        ]);
    }
    table.print(&mut output)?;
    output.line(advice::statement(survey))?;
    if survey.incomplete_objects > 0 {
        let objects = format::count(survey.incomplete_objects, "object");
        output.line(format!("{objects} incomplete: run `tabane heal`"))?;
    }
    if survey.fragments > 0 {
        output.line(fragments(survey.fragments))?;
    }
    output.finish()
}

/// Adds a target, or puts it where another was.
fn change(global: &Global, old: Option<(&str, bool)>, new: &str) -> Result<Exit> {
    let (file, storage) = global.striped()?;
    let url = |url: &str| set_file::absolute(url, ".".as_ref()).map_err(Failure::Usage);
    let new = url(new)?;
    let places = set_file::places(std::slice::from_ref(&new), &global.remote_options());
    let place = &places?[0];
    let mut urls = set_file::read(&file)?;
    let is_target = |url: &str| storage.urls().any(|known| known == url);
    match old {
        None if urls.contains(&new) && is_target(&new) => {
            let text = format!("{new} is a target of this set already");
            return Err(Failure::Other(text));
        }
        // A target that the file does not list was added by an interrupted attempt.
        None => storage.add(place)?,
        Some((old, others_are_lost)) => {
            // `old` may be the start of an ID, or a directory relative to the current one.
            let old = match url(old) {
                Ok(url) if urls.contains(&url) && !is_target(old) => url,
                _ => old.to_owned(),
            };
            // An earlier attempt may have been interrupted after changing the targets and before
            // changing the set file.
            let is_done = urls.contains(&old) && !is_target(&old) && is_target(&new);
            let replaced = if is_done {
                old
            } else if others_are_lost {
                storage.replace_lost(&old, place)?
            } else {
                storage.replace(&old, place)?
            };
            urls.retain(|url| *url != replaced);
        }
    }
    if !urls.contains(&new) {
        urls.push(new.clone());
    }
    set_file::write(&file, &urls, true)?;
    if global.json {
        print_json(&json!({"message_type": "targets_changed", "added": new}))?;
    } else if !global.quiet {
        let mut output = Output::new();
        output.line(match old {
            None => format!("{new} added: run `tabane heal`, so that it gets the keys too"),
            Some(_) => {
                format!("{new} is a target now: run `tabane heal` to rebuild what belongs there")
            }
        })?;
        output.finish()?;
    }
    Ok(Exit::Success)
}
