//! `tabane find`

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};
use tabane_store::browse::Browser;
use tabane_store::entry::{self, Entry};
use tabane_store::find::{Blocks, Finder, Pattern, Query};
use tabane_store::snapshot::Snapshot;
use tabane_store::{Id, Repository};

use crate::advice;
use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, entry_json, into_object, snapshot_json, warn};
use crate::select::{Selected, Selection};

/// Search snapshots for files
#[derive(Args)]
#[command(after_help = "\
A pattern is a name, or names with / between them; *, ?, [a-z] and {a,b} are understood within a \
name, and ** stands for any number of directories. A pattern that begins with / is meant from the \
root on. Latest snapshots come first. With --json, a line for each snapshot in which something was \
found. On a terminal, characters that it would obey are shown as \\x1b and the like; elsewhere \
names are printed as they are.

With --block or --pack, the patterns are IDs (or their beginnings), and what is found are the \
files and directories that consist of such a block, or of any block in such a pack: what a damaged \
one would cost.

Examples:
  tabane find -r /mnt/backup notes.txt
  tabane find -r /mnt/backup -l -i --newest 2026-01-31 '*.jpg' '*.png'
  tabane find -r /mnt/backup --larger-than 1G --oldest 2026-01-01 '*'
  tabane find -r /mnt/backup --snapshot latest '/home/ada/**/*.tex'
  tabane find -r /mnt/backup --pack 1a2b3c4d")]
pub struct Find {
    /// What to search for
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<String>,
    /// Take capital and small letters for the same
    #[arg(short, long)]
    ignore_case: bool,
    /// Show permissions, owners, sizes and times
    #[arg(short, long)]
    long: bool,
    /// With --long: show sizes as 1.5 MiB instead of bytes
    #[arg(long, requires = "long", hide_short_help = true)]
    human_readable: bool,
    /// Only files last changed then or earlier, by their own times
    #[arg(short = 'N', long, value_name = "TIME", value_parser = format::parse_time)]
    newest: Option<Timestamp>,
    /// Only files last changed then or later, by their own times
    #[arg(short = 'O', long, value_name = "TIME", value_parser = format::parse_time)]
    oldest: Option<Timestamp>,
    /// Only files of at least this size (units of 1024: 100M, 2GiB)
    #[arg(long, value_name = "SIZE", value_parser = format::parse_bytes, hide_short_help = true)]
    larger_than: Option<u64>,
    /// Only files of at most this size
    #[arg(long, value_name = "SIZE", value_parser = format::parse_bytes, hide_short_help = true)]
    smaller_than: Option<u64>,
    /// Only entries of this type (repeatable: any of them)
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    types: Vec<Type>,
    /// The patterns are IDs of blocks
    #[arg(long, visible_alias = "blob", alias = "tree")]
    #[arg(conflicts_with_all = ["pack", "ignore_case"])]
    #[arg(hide_short_help = true)]
    block: bool,
    /// The patterns are IDs of packs
    #[arg(long, conflicts_with = "ignore_case", hide_short_help = true)]
    pack: bool,
    /// With --block: say which packs hold the blocks
    #[arg(long, requires = "block", hide_short_help = true)]
    show_pack_id: bool,
    /// Oldest snapshots first
    #[arg(short = 'R', long, hide_short_help = true)]
    reverse: bool,
    /// Only in this snapshot (an ID, its beginning, or latest; repeatable)
    #[arg(
        short,
        long,
        value_name = "SNAPSHOT",
        help_heading = "Choosing snapshots"
    )]
    snapshot: Vec<String>,
    #[command(flatten)]
    selection: Selection,
}

/// Names and letters of `find -type`, and restic's names.
#[derive(Clone, Copy, ValueEnum)]
enum Type {
    #[value(alias = "f")]
    File,
    #[value(alias = "d", alias = "directory")]
    Dir,
    #[value(alias = "l")]
    Symlink,
    #[value(alias = "c")]
    Chardev,
    #[value(alias = "b")]
    Dev,
    #[value(alias = "p")]
    Fifo,
    #[value(alias = "s")]
    Socket,
}

impl Type {
    /// The store's name of the kind.
    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Symlink => "symlink",
            Self::Chardev => "chardev",
            Self::Dev => "dev",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
        }
    }
}

