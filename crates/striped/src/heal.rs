//! Brings all targets up to date: rebuilds missing and damaged parts of objects.
//!
//! Listings show what to do, so an interrupted heal resumes, and two heals at once repeat each
//! other's work at worst. With `read_data` every byte is read, which finds damage that no listing
//! shows.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use serde::Serialize;

use crate::list::{HAS_CHANGED, Holding};
use crate::open::refusal;
use crate::sender::{Lost, Placed};
use crate::set::{Description, Identity};
use crate::striped::StripedStorage;
use tabane_storage::Limiter;
use tabane_storage::Progress;
use tabane_storage::sync::lock;
use tabane_storage::{Id, Name, ObjectKind, Result, StorageError, StorageErrorKind};

/// Objects that are worked on at once.
const WORKERS: usize = 4;

/// Options of a heal.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct HealOptions {
    /// Read all data, instead of only the parts needed to rebuild missing ones.
    pub read_data: bool,
    /// Read at most this many KiB a second.
    pub limit_kib_per_s: Option<u64>,
    /// Let nodes rebuild parts at full speed also while clients write.
    pub is_urgent: bool,
}

tabane_storage::setters!(HealOptions {
    set => read_data: bool,
    into => limit_kib_per_s: Option<u64>,
    set => is_urgent: bool,
});

/// Results of a heal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealReport {
    /// Number of objects.
    pub objects: u64,
    /// Objects of which missing or damaged parts were restored.
    pub healed_objects: u64,
    /// Parts of objects that were written.
    pub written_parts: u64,
    /// Written parts that nodes made among themselves.
    pub relayed_parts: u64,
    /// Parts of objects that were found to be damaged, with forged ones.
    pub damaged_parts: u64,
    /// Parts of objects with wrong bytes and right checksums.
    pub forged_parts: u64,
    /// Objects of which so many parts are forged that they are lost, or that only the secret of
    /// tags can tell which.
    pub contradicting_objects: u64,
    /// Objects that have parts without tags.
    pub untagged_objects: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Objects that were deleted while a target was away, and are now gone from it too.
    pub applied_deletions: u64,
    /// Names with too few parts for an object, as interrupted writes leave them.
    pub fragments: u64,
    /// Objects that still lack parts: too many of their parts are lost, or a target is missing.
    pub unhealed_objects: u64,
    /// Targets that are missing.
    pub missing_targets: u64,
    /// Targets that were left out as full or read-only.
    pub refusing_targets: u64,
}

/// State shared by the threads of a heal.
pub(super) struct Healing<'a> {
    pub storage: &'a StripedStorage,
    pub options: HealOptions,
    /// Whether shards without tags get some.
    pub gives_tags: bool,
    /// Objects of which a target has found its part damaged.
    pub doubts: HashSet<Name>,
    pub observer: &'a dyn Progress,
    limiter: Option<Limiter>,
    report: Mutex<HealReport>,
}

impl Healing<'_> {
    /// Whether all of an object is to be read.
    pub fn reads_all_of(&self, name: Name) -> bool {
        self.options.read_data || self.doubts.contains(&name)
    }

    /// Changes the report.
    pub fn count(&self, count: impl FnOnce(&mut HealReport)) {
        count(&mut lock(&self.report));
    }

    /// Counts bytes that were read, and waits if they were too many.
    pub fn read(&self, bytes: u64) {
        self.count(|report| report.read_bytes += bytes);
        if let Some(limiter) = &self.limiter {
            limiter.pause(bytes as usize);
        }
    }

    /// Lets the nodes of a cluster rebuild a part of an object; returns whether the part exists
    /// now.
    pub fn relay(&self, placed: &Placed, role: usize, missing: &BTreeSet<usize>) -> bool {
        let Some(sender) = &self.storage.sender else {
            return false;
        };
        let others = missing.iter().copied().filter(|&other| other != role);
        let others: Vec<usize> = others.collect();
        let lost = Lost {
            role,
            others: &others,
            yields: !self.options.is_urgent,
        };
        let is_there = sender.rebuild(&self.storage.targets, placed, &lost);
        if is_there {
            self.count(|report| {
                report.written_parts += 1;
                report.relayed_parts += 1;
                report.written_bytes += placed.shape.container_len();
            });
        }
        is_there
    }

    /// Puts a part of an object on a target; returns whether the part exists now, be it by another
    /// client.
    pub fn put(&self, target: usize, name: Name, parts: &[&[u8]]) -> bool {
        // model: groups/put-missing
        let storage = self.storage.targets.storage(target);
        storage.is_some_and(|storage| self.count_put(target, storage.put(name, parts), parts))
    }

    /// Replaces a damaged part of an object on a target. The caller ensures that an interruption in
    /// between loses nothing.
    pub fn replace(&self, target: usize, name: Name, parts: &[&[u8]]) -> bool {
        let storage = self.storage.targets.storage(target);
        storage.is_some_and(|storage| self.count_put(target, storage.replace(name, parts), parts))
    }

    /// Counts a written part; returns whether it exists now.
    fn count_put(&self, target: usize, done: Result<()>, parts: &[&[u8]]) -> bool {
        let is_there = self.is_done(target, done);
        if is_there {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            self.count(|report| {
                report.written_parts += 1;
                report.written_bytes += bytes as u64;
            });
        }
        is_there
    }

    /// Whether a target's operation succeeded. A target that is full or read-only is left out like
    /// one that does not answer: heal goes on with the others and reports the target at its end.
    fn is_done(&self, target: usize, done: Result<()>) -> bool {
        match done {
            Err(error) if error.kind() == StorageErrorKind::AlreadyExists => true,
            Err(error) => {
                use StorageErrorKind::{Denied, Full, ReadOnly};
                if let Full | Denied | ReadOnly = error.kind() {
                    let was_in_use = self.storage.targets.leave_out(target, &error);
                    self.count(|report| report.refusing_targets += u64::from(was_in_use));
                } else {
                    self.storage.targets.give_up(target, &error);
                }
                false
            }
            Ok(()) => true,
        }
    }
}

