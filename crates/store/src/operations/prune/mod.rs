//! Prune: removes packs and blocks that no snapshot needs.
//!
//! Packs without a needed block are deleted; the needed blocks of packs with much unused data are
//! copied into new packs first. [`crate::access::removal`] explains why this is safe beside all
//! other operations, without locks. A prune killed at any moment has lost nothing, and the next one
//! resumes.

mod choose;
mod index_objects;
mod verify;
mod view;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::access::client::{Presence, Purpose, Seen};
use crate::access::forgotten;
use crate::access::reach::Reach;
use crate::access::removal::{self, Removal};
use crate::access::repository::Repository;
use crate::operations::locks::{self, Locked};
use crate::operations::repack;
use tabane_format::pack::PACK_LEN;
use tabane_format::{Error, Result};
use tabane_storage::Id;
use tabane_storage::sync::{both, try_each};
use tabane_storage::{Name, ObjectKind, Progress};

pub use choose::MaxUnused;
use choose::{Candidate, Limits, choose};
pub(crate) use index_objects::PACKS_MAX;
use index_objects::{Rewritten, Unwanted};
use view::{IndexObjects, View};

/// Age from which leftovers of interrupted writes are removed: no client writes an object for
/// longer.
const LEFTOVER_AGE_MIN: Duration = Duration::from_secs(24 * 3600);

/// Options of a prune.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PruneOptions {
    /// How much may be left unused; 5 % of what is left by default.
    pub max_unused: MaxUnused,
    /// At most this many bytes of packs, in all, are rewritten; without a limit by default.
    pub max_repack_bytes: u64,
    /// Packs of fewer bytes are rewritten together, if there are several; 0, and thus none, by
    /// default. Many very small ones are in any case.
    pub combine_below_bytes: u64,
    /// Only packs with directories, which are few and small, are rewritten.
    pub only_trees: bool,
    /// Unneeded packs are deleted only after this time, by the clock of the storage, and younger
    /// packs are not touched; zero by default.
    pub grace: Duration,
}

tabane_storage::setters!(PruneOptions {
    set => max_unused: MaxUnused,
    set => max_repack_bytes: u64,
    set => combine_below_bytes: u64,
    set => only_trees: bool,
    set => grace: Duration,
});

impl PruneOptions {
    /// Length in bytes of a full pack.
    pub const FULL_PACK_BYTES: u64 = PACK_LEN as u64;
    /// A length in bytes under which a pack is small: full ones are longer.
    pub const SMALL_PACK_BYTES: u64 = Self::FULL_PACK_BYTES * 4 / 5;
}

impl Default for PruneOptions {
    fn default() -> Self {
        Self {
            max_unused: MaxUnused::default(),
            max_repack_bytes: u64::MAX,
            combine_below_bytes: 0,
            only_trees: false,
            grace: Duration::ZERO,
        }
    }
}

/// The figures of a prune's plan. Bytes are those of packs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanStats {
    /// Snapshots whose blocks are kept.
    pub snapshots: u64,
    /// Blocks that these snapshots need.
    pub used_blocks: u64,
    /// Packs in the repository.
    pub packs: u64,
    /// Bytes of all packs.
    pub pack_bytes: u64,
    /// Bytes of packs that snapshots need.
    pub used_bytes: u64,
    /// Packs that stay as they are.
    pub kept_packs: u64,
    /// Packs whose blocks are copied before they are deleted.
    pub repacked_packs: u64,
    /// Bytes of these packs.
    pub repacked_bytes: u64,
    /// Bytes of these packs that no snapshot needs.
    pub repacked_unused_bytes: u64,
    /// Packs without a needed block.
    pub unused_packs: u64,
    /// Bytes of these packs.
    pub unused_bytes: u64,
    /// Packs that an earlier prune has condemned and not deleted yet.
    pub condemned_packs: u64,
    /// Bytes of these packs.
    pub condemned_bytes: u64,
    /// Packs without a needed block that stay, since a running backup may need them or they are
    /// younger than the grace period.
    pub young_packs: u64,
    /// Bytes of these packs.
    pub young_bytes: u64,
    /// Bytes in kept packs that no snapshot needs.
    pub left_unused_bytes: u64,
    /// Other clients at work. Condemned packs stay until these have ended.
    pub clients: u64,
    /// Needed packs of write-only keys, which are read and compared with what these keys say.
    pub unverified_packs: u64,
    /// Bytes of these packs.
    pub unverified_bytes: u64,
}

