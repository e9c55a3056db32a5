//! `tabane cp`

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueEnum};
use serde_json::json;
use tabane_copy::{Action, Algorithm, KeyRule, Meaning, Options, Problem, Summary, copy};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format::{self, reason};
use crate::output::{Output, into_object, print_json, warn};
use crate::process;
use crate::progress::Progress;
use tabane_text::quote::quote_always;

/// Copy files and trees, and check what arrived
#[derive(Args)]
// -r means something else here than --repo.
#[command(arg = clap::Arg::new("repo").long("repo").hide(true)
    .value_parser(clap::value_parser!(PathBuf)))]
#[command(version, display_name = "cp (tabane)")]
#[command(after_help = "\
Works as cp -a of GNU coreutils: directories with everything below, links as links, with modes, \
owners (as root), times, extended attributes, ACLs, file flags, hard links and holes; blocks are \
shared where the file system can. While it runs, and after an interruption until the same command \
is run again, there is a small file .tabane-cp.… beside DST or in it.

It differs from cp in this: it puts a new file in the place of an existing one, and follows no \
link at the target but DST itself, where that is a directory. A device, pipe or socket is \
replaced by its like only. What one source has put somewhere, no other source replaces.

A file has its name only when it is whole. After a kill or a crash, run the same command again: \
files of the same size and time of last change are not copied again, and what was left half-done \
is removed. Where the killed run made DST, the same command goes on in it and does not copy into \
it; the file .tabane-cp.… says so. SIGINT, SIGTERM and SIGHUP end the copy and remove what is \
half-done; the second signal does not wait for that.

No level of --verify lets a failed system call pass, nor a source that changes while it is read \
(such a source is read three times, then reported). Beyond that, the levels promise:

  none     nothing.
  written  Each piece, once written, is read back from the page cache and compared with what was \
read of the source. That finds errors in memory and on the way to the system, but none on the way \
to the disk.
  reread   That; and when everything is on the disk, each file is dropped from memory, read again \
and its hash compared. A file that is wrong is written once more and read again; if that does not \
help, it is reported. Files that were there already are compared too. Holes are not read: where \
the source has one, the copy must have a hole or zeros. In file systems that are in memory there \
is nothing further to read.

Unless --no-sync is given, everything is on the disk when the command ends (cp leaves that to the \
system).

--manifest writes a line for each file, with the hash of what was read of the source, sorted by \
name, as `tabane sum --tag` does. Names are relative to DST, or to the directory that holds it if \
DST is a file: `(cd DST && tabane sum --check /path/to/FILE)` checks the copy, wherever it is \
mounted. The source is checked from the directory that holds it, or from within it if DST is its \
copy. Until the end the manifest grows as FILE.partial. FILE cannot be in what is copied, nor \
what another copy is to be, nor anything but a regular file.

Examples:
  tabane cp photos /mnt/disk
  tabane cp --verify reread --manifest photos.xxh3 photos /mnt/disk
  (cd /mnt/disk && tabane sum --check ~/photos.xxh3)
  tabane cp -T old-home /mnt/disk/home")]
pub struct Cp {
    /// What to copy, and where to: a directory that takes the copies, or the name of the only one
    #[arg(
        value_name = "SRC... DST",
        required = true,
        hide_possible_values = true
    )]
    paths: Vec<PathBuf>,
    /// Copy into this directory; all other arguments are sources
    #[arg(
        short,
        long,
        value_name = "DIR",
        conflicts_with = "no_target_directory"
    )]
    target_directory: Option<PathBuf>,
    /// DST is the name of the copy, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// How much to check
    #[arg(long, value_name = "LEVEL", default_value = "written")]
    verify: Verify,
    /// The hash: xxh3 finds accidents as well as any, and is the fastest; sha256 or blake3 also
    /// find malice
    #[arg(long, value_name = "NAME", default_value = "xxh3", value_parser = parse_algorithm)]
    algorithm: Algorithm,
    /// Write the hashes of all files to this file; names in it are relative to DST
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Don't wait until everything is on the disk
    #[arg(long)]
    no_sync: bool,
    /// Does nothing, since it is always so: for the habit of cp -a
    #[arg(short, long)]
    archive: bool,
    /// Does nothing, since it is always so: for the habit of cp -r
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Verify {
    /// Nothing
    None,
    /// What the system took
    Written,
    /// What the disk has
    Reread,
}

