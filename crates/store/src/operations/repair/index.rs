//! Rebuilds the index from the packs: the footer of each pack lists its blocks.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::exclusive::exclusive;
use super::options::RepairOptions;
use crate::access::examine::Examiner;
use crate::access::repository::Repository;
use crate::operations::prune;
use tabane_format::pack::{self, PackContents};
use tabane_format::{Error, Result};
use tabane_index::IndexSegment;
use tabane_storage::Id;
use tabane_storage::{Name, ObjectKind};

/// The result of [`Repository::repair_index`], or of its dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    /// Packs in the repository.
    pub packs: u64,
    /// Packs whose footer was read.
    pub read_packs: u64,
    /// Packs added to the index.
    pub added_packs: u64,
    /// Packs of the index that are missing or have another length.
    pub lost_packs: u64,
    /// Packs with an unreadable footer: [`Repository::repair_packs`] may save some of their blocks.
    pub unreadable_packs: u64,
    /// Index objects that could not be read.
    pub damaged_objects: u64,
    /// Index objects that were replaced, including the unreadable ones.
    pub replaced_objects: u64,
}

impl Repository {
    /// Corrects the index: reads the footers of packs that it lacks or lists with another length,
    /// with [`RepairOptions::all_packs`] those of all packs, and drops missing packs.
    ///
    /// # Errors
    /// [`Error::PruneRunning`]; when the storage fails. The old index stays until the new one is
    /// durable.
    pub fn repair_index(&self, options: RepairOptions) -> Result<IndexReport> {
        let RepairOptions {
            all_packs: all,
            dry_run,
            ..
        } = options;
        let _presence = exclusive(self, dry_run)?;
        let mut report = IndexReport::default();
        remove_damaged_removals(self, dry_run)?;
        let unverified = self.read_all(ObjectKind::Unverified, |id| self.read_unverified(id))?;
        let objects = self.read_each(ObjectKind::Index, |id| self.read_index_segment(id))?;
        let listed = self.list(ObjectKind::Pack)?;
        report.packs = listed.len() as u64;
        let lens: HashMap<Id, u64> = listed.iter().copied().collect();

        let is_whole = |listed, contents: &PackContents| {
            let storage = self.storage();
            storage.is_listed_as(listed, contents.object_len())
        };
        // Packs that the index lists with their right length.
        let mut named: HashSet<Id> = HashSet::new();
        let mut replaced: Vec<Id> = Vec::new();
        let mut kept = IndexSegment::new();
        // Index entries of packs that exist and have another length.
        let mut doubtful: HashMap<Id, PackContents> = HashMap::new();
        for (id, object) in objects {
            let segment = match object {
                Ok(segment) => segment,
                Err(error) => {
                    self.progress().note(&error.to_string());
                    report.damaged_objects += 1;
                    replaced.push(id);
                    continue;
                }
            };
            let is_right = |(pack, contents): &(Id, PackContents)| {
                !all && lens
                    .get(pack)
                    .is_some_and(|&listed| is_whole(listed, contents))
                    && contents.validate(&pack.short()).is_ok()
            };
            if segment.iter().all(is_right) {
                named.extend(segment.iter().map(|(pack, _)| *pack));
                continue;
            }
            replaced.push(id);
            let (right, wrong): (Vec<_>, Vec<_>) = segment.into_iter().partition(is_right);
            let gone = wrong.iter().filter(|(pack, _)| !lens.contains_key(pack));
            report.lost_packs += gone.count() as u64;
            named.extend(right.iter().map(|(pack, _)| *pack));
            kept.extend(right);
            let valid = |(pack, contents): &(Id, PackContents)| {
                lens.contains_key(pack) && contents.validate(&pack.short()).is_ok()
            };
            doubtful.extend(wrong.into_iter().filter(valid));
        }

        let said = unverified.into_values().flatten();
        let is_there = |(pack, contents): &(Id, PackContents)| {
            !all && lens
                .get(pack)
                .is_some_and(|&listed| is_whole(listed, contents))
        };
        named.extend(said.filter(is_there).map(|(pack, _)| pack));

        let unnamed: Vec<Id> = listed
            .into_iter()
            .map(|(id, _)| id)
            .filter(|id| !named.contains(id))
            .collect();
        for (number, &id) in unnamed.iter().enumerate() {
            match self.contents_of(id) {
                Ok(contents) => {
                    kept.push((id, contents));
                    report.added_packs += 1;
                }
                Err(error @ Error::Damaged { .. }) => {
                    self.progress().note(&error.to_string());
                    report.unreadable_packs += 1;
                    // Kept, so that `repair_packs` can save the sound blocks.
                    kept.extend(doubtful.remove(&id).map(|contents| (id, contents)));
                }
                // The pack was removed meanwhile.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
            report.read_packs += 1;
            self.progress()
                .packs(number as u64 + 1, unnamed.len() as u64);
        }
        report.replaced_objects = replaced.len() as u64;
        if dry_run {
            return Ok(report);
        }
        for packs in kept.chunks(prune::PACKS_MAX) {
            self.write_index_segment(packs)?;
        }
        for id in replaced {
            self.delete_if_there(Name::new(ObjectKind::Index, id))?;
        }
        Ok(report)
    }
}

impl Repository {
    /// What a pack says that it holds. Of a pack of a write-only key, which may say anything, every
    /// block is compared with its digest.
    fn contents_of(&self, id: Id) -> Result<PackContents> {
        let contents = pack::fetch_contents(self.storage(), self.keys(), id)?;
        if contents.kind.is_of_writer() {
            let bytes = self.get_object(ObjectKind::Pack, id)?;
            let name = Name::new(ObjectKind::Pack, id).to_string();
            let mut wrong = None;
            Examiner::default().examine(self, &bytes, &contents, &name, |error, _| {
                wrong.get_or_insert(error);
            })?;
            wrong.map_or(Ok(()), Err)?;
        }
        Ok(contents)
    }
}

/// Deletes unreadable removals: they condemn nothing, and a prune finds their packs unused again.
fn remove_damaged_removals(repository: &Repository, dry_run: bool) -> Result<()> {
    let removals = repository.read_each(ObjectKind::Removal, |id| repository.read_removal(id))?;
    for (id, removal) in removals {
        if let Err(error @ (Error::Damaged { .. } | Error::Foreign(_))) = removal {
            repository.progress().note(&error.to_string());
            if !dry_run {
                repository.delete_if_there(Name::new(ObjectKind::Removal, id))?;
            }
        }
    }
    Ok(())
}
