//! `tabane repair`

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tabane_storage::{ObjectKind, make_directory, sync_name};
use tabane_store::repair::{RepairOptions, Repaired};
use tabane_store::{Error, Id, Repository};

use crate::args::Global;
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, into_object, print_json, warn};
use crate::progress::Progress;
use crate::reporter::Reporter;
use crate::select::Selection;

/// Mend a damaged repository
#[derive(Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
`tabane check --read-data` says what is damaged. Copy the repository as it is before you mend it, \
if you can.

1. `repair config` if the config or a key is damaged or missing: each has a copy.
2. `repair index` if index objects are damaged or missing. Packs say themselves what they hold, so \
nothing is lost.
3. `repair packs` if packs are damaged: what is sound in them is saved, the rest is lost.
4. `tabane backup --force` of the same sources: it stores again what was lost and is still there.
5. `repair snapshots` if `tabane check` still finds that snapshots miss something: it makes whole \
ones of them, without what is lost.

Examples:
  tabane repair config -r /mnt/backup
  tabane repair index -r /mnt/backup --dry-run
  tabane repair index -r /mnt/backup
  tabane repair packs -r /mnt/backup --copies /var/tmp 1a2b3c4d
  tabane repair snapshots -r /mnt/backup --forget")]
pub struct Repair {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Mend the config and the keys with the help of their copies
    #[command(after_help = "\
Examples:
  tabane repair config -r /mnt/backup")]
    Config,
    /// Make the index name the packs that are there
    #[command(after_help = "\
Examples:
  tabane repair index -r /mnt/backup
  tabane repair index -r /mnt/backup --read-all-packs   trust nothing that the index says")]
    Index {
        /// Ask every pack what it holds, not only those that the index does not name as they are
        #[arg(long)]
        read_all_packs: bool,
        /// Say what would be done, and do nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
    },
    /// Save what is sound in damaged packs, and remove them
    #[command(after_help = "\
Without --copies, the copies of damaged packs go beside a repository in a directory, to \
DIRECTORY-damaged-packs; those of other repositories go to tabane/damaged-packs in $XDG_STATE_HOME \
or ~/.local/state. Delete them when the repository is in order again.

Examples:
  tabane repair packs -r /mnt/backup --copies /var/tmp            reads all packs
  tabane repair packs -r /mnt/backup --copies /var/tmp 1a2b3c4d")]
    Packs {
        /// Which packs (an ID or its beginning); all, if none is named
        #[arg(value_name = "PACK")]
        packs: Vec<String>,
        /// Keep a copy of each damaged pack in this directory before it is removed [default: see
        /// below]
        #[arg(long, value_name = "DIR")]
        copies: Option<PathBuf>,
        /// Say what would be done, and do nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
    },
    /// Make whole snapshots of those that miss something
    #[command(after_help = "\
Of each snapshot that misses something a new one is made, with the tag `repaired`. In it, a file \
that misses a part has zeros in its place, and `.repaired` behind its name; a directory that \
cannot be read is empty. Everything else is as it was. Without --forget the old snapshots stay.

What is lost is what the index does not have: run `repair index` and `repair packs` before, and \
`tabane backup --force`, which may bring it back.

The exit code is 1 if a snapshot is so damaged that nothing can be made of it. With --forget, and \
exit code 0, such a snapshot is removed if it says at least what it was of; otherwise `tabane \
forget ID` removes it.

Examples:
  tabane repair snapshots -r /mnt/backup --dry-run
  tabane repair snapshots -r /mnt/backup --forget
  tabane repair snapshots -r /mnt/backup --host ada latest")]
    Snapshots {
        /// Only these (an ID, its beginning, or latest)
        #[arg(value_name = "SNAPSHOT")]
        snapshots: Vec<String>,
        /// Remove the old snapshots
        #[arg(long)]
        forget: bool,
        /// Say what would be done, and do nothing
        #[arg(short = 'n', long)]
        dry_run: bool,
        #[command(flatten)]
        selection: Selection,
    },
}

impl Repair {
    /// Runs `tabane repair`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        match self.what {
            What::Config => config(global, &repository),
            What::Index {
                read_all_packs,
                dry_run,
            } => index(global, &repository, read_all_packs, dry_run),
            What::Packs {
                packs,
                copies,
                dry_run,
            } => self::packs(global, &repository, &packs, copies, dry_run),
            What::Snapshots {
                snapshots,
                forget,
                dry_run,
                selection,
            } => {
                let options = RepairOptions::default().forget(forget).dry_run(dry_run);
                self::snapshots(global, &repository, &snapshots, options, &selection)
            }
        }
    }
}

