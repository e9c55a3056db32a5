//! `tabane stats`

use clap::{Args, ValueEnum};
use serde_json::json;
use tabane_store::browse::Browser;
use tabane_store::stats;

use crate::args::Global;
use crate::exit::{Exit, Result};
use crate::format;
use crate::output::{Output, into_object};
use crate::select::{Selected, Selection};

/// Show how much snapshots hold, and how little of it is stored
#[derive(Args)]
#[command(after_help = "\
Counts all snapshots, or those that are named or chosen. What several of them share is stored \
once, so the stored sizes of single snapshots add up to more than that of all together.

Examples:
  tabane stats -r /mnt/backup
  tabane stats -r /mnt/backup latest --mode restore-size
  tabane stats -r /mnt/backup --tag weekly --json")]
pub struct Stats {
    /// Only these snapshots (an ID, its beginning, or latest)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// What to show
    #[arg(long, value_name = "MODE", default_value = "all")]
    mode: Mode,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Everything below, and the repository as a whole
    All,
    /// What restoring every snapshot would give
    RestoreSize,
    /// Files with different contents
    FilesByContents,
    /// Files with different contents, and the blocks that they consist of
    BlobsPerFile,
    /// Blocks, and what they take in the repository
    RawData,
}

impl Stats {
    /// Runs `tabane stats`.
    pub fn run(self, global: &Global) -> Result<Exit> {
        let repository = global.open()?;
        let Selected { snapshots, exit } = self.selection.list(&repository, &self.snapshots)?;
        let mut browser = Browser::new(&repository)?;
        let chosen = snapshots.iter().map(|(_, snapshot)| snapshot);
        let stats = stats::of_snapshots(&mut browser, &repository, chosen)?;
        let whole = match self.mode {
            Mode::All => Some(stats::of_repository(&browser, &repository)?),
            _ => None,
        };
        let mut output = Output::new();
        if global.json {
            let mut object = into_object(json!({
                "snapshots": stats.snapshots,
                "files": stats.files,
                "directories": stats.directories,
                "others": stats.others,
                "restore_bytes": stats.restore_bytes,
                "hole_bytes": stats.hole_bytes,
                "unique_files": stats.unique_files,
                "unique_file_bytes": stats.unique_file_bytes,
                "blocks": stats.blocks,
                "block_bytes": stats.block_bytes,
                "stored_bytes": stats.stored_bytes,
                "compression_ratio": stats.compression_ratio(),
                "deduplication_ratio": stats.deduplication_ratio(),
            }));
            if let Some(whole) = whole {
                object.append(&mut into_object(json!({
                    "repository_objects": whole.objects,
                    "repository_bytes": whole.object_bytes,
                    "repository_packs": whole.packs,
                    "repository_pack_bytes": whole.pack_bytes,
                    "repository_index_bytes": whole.index_bytes,
                    "repository_blocks": whole.blocks,
                    "repository_block_bytes": whole.block_bytes,
                })));
            }
            output.json(&object.into())?;
            output.finish()?;
            return Ok(exit);
        }
        let shows = |mode| self.mode == Mode::All || self.mode == mode;
        output.line(format!(
            "Snapshots:      {}",
            format::grouped(stats.snapshots)
        ))?;
        if shows(Mode::RestoreSize) {
            output.line(format!(
                "Restore size:   {}{} in {}, {}, {}",
                format::bytes(stats.restore_bytes),
                match stats.hole_bytes {
                    0 => String::new(),
                    holes => format!(" ({} of holes)", format::bytes(holes)),
                },
                format::count(stats.files, "file"),
                format::count(stats.directories, "directory"),
                format::count(stats.others, "other"),
            ))?;
        }
        if shows(Mode::FilesByContents) || self.mode == Mode::BlobsPerFile {
            output.line(format!(
                "Unique files:   {} in {}",
                format::bytes(stats.unique_file_bytes),
                format::count(stats.unique_files, "file"),
            ))?;
        }
        if shows(Mode::RawData) || self.mode == Mode::BlobsPerFile {
            output.line(format!(
                "Unique blocks:  {} in {} ({:.2}x smaller by deduplication)",
                format::bytes(stats.block_bytes),
                format::count(stats.blocks, "block"),
                stats.deduplication_ratio(),
            ))?;
        }
        if shows(Mode::RawData) {
            output.line(format!(
                "Stored:         {} ({:.2}x smaller by compression)",
                format::bytes(stats.stored_bytes),
                stats.compression_ratio(),
            ))?;
        }
        if let Some(whole) = whole {
            output.line(format!(
                "Repository:     {} in {} ({}, index {})",
                format::bytes(whole.object_bytes),
                format::count(whole.objects, "object"),
                format::count(whole.packs, "pack"),
                format::bytes(whole.index_bytes),
            ))?;
        }
        output.finish()?;
        Ok(exit)
    }
}