fn parse_algorithm(name: &str) -> std::result::Result<Algorithm, String> {
    // Without a key, and of files of any size in little memory.
    let fits = |algorithm: &Algorithm| {
        algorithm.key_rule() == KeyRule::None && !algorithm.needs_whole_message()
    };
    let names = || {
        let names = Algorithm::all().filter(fits).map(Algorithm::name);
        names.collect::<Vec<_>>().join(", ")
    };
    let algorithm = name.parse().ok().filter(fits);
    algorithm.ok_or_else(|| format!("use one of: {}", names()))
}

impl Cp {
    /// Copies the operands and prints the summary.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let options = self.options()?;
        let verify = options.verify;
        let progress = Progress::start(global);
        let reporter = Arc::new(Reporter {
            progress: Arc::clone(&progress),
            target_directory: options.meaning == Meaning::Directory,
            is_interrupted: process::end_after_signals(),
            kept: Mutex::default(),
        });
        let summary = copy(options, Arc::<Reporter>::clone(&reporter));
        progress.stop();
        let summary = match summary {
            Ok(summary) => summary,
            Err(problem) => return Err(Failure::Other(reporter.text(&problem))),
        };
        print(global, &summary, verify, &progress)?;
        if summary.interrupted {
            warn(reporter.interruption());
            return Ok(Exit::Interrupted);
        }
        Ok(match summary.errors {
            0 => Exit::Success,
            _ => Exit::Failure,
        })
    }

    fn options(mut self) -> Result<Options> {
        let missing = |what: &str| Err(Failure::Usage(what.to_owned()));
        let (target, meaning) = match self.target_directory {
            Some(directory) => (directory, Meaning::Directory),
            None => {
                let target = self.paths.pop().unwrap_or_default();
                match (self.no_target_directory, &self.paths[..]) {
                    (_, []) => {
                        let source = quote_always(target.as_os_str().as_bytes());
                        return missing(&format!(
                            "missing destination file operand after {source}"
                        ));
                    }
                    (true, [_, _, ..]) => {
                        let extra = quote_always(target.as_os_str().as_bytes());
                        return missing(&format!("extra operand {extra}"));
                    }
                    (true, _) => (target, Meaning::Name),
                    (false, _) => (target, Meaning::Either),
                }
            }
        };
        let verify = match self.verify {
            Verify::None => tabane_copy::Verify::None,
            Verify::Written => tabane_copy::Verify::Written,
            Verify::Reread => tabane_copy::Verify::Reread,
        };
        let mut options = Options::new(self.paths, target)
            .meaning(meaning)
            .algorithm(self.algorithm)
            .verify(verify)
            .sync(!self.no_sync);
        options.manifest = self.manifest;
        Ok(options)
    }
}

fn print(
    global: &Global,
    summary: &Summary,
    verify: tabane_copy::Verify,
    progress: &Progress,
) -> Result<()> {
    let elapsed = progress.elapsed();
    let copied_bytes = summary.total_bytes - summary.skipped_bytes;
    if global.json {
        let mut object = into_object(json!({"message_type": "summary"}));
        let mut counted = into_object(serde_json::to_value(summary).unwrap_or_default());
        object.append(&mut counted);
        object.insert("elapsed_s".to_owned(), elapsed.as_secs_f64().into());
        let speed = format::megabytes_per_second(copied_bytes, elapsed);
        object.insert("speed_mb_per_s".to_owned(), speed.into());
        return print_json(&object.into());
    }
    if global.quiet {
        return Ok(());
    }
    let copied = summary.copied_files + summary.copied_directories + summary.copied_others;
    let skipped = summary.skipped_files + summary.skipped_directories + summary.skipped_others;
    if copied + skipped == 0 && summary.errors > 0 {
        return Ok(());
    }
    let speed = format::rate(copied_bytes, elapsed);
    let mut output = Output::new();
    output.line(format!(
        "copied {}, {}, {}: {} in {}{speed}",
        format::count(summary.copied_files, "file"),
        format::count(summary.copied_directories, "directory"),
        format::count(summary.copied_others, "other"),
        format::bytes(copied_bytes),
        format::duration(elapsed),
    ))?;
    if summary.skipped_files + summary.skipped_others > 0 {
        output.line(format!(
            "{}, {}, {} were there already: {}",
            format::count(summary.skipped_files, "file"),
            format::count(summary.skipped_directories, "directory"),
            format::count(summary.skipped_others, "other"),
            format::bytes(summary.skipped_bytes),
        ))?;
    }
    if summary.shared_bytes > 0 {
        let shared = format::bytes(summary.shared_bytes);
        output.line(format!("{shared} share their blocks with the source"))?;
    }
    if verify == tabane_copy::Verify::Reread {
        let reread = format::bytes(summary.reread_bytes);
        output.line(format!("{reread} were checked on the disk and are right"))?;
    }
    output.finish()
}

