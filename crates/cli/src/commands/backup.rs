//! `tabane backup`

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::num::NonZero;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use serde_json::{Value, json};
use tabane_storage::Id;
use tabane_store::backup::{self, BackupOptions, Parent, Source, resolve};
use tabane_store::compress::Compression;
use tabane_store::snapshot::{GroupBy, Summary, split_tags};
use tabane_store::{Error, ExcludeOptions, Repository};

use crate::advice;
use crate::args::{Global, parse};
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::fs_snapshot::Snapshots;
use crate::metrics::{Metrics, MetricsFile};
use crate::output::{Output, into_object, print_json, warn};
use crate::progress::Progress;
use crate::reporter::Reporter;
use crate::retention::RetentionArgs;

/// Store files and directories as a new snapshot
#[derive(Args)]
#[command(after_help = "\
Files that have not changed since the latest snapshot of the same host and paths (by size, times \
and inode) are not read again; --force reads them all. On file systems whose inode numbers or \
ctimes change by themselves (network file systems, FUSE), --ignore-inode or --ignore-ctime finds \
them unchanged.

Patterns: `*.o` matches a name at any depth, `/srv/*.o` a whole path, `**` any number of \
directories, `dir/` directories only; a later `!pattern` takes an earlier one back.

A pipe cannot tell that its producer failed: `pg_dump shop | tabane backup --stdin` saves half a \
dump as if it were whole. --stdin-from-command runs the producer and saves no snapshot if it fails.

What cannot be read is reported and left out; the snapshot is made all the same, and the exit code \
is 3.

Examples:
  tabane backup --repo /mnt/backup ~/Documents ~/Pictures
  tabane backup --init --repo ./my-repo ~/src --exclude target --ignore-file .gitignore
  tabane backup -r /mnt/backup / --one-file-system --exclude-caches --tag weekly
  tabane backup -r /mnt/backup --stdin-filename shop.sql --stdin-from-command -- pg_dump shop")]