/// The result of a prune.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    /// Bytes of blocks that were copied.
    pub copied_bytes: u64,
    /// Bytes of the packs that hold the copies.
    pub written_bytes: u64,
    /// Packs that were deleted.
    pub deleted_packs: u64,
    /// Bytes of the deleted packs.
    pub deleted_bytes: u64,
    /// Packs that a later prune deletes, when the present clients have ended.
    pub waiting_packs: u64,
    /// Bytes of these packs.
    pub waiting_bytes: u64,
    /// Index objects before the prune.
    pub index_objects_before: u64,
    /// Index objects after the prune.
    pub index_objects: u64,
    /// Leftovers of interrupted writes that were removed.
    pub leftovers: u64,
    /// Packs of write-only keys that hold what these keys say, so that all clients use them now.
    pub verified_packs: u64,
    /// Packs of write-only keys that hold something else.
    pub refuted_packs: u64,
    /// Packs that stay until their locks end, though no snapshot needs them, or only a part.
    pub locked: Locked,
    /// Objects that snapshots need whose locks were extended.
    pub extended_locks: u64,
}

/// The plan of a prune.
pub struct PrunePlan {
    repository: Repository,
    options: PruneOptions,
    /// `None` for a dry run.
    presence: Option<Presence>,
    reach: Reach,
    view: View,
    /// Packs whose blocks are copied.
    repack: HashSet<Id>,
    /// Packs without a needed block.
    unused: Vec<Id>,
    stats: PlanStats,
}

impl Repository {
    /// Finds packs that no snapshot needs; [`PrunePlan::execute`] removes them.
    ///
    /// # Errors
    /// [`Error::PruneRunning`]; [`Error::CannotPrune`] when a block of a snapshot is missing or a
    /// snapshot cannot be read; [`Error::SnapshotLost`]; when the storage fails.
    pub fn plan_prune(&self, options: PruneOptions) -> Result<PrunePlan> {
        let presence = if self.config().has_writers() {
            let presence = announce(self)?;
            removal::sign(self)?;
            presence
        } else {
            Presence::new(self, Purpose::Prune)
        };
        make_plan(self, options, Some(presence), &HashSet::new())
    }

    /// As [`Repository::plan_prune`], with the snapshots in `forgotten` counted as removed. Writes
    /// nothing, and the plan cannot be executed.
    ///
    /// # Errors
    /// As [`Repository::plan_prune`].
    pub fn preview_prune(
        &self,
        options: PruneOptions,
        forgotten: &HashSet<Id>,
    ) -> Result<PrunePlan> {
        make_plan(self, options, None, forgotten)
    }
}

fn make_plan(
    repository: &Repository,
    options: PruneOptions,
    presence: Option<Presence>,
    forgotten: &HashSet<Id>,
) -> Result<PrunePlan> {
    let mut reach = Reach::default();
    let load = || {
        let known = IndexObjects::default();
        View::load(repository, presence.as_ref(), forgotten, known, &mut reach)
    };
    let expect_locks = || presence.is_some().then(|| locks::expect(repository));
    let (view, _) = both(repository.is_far(), load, expect_locks);
    let view = view?;
    if let Some(presence) = &presence {
        refuse_beside(&view.alive, (view.now, presence.ensure()?))?;
    }
    let mut plan = PrunePlan {
        repository: repository.clone(),
        options,
        presence,
        reach,
        view,
        repack: HashSet::new(),
        unused: Vec::new(),
        stats: PlanStats::default(),
    };
    plan.choose()?;
    Ok(plan)
}