fn config(global: &Global, repository: &Arc<Repository>) -> Result<Exit> {
    let faults = repository.repair_config()?;
    let left = repository.repair_config()?;
    let value = json!({ "faults": faults, "left": left });
    say(global, value, false, || match &faults[..] {
        [] => vec!["the config, the keys and their copies are as they should be".to_owned()],
        faults => {
            let mended = faults.iter().filter(|fault| !left.contains(fault));
            mended.map(|fault| format!("mended: {fault}")).collect()
        }
    })?;
    if left.is_empty() {
        return Ok(Exit::Success);
    }
    for fault in &left {
        warn(format!("{fault}, and cannot be mended: `tabane key remove` removes a damaged key"));
    }
    Ok(Exit::Failure)
}

fn index(global: &Global, repository: &Arc<Repository>, all: bool, dry_run: bool) -> Result<Exit> {
    let progress = Progress::start(global);
    let options = RepairOptions::default().all_packs(all).dry_run(dry_run);
    let repository = repository.with_progress(Reporter::new(&progress));
    let report = repository.repair_index(options);
    progress.stop();
    let report = report?;
    say(global, json!(report), dry_run, || {
        let mut lines = vec![format!(
            "{} of {} added to the index, {} taken out; {} replaced",
            format::count(report.added_packs, "pack"),
            format::grouped(report.packs),
            format::grouped(report.lost_packs),
            format::count(report.replaced_objects, "index object"),
        )];
        if report.lost_packs > 0 {
            lines.push("what the missing packs held is stored again by `tabane backup --force`, \
            where it is still there".to_owned());
        }
        lines
    })?;
    if report.unreadable_packs > 0 {
        let count = format::count(report.unreadable_packs, "pack");
        warn(format!(
            "{count} cannot say what they hold (see above): `tabane repair packs` may save some of \
             it"
        ));
        return Ok(Exit::Failure);
    }
    Ok(Exit::Success)
}