pub struct Backup {
    /// Files and directories to store
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Create the repository if there is none, with the defaults of `tabane init`
    #[arg(long)]
    init: bool,
    /// Show what would be stored, and store nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Read every file again, whether or not it seems unchanged
    #[arg(short, long, conflicts_with = "parent")]
    force: bool,
    /// Compare with this snapshot instead of the latest one of the same host and paths
    #[arg(long, value_name = "SNAPSHOT", hide_short_help = true)]
    parent: Option<String>,
    /// What the snapshot to compare with has in common with this one: host, paths, tags, some of
    /// them with commas between, or '' for the latest of all
    #[arg(short, long, value_name = "LIST", default_value = "host,paths")]
    #[arg(value_parser = parse::<GroupBy>, conflicts_with = "force")]
    #[arg(hide_short_help = true)]
    group_by: GroupBy,
    /// Look only into directories that have a path of this list, and take the others from the
    /// snapshot that is compared with (- is standard input)
    ///
    /// One absolute path a line, or with NUL bytes between them; paths are as the snapshot has
    /// them. Everything that was changed, made, removed or renamed since that snapshot must be in
    /// the list: `contrib/list-changes.py` makes it from snapshots of btrfs and ZFS.
    #[arg(long, value_name = "FILE", conflicts_with = "force", hide_short_help = true)]
    changed_from: Option<PathBuf>,
    /// Read so many files at a time: 1 is best for a disk that must move its heads [default: as
    /// many
    /// as there are processors]
    #[arg(long, value_name = "N", env = "TABANE_READ_CONCURRENCY")]
    #[arg(hide_env_values = true, hide_short_help = true)]
    read_concurrency: Option<NonZero<usize>>,
    /// Save no snapshot if nothing has changed since the one it was compared with
    #[arg(long, hide_short_help = true, conflicts_with_all = ["stdin", "stdin_from_command"])]
    skip_if_unchanged: bool,
    /// Take a file for unchanged also if its inode number or its ctime differs
    #[arg(long, hide_short_help = true)]
    ignore_inode: bool,
    /// Take a file for unchanged also if its ctime (last change of attributes) differs
    #[arg(long, hide_short_help = true)]
    ignore_ctime: bool,
    /// Store times of last access, too
    #[arg(long, hide_short_help = true)]
    with_atime: bool,
    /// Store the snapshot in this repository, too, of what is read and compressed once (repeatable)
    ///
    /// It must cut files as --repo does: `tabane init --copy-chunker-params` makes such a one. One
    /// of the configuration file has the password that is said there, others have that of --repo.
    /// If it cannot be opened or fails, the backup goes on, and ends with exit code 1. If it cuts
    /// files otherwise or has another hash or format, nothing is read or stored.
    #[arg(long, value_name = "PLACE|@NAME", hide_short_help = true)]
    #[arg(conflicts_with_all = ["changed_from", "skip_if_unchanged"])]
    also_to: Vec<OsString>,
    /// How hard to compress: off, fastest, auto, max, or a Zstandard level from -7 to 22
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "auto",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = parse::<Compression>)]
    #[arg(
        env = "TABANE_COMPRESSION",
        hide_env_values = true,
        hide_short_help = true
    )]
    compression: Compression,
    /// Don't read packs back before they are stored. Doing so finds what faulty memory has changed
    /// since it was hashed
    #[arg(long, hide_short_help = true)]
    no_extra_verify: bool,

    /// Read paths and patterns from this file, one a line (- is standard input)
    ///
    /// Lines end in LF or CR LF; empty lines and lines that start with # don't count. *, ? and
    /// [a-z] stand for characters within a name, and a backslash takes the meaning of the character
    /// behind it.
    #[arg(long, value_name = "FILE", help_heading = "What to store")]
    files_from: Vec<PathBuf>,
    /// The same, but every line is a path and no pattern
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "What to store",
        hide_short_help = true
    )]
    files_from_verbatim: Vec<PathBuf>,
    /// The same, but each path ends in a NUL byte, as from `find -print0`
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "What to store",
        hide_short_help = true
    )]
    files_from_raw: Vec<PathBuf>,
    /// Store standard input as a file
    #[arg(long, help_heading = "What to store")]
    #[arg(conflicts_with_all = ["paths", "files_from", "files_from_verbatim", "files_from_raw"])]
    stdin: bool,
    /// Store what the command behind -- prints, and save no snapshot if it fails
    #[arg(long, help_heading = "What to store", requires = "paths")]
    #[arg(conflicts_with_all = ["stdin", "files_from", "files_from_verbatim", "files_from_raw"])]
    stdin_from_command: bool,
    /// Name of that file, or its path below /
    #[arg(
        long,
        value_name = "NAME",
        default_value = "stdin",
        help_heading = "What to store"
    )]
    #[arg(hide_short_help = true)]
    stdin_filename: PathBuf,
    /// Store a single directory under this path instead of its own, as that of a snapshot of the
    /// file system: /home for /mnt/snapshot/home
    #[arg(long, value_name = "PATH", help_heading = "What to store")]
    #[arg(alias = "set-path", hide_short_help = true)]
    #[arg(conflicts_with_all = ["stdin", "stdin_from_command"])]
    as_path: Option<PathBuf>,
    /// Take snapshots of the file systems (btrfs, ZFS, LVM) and read these, so that all files are
    /// as they are at one moment; only for root
    #[arg(long, help_heading = "What to store", hide_short_help = true)]
    #[arg(conflicts_with_all = ["stdin", "stdin_from_command"])]
    use_fs_snapshot: bool,
    /// Room for changes of a snapshot of LVM that is not thin: a share of its origin, as 10%, or a
    /// size, as 5G
    #[arg(long, value_name = "SIZE", default_value = "10%", help_heading = "What to store")]
    #[arg(requires = "use_fs_snapshot", hide_short_help = true)]
    fs_snapshot_size: String,
    /// Stay on the file system of each path
    #[arg(short = 'x', long, help_heading = "What to store")]
    one_file_system: bool,

    /// Leave out what matches (repeatable)
    #[arg(
        short,
        long,
        value_name = "PATTERN",
        help_heading = "What to leave out"
    )]
    exclude: Vec<String>,
    /// Leave out what matches, whatever its case (repeatable)
    #[arg(long, value_name = "PATTERN", help_heading = "What to leave out")]
    #[arg(hide_short_help = true)]
    iexclude: Vec<String>,
    /// Leave out what matches a line of this file (repeatable)
    #[arg(long, value_name = "FILE", help_heading = "What to leave out")]
    exclude_file: Vec<PathBuf>,
    /// Leave out what is in directories with a CACHEDIR.TAG
    #[arg(long, help_heading = "What to leave out")]
    exclude_caches: bool,
    /// Leave out what is in directories that have a file of this name, or one that begins with this
    /// header
    #[arg(long, value_name = "NAME[:HEADER]", help_heading = "What to leave out")]
    #[arg(hide_short_help = true)]
    exclude_if_present: Vec<String>,
    /// Leave out files that are larger (units of 1024: 100M, 2GiB)
    #[arg(long, value_name = "SIZE", value_parser = format::parse_bytes, help_heading = "What to \
    leave out")]
    #[arg(hide_short_help = true)]
    exclude_larger_than: Option<u64>,
    /// Obey files of this name in the tree, written as .gitignore (repeatable)
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "What to leave out",
        hide_short_help = true
    )]
    ignore_file: Vec<String>,

    /// Tag the snapshot (repeatable, or separated by commas)
    #[arg(long, value_name = "TAG[,TAG…]", help_heading = "About the snapshot")]
    tag: Vec<String>,
    /// What the snapshot is for, in words
    #[arg(long, value_name = "TEXT", help_heading = "About the snapshot", hide_short_help = true)]
    description: Option<String>,
    #[command(flatten)]
    retention: RetentionArgs,
    /// Name of the host in the snapshot [default: this machine's]
    #[arg(
        short = 'H',
        long,
        value_name = "HOST",
        env = "TABANE_HOST",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "About the snapshot"
    )]
    #[arg(hide_env_values = true, hide_short_help = true)]
    host: Option<String>,
    /// Time of the snapshot: 2026-01-02 15:04:05 (local), RFC 3339, or now
    #[arg(long, value_name = "TIME", value_parser = format::parse_time, help_heading = "About the \
    snapshot")]
    #[arg(hide_short_help = true)]
    time: Option<Timestamp>,
    #[command(flatten)]
    metrics: MetricsFile,
}