/// Announces a prune, unless another one is running.
pub(crate) fn announce(repository: &Repository) -> Result<Presence> {
    let presence = Presence::announce(repository, Purpose::Prune)?;
    let (others, now) = presence.others()?;
    refuse_beside(&others, (now, presence.ensure()?))?;
    Ok(presence)
}

/// Refuses to go on beside another prune, of these `others`; `own` is the time of the own record,
/// and its ID.
fn refuse_beside(others: &[Seen], own: (SystemTime, Id)) -> Result<()> {
    let is_other_prune = |seen: &&Seen| {
        let client = seen.client.as_ref();
        client.is_some_and(|client| client.purpose == Purpose::Prune)
            // Later records are ignored, so that of prunes which begin at once one goes on. There
            // are storages that know only the second.
            && (seen.modified, seen.id) <= own
            && !seen.is_dead(own.0)
    };
    let Some(other) = others.iter().find(is_other_prune) else {
        return Ok(());
    };
    let who = other.client.as_ref().map_or_else(String::new, |client| {
        format!(
            "{}@{} (process {})",
            client.username, client.hostname, client.pid
        )
    });
    Err(Error::PruneRunning(who))
}

/// Removes these packs from the index.
pub(crate) fn forget_packs(repository: &Repository, packs: &HashSet<Id>) -> Result<()> {
    let removals = repository.read_removals()?;
    let unwanted = Unwanted {
        unsigned: &HashSet::new(),
        gone: packs,
        condemned: &removals.condemned(),
    };
    let objects = repository.read_index()?;
    index_objects::rewrite(repository, &objects, unwanted, &removals.names())?
        .delete_old(repository)
}

/// Makes index objects anew that write-only keys cannot read.
pub(crate) fn sign_index(repository: &Repository) -> Result<()> {
    let removals = repository.read_removals()?;
    let read = |id| repository.read_index_and_format(id);
    let (mut objects, mut unsigned) = (BTreeMap::new(), HashSet::new());
    for (id, (packs, is_signed)) in repository.read_all(ObjectKind::Index, read)? {
        objects.insert(id, packs);
        unsigned.extend((!is_signed).then_some(id));
    }
    let unwanted = Unwanted {
        unsigned: &unsigned,
        gone: &HashSet::new(),
        condemned: &removals.condemned(),
    };
    index_objects::rewrite(repository, &objects, unwanted, &removals.names())?
        .delete_old(repository)
}

impl PrunePlan {
    /// The same plan, whose execution reports to `progress`.
    #[must_use]
    pub fn with_progress(mut self, progress: impl Progress + 'static) -> Self {
        self.repository = self.repository.with_progress(progress);
        self
    }

    /// The figures of the plan.
    pub fn stats(&self) -> &PlanStats {
        &self.stats
    }

