//! `tabane restore`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use tabane_store::IncludeOptions;
use tabane_store::restore::{Overwrite, RestoreOptions, RestoreSummary};

use crate::args::Global;
use crate::exit::{self, Exit, Failure, Result};
use crate::format;
use crate::output::{Output, into_object, print_json, warn};
use crate::progress::Progress;
use crate::reporter::Reporter;
use crate::select::{Place, PlaceParser, Selection};

/// Bring files back from a snapshot
#[derive(Args)]
#[command(after_help = "\
What is in the target already and equals the snapshot is not written again: an interrupted restore \
goes on where it was. Without a path, the target gets the whole tree from / on: /home/ada/notes \
comes back as TARGET/home/ada/notes. With latest:/home/ada it comes back as TARGET/notes.

Patterns are those of `tabane backup`. One that begins with / is the whole path in the snapshot, \
with latest:/home/ada too: /home/ada/notes.

What is in the target and differs is replaced, also if it is newer. Try it with --dry-run -v, \
which lists what would be created, updated and deleted; -vv lists what is unchanged, too. Where \
extended attributes or ACLs alone differ, they come back, and the entry counts as unchanged. \
--overwrite chooses what is replaced:

  always      what differs: files are read and compared (the default)
  if-changed  the same, but files of the same size and time are taken to be equal
  if-newer    a file, only if the snapshot's version is newer than the one in the target
  never       nothing; only what is missing is restored

A file that an interrupted restore was writing is newer than the snapshot's, and a directory that \
it made has no attributes yet, so go on with always or if-changed.

A target that is there keeps its own attributes; one that is made gets those of the path. It \
cannot be in a repository.

Directories on the way to what matches an --include get their attributes, too, if they differ.

What the snapshot does not have stays, unless --delete is given. That deletes also what the backup \
or a `rewrite` left out; restore with the same --exclude to keep it. Directories of which the \
snapshot has only a part, those above the paths that were backed up, lose nothing, nor does a \
mounted file system of which it has nothing, nor a repository of Tabane. If an entry cannot be \
restored, or the backup could not read one, nothing is deleted.

Owners and groups are found by their names, where this machine has them; root is always number 0. \
File flags (immutable, append, nodump) are set last; immutable and append need root's rights. A \
file that is immutable or append-only in the target, with other contents, stays and is reported.

Examples:
  tabane restore -r /mnt/backup latest --target /tmp/restored
  tabane restore -r /mnt/backup latest:/home/ada -t /home/ada --verify
  tabane restore -r /mnt/backup latest:/home/ada -t /home/ada --delete --dry-run -v
  tabane restore -r /mnt/backup latest:/home/ada -t /home/ada --overwrite if-newer
  tabane restore -r /mnt/backup 1a2b3c4d -t /tmp/photos --include '*.jpg' --exclude thumbnails")]
pub struct Restore {
    /// Which snapshot (an ID, its beginning, or latest), and which path of it
    #[arg(value_name = "SNAPSHOT[:PATH]", value_parser = PlaceParser)]
    place: Place,
    /// Directory that takes what is restored; made if it is not there
    #[arg(short, long, value_name = "DIR")]
    target: PathBuf,
    /// Follow no link on the way from this directory to the target, which must begin with it: for
    /// restores into a place where others can write
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    within: Option<PathBuf>,
    /// Read everything again at the end and compare it with the snapshot
    #[arg(long)]
    verify: bool,
    /// Which entries of the target are replaced, of those that differ
    #[arg(long, value_name = "WHEN", default_value = "always")]
    overwrite: When,
    /// Delete what the target has and the snapshot does not, in directories that were backed up
    #[arg(long)]
    delete: bool,
    /// Show what would be restored, and write nothing (with -v each change)
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Keep the numbers of owners and groups, whoever has their names here
    #[arg(long)]
    numeric_ids: bool,

    /// Restore only what matches (repeatable)
    #[arg(short, long, value_name = "PATTERN", help_heading = "What to restore")]
    include: Vec<String>,
    /// Restore only what matches, whatever its case (repeatable)
    #[arg(
        long,
        value_name = "PATTERN",
        help_heading = "What to restore",
        hide_short_help = true
    )]
    iinclude: Vec<String>,
    /// Restore only what matches a line of this file (repeatable)
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "What to restore",
        hide_short_help = true
    )]
    include_file: Vec<PathBuf>,
    /// Leave out what matches (repeatable)
    #[arg(short, long, value_name = "PATTERN", help_heading = "What to restore")]
    exclude: Vec<String>,
    /// Leave out what matches, whatever its case (repeatable)
    #[arg(
        long,
        value_name = "PATTERN",
        help_heading = "What to restore",
        hide_short_help = true
    )]
    iexclude: Vec<String>,
    /// Leave out what matches a line of this file (repeatable)
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "What to restore",
        hide_short_help = true
    )]
    exclude_file: Vec<PathBuf>,
    /// Restore only extended attributes of such names: 'user.*' (repeatable; ACLs are
    /// system.posix_acl_access and system.posix_acl_default)
    #[arg(long, value_name = "PATTERN", help_heading = "What to restore", hide_short_help = true)]
    include_xattr: Vec<String>,
    /// Leave out extended attributes of such names (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = "What to restore", hide_short_help = true)]
    exclude_xattr: Vec<String>,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, ValueEnum)]
