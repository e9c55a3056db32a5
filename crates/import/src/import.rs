//! The way of every import: which blocks are needed, copying them, directories, snapshots.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tabane_storage::{Id, Progress};
use tabane_store::Repository;
use tabane_store::entry::Piece;
use tabane_store::owners::Owners;
use tabane_store::snapshot::{Filter, Snapshot, Summary};
use tabane_store::snapshot_writer::SnapshotWriter;

use crate::copy::{self, Copied, Source};
use crate::error::Result;
use crate::{Foreign, ImportOptions, Imported};

/// What an import needs of another program's repository.
pub trait Program {
    /// Its blocks.
    fn source(&self) -> Arc<dyn Source>;

    /// The blocks of files that these snapshots need, with their lengths in bytes. What cannot be
    /// read is passed over.
    ///
    /// # Errors
    /// When the place fails.
    fn reach(&mut self, snapshots: &[&Foreign]) -> Result<HashMap<Id, u32>>;

    /// Stores the directories of a snapshot, and counts its entries in `summary`. What is lost is
    /// reported and left out.
    ///
    /// # Errors
    /// When a place fails.
    fn convert(&mut self, snapshot: &Foreign, to: &mut Target<'_>) -> Result<Root>;
}

/// Where directories go.
pub struct Target<'a> {
    pub writer: &'a mut SnapshotWriter,
    pub copied: &'a Copied,
    pub progress: &'a Arc<dyn Progress>,
    pub summary: &'a mut Summary,
}

/// A root that is stored.
#[derive(Default)]
pub struct Root {
    /// The content of `/`.
    pub content: Vec<Piece>,
    /// Names of owners.
    pub owners: Owners,
    /// The paths that were backed up, where nothing told them before.
    pub paths: Option<Vec<String>>,
}

/// Imports snapshots into `to`, in this order.
pub fn import(
    program: &mut dyn Program,
    options: ImportOptions,
    to: &Repository,
    snapshots: &[Foreign],
    progress: &Arc<dyn Progress>,
) -> Result<Imported> {
    let there = to.snapshots(&Filter::default())?.snapshots;
    let mut imported = Imported::default();
    let mut new = Vec::new();
    for foreign in snapshots {
        match there
            .iter()
            .find(|(_, snapshot)| is_import(snapshot, foreign))
        {
            // What was lost may have been mended since then.
            Some((id, snapshot)) if snapshot.summary.errors == 0 => {
                imported.present.push((foreign.id, *id));
            }
            _ => new.push(foreign),
        }
    }
    if new.is_empty() {
        return Ok(imported);
    }
    let blocks = program.reach(&new)?;
    if options.dry_run {
        imported.snapshots = new.iter().map(|foreign| (foreign.id, None)).collect();
        imported.blocks = blocks.len() as u64;
        imported.bytes = blocks.values().map(|len| u64::from(*len)).sum();
        return Ok(imported);
    }
    let (source, hash) = (program.source(), to.config().hash);
    let mut writer = to.snapshot_writer(options.compression)?;
    let same_names = source.hash() == Some(hash);
    let all = blocks.len() as u64;
    let is_missing = |(id, _): &(Id, u32)| !(same_names && writer.has(*id));
    let missing: Vec<(Id, u32)> = blocks.into_iter().filter(is_missing).collect();
    imported.blocks_present = all - missing.len() as u64;
    let (copied, blocks) = copy::copy(&source, missing, &writer, hash, progress);
    let copied = match copied {
        Ok(copied) => copied,
        Err(error) => {
            // What was copied is indexed, so that the next import finds it.
            let _ = writer.finish(blocks);
            return Err(error);
        }
    };
    imported.blocks = copied.blocks.load(Ordering::Relaxed);
    imported.bytes = copied.bytes.load(Ordering::Relaxed);
    let mut made = Vec::new();
    for foreign in new {
        let mut snapshot = foreign.snapshot.clone();
        let mut target = Target {
            writer: &mut writer,
            copied: &copied,
            progress,
            summary: &mut snapshot.summary,
        };
        let root = program.convert(foreign, &mut target)?;
        snapshot.root = root.content;
        if let Some(paths) = root.paths {
            snapshot.paths = paths;
        }
        snapshot.owners = (to.format() > 1).then_some(root.owners);
        made.push((foreign, snapshot));
    }
    let finished = writer.finish(blocks)?;
    imported.stored_bytes = finished.stored_bytes;
    for (foreign, snapshot) in made {
        let same =
            |(_, there): &&(Id, Snapshot)| is_import(there, foreign) && there.root == snapshot.root;
        imported.errors += snapshot.summary.errors;
        if let Some((id, _)) = there.iter().find(same) {
            imported.present.push((foreign.id, *id));
            continue;
        }
        let id = finished.commit(&snapshot)?;
        imported.snapshots.push((foreign.id, Some(id)));
    }
    Ok(imported)
}

/// Whether a snapshot of the target was imported from this one. Its tags may be others by now.
fn is_import(there: &Snapshot, foreign: &Foreign) -> bool {
    let from = &foreign.snapshot;
    there.original == Some(foreign.id) && there.time == from.time && there.hostname == from.hostname
}