impl StripedStorage {
    /// Brings all targets that answer up to date.
    ///
    /// # Errors
    /// When too few targets answer. Objects that cannot be healed are reported to `observer` and
    /// counted.
    pub fn heal(&self, options: HealOptions, observer: &dyn Progress) -> Result<HealReport> {
        let healing = Healing {
            storage: self,
            options,
            gives_tags: self.is_tagged() && self.knows_secret(),
            doubts: self.doubts(),
            observer,
            limiter: options.limit_kib_per_s.map(Limiter::new),
            report: Mutex::default(),
        };
        // Whoever deletes something under a later description than this client's finds the note, or
        // this client finds the description.
        let note = self.persist(|_| self.put_note())?;
        let healed = self.persist(|_| self.heal_descriptions(&healing));
        let healed = healed.and_then(|()| self.heal_noted(&healing, note));
        self.take_back(note);
        healed?;
        let mut report = *lock(&healing.report);
        let up = self.targets.up().len();
        let out = (self.targets.all().len() - up) as u64;
        report.refusing_targets = report.refusing_targets.min(out);
        report.missing_targets = out - report.refusing_targets;
        Ok(report)
    }

    /// Brings the targets up to date while this note tells that it is done.
    fn heal_noted(&self, healing: &Healing, note: Name) -> Result<()> {
        self.persist(|_| self.apply_marks(healing, note))?;
        // model: cluster/list-objects
        let mut objects = self.persist(|_| self.holdings(&ObjectKind::ALL))?;
        // After the listings, which fail when too many folders are missing: new, empty folders
        // would hide this.
        for number in self.targets.up() {
            if let Some(target) = self.targets.storage(number) {
                healing.is_done(number, target.make_folders());
            }
        }
        // Keys before packs, and so on; the order of IDs makes runs alike.
        objects.sort_by_key(|(name, _)| *name);
        self.heal_objects(healing, &objects)
    }

    /// Objects of which a target has found its part damaged.
    fn doubts(&self) -> HashSet<Name> {
        let doubts = self
            .targets
            .each(&self.targets.up(), |_, target| target.doubts());
        // Who cannot be asked says so when it is needed.
        let doubts = doubts.into_iter().filter_map(|(_, doubts)| doubts.ok());
        doubts.flatten().collect()
    }

