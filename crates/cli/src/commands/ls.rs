//! `tabane ls`

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;
use tabane_store::browse::{Browser, PathEntry, Walk};
use tabane_store::entry::Entry;
use tabane_store::snapshot::Snapshot;

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::ncdu;
use crate::output::{Output, entry_json, into_object, snapshot_json};
use crate::select::{Place, PlaceParser, Selection};

/// List what is in a snapshot
#[derive(Args)]
#[command(after_help = "\
Lists everything below a directory unless --no-recursive is given. On a terminal, characters that \
it would obey are shown as \\x1b and the like; elsewhere names are printed as they are. --json \
prints an object a line: the snapshot, then an entry each; a path that is not UTF-8 has its bytes \
in path_bytes_hex too.

--ncdu prints the form that `ncdu -f` reads, to see what takes up space.

Examples:
  tabane ls -r /mnt/backup latest
  tabane ls -r /mnt/backup -l 1a2b3c4d:/home/ada Documents
  tabane ls -r /mnt/backup --json latest /etc
  tabane ls -r /mnt/backup -l --human-readable --sort size --reverse latest /home
  tabane ls -r /mnt/backup --ncdu latest | ncdu -f -")]
pub struct Ls {
    /// Which snapshot (an ID, its beginning, or latest), and where in it
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = PlaceParser)]
    place: Place,
    /// Only these and what is below them
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show permissions, owners, sizes and times
    #[arg(short, long)]
    long: bool,
    /// Show sizes as 1.5 MiB instead of bytes
    #[arg(long)]
    human_readable: bool,
    /// Sort all entries by this: names in the order of paths, sizes with the smallest first, times
    /// with the earliest first
    #[arg(long, value_name = "BY", conflicts_with = "ncdu")]
    sort: Option<Sort>,
    /// The other way round
    #[arg(long, conflicts_with = "ncdu")]
    reverse: bool,
    /// Print what the program ncdu reads
    #[arg(long, conflicts_with_all = ["long", "human_readable", "no_recursive"])]
    ncdu: bool,
    /// Don't list what is in directories below
    #[arg(long)]
    no_recursive: bool,
    /// List what is in directories below (the default)
    #[arg(long, hide = true, conflicts_with = "no_recursive")]
    recursive: bool,
    #[command(flatten)]
    selection: Selection,
}

/// The orders of restic.
#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    Name,
    Size,
    #[value(alias = "mtime")]
    Time,
    Atime,
    Ctime,
    Extension,
}

impl Sort {
    fn sort(self, entries: &mut [PathEntry]) {
        match self {
            Self::Name => entries.sort_by(|a, b| a.path.cmp(&b.path)),
            Self::Size => entries.sort_by_key(|entry| entry.entry.size()),
            Self::Time => entries.sort_by_key(|entry| entry.entry.mtime),
            Self::Atime => entries.sort_by_key(|entry| entry.entry.atime),
            Self::Ctime => entries.sort_by_key(|entry| entry.entry.ctime),
            Self::Extension => {
                entries.sort_by(|a, b| a.path.extension().cmp(&b.path.extension()));
            }
        }
    }
}

impl Ls {
    /// Runs `tabane ls`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let (id, snapshot) = self.place.find(&repository, &self.selection)?;
        let mut browser = Browser::new(&repository)?;
        let mut output = Output::new();
        if self.ncdu {
            // The root of what ncdu shows is printed in its own form.
        } else if global.json {
            let mut object = into_object(json!({"message_type": "snapshot"}));
            object.append(&mut snapshot_json(id, &snapshot));
            output.json(&object.into())?;
        } else if global.verbose > 0 {
            output.line(format!(
                "snapshot {} of {} at {} by {}@{}",
                id.short(),
                format::printable(&snapshot.paths.join(" ")),
                format::local_time(snapshot.time),
                format::printable(&snapshot.username),
                format::printable(&snapshot.hostname),
            ))?;
        }
        let starts = if self.paths.is_empty() {
            vec![self.place.path.clone()]
        } else {
            self.paths
                .iter()
                .map(|path| self.place.join(path))
                .collect()
        };
        // All paths are looked up first: if one is missing, nothing is printed.
        let starts = starts
            .into_iter()
            .map(|path| Ok((browser.find(id, &snapshot, &path)?, path)))
            .collect::<Result<Vec<_>>>()?;
        if self.ncdu {
            let [(entry, path)] = &starts[..] else {
                let text = "--ncdu shows one directory: name no more than one path";
                return Err(Failure::Usage(text.to_owned()));
            };
            ncdu::write(&mut browser, path, entry, snapshot.time, &mut output)?;
            output.finish()?;
            return Ok(Exit::Success);
        }
        let is_sorted = self.sort.is_some() || self.reverse;
        let mut listed = Vec::new();
        let mut show = |output: &mut Output, path: PathBuf, entry: Entry| {
            if is_sorted {
                listed.push(PathEntry { path, entry });
                return Ok(());
            }
            self.print(global, output, &path, &entry, &snapshot)
        };
        for (entry, path) in starts {
            // Of a named directory only the contents are listed.
            if entry.directory().is_none() {
                show(&mut output, path.clone(), entry.clone())?;
            }
            let mut walk = Walk::below(&path, &entry);
            while let Some(PathEntry { path, entry }) = walk.next(&mut browser)? {
                show(&mut output, path, entry)?;
                if self.no_recursive {
                    walk.skip_contents();
                }
            }
        }
        self.sort.unwrap_or(Sort::Name).sort(&mut listed);
        if self.reverse {
            listed.reverse();
        }
        for PathEntry { path, entry } in &listed {
            self.print(global, &mut output, path, entry, &snapshot)?;
        }
        output.finish()?;
        Ok(Exit::Success)
    }

    fn print(
        &self,
        global: &Global,
        output: &mut Output,
        path: &Path,
        entry: &Entry,
        snapshot: &Snapshot,
    ) -> Result<()> {
        if global.json {
            let mut object = into_object(json!({"message_type": "node"}));
            object.append(&mut entry_json(path, entry, snapshot));
            return output.json(&object.into());
        }
        if self.long {
            return output.long_entry(path, entry, snapshot, self.human_readable);
        }
        output.path(path)?;
        output.line("")
    }
}
