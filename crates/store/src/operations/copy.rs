//! Copies snapshots from one repository into another.
//!
//! Blocks keep their IDs, so that each is looked up in the target once, and only missing ones are
//! read: segment by segment, in the order of the packs, decoded, checked against their digests, and
//! sealed again under the target's key.

use std::sync::Arc;

use tabane_engine::Algorithm;

use crate::access::client::{Presence, Purpose};
use crate::access::index_objects::Trust;
use crate::access::reach::Reach;
use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::access::snapshots;
use crate::operations::commit::commit;
use crate::operations::repack::{self, Ends};
use tabane_format::compress::Compression;
use tabane_format::snapshot::Snapshot;
use tabane_format::{Error, Result};
use tabane_storage::Id;

/// Options of a copy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Level of compression in the target.
    pub compression: Compression,
    /// Find out what would be copied, and copy nothing.
    pub dry_run: bool,
}

tabane_storage::setters!(CopyOptions {
    set => compression: Compression,
    set => dry_run: bool,
});

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            compression: Compression::AUTO,
            dry_run: false,
        }
    }
}

/// The result of a copy.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// Each snapshot of the source with its copy, oldest first; a dry run makes none.
    pub snapshots: Vec<(Id, Option<Id>)>,
    /// Snapshots that the target had already, each with its ID there.
    pub present: Vec<(Id, Id)>,
    /// Blocks that were copied.
    pub blocks: u64,
    /// Bytes of these blocks before compression.
    pub bytes: u64,
    /// Bytes of these blocks as stored in the target.
    pub stored_bytes: u64,
    /// Blocks of these snapshots that the target had already.
    pub blocks_present: u64,
}

impl Repository {
    /// Checks that blocks of this repository can be copied into the other.
    ///
    /// # Errors
    /// [`Error::OtherHash`]; [`Error::Invalid`] if blocks are named by a hash with known
    /// collisions, or if both are the same repository.
    pub fn check_copy_to(&self, to: &Repository) -> Result<()> {
        let (source, target) = (self.config(), to.config());
        if self.format() > to.format() {
            return Err(Error::OlderFormat {
                location: to.storage().location(),
                format: to.format(),
                needed: self.format(),
            });
        }
        if source.id == target.id {
            return Err(Error::Invalid(
                "both are the same repository: there is nothing to copy".to_owned(),
            ));
        }
        if source.hash != target.hash {
            return Err(Error::OtherHash {
                from: source.hash.to_string(),
                to: target.hash.to_string(),
            });
        }
        if source.hash == Algorithm::Sha1 {
            return Err(Error::Invalid(
            "both repositories name blocks by their SHA-1, which different blocks can share, so a \
             block of one could be taken for another of the other: restore and back up again, into \
             a repository with another hash"
                .to_owned(),
        ));
        }
        Ok(())
    }

    /// Copies snapshots and their blocks into another repository. Existing snapshots and blocks are
    /// skipped, so that an interrupted copy resumes.
    ///
    /// # Errors
    /// [`Repository::check_copy_to`]'s; a block that is missing or damaged in the source; or when a
    /// storage fails. Blocks copied until then stay, and the next run finds them.
    pub fn copy_to(
        &self,
        options: CopyOptions,
        to: &Repository,
        snapshots: &[(Id, Snapshot)],
    ) -> Result<Copied> {
        self.check_copy_to(to)?;
        let mut copied = Copied::default();
        let there = to.snapshots(&snapshots::Filter::default())?.snapshots;
        let mut new = Vec::new();
        for (id, snapshot) in snapshots {
            let copy = as_copied(*id, snapshot);
            match there.iter().find(|there| is_copy(there, &copy)) {
                Some((present, _)) => copied.present.push((*id, *present)),
                None => new.push((*id, copy)),
            }
        }
        // Best effort: the source may be read-only.
        let _reading = Presence::announce(self, Purpose::Restore);
        let source = Arc::new(self.load_index()?);
        // Announced before the first look-up: from now on a prune of the target spares blocks that
        // are found there.
        let _presence = if options.dry_run {
            None
        } else {
            Some(Presence::announce(to, Purpose::Backup)?)
        };
        let target = to.load_index_of(Trust::Verified)?;
        let removals = target.removals().clone();
        let mut reader = BlockReader::of_trees(self);
        let mut reach = Reach::default();
        for (_, snapshot) in &new {
            reach.add(&mut reader, &source, &snapshot.root)?;
        }
        let mut missing = Vec::new();
        for &block in reach.blocks() {
            if target.keeps(&block)? {
                copied.blocks_present += 1
            } else {
                let place = source.find(&block)?.ok_or(Error::MissingBlock(block))?;
                copied.bytes += u64::from(place.len);
                missing.push(block);
            }
        }
        copied.blocks = missing.len() as u64;
        if options.dry_run {
            copied.snapshots = new.iter().map(|(id, _)| (*id, None)).collect();
            return Ok(copied);
        }
        let ends = Ends {
            from: self,
            index: &source,
            to,
            there: target,
        };
        let total = copied.bytes;
        let observer = Arc::clone(self.progress());
        let progress = move |done| observer.bytes(done, total);
        let written = repack::copy_between(ends, missing, options.compression, progress)?;
        copied.stored_bytes = written.stored_bytes;
        for (id, snapshot) in new {
            let copy = commit(to, &snapshot, &removals, None)?;
            copied.snapshots.push((id, Some(copy)));
        }
        Ok(copied)
    }
}

/// A snapshot as the target gets it: without the parent, whose ID means nothing there.
pub(crate) fn as_copied(id: Id, snapshot: &Snapshot) -> Snapshot {
    Snapshot {
        parent: None,
        original: Some(snapshot.original.unwrap_or(id)),
        ..snapshot.clone()
    }
}

/// Whether a snapshot of the target equals `copy`, also when the source itself was copied from it.
fn is_copy((id, there): &(Id, Snapshot), copy: &Snapshot) -> bool {
    let same_origin = there.original.unwrap_or(*id) == copy.original.unwrap_or_default();
    same_origin
        && there.root == copy.root
        && there.time == copy.time
        && there.hostname == copy.hostname
        && there.username == copy.username
        && there.paths == copy.paths
        && there.tags == copy.tags
}