    fn heal_objects(&self, healing: &Healing, objects: &[(Name, Holding)]) -> Result<()> {
        let weight = |(name, holding): &(Name, Holding)| {
            let is_work = healing.reads_all_of(*name)
                || !holding.wrong.is_empty()
                || healing.gives_tags && holding.lacks_tags()
                || !self.lacking(*name, holding).is_empty();
            let bytes = holding.container_len * holding.holders.len() as u64;
            if is_work { bytes } else { 0 }
        };
        let weights: Vec<u64> = objects.iter().map(weight).collect();
        let total = weights.iter().sum();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (stop, failure) = (AtomicBool::new(false), Mutex::new(None));
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((name, holding)) = objects.get(number) else {
                    return;
                };
                let weight = weights[number];
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if let Err(error) = self.persist(|_| self.heal_object(healing, *name, holding)) {
                    // As long as no more than two targets are away, other objects can be healed.
                    if !is_too_few(&error) || self.check_enough().is_err() {
                        stop.store(true, Ordering::Relaxed);
                        *lock(&failure) = Some(error);
                        return;
                    }
                    healing.observer.problem(&format!("{name}: {error}"));
                    healing.count(|report| {
                        report.objects += 1;
                        report.unhealed_objects += 1;
                    });
                }
                let done = done.fetch_add(weight, Ordering::Relaxed) + weight;
                healing.observer.bytes(done, total);
            }
        };
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(work);
            }
        });
        match failure.into_inner().expect("no panic under this lock") {
            Some(error) => Err(error),
            None => self.check_enough(),
        }
    }

    fn heal_object(&self, healing: &Healing, name: Name, holding: &Holding) -> Result<()> {
        if self.is_fragment(holding) {
            healing.count(|report| report.fragments += 1);
            return Ok(());
        }
        let lacking = self.lacking(name, holding);
        let is_cut = self.listed_len(holding).is_none();
        if holding.lacks_tags() && !healing.gives_tags {
            healing.count(|report| report.untagged_objects += 1);
        }
        let seems_whole = lacking.is_empty() && holding.wrong.is_empty() && !is_cut;
        let seems_whole = seems_whole && !(healing.gives_tags && holding.lacks_tags());
        if seems_whole && !healing.reads_all_of(name) {
            healing.count(|report| report.objects += 1);
            return Ok(());
        }
        let healed = match holding.generation() {
            _ if is_cut => Err(StorageError::new(
                StorageErrorKind::Damaged,
                "its parts on all targets are truncated",
            )),
            0 => self.heal_replicas(healing, name, holding, &lacking),
            _ => self.heal_stripe(healing, name, holding, &lacking),
        };
        if let Err(error) = &healed
            && !is_too_few(error)
            && let Some(now) = self.holding(name)?
            && now.generation() != holding.generation()
        {
            // A rebalance has moved it meanwhile.
            return self.heal_object(healing, name, &now);
        }
        if !healed.as_ref().is_err_and(is_too_few) {
            healing.count(|report| report.objects += 1);
        }
        match healed {
            Ok(true) => healing.count(|report| report.healed_objects += 1),
            Ok(false) => {}
            Err(error) => {
                match error.kind() {
                    _ if is_too_few(&error) => return Err(error),
                    // The object was deleted meanwhile.
                    StorageErrorKind::NotFound if self.holding(name)?.is_none() => {}
                    _ => {
                        healing.observer.problem(&format!("{name}: {error}"));
                        healing.count(|report| report.unhealed_objects += 1);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes identity and set description to every target that lacks them.
    fn heal_descriptions(&self, healing: &Healing) -> Result<()> {
        // model: groups/describe
        if self.later_description()?.is_some() {
            return Err(refusal(HAS_CHANGED.to_owned()));
        }
        let (current, bytes) = self.description.to_object();
        for number in self.targets.up() {
            let Some(target) = self.targets.storage(number) else {
                continue;
            };
            let id = self.targets.all()[number].id;
            let own = target
                .get(Name::TARGET, None)
                .map(|bytes| Identity::parse(&bytes));
            if !matches!(own, Ok(Ok(_))) {
                let url = &self.targets.all()[number].url;
                healing
                    .observer
                    .note(&format!("{url} had lost its identity: written again"));
                let identity = Identity::new(self.description.set, id).to_bytes();
                healing.replace(number, Name::TARGET, &[&identity]);
            }
            let listed = match target.list(ObjectKind::Set) {
                Ok(listed) => listed,
                Err(error) => {
                    self.targets.give_up(number, &error);
                    continue;
                }
            };
            let name = |id| Name::new(ObjectKind::Set, id);
            let read = |id| {
                let bytes = target.get(name(id), None).ok()?;
                Description::parse(id, &bytes).ok()
            };
            let is_outdated = |id: Id| {
                let read = read(id);
                id != current && read.is_none_or(|it| it.epoch <= self.description.epoch)
            };
            let others = listed.iter().map(|listed| listed.id);
            for other in others.filter(|id| is_outdated(*id)) {
                // A description that stays is outdated and does no harm.
                let _ = target.delete(name(other));
            }
            if read(current).is_none() {
                healing.replace(number, name(current), &[&bytes]);
            }
        }
        self.check_enough()
    }
}

/// Whether an operation failed since too many nodes are away, which may come back.
fn is_too_few(error: &StorageError) -> bool {
    error.kind() == StorageErrorKind::TooFewTargets
}