/// How a repository of `--also-to` got the snapshot.
struct Also {
    place: String,
    id: std::result::Result<Option<Id>, String>,
}

impl Also {
    /// Warns if it did not get it.
    fn new(place: impl ToString, id: std::result::Result<Option<Id>, String>) -> Self {
        let place = place.to_string();
        let also = Self { place, id };
        also.failure().into_iter().for_each(warn);
        also
    }

    /// Why it did not get it.
    fn failure(&self) -> Option<String> {
        let why = self.id.as_ref().err()?;
        Some(format!("{} did not get the snapshot: {why}", self.place))
    }

    fn of(also: &backup::Also) -> Self {
        let id = also.id.as_ref().map_err(|error| advice::explain(error));
        Self::new(&also.location, id.copied())
    }

    fn to_json(&self) -> Value {
        json!({
            "repository": self.place,
            "snapshot_id": self.id.as_ref().ok().and_then(|id| Some(id.as_ref()?.to_string())),
            "error": self.id.as_ref().err(),
        })
    }
}

/// Warns of a source that is a link to a directory: it is stored as a link, which is seldom meant.
fn warn_of_link(path: &Path) {
    if path.is_symlink() && path.is_dir() && !path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        warn(format!(
            "{} is a symbolic link, and only the link is stored: write a slash behind it to store \
             what it leads to",
            format::path(path)
        ));
    }
}