    /// Decides on every pack.
    fn choose(&mut self) -> Result<()> {
        let (view, stats) = (&self.view, &mut self.stats);
        let index = &view.index;
        stats.snapshots = view.snapshots;
        stats.used_blocks = self.reach.blocks().len() as u64;
        stats.clients = view.alive.len() as u64;
        // A client at work may be about to need packs that are younger than this.
        let grace_ends = view.now.checked_sub(self.options.grace).unwrap_or(view.now);
        let old = view
            .oldest_client()
            .map_or(grace_ends, |oldest| oldest.min(grace_ends));

        let mut used: HashMap<Id, u64> = HashMap::new();
        for id in self.reach.blocks() {
            let place = index.find(id)?.expect("the view has what is needed");
            let places = if index.is_verified(place.segment)? {
                vec![place]
            } else {
                // Nobody knows which of the packs has the block, if any.
                index.places(id)?
            };
            for place in places {
                *used.entry(index.pack_of(place)?.id).or_default() += u64::from(place.len);
            }
        }
        let condemned = view.removals.condemned();
        let mut candidates = Vec::new();
        for (&pack, listed) in &view.packs {
            stats.packs += 1;
            stats.pack_bytes += listed.len;
            // A pack without an index belongs to an interrupted or running backup: no snapshot uses
            // it yet.
            let mut candidate = None;
            if let (Some(&(kind, raw_len)), Some(&used)) =
                (view.whole_packs.get(&pack), used.get(&pack))
            {
                let age_s = view.now.duration_since(listed.modified).unwrap_or_default();
                let used = Candidate {
                    pack,
                    kind,
                    len: listed.len,
                    used: used as f64 / raw_len.max(1) as f64,
                    age_s: age_s.as_secs_f64(),
                };
                stats.used_bytes += listed.len - used.unused_bytes();
                candidate = Some(used);
            }
            match candidate {
                _ if condemned.contains(&pack) => {
                    stats.condemned_packs += 1;
                    stats.condemned_bytes += listed.len;
                }
                Some(_) if view.unverified.contains_key(&pack) => {
                    stats.unverified_packs += 1;
                    stats.unverified_bytes += listed.len;
                    stats.kept_packs += 1;
                }
                Some(candidate) => candidates.push(candidate),
                None if listed.modified < old => self.unused.push(pack),
                None => {
                    stats.young_packs += 1;
                    stats.young_bytes += listed.len;
                }
            }
        }
        self.unused.sort_unstable();
        stats.unused_packs = self.unused.len() as u64;
        stats.unused_bytes = self.unused.iter().map(|id| view.packs[id].len).sum();

        let limits = Limits {
            max_unused: self.options.max_unused,
            max_copied: self.options.max_repack_bytes,
            combined_below: self.options.combine_below_bytes,
            only_trees: self.options.only_trees,
        };
        let chosen = choose(candidates.clone(), stats.used_bytes, limits);
        self.repack = chosen.into_iter().collect();
        for candidate in &candidates {
            if self.repack.contains(&candidate.pack) {
                stats.repacked_packs += 1;
                stats.repacked_bytes += candidate.len;
                stats.repacked_unused_bytes += candidate.unused_bytes();
            } else {
                stats.kept_packs += 1;
                stats.left_unused_bytes += candidate.unused_bytes();
            }
        }
        Ok(())
    }

