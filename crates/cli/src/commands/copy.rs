//! `tabane copy`

use clap::Args;
use serde_json::json;
use tabane_store::compress::Compression;
use tabane_store::copy::{Copied, CopyOptions};

use crate::args::{FromRepository, Global, parse};
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, warn};
use crate::progress::Progress;
use crate::reporter::Reporter;
use crate::select::{Selected, Selection};
use crate::transferred::Transferred;

/// Copy snapshots from another repository into this one
#[derive(Args)]
#[command(after_help = "\
Copies the snapshots that are named, or all that --host, --tag and --path choose, from --from-repo \
into --repo. Only what is missing there is read. Run it again, whenever there are new snapshots or \
after an interruption: what is there already is passed over. If the source lacks a block, or has a \
damaged one, no snapshot is copied: name those that are sound, or repair the source first.

The passwords of the two repositories can differ. TABANE_FROM_REPOSITORY, TABANE_FROM_PASSWORD, \
TABANE_FROM_PASSWORD_FILE and TABANE_FROM_PASSWORD_COMMAND say the same of the source as the \
variables without FROM say of the target.

Both must name blocks by the same hash. A repository cuts files at places of its own, so that what \
is backed up to both is stored twice; `tabane init --copy-chunker-params` makes one that cuts as \
another does.

Examples:
  tabane copy --from-repo /mnt/backup --repo /mnt/offsite
  tabane copy --from-repo @home --repo @offsite --host ada latest")]
pub struct Copy {
    /// Only these (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// Show what would be copied, and copy nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// How hard to compress: off, fastest, auto, max, or a Zstandard level from -7 to 22
    #[arg(long, value_name = "LEVEL", default_value = "auto", allow_negative_numbers = true)]
    #[arg(value_parser = parse::<Compression>)]
    #[arg(hide_short_help = true)]
    compression: Compression,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    from: FromRepository,
}

impl Copy {
    /// Runs `tabane copy`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let from = self.from.of(global)?.open()?;
        let to = global.open()?;
        from.check_copy_to(&to)?;
        let (source, target) = (from.config(), to.config());
        let same_cuts =
            source.chunking == target.chunking && source.chunker_secret == target.chunker_secret;
        if !same_cuts && !global.quiet {
            warn(
                "note: the two repositories cut files at different places: what is copied shares \
                 no blocks with what is backed up to the target (see `tabane help copy`)",
            );
        }
        let Selected { snapshots, exit } = self.selection.list(&from, &self.snapshots)?;
        let options = CopyOptions::default()
            .compression(self.compression)
            .dry_run(self.dry_run);
        let progress = Progress::start(global);
        let from = from.with_progress(Reporter::new(&progress));
        let copied = from.copy_to(options, &to, &snapshots);
        progress.stop();
        let copied = copied?;
        if global.json {
            print_json(&copied, self.dry_run)?
        } else {
            print(global, &copied, self.dry_run, &progress)?
        }
        Ok(exit)
    }
}

fn transferred(copied: &Copied) -> Transferred<'_> {
    Transferred {
        done: "copied",
        new: &copied.snapshots,
        present: &copied.present,
    }
}

fn print(global: &Global, copied: &Copied, dry_run: bool, progress: &Progress) -> Result<()> {
    if global.quiet {
        return Ok(());
    }
    let mut output = Output::new();
    transferred(copied).print(&mut output, global.verbose > 0, dry_run)?;
    let stored = if dry_run {
        String::new()
    } else {
        format!(
            ", stored as {} in {}{}",
            format::bytes(copied.stored_bytes),
            format::duration(progress.elapsed()),
            format::rate(copied.bytes, progress.elapsed())
        )
    };
    output.line(format!(
        "{} of {}{stored}; {} there already",
        format::count(copied.blocks, "block"),
        format::bytes(copied.bytes),
        format::grouped(copied.blocks_present),
    ))?;
    output.finish()
}

fn print_json(copied: &Copied, dry_run: bool) -> Result<()> {
    let mut output = Output::new();
    transferred(copied).print_json(&mut output)?;
    output.json(&json!({
        "message_type": "summary",
        "dry_run": dry_run,
        "snapshots_copied": copied.snapshots.len(),
        "snapshots_present": copied.present.len(),
        "blocks_copied": copied.blocks,
        "blocks_present": copied.blocks_present,
        "copied_bytes": copied.bytes,
        "stored_bytes": copied.stored_bytes,
    }))?;
    output.finish()
}