impl Backup {
    /// Runs `tabane backup`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let file = self.metrics.clone();
        file.record(global, "backup", self.dry_run, |metrics| self.back_up(global, metrics))
    }

    fn back_up(self, global: &Global, metrics: &mut Metrics) -> Result<Exit> {
        let source = self.source()?;
        global.open_card()?;
        // Checked first, so that a backup that cannot begin creates no repository.
        if let Source::Paths(paths) = &source {
            let mut looked_at = paths
                .iter()
                .map(|path| (path, std::fs::symlink_metadata(path)));
            if let Some((path, Err(error))) = looked_at.next()
                && looked_at.all(|(_, found)| found.is_err())
            {
                return Err(Error::path("read", path)(error).into());
            }
            self.paths.iter().for_each(|path| warn_of_link(path));
        }
        let (repository, new) = if self.init && !self.dry_run {
            global.open_or_init()?
        } else {
            (global.open()?, false)
        };
        if new {
            super::init::report(global, &repository)?;
        }
        let dry_run = self.dry_run;
        let (others, mut also) = self.open_others(global)?;
        let snapshots = self.take_snapshots(&source)?;
        let mut options = self.options(&repository)?;
        if let Some(snapshots) = &snapshots {
            options = options.root(snapshots.root());
        }
        let progress = Progress::start(global);
        let reporter = Arc::new(Reporter::new(&progress).without_notes(global.quiet));
        let repository = repository.with_progress(Arc::clone(&reporter));
        let others = others.iter().map(|other| other.with_progress(Arc::clone(&reporter)));
        let made = repository.backup(options.also_to(others.collect()), source);
        progress.stop();
        let whole = snapshots.map_or(Ok(()), Snapshots::finish);
        let made = made?;
        also.extend(made.also.iter().map(Also::of));
        report(global, &made, &also, dry_run, &progress)?;
        measure(&made.snapshot.summary, metrics);
        let mut rollbacks = vec![&made.rollback];
        rollbacks.extend(made.also.iter().map(|also| &also.rollback));
        for sentence in rollbacks.iter().flat_map(|rollback| rollback.sentences()) {
            metrics.explain(&sentence);
            warn(format!("{sentence}; see `tabane help forget`, --lost"));
        }
        if made.snapshot.summary.errors > 0 {
            let entries = format::count(made.snapshot.summary.errors, "entry");
            metrics.explain(format!("{entries} could not be read"));
        }
        also.iter().filter_map(Also::failure).for_each(|failure| metrics.explain(failure));
        whole.map_err(Failure::Other)?;
        Ok(match made.snapshot.summary.errors {
            _ if also.iter().any(|also| also.id.is_err()) => Exit::Failure,
            0 if !rollbacks.iter().all(|rollback| rollback.is_none()) => Exit::RolledBack,
            0 => Exit::Success,
            _ => Exit::Incomplete,
        })
    }

    /// Opens the repositories of `--also-to`; those that cannot be opened are warned of.
    fn open_others(&self, global: &Global) -> Result<(Vec<Arc<Repository>>, Vec<Also>)> {
        let (mut opened, mut failed) = (Vec::new(), Vec::new());
        for place in &self.also_to {
            match global.with_repository(place)?.open() {
                Ok(repository) => opened.push(repository),
                Err(error @ Failure::Usage(_)) => return Err(error),
                Err(error) => failed.push(Also::new(place.display(), Err(error.to_string()))),
            }
        }
        Ok((opened, failed))
    }

    /// Snapshots of the file systems of the sources, if they are wanted.
    fn take_snapshots(&self, source: &Source) -> Result<Option<Snapshots>> {
        let paths = match source {
            Source::Paths(paths) if self.use_fs_snapshot => paths,
            _ => return Ok(None),
        };
        // What does not exist is reported by the backup.
        let sources: Vec<PathBuf> = paths.iter().filter_map(|path| resolve(path).ok()).collect();
        let taken = Snapshots::take(&sources, &self.fs_snapshot_size);
        taken.map(Some).map_err(|why| Failure::Other(format!("--use-fs-snapshot: {why}")))
    }

    fn source(&self) -> Result<Source> {
        if self.stdin || self.stdin_from_command {
            let name = self.stdin_filename.clone();
            return Ok(if self.stdin {
                Source::Stdin(name)
            } else {
                let command = self.paths.iter().map(|part| part.clone().into_os_string());
                let command = command.collect();
                Source::Command { name, command }
            });
        }
        let mut paths = self.paths.clone();
        for file in &self.files_from {
            for line in read_lines(file)?
                .iter()
                .filter(|line| !line.starts_with(b"#"))
            {
                let pattern = OsStr::from_bytes(line);
                let found = tabane_patterns::expand(pattern).map_err(Error::pattern)?;
                if found.is_empty() {
                    let pattern = format::path(Path::new(pattern));
                    warn(format!(
                        "nothing matches {pattern}, from {}",
                        format::path(file)
                    ));
                }
                paths.extend(found);
            }
        }
        for file in &self.files_from_verbatim {
            paths.extend(read_lines(file)?.into_iter().map(into_path));
        }
        for file in &self.files_from_raw {
            paths.extend(read_list(file, b'\0')?.into_iter().map(into_path));
        }
        if paths.is_empty() {
            Err(Failure::Usage(
                "nothing to back up: name at least one path, or use --stdin".to_owned(),
            ))
        } else {
            Ok(Source::Paths(paths))
        }
    }

    fn options(self, repository: &Repository) -> Result<BackupOptions> {
        let changed = self.changed_from.as_deref().map(read_changes).transpose()?;
        let parent = match &self.parent {
            _ if self.force => Parent::None,
            Some(name) => Parent::Snapshot(repository.find_snapshot_id(name, &Default::default())?),
            None => Parent::Latest(self.group_by),
        };
        let excludes = ExcludeOptions::default()
            .patterns(self.exclude)
            .insensitive(self.iexclude)
            .files(self.exclude_file)
            .caches(self.exclude_caches)
            .if_present(self.exclude_if_present)
            .ignore_files(self.ignore_file)
            .larger_than(self.exclude_larger_than);
        let options = BackupOptions::default()
            .excludes(excludes)
            .one_file_system(self.one_file_system)
            .with_atime(self.with_atime)
            .parent(parent)
            .ignore_inode(self.ignore_inode)
            .ignore_ctime(self.ignore_ctime || self.ignore_inode)
            .skip_if_unchanged(self.skip_if_unchanged)
            .changed(changed)
            .readers(self.read_concurrency)
            .as_path(self.as_path)
            .dry_run(self.dry_run)
            .compression(self.compression)
            .verify(!self.no_extra_verify)
            .tags(self.tag.iter().flat_map(|list| split_tags(list)))
            .description(self.description)
            .retention(self.retention.of(self.time.unwrap_or_else(Timestamp::now)))
            .time(self.time);
        Ok(match self.host {
            Some(host) => options.hostname(host),
            None => options,
        })
    }
}