struct Reporter {
    progress: Arc<Progress>,
    /// The target was given as a directory.
    target_directory: bool,
    is_interrupted: fn() -> bool,
    /// Files that stay after an interruption.
    kept: Mutex<Vec<PathBuf>>,
}

impl Reporter {
    /// The message after a signal.
    fn interruption(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: Vec<_> = kept
            .iter()
            .map(|path| quote_always(path.as_os_str().as_bytes()))
            .collect();
        let stays = match &kept[..] {
            [] => String::new(),
            [one] => format!("; {one} stays for it until then"),
            several => format!("; {} stay for it until then", several.join(" and ")),
        };
        format!("interrupted: what was copied is whole, and the same command goes on{stays}")
    }

    /// A problem as cp says it.
    fn text(&self, problem: &Problem) -> String {
        let quote = |path: &Path| quote_always(path.as_os_str().as_bytes());
        match problem {
            Problem::System {
                action,
                path,
                error,
            } => {
                let what = match action {
                    Action::Stat => "cannot stat",
                    Action::Open => "cannot open",
                    Action::Read => "error reading",
                    Action::UseTarget if self.target_directory => "target directory",
                    Action::UseTarget => "target",
                    Action::CreateFile => "cannot create regular file",
                    Action::CreateDirectory => "cannot create directory",
                    Action::CreateSpecial => "cannot create special file",
                    Action::Link => "cannot create hard link",
                    Action::Write => "error writing",
                    Action::Sync => "cannot bring to the disk",
                    Action::Manifest => "cannot write the manifest",
                };
                let suffix = match action {
                    Action::Open => " for reading",
                    _ => "",
                };
                format!("{what} {}{suffix}: {}", quote(path), reason(error))
            }
            Problem::IntoItself { source, target } => format!(
                "cannot copy a directory, {}, into itself, {}",
                quote(source),
                quote(target)
            ),
            Problem::SameFile { source, target } => {
                format!("{} and {} are the same file", quote(source), quote(target))
            }
            Problem::OverDirectory { target } => format!(
                "cannot overwrite directory {} with non-directory",
                quote(target)
            ),
            Problem::OverOther { source, target } => format!(
                "cannot overwrite non-directory {} with directory {}",
                quote(target),
                quote(source)
            ),
            Problem::NotRegular { target } => {
                format!("{} is not a regular file", quote(target))
            }
            Problem::JustCreated { source, target } => format!(
                "will not overwrite just-created {} with {}",
                quote(target),
                quote(source)
            ),
            Problem::Changed { path } => format!(
                "{} changed each time while it was read: not copied",
                quote(path)
            ),
            Problem::Differs { path, mended: true } => format!(
                "{} differed from the bytes written: written again, and right now",
                quote(path)
            ),
            Problem::Differs { path, .. } => {
                format!("{} differs from the bytes written", quote(path))
            }
            Problem::Attribute { path, error } => format!(
                "cannot preserve {} of {}: {}",
                error.what,
                quote(path),
                reason(&error.error)
            ),
        }
    }
}

impl tabane_copy::Progress for Reporter {
    fn problem(&self, problem: &Problem) {
        self.progress.problem(&self.text(problem));
    }

    fn entry(&self, target: &Path) {
        self.progress.entry(target);
        self.progress.verbose(1, "copied", target);
    }

    fn bytes(&self, done: u64, total: u64) {
        let counters = self.progress.counters();
        let skipped = counters.skipped_bytes.load(Ordering::Relaxed);
        let copied = done.saturating_sub(skipped);
        counters.bytes.fetch_max(copied, Ordering::Relaxed);
        counters.total_bytes.store(total, Ordering::Relaxed);
    }

    fn skipped(&self, bytes: u64) {
        let skipped = &self.progress.counters().skipped_bytes;
        skipped.fetch_max(bytes, Ordering::Relaxed);
    }

    fn kept(&self, path: &Path) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(path.to_owned());
    }

    fn is_cancelled(&self) -> bool {
        (self.is_interrupted)()
    }
}
