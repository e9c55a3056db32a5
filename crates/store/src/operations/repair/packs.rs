//! Saves the sound blocks of damaged packs.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::exclusive::exclusive;
use super::options::RepairOptions;
use crate::access::removal;
use crate::access::repository::Repository;
use crate::access::writer::{Encoder, Writer, flush};
use crate::operations::prune;
use crate::operations::salvage::salvage;
use tabane_format::compress::Compression;
use tabane_format::pack::{self, BlockKind, PackContents, SegmentReader};
use tabane_format::{Error, Result};
use tabane_index::Index;
use tabane_storage::{Id, Name, ObjectKind};

/// The result of [`Repository::repair_packs`], or of its dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacksReport {
    /// Packs that were read.
    pub packs: u64,
    /// Packs that are damaged.
    pub damaged_packs: Vec<Id>,
    /// Sound blocks of these packs that no other pack had.
    pub saved_blocks: u64,
    /// Blocks of these packs that other packs hold too.
    pub safe_blocks: u64,
    /// Lost blocks of these packs, as far as their contents are known.
    pub lost_blocks: u64,
}

impl Repository {
    /// Reads packs, saves the sound blocks of damaged packs into new ones, and removes the damaged
    /// packs. `keep` gets the bytes of each damaged pack before its removal. With
    /// [`RepairOptions::dry_run`] damaged packs are only listed.
    ///
    /// # Errors
    /// [`Error::PruneRunning`]; what `keep` returns; when the storage fails. A damaged pack is
    /// removed only when its saved blocks are durable.
    pub fn repair_packs(
        &self,
        options: RepairOptions,
        packs: &[Id],
        mut keep: impl FnMut(Id, &[u8]) -> Result<()>,
    ) -> Result<PacksReport> {
        let dry_run = options.dry_run;
        let _presence = exclusive(self, dry_run)?;
        let mut report = PacksReport::default();
        let mut named: HashMap<Id, PackContents> = HashMap::new();
        let unverified = self.read_all(ObjectKind::Unverified, |id| self.read_unverified(id))?;
        let objects = self.read_index()?;
        // What is verified counts more, so it comes last.
        for (pack, contents) in unverified.values().chain(objects.values()).flatten() {
            named.insert(*pack, contents.clone());
        }
        let mut damaged: BTreeMap<Id, Vec<u8>> = BTreeMap::new();
        for (number, &id) in packs.iter().enumerate() {
            let name = Name::new(ObjectKind::Pack, id);
            let read = self.storage().get(name, None);
            match read.map_err(Error::storage("read", name)) {
                Ok(bytes) if tabane_storage::object_id(&[&bytes]) == id => {}
                Ok(bytes) => {
                    self.progress().note(&format!("{name} is damaged"));
                    damaged.insert(id, bytes);
                }
                Err(error @ Error::Damaged { .. }) => {
                    self.progress().note(&error.to_string());
                    damaged.insert(id, salvage_with(self, id, &mut named)?);
                }
                Err(error) => return Err(error),
            }
            self.progress().packs(number as u64 + 1, packs.len() as u64);
        }
        report.packs = packs.len() as u64;
        report.damaged_packs = damaged.keys().copied().collect();
        if damaged.is_empty() {
            return Ok(report);
        }

        // Index of all other packs.
        let removals = self.read_removals()?;
        let mut elsewhere = Index::as_of(removals.names(), removals.condemned());
        let there: HashMap<Id, u64> = self.list(ObjectKind::Pack)?.into_iter().collect();
        for (pack, contents) in &named {
            let is_whole = |&listed: &u64| {
                let storage = self.storage();
                storage.is_listed_as(listed, contents.object_len())
            };
            if !damaged.contains_key(pack) && there.get(pack).is_some_and(is_whole) {
                elsewhere.add(*pack, contents)?;
            }
        }
        let writer = Writer::new(self, Index::default(), dry_run);
        let encoder = |kind| writer.encoder(kind, Compression::AUTO);
        let mut save = Save {
            repository: self,
            elsewhere: &elsewhere,
            reader: SegmentReader::default(),
            data: encoder(BlockKind::Data),
            tree: encoder(BlockKind::Tree),
            report: &mut report,
        };
        for (id, bytes) in &damaged {
            if !dry_run {
                keep(*id, bytes)?;
            }
            let name = Name::new(ObjectKind::Pack, *id).to_string();
            let own = pack::read_contents(self.keys(), bytes, &name);
            match own.ok().or_else(|| named.get(id).cloned()) {
                Some(contents) => save.pack(&name, &contents, bytes)?,
                None => self
                    .progress()
                    .note(&format!("nothing says what {name} held")),
            }
        }
        let Save { data, tree, .. } = save;
        flush(vec![data]).and(flush(vec![tree]))?;
        writer.finish()?;
        if dry_run {
            return Ok(report);
        }
        let packs: Vec<Id> = damaged.into_keys().collect();
        removal::save(self, &packs)?;
        for &id in &packs {
            self.delete_if_there(Name::new(ObjectKind::Pack, id))?;
        }
        prune::forget_packs(self, &packs.into_iter().collect())?;
        Ok(report)
    }
}