    /// Executes the plan.
    ///
    /// # Errors
    /// When the storage fails. Nothing is lost then, and the next prune resumes.
    ///
    /// # Panics
    /// When the plan is one of [`Repository::preview_prune`].
    pub fn execute(self) -> Result<PruneReport> {
        let presence = self.presence.expect("a plan that may be carried out");
        let mut run = Run {
            repository: self.repository,
            options: self.options,
            reach: self.reach,
            report: PruneReport {
                index_objects_before: self.view.objects.segments.len() as u64,
                ..PruneReport::default()
            },
            locked: HashSet::new(),
            superseded: Vec::new(),
        };
        let mut view = self.view;
        run.verify(&mut view, &self.unused)?;
        // To copy out of what stays would only take more room.
        let repack = run.unlocked(&view, self.repack)?;
        run.copy(&view, &repack)?;
        run.extend_locks(&view)?;
        let mut due = run.due(&view)?;
        let mut packs: Vec<Id> = self.unused.into_iter().chain(repack).collect();
        packs.sort_unstable();
        let mut condemned = view.removals.condemned();
        let mut gone = HashSet::new();
        if !packs.is_empty() && run.options.grace.is_zero() && view.alive.is_empty() {
            run.delete_packs(&due)?;
            gone.extend(due.into_iter().chain(view.absent()));
            let removal = run.condemn(&view, &std::mem::take(&mut packs))?;
            // Dropped before the new view is loaded, which would need twice the memory.
            view.index = Arc::default();
            let repository = &run.repository;
            let verify = || removal::verify(repository, removal);
            let (verified, new) = both(repository.is_far(), verify, || {
                let known = std::mem::take(&mut view.objects);
                let none = HashSet::new();
                View::load(repository, Some(&presence), &none, known, &mut run.reach)
            });
            verified?;
            view = new?;
            run.copy(&view, &HashSet::new())?;
            condemned.extend(view.removals.condemned());
            due = run.due(&view)?;
        }
        // Every needed block was found in another pack, so the index may stop naming missing packs.
        gone.extend(due.iter().copied().chain(view.absent()));
        let waiting = condemned
            .iter()
            .chain(&packs)
            .filter(|id| !gone.contains(id) && !run.locked.contains(id))
            .filter_map(|id| view.packs.get(id));
        for pack in waiting {
            run.report.waiting_packs += 1;
            run.report.waiting_bytes += pack.len;
        }
        let (deleted, tidied) = both(
            run.repository.is_far(),
            || run.delete_packs(&due),
            || run.rewrite_index(&view, &gone, &condemned),
        );
        deleted?;
        let (rewritten, leftovers) = tidied?;
        run.report.index_objects = rewritten.objects;
        run.report.leftovers = leftovers;
        // Another prune may begin while only what is superseded is deleted, but not beside a new
        // removal: that would overtake it.
        let at_once = run.repository.is_far() && packs.is_empty();
        let finish = || run.finish(&view, &gone, &rewritten, &packs);
        let (finished, ()) = both(at_once, finish, || drop(presence));
        finished?;
        Ok(run.report)
    }
}

/// A prune at work.
struct Run {
    repository: Repository,
    options: PruneOptions,
    reach: Reach,
    report: PruneReport,
    /// Packs that were found to be locked.
    locked: HashSet<Id>,
    /// Removals that this prune's own has superseded.
    superseded: Vec<Id>,
}

impl Run {
    /// Compares the packs of write-only keys with what these say of them, but for those that go,
    /// and names them in the index if it is true: from then on all clients rely on them.
    fn verify(&mut self, view: &mut View, unused: &[Id]) -> Result<()> {
        let condemned = view.removals.condemned();
        let stays =
            |(pack, _): &(&Id, _)| !condemned.contains(pack) && unused.binary_search(pack).is_err();
        let claims = view.unverified.iter().filter(stays);
        let verified = verify::packs(&self.repository, claims)?;
        self.report.refuted_packs = verified.refuted;
        self.report.verified_packs = verified.packs.len() as u64;
        let removals = view.removals.names();
        let written = index_objects::add(&self.repository, &verified.packs, &removals)?;
        view.objects.segments.extend(written);
        Ok(())
    }

    /// Removes the objects in which write-only keys name only packs that the index names, too, or
    /// that are gone.
    fn forget_claims(&self, gone: &HashSet<Id>) -> Result<()> {
        // Read again: what was verified is in the index by now.
        // model: removal/verify/list-objects
        let objects = self.repository.read_index()?;
        let named: HashSet<&Id> = objects.values().flatten().map(|(pack, _)| pack).collect();
        let claims = self.repository.read_all(ObjectKind::Unverified, |id| {
            self.repository.read_unverified(id)
        })?;
        for (id, packs) in claims {
            let is_done = |(pack, _): &(Id, _)| named.contains(pack) || gone.contains(pack);
            if !packs.is_empty() && packs.iter().all(is_done) {
                // model: removal/verify/delete-unverified
                self.repository
                    .delete_if_there(Name::new(ObjectKind::Unverified, id))?;
            }
        }
        Ok(())
    }

