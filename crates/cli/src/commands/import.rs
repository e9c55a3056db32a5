//! `tabane import`

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tabane_import::{Borg, Foreign, ImportOptions, Imported, Listing, LockedBorg, Restic};
use tabane_format::crypto::MAGIC;
use tabane_storage::Location;
use tabane_store::compress::Compression;
use tabane_store::key::Password;
use tabane_store::{Error, Repository};

use crate::advice;
use crate::args::{Global, SourcePassword, parse};
use crate::exit::{Exit, Failure, Result};
use crate::format;
use crate::output::{Output, warn};
use crate::password;
use crate::progress::Progress;
use crate::reporter::Reporter;
use crate::select::Selection;
use crate::transferred::Transferred;

/// Import the snapshots of restic or borg into this repository
#[derive(Args)]
#[command(after_help = "\
SOURCE is restic: or borg: and a place: a directory or a URL, as for --repo. It is only read, and \
the other program need not be installed. Read are restic's repositories of versions 1 and 2, and \
those of borg 1.x. A key file of borg is looked for where borg has it, or is the one that \
BORG_KEY_FILE names.

All snapshots that --host, --tag and --path choose are imported with their times, hosts, tags and \
owners. Each block is read once, compared with its hash, and stored; each file is compared with \
its length. Run the command again after an interruption, or when there are new snapshots: what is \
there already is passed over.

What is damaged or missing in the source is reported and left out, and the exit code is 3; the \
snapshots are made all the same, and imported anew by the next run.

The next backup of the same host and paths reads only what has changed since the last snapshot \
of restic, if restic was given absolute paths; after one of borg, which keeps no numbers of \
inodes, it does with --ignore-inode. Files are cut where the other program has cut them; a file \
that changes later is cut anew and stored again as a whole, once.

The name of an archive of borg becomes a tag, its comment the description.

Examples:
  tabane import restic:/mnt/old-backup --from-password-file ~/.restic-password
  tabane import restic:s3://bucket/restic --host web1 --repo /mnt/backup
  tabane import restic:/mnt/old-backup latest -n
  tabane import borg:/mnt/borg --from-password-file ~/.borg-passphrase")]
pub struct Import {
    /// The repository to import
    #[arg(value_name = "SOURCE", value_parser = clap::value_parser!(OsString))]
    source: OsString,
    /// Only these (an ID of the source, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// Show what would be imported, and import nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// How hard to compress: off, fastest, auto, max, or a Zstandard level from -7 to 22
    #[arg(long, value_name = "LEVEL", default_value = "auto", allow_negative_numbers = true)]
    #[arg(value_parser = parse::<Compression>)]
    #[arg(env = "TABANE_COMPRESSION", hide_env_values = true, hide_short_help = true)]
    compression: Compression,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    password: SourcePassword,
}

/// A repository of another program.
enum Program {
    Restic(Box<Restic>),
    Borg(Borg),
}

impl Program {
    /// Opens `SOURCE`.
    fn open(source: &OsStr, global: &Global, password: &SourcePassword) -> Result<Self> {
        let bytes = source.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':').unwrap_or(0);
        let (name, place) = bytes.split_at(colon);
        let is_known = [b"restic".as_slice(), b"borg"].contains(&name);
        let Some(place) = place.strip_prefix(b":").filter(|_| is_known) else {
            return Err(Failure::Usage(format!(
                "{} is no source: write restic:PLACE or borg:PLACE, where PLACE is a directory or \
                 a URL",
                source.display()
            )));
        };
        let location = Location::parse(OsStr::from_bytes(place), "").map_err(Failure::Usage)?;
        let files = location.open_files(&global.remote_options())?;
        if files.read("config", None).is_ok_and(|config| config.starts_with(MAGIC)) {
            let place = OsStr::from_bytes(place).display();
            return Err(Failure::Usage(format!(
                "{place} is a repository of Tabane: `tabane copy --from-repo {place}` copies its \
                 snapshots"
            )));
        }
        let ask = || -> Result<Password> { Ok(password::existing(&password.of(global))?.0) };
        if name == b"restic" {
            return Ok(Self::Restic(Box::new(Restic::open(files, &ask()?)?)));
        }
        let locked = LockedBorg::find(files)?;
        let key = locked.needs_key_file().map(borg_key).transpose()?;
        let passphrase = if locked.needs_passphrase() { ask()? } else { Password::default() };
        Ok(Self::Borg(locked.unlock(&passphrase, key.as_deref())?))
    }

    fn snapshots(&self) -> tabane_import::Result<Listing> {
        match self {
            Self::Restic(restic) => restic.snapshots(),
            Self::Borg(borg) => borg.snapshots(),
        }
    }

    fn import(
        self,
        options: ImportOptions,
        to: &Repository,
        snapshots: &[Foreign],
        reporter: Reporter,
    ) -> tabane_import::Result<Imported> {
        match self {
            Self::Restic(restic) => restic.import(options, to, snapshots, Arc::new(reporter)),
            Self::Borg(borg) => borg.import(options, to, snapshots, Arc::new(reporter)),
        }
    }
}

