//! Options that choose the snapshots of a command.

use std::path::{Path, PathBuf};

use clap::Args;
use tabane_store::backup::resolve;
use tabane_store::snapshot::{Filter, Snapshot};
use tabane_store::{Id, Repository};

use crate::advice;
use crate::exit::{Exit, Result};
use crate::output::warn;

/// Options that choose among snapshots.
#[derive(Args, Clone, Debug)]
pub struct Selection {
    /// Only snapshots of this host (repeatable: any of them)
    #[arg(
        short = 'H',
        long,
        value_name = "HOST",
        help_heading = "Choosing snapshots"
    )]
    pub host: Vec<String>,
    /// Only snapshots with all of these tags (repeatable: any of them)
    ///
    /// '' chooses those without tags.
    #[arg(long, value_name = "TAG[,TAG…]", help_heading = "Choosing snapshots")]
    pub tag: Vec<String>,
    /// Only snapshots of this path (repeatable: all of them)
    #[arg(long, value_name = "PATH", help_heading = "Choosing snapshots")]
    pub path: Vec<PathBuf>,
}

/// Snapshots that were chosen.
pub struct Selected {
    /// Oldest first.
    pub snapshots: Vec<(Id, Snapshot)>,
    /// Exit code for a command that works on all of them: a failure if some cannot be read.
    pub exit: Exit,
}

impl Selection {
    /// The filter for these options.
    pub fn filter(&self) -> Filter {
        let absolute = |path: &PathBuf| {
            // A path that no longer exists is only made absolute.
            let resolved = resolve(path).or_else(|_| std::path::absolute(path));
            tabane_store::snapshot::path_text(resolved.as_ref().unwrap_or(path))
        };
        Filter {
            hosts: self.host.clone(),
            tags: self.tag.clone(),
            paths: self.path.iter().map(absolute).collect(),
        }
    }

    /// The snapshots with these names; without names, all that the filter allows. Unreadable
    /// snapshots are reported.
    pub fn list(&self, repository: &Repository, names: &[String]) -> Result<Selected> {
        let filter = self.filter();
        if names.is_empty() {
            let listing = repository.snapshots(&filter)?;
            for error in &listing.damaged {
                warn(advice::explain(error));
            }
            return Ok(Selected {
                snapshots: listing.snapshots,
                exit: if listing.damaged.is_empty() {
                    Exit::Success
                } else {
                    Exit::Failure
                },
            });
        }
        let mut found = names
            .iter()
            .map(|name| repository.find_snapshot(name, &filter))
            .collect::<tabane_store::Result<Vec<_>>>()?;
        found.sort_by_key(|(id, snapshot)| snapshot.order(*id));
        found.dedup_by_key(|(id, _)| *id);
        Ok(Selected {
            snapshots: found,
            exit: Exit::Success,
        })
    }
}

/// `SNAPSHOT` or `SNAPSHOT:PATH`.
#[derive(Clone, Debug)]
pub struct Place {
    /// An ID, its beginning, or `latest`.
    pub snapshot: String,
    /// Path in the snapshot; `/` for all.
    pub path: PathBuf,
}

impl Place {
    /// Finds the snapshot.
    pub fn find(&self, repository: &Repository, selection: &Selection) -> Result<(Id, Snapshot)> {
        let found = repository.find_snapshot(&self.snapshot, &selection.filter())?;
        if self.snapshot == "latest" {
            warn_of_other_keys(repository, &found)?;
        }
        Ok(found)
    }

    /// `path` below this place; `/` at its beginning means the place itself.
    pub fn join(&self, path: &Path) -> PathBuf {
        let relative: PathBuf = path
            .components()
            .filter(|part| matches!(part, std::path::Component::Normal(_)))
            .collect();
        self.path.join(relative)
    }
}

/// Warns if the latest snapshot is of a write-only key and others made snapshots of that host, too:
/// whoever stole such a key could have made it to be taken for one of theirs.
fn warn_of_other_keys(repository: &Repository, (id, latest): &(Id, Snapshot)) -> Result<()> {
    let Some(writer) = latest.writer else {
        return Ok(());
    };
    let filter = Filter {
        hosts: vec![latest.hostname.clone()],
        ..Filter::default()
    };
    let listed = repository.snapshots(&filter)?.snapshots;
    let mut others = listed.iter().rev();
    if let Some((other, _)) = others.find(|(_, made)| made.writer != latest.writer) {
        warn(format!(
            "the latest snapshot, {}, is of the write-only key {}; {} is the latest of {} that \
             another key made",
            id.short(),
            writer.short(),
            other.short(),
            crate::format::printable(&latest.hostname),
        ));
    }
    Ok(())
}

/// Reads [`Place`]s on the command line, where any bytes may stand.
#[derive(Clone)]
pub struct PlaceParser;

impl clap::builder::TypedValueParser for PlaceParser {
    type Value = Place;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> std::result::Result<Place, clap::Error> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = value.as_bytes();
        let colon = bytes.iter().position(|&byte| byte == b':');
        let (name, path) = match colon {
            Some(at) => (&bytes[..at], &bytes[at + 1..]),
            None => (bytes, &b"/"[..]),
        };
        let invalid = || {
            let text = format!("{} is no SNAPSHOT[:PATH]\n", value.display());
            clap::Error::raw(clap::error::ErrorKind::InvalidValue, text).with_cmd(command)
        };
        Ok(Place {
            snapshot: std::str::from_utf8(name).map_err(|_| invalid())?.to_owned(),
            path: tabane_store::browse::absolute(Path::new(std::ffi::OsStr::from_bytes(path))),
        })
    }
}
