//! `tabane ls`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tabane_store::browse::{Browser, PathEntry, Walk};
use tabane_store::entry::Entry;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, entry_json, into_object, snapshot_json};
use crate::select::{Place, PlaceParser, Selection};

/// List what is in a snapshot
#[derive(Args)]
#[command(after_help = "\
Lists everything below a directory unless --no-recursive is given. On a terminal, characters that \
it would obey are shown as \\x1b and the like; elsewhere names are printed as they are. --json \
prints an object a line: the snapshot, then an entry each; a path that is not UTF-8 has its bytes \
in path_bytes_hex too.

Examples:
  tabane ls -r /mnt/backup latest
  tabane ls -r /mnt/backup -l 1a2b3c4d:/home/ada Documents
  tabane ls -r /mnt/backup --json latest /etc")]
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
    /// Don't list what is in directories below
    #[arg(long)]
    no_recursive: bool,
    /// List what is in directories below (the default)
    #[arg(long, hide = true, conflicts_with = "no_recursive")]
    recursive: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Ls {
    /// Runs `tabane ls`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let (id, snapshot) = self.place.find(&repository, &self.selection)?;
        let mut browser = Browser::new(&repository)?;
        let mut output = Output::new();
        if global.json {
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
        // Nothing is printed if one of them is not there.
        let starts = starts
            .into_iter()
            .map(|path| Ok((browser.find(id, &snapshot, &path)?, path)))
            .collect::<Result<Vec<_>>>()?;
        for (entry, path) in starts {
            // A directory that was asked for is not part of what is in it.
            if entry.directory().is_none() {
                self.print(global, &mut output, &path, &entry)?;
            }
            let mut walk = Walk::below(&path, &entry);
            while let Some(PathEntry { path, entry }) = walk.next(&mut browser)? {
                self.print(global, &mut output, &path, &entry)?;
                if self.no_recursive {
                    walk.skip_contents();
                }
            }
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
    ) -> Result<()> {
        if global.json {
            let mut object = into_object(json!({"message_type": "node"}));
            object.append(&mut entry_json(path, entry));
            return output.json(&object.into());
        }
        if self.long {
            return output.long_entry(path, entry);
        }
        output.path(path)?;
        output.line("")
    }
}