/// The text of the key file for a repository of borg with this ID.
fn borg_key(id: &str) -> Result<String> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let begins = format!("BORG_KEY {id}");
    let is_right = |text: &String| text.lines().next() == Some(begins.as_str());
    let read = |path: &PathBuf| std::fs::read_to_string(path).ok().filter(is_right);
    if let Some(text) = variable("BORG_KEY_FILE").as_ref().and_then(read) {
        return Ok(text);
    }
    let base = variable("BORG_BASE_DIR").or_else(|| variable("HOME"));
    let config = variable("BORG_CONFIG_DIR")
        .or_else(|| Some(variable("XDG_CONFIG_HOME")?.join("borg")))
        .or_else(|| Some(base?.join(".config/borg")));
    let folder = variable("BORG_KEYS_DIR").or_else(|| Some(config?.join("keys")));
    let folder = folder.unwrap_or_default();
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let found = files.map(|file| file.path()).find_map(|path| read(&path));
    found.ok_or_else(|| {
        Failure::Other(format!(
            "the key of this repository of borg is in a file of its own, which is not in {}: name \
             it with BORG_KEY_FILE",
            format::path(&folder)
        ))
    })
}

impl Import {
    /// Runs `tabane import`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let program = Program::open(&self.source, global, &self.password)?;
        let listing = program.snapshots()?;
        for error in &listing.damaged {
            warn(advice::explain_import(error));
        }
        let mut exit = match listing.damaged.len() {
            0 => Exit::Success,
            _ => Exit::Incomplete,
        };
        let chosen = self.choose(&listing.snapshots)?;
        let to = global.open()?;
        let options = ImportOptions::default()
            .compression(self.compression)
            .dry_run(self.dry_run);
        let progress = Progress::start(global);
        let imported = program.import(options, &to, &chosen, Reporter::new(&progress));
        progress.stop();
        let imported = imported?;
        if imported.errors > 0 {
            exit = Exit::Incomplete;
        }
        if global.json {
            print_json(&imported, self.dry_run)?;
        } else if !global.quiet {
            print(global, &imported, self.dry_run, &progress)?;
        }
        Ok(exit)
    }

    /// The snapshots that are named; without names, all that the options choose.
    fn choose(&self, all: &[Foreign]) -> Result<Vec<Foreign>> {
        let filter = self.selection.filter();
        let allowed: Vec<&Foreign> = all
            .iter()
            .filter(|foreign| filter.allows(&foreign.snapshot))
            .collect();
        if self.snapshots.is_empty() {
            return Ok(allowed.into_iter().cloned().collect());
        }
        let find = |name: &String| -> Result<Foreign> {
            let is_named = |foreign: &&&Foreign| foreign.id.has_prefix(name);
            let found: Vec<_> = match name.as_str() {
                "latest" => allowed.last().into_iter().collect(),
                _ => allowed.iter().filter(is_named).collect(),
            };
            match found[..] {
                [one] => Ok((*one).clone()),
                [] => Err(Failure::Other(format!(
                    "no snapshot of the source matches {name:?}: leave it out to import all, and \
                     see which there are with --dry-run"
                ))),
                _ => Err(Error::AmbiguousSnapshot {
                    prefix: name.clone(),
                    count: found.len(),
                }
                .into()),
            }
        };
        let mut found = self.snapshots.iter().map(find).collect::<Result<Vec<_>>>()?;
        found.sort_by_key(|foreign| (foreign.snapshot.time, foreign.id));
        found.dedup_by_key(|foreign| foreign.id);
        Ok(found)
    }
}

fn transferred(imported: &Imported) -> Transferred<'_> {
    Transferred {
        done: "imported",
        new: &imported.snapshots,
        present: &imported.present,
    }
}

fn print(global: &Global, imported: &Imported, dry_run: bool, progress: &Progress) -> Result<()> {
    let mut output = Output::new();
    transferred(imported).print(&mut output, global.verbose > 0, dry_run)?;
    let stored = if dry_run {
        " are needed".to_owned()
    } else {
        format!(
            " read, checked and stored as {} in {}{}; {} there already",
            format::bytes(imported.stored_bytes),
            format::duration(progress.elapsed()),
            format::rate(imported.bytes, progress.elapsed()),
            format::grouped(imported.blocks_present),
        )
    };
    output.line(format!(
        "{} of {}{stored}",
        format::count(imported.blocks, "block"),
        format::bytes(imported.bytes),
    ))?;
    if imported.errors > 0 {
        output.line(format!(
            "Left out:   {} that the source has lost, see above",
            format::count(imported.errors, "entry")
        ))?;
    }
    output.finish()
}

fn print_json(imported: &Imported, dry_run: bool) -> Result<()> {
    let mut output = Output::new();
    transferred(imported).print_json(&mut output)?;
    output.json(&json!({
        "message_type": "summary",
        "dry_run": dry_run,
        "snapshots_imported": imported.snapshots.len(),
        "snapshots_present": imported.present.len(),
        "blocks_imported": imported.blocks,
        "blocks_present": imported.blocks_present,
        "imported_bytes": imported.bytes,
        "stored_bytes": imported.stored_bytes,
        "errors": imported.errors,
    }))?;
    output.finish()
}