/// The bytes left of a pack that cannot be read as a whole; empty if neither `named`, the index,
/// nor the pack's footer locates its segments. Contents read from a footer are added to `named`.
fn salvage_with(
    repository: &Repository,
    id: Id,
    named: &mut HashMap<Id, PackContents>,
) -> Result<Vec<u8>> {
    let contents = match named.entry(id) {
        Slot::Occupied(named) => named.into_mut(),
        Slot::Vacant(unnamed) => {
            match pack::fetch_contents(repository.storage(), repository.keys(), id) {
                Ok(contents) => unnamed.insert(contents),
                Err(Error::Damaged { .. }) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    };
    Ok(salvage(repository, id, contents)?.bytes)
}

/// Saves blocks of damaged packs.
struct Save<'a> {
    repository: &'a Repository,
    elsewhere: &'a Index,
    reader: SegmentReader,
    data: Encoder,
    tree: Encoder,
    report: &'a mut PacksReport,
}

impl Save<'_> {
    fn pack(&mut self, name: &str, contents: &PackContents, bytes: &[u8]) -> Result<()> {
        let key = if contents.kind.is_of_writer() {
            // Without its beginning, nothing in it can be opened.
            self.repository.keys().pack_key(bytes, name)
        } else {
            let master = self.repository.keys().need_master("repairing packs")?;
            Ok(master.object_key(ObjectKind::Pack, &contents.salt))
        };
        let Ok(key) = key else {
            return contents
                .segments
                .iter()
                .try_for_each(|segment| self.lost(segment));
        };
        let mut at = contents.kind.head_len();
        for (number, segment) in contents.segments.iter().enumerate() {
            let end = (at + segment.stored_len as usize).min(bytes.len());
            let sealed = &bytes[at.min(end)..end];
            at = end;
            let opened = self.reader.open(
                &key,
                number,
                segment.codec,
                segment.raw_len(),
                sealed,
                String::new,
            );
            let Ok(raw) = opened else {
                self.lost(segment)?;
                continue;
            };
            let mut rest = raw.as_slice();
            for &(id, len) in &segment.blocks {
                let (block, behind) = rest.split_at(len as usize);
                rest = behind;
                let digest = self.repository.config().hash.digest(block);
                if self.elsewhere.keeps(&id)? {
                    self.report.safe_blocks += 1;
                } else if self.repository.is_block(&id, &digest) {
                    self.report.saved_blocks += 1;
                    match contents.kind.blocks() {
                        BlockKind::Data => self.data.copy(id, block)?,
                        BlockKind::Tree => self.tree.copy(id, block)?,
                    }
                } else {
                    self.report.lost_blocks += 1;
                }
            }
        }
        Ok(())
    }

    /// Counts the blocks of a segment that cannot be opened.
    fn lost(&mut self, segment: &pack::Segment) -> Result<()> {
        for (id, _) in &segment.blocks {
            if self.elsewhere.keeps(id)? {
                self.report.safe_blocks += 1
            } else {
                self.report.lost_blocks += 1
            }
        }
        Ok(())
    }
}