    /// Copies needed blocks out of condemned packs and of packs to be condemned.
    fn copy(&mut self, view: &View, repack: &HashSet<Id>) -> Result<()> {
        let index = &view.index;
        let (mut blocks, mut total) = (Vec::new(), 0);
        for id in self.reach.blocks() {
            let place = index.find(id)?.expect("the view has what is needed");
            let mut goes = index.is_condemned(place)? || repack.contains(&index.pack_of(place)?.id);
            if !index.is_verified(place.segment)? {
                // Only a condemned one of these packs may have it.
                for other in index.places(id)? {
                    goes |= index.is_condemned(other)?;
                }
            }
            if goes {
                blocks.push(*id);
                total += u64::from(place.len);
            }
        }
        if blocks.is_empty() {
            return Ok(());
        }
        let observer = Arc::clone(self.repository.progress());
        let progress = move |done| observer.bytes(done, total);
        let written = repack::copy(&self.repository, index, blocks, progress);
        let written = written.map_err(|error| match error {
            Error::RemovedMeanwhile => Error::PruneOvertaken,
            error if error.is_not_found() => Error::PruneOvertaken,
            error => error,
        })?;
        self.report.copied_bytes += total;
        self.report.written_bytes += written.stored_bytes;
        Ok(())
    }

    /// Those of these packs that are not locked.
    fn unlocked(&mut self, view: &View, packs: HashSet<Id>) -> Result<HashSet<Id>> {
        let wanted: Vec<Id> = packs.difference(&self.locked).copied().collect();
        let mut unlocked = wanted.clone();
        let len = |pack: &Id| view.packs[pack].len;
        locks::take_locked(
            &self.repository,
            &mut unlocked,
            len,
            &mut self.report.locked,
        )?;
        let unlocked: HashSet<Id> = unlocked.into_iter().collect();
        self.locked
            .extend(wanted.iter().filter(|pack| !unlocked.contains(pack)));
        Ok(unlocked)
    }

    /// Extends the locks of what snapshots need, if new objects are locked.
    fn extend_locks(&mut self, view: &View) -> Result<()> {
        if self.repository.storage().lock().is_none() {
            return Ok(());
        }
        let mut used = HashSet::new();
        for id in self.reach.blocks() {
            let place = view.index.find(id)?.expect("the view has what is needed");
            used.insert(view.index.pack_of(place)?.id);
        }
        self.report.extended_locks = locks::extend(&self.repository, used)?;
        Ok(())
    }

    /// The packs of due removals, but for those that are locked: the view was made after these were
    /// written, and needed blocks were copied out.
    fn due(&mut self, view: &View) -> Result<Vec<Id>> {
        let due = view.due(self.options.grace);
        let due: HashSet<Id> = due
            .iter()
            .flat_map(|removal| &removal.packs)
            .filter(|id| view.packs.contains_key(id))
            .copied()
            .collect();
        // Locked ones go with a later prune.
        let due: Vec<Id> = self.unlocked(view, due)?.into_iter().collect();
        self.report.deleted_packs += due.len() as u64;
        self.report.deleted_bytes += due.iter().map(|id| view.packs[id].len).sum::<u64>();
        Ok(due)
    }

    /// Deletes these packs, which are due.
    fn delete_packs(&self, packs: &[Id]) -> Result<()> {
        let (repository, done) = (&self.repository, AtomicU64::new(0));
        try_each(packs, repository.storage().connections(), |id| {
            // model: removal/prune/delete-pack
            repository.delete_if_there(Name::new(ObjectKind::Pack, *id))?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            repository.progress().packs(done, packs.len() as u64);
            Ok(())
        })
        .map(drop)
    }

    /// Condemns these packs by a removal that is to be verified; returns its name.
    fn condemn(&mut self, view: &View, packs: &[Id]) -> Result<Id> {
        self.superseded = view.superseded_removals();
        // model: removal/prune/put-removal
        removal::put(&self.repository, packs)
    }