impl Find {
    /// Runs `tabane find`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        if let (Some(oldest), Some(newest)) = (self.oldest, self.newest)
            && oldest > newest
        {
            let why = "--oldest is later than --newest: nothing was changed in between";
            return Err(Failure::Usage(why.to_owned()));
        }
        let mut query = Query {
            kinds: self.types.iter().map(|kind| kind.name()).collect(),
            oldest: self.oldest.map(entry::time),
            newest: self.newest.map(entry::time),
            size_min: self.larger_than,
            size_max: self.smaller_than,
            ..Query::default()
        };
        if !self.block && !self.pack {
            let pattern = |text: &String| Pattern::new(text, self.ignore_case);
            let patterns = self.patterns.iter().map(pattern);
            query.patterns = patterns.collect::<tabane_store::Result<_>>()?;
        }
        let repository = global.open()?;
        if self.block {
            self.check_ids()?;
            query.blocks = Some(Blocks {
                prefixes: self.patterns.clone(),
                ..Blocks::default()
            });
        } else if self.pack {
            self.check_ids()?;
            query.blocks = Some(Blocks {
                ids: blocks_of_packs(&repository, &self.patterns)?,
                ..Blocks::default()
            });
        }
        let Selected {
            mut snapshots,
            mut exit,
        } = self.selection.list(&repository, &self.snapshot)?;
        if !self.reverse {
            snapshots.reverse();
        }
        let mut finder = Finder::new(Browser::new(&repository)?, query);
        let mut output = Output::new();
        let mut sections = 0;
        for (id, snapshot) in &snapshots {
            let mut found = Vec::new();
            let unreadable = finder.search(snapshot, &mut |path, entry| {
                found.push((path.to_owned(), entry.clone()));
                ControlFlow::Continue(())
            });
            for directory in unreadable {
                let path = directory.path.display();
                let error = advice::explain(&directory.error);
                warn(format!("{path} of snapshot {}: {error}", id.short()));
                exit = Exit::Failure;
            }
            if found.is_empty() {
                continue;
            }
            if global.json {
                let matches = found
                    .iter()
                    .map(|(path, entry)| entry_json(path, entry, snapshot).into());
                let snapshot = snapshot_json(*id, snapshot);
                let mut object = into_object(json!({"hits": found.len()}));
                for key in ["id", "time", "hostname"] {
                    let name = if key == "id" { "snapshot" } else { key };
                    object.insert(name.to_owned(), snapshot[key].clone());
                }
                object.insert("matches".to_owned(), Value::Array(matches.collect()));
                output.json(&object.into())?;
                continue;
            }
            if !global.quiet {
                if sections > 0 {
                    output.line("")?;
                }
                sections += 1;
                output.line(format!(
                    "in snapshot {} of {} at {}",
                    id.short(),
                    format::printable(&snapshot.hostname),
                    format::local_time(snapshot.time)
                ))?;
            }
            for (path, entry) in &found {
                self.print(&mut output, path, entry, snapshot)?;
            }
        }
        if self.show_pack_id {
            self.print_packs(global, &repository, &mut output)?;
        }
        output.finish()?;
        Ok(exit)
    }

    /// Prints which packs hold the blocks that were asked for.
    fn print_packs(
        &self,
        global: &Global,
        repository: &Repository,
        output: &mut Output,
    ) -> Result<()> {
        let mut found = BTreeSet::new();
        for (pack, contents) in repository.read_index()?.into_values().flatten() {
            let blocks = contents.segments.iter().flat_map(|segment| &segment.blocks);
            for (block, _) in blocks {
                if self.patterns.iter().any(|prefix| block.has_prefix(prefix)) {
                    found.insert((*block, pack));
                }
            }
        }
        for (block, pack) in found {
            if global.json {
                output.json(&json!({"block": block.to_string(), "pack": pack.to_string()}))?;
            } else {
                output.line(format!("block {block} is in pack {pack}"))?;
            }
        }
        Ok(())
    }

    fn print(
        &self,
        output: &mut Output,
        path: &Path,
        entry: &Entry,
        snapshot: &Snapshot,
    ) -> Result<()> {
        if self.long {
            output.long_entry(path, entry, snapshot, self.human_readable)
        } else {
            output.path(path)?;
            output.line("")
        }
    }

    /// Whether the patterns can be IDs.
    fn check_ids(&self) -> Result<()> {
        let is_id = |text: &String| {
            (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        match self.patterns.iter().find(|text| !is_id(text)) {
            Some(text) => Err(Failure::Usage(format!(
                "{} is no ID: write its hexadecimal digits, or the first of them",
                format::printable(text)
            ))),
            None => Ok(()),
        }
    }
}

/// The IDs of all blocks in these packs, as the index has them.
fn blocks_of_packs(repository: &Repository, packs: &[String]) -> Result<HashSet<Id>> {
    let mut blocks = HashSet::new();
    for (pack, contents) in repository.read_index()?.into_values().flatten() {
        if packs.iter().any(|prefix| pack.has_prefix(prefix)) {
            let segments = contents.segments.iter();
            blocks.extend(segments.flat_map(|segment| segment.blocks.iter().map(|(id, _)| id)));
        }
    }
    Ok(blocks)
}