fn packs(
    global: &Global,
    repository: &Arc<Repository>,
    names: &[String],
    copies: Option<PathBuf>,
    dry_run: bool,
) -> Result<Exit> {
    let ids = find_packs(repository, names)?;
    let given = copies.is_some();
    let copies = copies.map_or_else(|| copies_directory(global), Ok)?;
    if !dry_run && !global.json && !global.quiet {
        let mut output = Output::new();
        let copies = format::path(&copies);
        output.line(format!("copies of damaged packs go to {copies}"))?;
        output.finish()?;
    }
    let progress = Progress::start(global);
    let keep = |id: Id, bytes: &[u8]| -> tabane_store::Result<()> {
        if !given {
            make_directory(&copies).map_err(Error::path("keep a copy in", &copies))?;
        }
        let path = copies.join(format!("damaged-pack-{id}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&path)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            // The damaged pack is deleted next.
            .and_then(|()| sync_name(&path))
            .map_err(Error::path("keep a copy in", &path))
    };
    let repository = repository.with_progress(Reporter::new(&progress));
    let report = repository.repair_packs(RepairOptions::default().dry_run(dry_run), &ids, keep);
    progress.stop();
    let report = report?;
    let damaged = report.damaged_packs.len() as u64;
    say(global, json!(report), dry_run, || {
        let mut lines = vec![format!(
            "{} of {} damaged",
            format::grouped(damaged),
            format::count(report.packs, "pack"),
        )];
        if damaged > 0 {
            lines.push(format!(
                "{} saved, {} stored elsewhere too, {} lost",
                format::count(report.saved_blocks, "block"),
                format::grouped(report.safe_blocks),
                format::grouped(report.lost_blocks),
            ));
        }
        if report.lost_blocks > 0 {
            lines.push(
                "`tabane backup --force` stores again what was lost and is still at its source; of \
                 older snapshots that miss something `tabane repair snapshots` makes whole ones \
                 without it"
                    .to_owned(),
            );
        }
        lines
    })?;
    Ok(Exit::Success)
}

/// The default directory for copies of damaged packs: easy to find, and not lost at a restart.
fn copies_directory(global: &Global) -> Result<PathBuf> {
    let directory = global.local_directory()?;
    let directory = directory.and_then(|directory| fs::canonicalize(directory).ok());
    if let Some(directory) = &directory
        && let Some(name) = directory.file_name()
    {
        let mut name = name.to_owned();
        name.push("-damaged-packs");
        return Ok(directory.with_file_name(name));
    }
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").filter(|folder| folder.is_absolute());
    let state = state.or_else(|| Some(folder("HOME")?.join(".local/state")));
    match state {
        Some(state) => Ok(state.join("tabane/damaged-packs")),
        None => Err(Failure::Usage(
            "HOME is not set, so nothing says where copies of damaged packs are to go: use \
             --copies DIR"
                .to_owned(),
        )),
    }
}

fn snapshots(
    global: &Global,
    repository: &Arc<Repository>,
    names: &[String],
    options: RepairOptions,
    selection: &Selection,
) -> Result<Exit> {
    let selected = selection.list(repository, names)?;
    if selected.exit != Exit::Success {
        warn(
            "snapshots that are damaged themselves cannot be mended: `tabane forget ID` removes \
             them",
        );
    }
    let count = selected.snapshots.len() as u64;
    let progress = Progress::start(global);
    let repository = repository.with_progress(Reporter::new(&progress));
    let report = repository.repair_snapshots(options, &selected.snapshots);
    progress.stop();
    let report = report?;
    let repaired = report.repaired.len() as u64;
    if global.json {
        for Repaired { old, new, lost } in &report.repaired {
            let mut object = into_object(json!({
                "message_type": "repaired",
                "old_snapshot_id": old.to_string(),
                "new_snapshot_id": new.map(|id| id.to_string()),
            }));
            object.append(&mut into_object(json!(lost)));
            print_json(&object.into())?;
        }
    }
    let unreadable: Vec<String> = report.unreadable.iter().map(Id::to_string).collect();
    let value = json!({
        "snapshots": count,
        "repaired_snapshots": repaired,
        "unreadable_snapshots": unreadable,
    });
    say(global, value, options.dry_run, || {
        let verb = if options.dry_run {
            "would be repaired"
        } else {
            "repaired"
        };
        let line = |Repaired { old, new, lost }: &Repaired| {
            let outcome = new.map_or_else(String::new, |new| format!(" is now {}", new.short()));
            format!(
                "snapshot {}{outcome}: {} lost of {}, {} unreadable",
                old.short(),
                format::bytes(lost.lost_bytes),
                format::count(lost.damaged_files, "file"),
                format::count(lost.lost_directories, "directory"),
            )
        };
        let mut lines: Vec<String> = report.repaired.iter().map(line).collect();
        let all = format::count(count, "snapshot");
        lines.push(format!("{} of {all} {verb}", format::grouped(repaired)));
        lines
    })?;
    for id in &report.unreadable {
        let outcome = match (options.forget, options.dry_run) {
            (true, false) => "it is removed".to_owned(),
            (true, true) => "it would be removed".to_owned(),
            (false, _) => format!("`tabane forget {}` removes it", id.short()),
        };
        warn(format!(
            "nothing can be made of snapshot {}: {outcome}",
            id.short()
        ));
    }
    if report.unreadable.is_empty() || options.forget {
        Ok(selected.exit)
    } else {
        Ok(Exit::Failure)
    }
}

/// The packs that `names` mean, or all.
fn find_packs(repository: &Repository, names: &[String]) -> Result<Vec<Id>> {
    let listed = repository.list(ObjectKind::Pack)?;
    let all = listed.into_iter().map(|(id, _)| id);
    if names.is_empty() {
        return Ok(all.collect());
    }
    let all: Vec<Id> = all.collect();
    let mut found = Vec::new();
    for name in names {
        let mut matching = all.iter().filter(|id| id.has_prefix(name));
        match (matching.next(), matching.next()) {
            (Some(id), None) if !name.is_empty() => found.push(*id),
            (Some(_), Some(_)) => {
                let text = format!("{name:?} could mean several packs: give more digits of the ID");
                return Err(Failure::Other(text));
            }
            _ => {
                let text = format!(
                    "no pack matches {name:?}: `tabane check` names those that are damaged"
                );
                return Err(Failure::Other(text));
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn say(
    global: &Global,
    report: Value,
    dry_run: bool,
    lines: impl FnOnce() -> Vec<String>,
) -> Result<()> {
    if global.json {
        let mut object = into_object(json!({"message_type": "summary", "dry_run": dry_run}));
        object.append(&mut into_object(report));
        return print_json(&object.into());
    }
    if global.quiet {
        return Ok(());
    }
    let mut output = Output::new();
    for line in lines() {
        output.line(line)?;
    }
    if dry_run {
        output.line("dry run: nothing was changed")?;
    }
    output.finish()
}
