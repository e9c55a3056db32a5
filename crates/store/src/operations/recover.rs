//! Finds directories that no snapshot leads to, as after the loss of snapshots.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;

use crate::access::client::{Presence, Purpose};
use crate::access::index_objects::Trust;
use crate::access::reach::is_whole;
use crate::access::reader::BlockReader;
use crate::access::repository::Repository;
use crate::access::writer::Writer;
use crate::operations::commit::commit;
use tabane_format::Result;
use tabane_format::compress::Compression;
use tabane_format::entry::{Entry, Flags, Kind, Piece, time};
use tabane_format::host;
use tabane_format::pack::BlockKind;
use tabane_format::snapshot::{Filter, Snapshot, Summary};
use tabane_format::tree;
use tabane_storage::{Id, ObjectKind};

/// What was found again.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The directories that no snapshot and no other directory has, by the first block of each.
    pub roots: Vec<Id>,
    /// Such directories of which something is gone.
    pub incomplete: u64,
    /// The snapshot with a directory for each of them, named by its short ID; nothing if there is
    /// none, or in a dry run.
    pub snapshot: Option<Id>,
}

impl Repository {
    /// Makes a snapshot of all whole directories that no snapshot leads to: the roots of snapshots
    /// that were lost, or forgotten and not pruned yet.
    ///
    /// # Errors
    /// [`Error::WriteOnly`](crate::Error::WriteOnly); when the storage fails or the index is
    /// damaged.
    pub fn recover(&self, dry_run: bool) -> Result<Recovered> {
        self.keys().need_master("recovering directories")?;
        let start = Timestamp::now();
        let _presence = if dry_run {
            None
        } else {
            Some(Presence::announce(self, Purpose::Backup)?)
        };
        let index = self.load_index_and_lost(Trust::Any)?.0;
        let mut reader = BlockReader::new(self);
        let mut found = Found::default();
        let mut blocks = Vec::new();
        let unverified = self.read_all(ObjectKind::Unverified, |id| self.read_unverified(id))?;
        let packs = unverified
            .into_values()
            .chain(self.read_index()?.into_values());
        for (_, contents) in packs.flatten() {
            if contents.kind.blocks() == BlockKind::Tree {
                let segments = contents.segments.into_iter();
                blocks.extend(segments.flat_map(|segment| segment.blocks));
            }
        }
        let mut bytes = Vec::new();
        for (id, len) in blocks {
            bytes.clear();
            // What cannot be read leads nowhere.
            if index.find(&id)?.is_some()
                && reader.append_block(&index, id, &mut bytes).is_ok()
                && let Ok(entries) = tree::decode(&bytes)
            {
                found.roots.insert(id, len);
                found.add(&entries);
            }
        }
        // Long directories, whose blocks are no directories by themselves.
        while let Some(content) = found.long.pop() {
            if let Ok(entries) = reader.read_directory(&index, &content) {
                found.add(&entries);
            }
        }
        for (_, snapshot) in self.snapshots(&Filter::default())?.snapshots {
            found
                .below
                .extend(snapshot.root.iter().filter_map(Piece::block));
        }
        found.roots.retain(|id, _| !found.below.contains(id));
        let mut recovered = Recovered::default();
        let mut entries = BTreeMap::new();
        for (id, len) in found.roots {
            let content = vec![Piece::Block { id, len }];
            match is_whole(&mut reader, &index, &content) {
                Ok(true) => {
                    recovered.roots.push(id);
                    let name = if entries.contains_key(&id.short()) {
                        id.to_string()
                    } else {
                        id.short()
                    };
                    entries.insert(name.clone(), directory(name, content, start));
                }
                _ => recovered.incomplete += 1,
            }
        }
        recovered.roots.sort_unstable();
        if dry_run || recovered.roots.is_empty() {
            return Ok(recovered);
        }
        let writer = Writer::new(self, index, false);
        let mut encoder = writer.encoder(BlockKind::Tree, Compression::AUTO);
        let entries: Vec<Entry> = entries.into_values().collect();
        let root = encoder.store_directory(&entries);
        let flushed = encoder.flush();
        writer.finish()?;
        flushed?;
        let here = host::describe();
        let snapshot = Snapshot {
            time: start,
            hostname: here.hostname,
            username: here.username,
            paths: vec!["/".to_owned()],
            tags: vec!["recovered".to_owned()],
            description: None,
            retention: None,
            parent: None,
            original: None,
            changes: 0,
            writer: None,
            root: root?,
            owners: None,
            program_version: concat!("tabane ", env!("CARGO_PKG_VERSION")).to_owned(),
            summary: Summary {
                start,
                end: Timestamp::now(),
                directories: entries.len() as u64,
                ..Summary::default()
            },
        };
        // What it needs was not looked up in packs that stay; with no removal known, all of it is
        // if there is one.
        recovered.snapshot = Some(commit(self, &snapshot, &Default::default(), None)?);
        Ok(recovered)
    }
}

/// Directories, and what leads to them.
#[derive(Default)]
struct Found {
    /// Blocks that are a directory each, with their lengths.
    roots: HashMap<Id, u32>,
    /// Blocks of directories that are in another one.
    below: HashSet<Id>,
    /// Directories of several blocks that were not read yet.
    long: Vec<Vec<Piece>>,
}

impl Found {
    /// Notes the directories that are in one.
    fn add(&mut self, entries: &[Entry]) {
        for content in entries.iter().filter_map(Entry::directory) {
            let blocks: Vec<Id> = content.iter().filter_map(Piece::block).collect();
            let is_new = blocks.iter().any(|block| !self.below.contains(block));
            if blocks.len() > 1 && is_new {
                self.long.push(content.clone());
            }
            self.below.extend(blocks);
        }
    }
}

/// A directory that holds what was found again.
fn directory(name: String, content: Vec<Piece>, now: Timestamp) -> Entry {
    Entry {
        name: name.into_bytes(),
        mode: 0o700,
        uid: 0,
        gid: 0,
        mtime: time(now),
        ctime: time(now),
        atime: None,
        inode: 0,
        hard_link: None,
        xattrs: Vec::new(),
        flags: Flags::default(),
        kind: Kind::Directory { content },
    }
}