enum When {
    Always,
    IfChanged,
    IfNewer,
    Never,
}

impl From<When> for Overwrite {
    fn from(when: When) -> Self {
        match when {
            When::Always => Self::Always,
            When::IfChanged => Self::IfChanged,
            When::IfNewer => Self::IfNewer,
            When::Never => Self::Never,
        }
    }
}

impl Restore {
    /// Runs `tabane restore`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        if matches!(self.overwrite, When::Never | When::IfNewer) && !self.dry_run {
            exit::go_on_by(
                "files that were being restored are incomplete, and directories closed; run it \
                 again with --overwrite if-changed",
            );
        }
        let repository = global.open()?;
        let (id, snapshot) = self.place.find(&repository, &self.selection)?;
        let chosen =
            !(self.include.is_empty() && self.iinclude.is_empty() && self.include_file.is_empty());
        let includes = IncludeOptions::default()
            .include(self.include)
            .include_insensitive(self.iinclude)
            .include_files(self.include_file)
            .exclude(self.exclude)
            .exclude_insensitive(self.iexclude)
            .exclude_files(self.exclude_file);
        // Both from / on, so that one can begin with the other.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let within = self.within.map(absolute);
        let target = match &within {
            Some(_) => absolute(self.target.clone()),
            None => self.target.clone(),
        };
        let options = RestoreOptions::new(target)
            .within(within)
            .subpath(&self.place.path)
            .includes(includes)
            .verify(self.verify)
            .overwrite(self.overwrite.into())
            .delete(self.delete)
            .dry_run(self.dry_run)
            .numeric_ids(self.numeric_ids)
            .include_xattrs(self.include_xattr)
            .exclude_xattrs(self.exclude_xattr);
        let progress = Progress::start(global);
        let repository = repository.with_progress(Reporter::new(&progress));
        let summary = repository.restore(options, id, &snapshot);
        progress.stop();
        let summary = summary?;
        let elapsed = progress.elapsed();
        let found_nothing = chosen
            && summary.errors + summary.kept + summary.deleted == 0
            && summary.files + summary.directories + summary.others == 0;
        if global.json {
            let mut object = into_object(json!({
                "message_type": "summary",
                "snapshot_id": id.to_string(),
                "dry_run": self.dry_run,
            }));
            object.append(&mut into_object(
                serde_json::to_value(summary).unwrap_or_default(),
            ));
            object.insert("elapsed_s".to_owned(), elapsed.as_secs_f64().into());
            let speed = format::megabytes_per_second(summary.total_bytes, elapsed);
            object.insert("speed_mb_per_s".to_owned(), speed.into());
            print_json(&object.into())?;
        } else if !global.quiet && !found_nothing {
            let mut output = Output::new();
            output.line(format!(
                "{} snapshot {} to {}: {}, {}, {}",
                if self.dry_run {
                    "would restore"
                } else {
                    "restored"
                },
                id.short(),
                format::path(&self.target),
                format::count(summary.files, "file"),
                format::count(summary.directories, "directory"),
                format::count(summary.others, "other"),
            ))?;
            output.line(changes(&summary))?;
            if self.dry_run {
                output.line(format!(
                    "{} in all, of which {} differ; nothing was written",
                    format::bytes(summary.total_bytes),
                    format::bytes(summary.restored_bytes),
                ))?;
            } else {
                output.line(format!(
                    "{} in {}: {} written{}, {} already up to date",
                    format::bytes(summary.total_bytes),
                    format::duration(elapsed),
                    format::bytes(summary.restored_bytes),
                    format::rate(summary.restored_bytes, elapsed),
                    format::bytes(summary.skipped_bytes),
                ))?;
            }
            if self.verify && !self.dry_run {
                let verified = format::bytes(summary.verified_bytes);
                output.line(format!("{verified} were read again and compared"))?;
            }
            output.finish()?;
        }
        if found_nothing {
            return Err(Failure::Other(
                "nothing in the snapshot matches what to include: `tabane ls` lists what is there"
                    .to_owned(),
            ));
        }
        if summary.errors > 0 {
            warn(format!(
                "{} could not be restored (see above): fix the cause and run the same command \
                 again, which writes only what is missing",
                format::count(summary.errors, "entry"),
            ));
            return Ok(Exit::Failure);
        }
        Ok(Exit::Success)
    }
}

/// `3 created, 1 updated, 7 unchanged, 2 deleted`
fn changes(summary: &RestoreSummary) -> String {
    let counts = [
        (summary.created, "created"),
        (summary.updated, "updated"),
        (summary.unchanged, "unchanged"),
        (summary.kept, "kept as they were"),
        (summary.deleted, "deleted"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, what)| format!("{} {what}", format::grouped(*count)))
        .collect();
    if counts.is_empty() {
        return "no changes".to_owned();
    }
    counts.join(", ")
}
