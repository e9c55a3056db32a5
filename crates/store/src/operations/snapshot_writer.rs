//! Snapshots of what a program hands over, in place of files on a disk.

use std::collections::BTreeSet;

use tabane_engine::Digest;
use tabane_storage::Id;

use crate::access::client::{Presence, Purpose};
use crate::access::index_objects::Trust;
use crate::access::repository::Repository;
use crate::access::writer::{self, Encoder, Writer, Written};
use crate::operations::commit::commit;
use tabane_format::Result;
use tabane_format::compress::Compression;
use tabane_format::entry::{Entry, Piece};
use tabane_format::pack::BlockKind;
use tabane_format::snapshot::Snapshot;

/// Stores blocks and directories, then snapshots that consist of them.
///
/// Threads store blocks with [`BlockWriter`]s; directories are stored from the leaves to the root.
/// [`SnapshotWriter::finish`] makes all of it durable, after which [`Finished::commit`] adds
/// snapshots. What an interrupted run has stored is found again by [`SnapshotWriter::has`].
pub struct SnapshotWriter {
    repository: Repository,
    presence: Presence,
    writer: Writer,
    directories: Encoder,
    removals: BTreeSet<Id>,
    compression: Compression,
}

/// Stores blocks of files, for one thread.
pub struct BlockWriter(Encoder);

/// A [`SnapshotWriter`] whose blocks and directories are durable.
pub struct Finished {
    repository: Repository,
    /// Until the last snapshot is there, a prune spares its blocks.
    _presence: Presence,
    removals: BTreeSet<Id>,
    /// Bytes that were added to the repository, compressed and encrypted.
    pub stored_bytes: u64,
}

impl Repository {
    /// Begins to store snapshots of other things than files on a disk.
    ///
    /// # Errors
    /// When the storage fails or the index is damaged.
    pub fn snapshot_writer(&self, compression: Compression) -> Result<SnapshotWriter> {
        // Before anything is looked up: from now on a prune leaves alone what is found.
        let presence = Presence::announce(self, Purpose::Backup)?;
        let index = self.load_index_of(Trust::Verified)?;
        let removals = index.removals().clone();
        let writer = Writer::new(self, index, false);
        Ok(SnapshotWriter {
            repository: self.clone(),
            presence,
            directories: writer.encoder(BlockKind::Tree, compression),
            writer,
            removals,
            compression,
        })
    }
}

impl SnapshotWriter {
    /// Whether the repository has this block and keeps it.
    pub fn has(&self, id: Id) -> bool {
        self.writer.has_all([id])
    }

    /// A writer of blocks for one thread.
    pub fn block_writer(&self) -> BlockWriter {
        BlockWriter(self.writer.encoder(BlockKind::Data, self.compression))
    }

    /// Stores a directory, whose entries are sorted by name and refer to stored blocks and
    /// directories; returns its content.
    ///
    /// # Errors
    /// When storing fails or has failed before.
    pub fn store_directory(&mut self, entries: &[Entry]) -> Result<Vec<Piece>> {
        self.directories.store_directory(entries)
    }

    /// Makes everything durable. `blocks` are all writers of blocks.
    ///
    /// # Errors
    /// The first failure of any of them; when the storage fails.
    pub fn finish(self, blocks: Vec<BlockWriter>) -> Result<Finished> {
        let encoders = blocks.into_iter().map(|writer| writer.0).collect();
        let flushed = writer::flush(encoders).and(self.directories.flush());
        // The writer knows the first failure.
        let Written { stored_bytes, .. } = self.writer.finish()?;
        flushed?;
        Ok(Finished {
            repository: self.repository,
            _presence: self.presence,
            removals: self.removals,
            stored_bytes,
        })
    }
}

impl BlockWriter {
    /// Stores blocks that the repository lacks; returns all of them as pieces of a content.
    /// `digests` are theirs, by the repository's [hash](crate::Config::hash).
    ///
    /// # Errors
    /// When storing fails or has failed before.
    pub fn store(&mut self, blocks: &[&[u8]], digests: Vec<Digest>) -> Result<Vec<Piece>> {
        self.0.store(blocks, digests)
    }
}

impl Finished {
    /// Adds a snapshot, whose root is a stored directory; returns its ID.
    ///
    /// # Errors
    /// [`Error::RemovedMeanwhile`](crate::Error::RemovedMeanwhile) when blocks were removed by
    /// another client; when the storage fails. No snapshot is left then.
    pub fn commit(&self, snapshot: &Snapshot) -> Result<Id> {
        commit(&self.repository, snapshot, &self.removals, None)
    }
}