/// The paths of a list of changes.
fn read_changes(file: &Path) -> Result<Vec<PathBuf>> {
    let bytes = read_all(file)?;
    let end = if bytes.contains(&b'\0') { b'\0' } else { b'\n' };
    let paths = split(&bytes, end).into_iter().map(into_path);
    let absolute = |path: PathBuf| {
        if path.is_absolute() {
            return Ok(path);
        }
        Err(Failure::Usage(format!(
            "{} has {}, which is no absolute path: a list of changes has one a line, as the \
             snapshot has them",
            format::path(file),
            format::path(&path)
        )))
    };
    paths.map(absolute).collect()
}

/// The lines of a file, but no empty ones.
fn read_lines(path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut lines = read_list(path, b'\n')?;
    for line in &mut lines {
        // Lists are made on other systems too; for a name that ends so there is --files-from-raw.
        line.pop_if(|last| *last == b'\r');
    }
    lines.retain(|line| !line.is_empty());
    Ok(lines)
}

/// The parts of a file that end in `end`, but no empty ones.
fn read_list(path: &Path, end: u8) -> Result<Vec<Vec<u8>>> {
    Ok(split(&read_all(path)?, end))
}

/// The bytes of a file, or of standard input.
fn read_all(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(Error::path("read", path))?;
    Ok(bytes)
}

fn split(bytes: &[u8], end: u8) -> Vec<Vec<u8>> {
    let parts = bytes
        .split(|&byte| byte == end)
        .filter(|part| !part.is_empty());
    parts.map(<[u8]>::to_vec).collect()
}

fn into_path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