    /// Writes the index anew and removes leftovers, of which it returns the number. Of `condemned`
    /// packs the view has seen the removals before it looked what snapshots need, and nobody relies
    /// on them.
    fn rewrite_index(
        &self,
        view: &View,
        gone: &HashSet<Id>,
        condemned: &HashSet<Id>,
    ) -> Result<(Rewritten, u64)> {
        let unwanted = Unwanted {
            unsigned: &view.objects.unsigned,
            gone,
            condemned,
        };
        let repository = &self.repository;
        let is_far = repository.is_far();
        let removals = view.removals.names();
        let segments = &view.objects.segments;
        let rewrite = || index_objects::rewrite(repository, segments, unwanted, &removals);
        let merge = || forgotten::merge(repository);
        let remove_leftovers = || repository.storage().remove_leftovers(LEFTOVER_AGE_MIN);
        let (rewritten, (merged, leftovers)) =
            both(is_far, rewrite, || both(is_far, merge, remove_leftovers));
        merged?;
        let leftovers = leftovers.unwrap_or_else(|error| {
            repository.progress().note(&format!(
                "cannot remove leftovers of interrupted writes: {error}"
            ));
            0
        });
        Ok((rewritten?, leftovers))
    }

    /// Deletes what is superseded, and condemns `packs` for a later prune.
    fn finish(
        &mut self,
        view: &View,
        gone: &HashSet<Id>,
        rewritten: &Rewritten,
        packs: &[Id],
    ) -> Result<()> {
        rewritten.delete_old(&self.repository)?;
        if !view.objects.unverified.is_empty() {
            self.forget_claims(gone)?;
        }
        // Clients at work may have made snapshots since the view was loaded. The index must name
        // what these need until a later prune has looked at them.
        if !packs.is_empty() {
            let removal = self.condemn(view, packs)?;
            removal::verify(&self.repository, removal)?;
        }
        self.tidy(view, gone)
    }

    /// Deletes old removals, unconfirmed and pending snapshots, and records of dead clients.
    fn tidy(&self, view: &View, gone: &HashSet<Id>) -> Result<()> {
        // The newest removal stays for clients that began before it: see `removal`.
        let is_over = |(id, removal): &(&Id, &Removal)| {
            self.superseded.contains(id) && removal.packs.iter().all(|pack| gone.contains(pack))
        };
        let over = view.removals.iter().filter(is_over).map(|(id, _)| id);
        // model: removal/tidy/delete-removal
        self.delete(ObjectKind::Removal, over)?;
        // model: removal/tidy/delete-snapshot
        self.delete(ObjectKind::Snapshot, &view.unconfirmed)?;
        // model: removal/tidy/delete-pending
        self.delete(ObjectKind::Pending, &view.settled)?;
        let dead = view.dead.iter().map(|dead| &dead.id);
        self.delete(ObjectKind::Client, dead)
    }

    fn delete<'a>(&self, kind: ObjectKind, ids: impl IntoIterator<Item = &'a Id>) -> Result<()> {
        let names = ids.into_iter().map(|id| Name::new(kind, *id));
        self.repository
            .delete_all_if_there(&names.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::client::Client;

    /// Storages that tell time by the second give prunes that begin at once the same one.
    #[test]
    fn of_prunes_that_begin_in_the_same_second_one_goes_on() {
        let now = SystemTime::now();
        let prune = |byte| Seen {
            id: Id([byte; 32]),
            client: Some(Client {
                purpose: Purpose::Prune,
                hostname: String::new(),
                username: String::new(),
                pid: 1,
                pid_space: None,
                since: None,
            }),
            modified: now,
        };
        let goes_on = |own: &u8| {
            let others = (0..4).filter(|other| other != own).map(prune);
            refuse_beside(&others.collect::<Vec<_>>(), (now, Id([*own; 32]))).is_ok()
        };
        assert_eq!((0..4).filter(goes_on).collect::<Vec<_>>(), [0]);
    }
}