fn measure(summary: &Summary, metrics: &mut Metrics) {
    let files = [
        ("new", summary.files_new),
        ("changed", summary.files_changed),
        ("unmodified", summary.files_unmodified),
    ];
    metrics.gauges("files", "Files of the latest backup.", &files);
    let help = "Entries that the latest backup could not read.";
    metrics.gauge("errors", help, summary.errors);
    let bytes = [
        ("total", summary.total_bytes),
        ("read", summary.read_bytes),
        ("added", summary.added_bytes),
        ("stored", summary.stored_bytes),
    ];
    let help = "Bytes of all files, of those that were read, of new blocks, and of these as they \
    are stored.";
    metrics.gauges("bytes", help, &bytes);
}

fn report(
    global: &Global,
    made: &backup::Backup,
    also: &[Also],
    dry_run: bool,
    progress: &Progress,
) -> Result<()> {
    let summary = &made.snapshot.summary;
    let elapsed = progress.elapsed();
    let duplicate = summary.duplicate_bytes;
    if global.json {
        let mut object = into_object(json!({"message_type": "summary"}));
        if let Some(id) = made.id {
            object.insert("snapshot_id".to_owned(), id.to_string().into());
        }
        object.append(&mut into_object(json!({
            "dry_run": dry_run,
            "unchanged": made.unchanged,
            "rollback": made.rollback.to_string(),
            "parent": made.snapshot.parent.map(|id| id.to_string()),
            "files_new": summary.files_new,
            "files_changed": summary.files_changed,
            "files_unmodified": summary.files_unmodified,
            "directories": summary.directories,
            "others": summary.others,
            "errors": summary.errors,
            "blocks_new": summary.blocks_new,
            "blocks_duplicate": summary.blocks_duplicate,
            "total_bytes": summary.total_bytes,
            "read_bytes": summary.read_bytes,
            "duplicate_bytes": duplicate,
            "added_bytes": summary.added_bytes,
            "stored_bytes": summary.stored_bytes,
            "elapsed_s": elapsed.as_secs_f64(),
            "speed_mb_per_s": format::megabytes_per_second(summary.total_bytes, elapsed),
        })));
        // The rest is flat.
        if !also.is_empty() {
            let also: Vec<_> = also.iter().map(Also::to_json).collect();
            object.insert("also".to_owned(), also.into());
        }
        return print_json(&object.into());
    }
    if global.quiet {
        return Ok(());
    }
    let Summary {
        files_new,
        files_changed,
        files_unmodified,
        ..
    } = *summary;
    let [new, changed, unmodified] =
        [files_new, files_changed, files_unmodified].map(format::grouped);
    let mut output = Output::new();
    output.line(format!(
        "Files:      {new} new, {changed} changed, {unmodified} unmodified"
    ))?;
    let others = match summary.others {
        0 => String::new(),
        others => format!(", and {} (links, devices)", format::count(others, "other")),
    };
    let directories = format::grouped(summary.directories);
    output.line(format!("Dirs:       {directories}{others}"))?;
    output.line(format!(
        "Processed:  {} in {}, of which {} were read{}",
        format::bytes(summary.total_bytes),
        format::duration(elapsed),
        format::bytes(summary.read_bytes),
        format::rate(summary.read_bytes, elapsed),
    ))?;
    output.line(format!(
        "Duplicate:  {} ({})",
        format::bytes(duplicate),
        format::count(summary.blocks_duplicate, "known block"),
    ))?;
    let stored = if dry_run {
        "would be stored as"
    } else {
        "stored as"
    };
    output.line(format!(
        "Added:      {} ({}), {stored} {}",
        format::bytes(summary.added_bytes),
        format::count(summary.blocks_new, "new block"),
        format::bytes(summary.stored_bytes),
    ))?;
    match summary.errors {
        0 => {}
        1 => output.line("Left out:   1 entry that could not be read, see above")?,
        errors => {
            let errors = format::grouped(errors);
            output.line(format!(
                "Left out:   {errors} entries that could not be read, see above"
            ))?;
        }
    }
    match made.id {
        Some(id) => output.line(format!("snapshot {} saved", id.short()))?,
        None if dry_run => output.line("dry run: nothing was stored")?,
        None => output.line("nothing has changed: no snapshot saved")?,
    }
    for Also { place, id } in also {
        if let Ok(Some(id)) = id {
            output.line(format!("snapshot {} saved at {place}", id.short()))?;
        }
    }
    output.finish()
}
