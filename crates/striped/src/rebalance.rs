//! Moves stripes to newer groups from those that are fuller, and all from a group that is retired.
//!
//! An object is put into its new group, and deleted from the old one when no listing can be at work
//! that has asked the new group before that: so it is there at any time. It goes to a group of a
//! higher number, and of an object that is whole in two groups that of the higher number stays, but
//! one in use before one that is retired: so two rebalances at once never delete each other's last
//! copy. Nothing is deleted once the set has changed, since the group to which objects went may be
//! forgotten then. A look and the deletion behind it take less time than a listing may.

use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::container::{Form, generation_of};
use crate::list::{HAS_CHANGED, Holding};
use crate::numbers::Numbers;
use crate::open::refusal;
use crate::striped::StripedStorage;
use tabane_storage::sync::try_each;
use tabane_storage::{
    Limiter, Name, ObjectKind, Progress, Result, StorageError, StorageErrorKind, object_id,
};

/// Time after which a listing that began before an object was put has ended.
pub const LISTING_TIME: Duration = Duration::from_secs(300);

/// A group that is fuller than all together by less than this stays as it is.
const TOLERANCE: f64 = 1.02;

/// Objects that are moved at once, and objects after which old ones are deleted.
const WORKERS: usize = 4;
const BATCH: usize = 4 * WORKERS;

/// Options of a rebalance.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RebalanceOptions {
    /// Move at most this many KiB a second.
    pub limit_kib_per_s: Option<u64>,
    /// How long an object is in both groups.
    pub listing_time: Duration,
}

impl Default for RebalanceOptions {
    fn default() -> Self {
        Self {
            limit_kib_per_s: None,
            listing_time: LISTING_TIME,
        }
    }
}

tabane_storage::setters!(RebalanceOptions {
    into => limit_kib_per_s: Option<u64>,
    set => listing_time: Duration,
});

/// Results of a rebalance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RebalanceReport {
    /// Objects that are in another group now.
    pub moved_objects: u64,
    /// Bytes of their parts.
    pub moved_bytes: u64,
    /// Objects that were in two groups and are in one now.
    pub freed_objects: u64,
    /// Objects that could not be moved.
    pub unmoved_objects: u64,
}

/// How full a group is, in bytes of its targets.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    used: u64,
    capacity: u64,
}

impl Load {
    fn full(&self) -> f64 {
        self.used as f64 / self.capacity.max(1) as f64
    }
}

/// An object that is to be moved.
struct Move {
    name: Name,
    generation: u8,
    from: Numbers,
    to: u8,
    /// Bytes of all its parts.
    bytes: u64,
}

/// An object that is in the group where it stays, and is to be deleted from other targets.
struct Moved {
    since: Instant,
    name: Name,
    stays: u8,
    /// Each of these targets, and the generation of its part.
    from: Vec<(usize, u8)>,
}

impl StripedStorage {
    /// Moves objects to newer groups until none of the others is fuller than all together.
    ///
    /// # Errors
    /// When a target is missing or fails. What was moved by then stays moved; objects that are
    /// damaged are reported to `observer` and stay where they are.
    pub fn rebalance(
        &self,
        options: RebalanceOptions,
        observer: &dyn Progress,
    ) -> Result<RebalanceReport> {
        self.check_all_there()?;
        if self.is_tagged() && !self.knows_secret() {
            let text = "to move objects takes the password: it makes the tags of their parts";
            return Err(refusal(text.to_owned()));
        }
        // Deletions of other clients are marked meanwhile, since what is deleted may be put again.
        let note = self.put_note()?;
        let done = self.rebalance_noted(options, observer);
        self.take_back(note);
        done
    }

    fn rebalance_noted(
        &self,
        options: RebalanceOptions,
        observer: &dyn Progress,
    ) -> Result<RebalanceReport> {
        let limiter = options.limit_kib_per_s.map(Limiter::new);
        let mut report = RebalanceReport::default();
        // model: groups/list-for-moves
        let (mut objects, _) = self.all_holdings(&ObjectKind::ALL)?;
        objects.sort_by_key(|(name, _)| *name);
        let mut moved: VecDeque<Moved> = objects
            .iter()
            .filter_map(|(name, lengths)| self.in_two_groups(*name, lengths))
            .collect();
        report.freed_objects = moved.len() as u64;
        let moves = self.moves(objects);
        let total = moves.iter().map(|one| one.bytes).sum();
        let mut done = 0;
        for batch in moves.chunks(BATCH) {
            let results: Result<Vec<Result<()>>> =
                try_each(batch, WORKERS, |one| match self.move_to(one) {
                    Err(error) if is_of_object(&error) => Ok(Err(error)),
                    moved => moved.map(Ok),
                });
            for (one, result) in batch.iter().zip(results?) {
                match result {
                    Ok(()) => {
                        report.moved_objects += 1;
                        report.moved_bytes += one.bytes;
                        moved.push_back(Moved {
                            since: Instant::now(),
                            name: one.name,
                            stays: one.to,
                            from: one.from.iter().map(|it| (it, one.generation)).collect(),
                        });
                    }
                    // It was deleted meanwhile.
                    Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                    Err(error) => {
                        observer.problem(&format!("{}: {error}", one.name));
                        report.unmoved_objects += 1;
                    }
                }
                if let Some(limiter) = &limiter {
                    limiter.pause(one.bytes as usize);
                }
                done += one.bytes;
                observer.bytes(done, total);
            }
            self.delete_old(&mut moved, options.listing_time)?;
        }
        if !moved.is_empty() {
            observer.note(&format!(
                "all has moved; what is left in old places goes in {} s, when nobody looks there",
                options.listing_time.as_secs()
            ));
        }
        while let Some(first) = moved.front() {
            thread::sleep(options.listing_time.saturating_sub(first.since.elapsed()));
            self.delete_old(&mut moved, options.listing_time)?;
        }
        Ok(report)
    }

    /// Deletes from their old groups the objects that were moved long enough ago. One that is not
    /// whole in its new group any more stays in the old one: it may have been deleted, or its new
    /// parts may have been taken for leftovers.
    ///
    /// # Errors
    /// When the set has changed: the new group may be about to be forgotten.
    fn delete_old(&self, moved: &mut VecDeque<Moved>, listing_time: Duration) -> Result<()> {
        let is_old = |one: &mut Moved| one.since.elapsed() >= listing_time;
        loop {
            let batch: Vec<Moved> = (0..BATCH)
                .map_while(|_| moved.pop_front_if(is_old))
                .collect();
            if batch.is_empty() {
                return Ok(());
            }
            let mut old = Vec::with_capacity(batch.len());
            for one in batch {
                // model: groups/look-again
                match self.check_whole(one.name, one.stays) {
                    Err(error) if is_of_object(&error) => {}
                    whole => {
                        whole?;
                        old.push((one.name, self.old_parts(&one)?));
                    }
                }
            }
            if self.later_description()?.is_some() {
                return Err(refusal(HAS_CHANGED.to_owned()));
            }
            for (name, from) in old {
                // model: groups/delete-old
                self.delete_part(&from, name)?;
            }
        }
    }

    /// The targets that still have the old part of a moved object. Others may have a newer one, of
    /// a group that has the same targets and another number.
    fn old_parts(&self, one: &Moved) -> Result<Vec<usize>> {
        let numbers: Vec<usize> = one.from.iter().map(|(number, _)| *number).collect();
        let lengths = self
            .targets
            .each(&numbers, |_, target| target.stat(one.name));
        let mut old = Vec::with_capacity(numbers.len());
        for (number, len) in lengths {
            match len {
                Ok(len) if one.from.contains(&(number, generation_of(len))) => old.push(number),
                Err(error) if error.kind() != StorageErrorKind::NotFound => {
                    return Err(self.targets.blame(number, &error));
                }
                _ => {}
            }
        }
        Ok(old)
    }

    /// Fails unless all targets of a group have a part of an object, of the right length.
    fn check_whole(&self, name: Name, group: u8) -> Result<()> {
        self.check_all_there()?;
        let shape = self.shape_like(name, |shape| shape.geometry.generation == group)?;
        let is_right = |len| {
            let forms = [Form::Plain, Form::Tagged];
            forms
                .iter()
                .any(|form| shape.geometry.container_len(*form) == len)
        };
        let targets = self.generation(group).unwrap_or_default();
        for (number, len) in self.targets.each(targets, |_, target| target.stat(name)) {
            let len = len.map_err(|error| self.targets.blame(number, &error))?;
            if !is_right(len) {
                let text = format!("its part on {} is damaged", self.targets.all()[number].url);
                return Err(StorageError::new(StorageErrorKind::Damaged, text));
            }
        }
        self.check_all_there()
    }

    /// The group of which a generation's targets are part.
    fn group_of(&self, generation: u8) -> Option<u8> {
        let targets = self.generation(generation)?;
        let has_all = |&group: &u8| {
            let of_group = self.generation(group).unwrap_or_default();
            targets.iter().all(|number| of_group.contains(number))
        };
        self.groups.iter().copied().find(has_all)
    }

    /// What is to be done with an object that is whole in two groups, or whole in one and partly in
    /// one that is emptied; `None` if it is not.
    fn in_two_groups(&self, name: Name, lengths: &[Holding]) -> Option<Moved> {
        let is_retired = |one: &Holding| self.group_of(one.generation()).is_none();
        let whole = lengths.iter().filter(|one| self.has_all(one));
        let stays = whole.max_by_key(|one| (!is_retired(one), one.generation()))?;
        let is_there = |one: &&Holding| {
            let is_stripe = self.generation(one.generation()).is_some();
            self.has_all(one) || is_stripe && is_retired(one)
        };
        let are_apart = |one: &&Holding| one.holders.and(&stays.holders).is_empty();
        let others = lengths.iter().filter(is_there).filter(are_apart);
        let parts = |one: &Holding| {
            let generation = one.generation();
            let holders = one.holders.iter();
            holders.map(move |number| (number, generation))
        };
        let from: Vec<(usize, u8)> = others.flat_map(parts).collect();
        (!from.is_empty()).then(|| Moved {
            since: Instant::now(),
            name,
            stays: stays.generation(),
            from,
        })
    }

    /// What there is to move of these objects.
    fn moves(&self, objects: Vec<(Name, Vec<Holding>)>) -> Vec<Move> {
        let objects = objects.into_iter();
        let objects: Vec<(Name, Holding)> = objects
            .map(|(name, lengths)| (name, self.settle(name, lengths)))
            .collect();
        let mut loads: BTreeMap<u8, Load> = self
            .groups
            .iter()
            .map(|&group| (group, Load::default()))
            .collect();
        for (_, holding) in &objects {
            let load = self.group_of(holding.generation());
            if let Some(load) = load.and_then(|group| loads.get_mut(&group)) {
                load.used += holding.container_len * holding.holders.len() as u64;
            }
        }
        for (group, least) in self.groups.iter().zip(self.least_free()) {
            let load = loads.entry(*group).or_default();
            let targets = self.generation(*group).unwrap_or_default().len() as u64;
            // Without knowing, each target counts for as much as any other.
            let each = least.map_or(1 << 40, |least| least + load.used / targets);
            load.capacity = each * targets;
        }
        // While a group is emptied nothing else moves: what comes from it fills the emptiest.
        let is_retired = |(_, holding): &(Name, Holding)| {
            let generation = holding.generation();
            self.generation(generation).is_some() && self.group_of(generation).is_none()
        };
        let (retired, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_retired);
        let mut moves = Vec::new();
        for (name, holding) in if retired.is_empty() { others } else { retired } {
            let generation = holding.generation();
            let is_whole = holding.wrong.is_empty() && self.lacking(name, &holding).is_empty();
            if !is_whole || self.generation(generation).is_none() {
                continue;
            }
            let bytes = holding.container_len * holding.holders.len() as u64;
            let from = self.group_of(generation);
            let to = match from {
                // Objects that are no packs stay where clients look which know one group.
                _ if name.kind != ObjectKind::Pack => {
                    let first = Some(self.groups[0]);
                    first.filter(|first| from.is_none() && *first > generation)
                }
                Some(from) => receiver(&loads, from, generation, bytes),
                None => emptiest(&loads, generation, None).map(|(group, _)| group),
            };
            if let Some(to) = to {
                if let Some(from) = from.and_then(|from| loads.get_mut(&from)) {
                    from.used -= bytes;
                }
                loads.entry(to).and_modify(|load| load.used += bytes);
                let from = holding.holders;
                moves.push(Move {
                    name,
                    generation,
                    from,
                    to,
                    bytes,
                });
            }
        }
        moves
    }

    /// Puts an object into its new group.
    fn move_to(&self, one: &Move) -> Result<()> {
        // model: groups/read
        let object = self.persist(|_| self.get_object(one.name, None))?;
        if object_id(&[&object]) != one.name.id {
            let text = "its bytes are not what its name says: a heal that reads all data is needed";
            return Err(StorageError::new(StorageErrorKind::Damaged, text));
        }
        // model: groups/put-copy
        match self.persist(|is_again| self.put_stripe(one.name, &object, is_again, Some(one.to))) {
            Err(error) if error.kind() == StorageErrorKind::AlreadyExists => {}
            put => put?,
        }
        // Nothing goes from the old group before all of it is in the new one.
        // model: groups/check-copy
        self.check_whole(one.name, one.to)
    }
}

/// Whether an error says something of one object alone.
fn is_of_object(error: &StorageError) -> bool {
    matches!(
        error.kind(),
        StorageErrorKind::Damaged | StorageErrorKind::NotFound
    )
}

/// The emptiest group with a number above `generation`, if a group that is `from` stays fuller than
/// all together with so many bytes less.
fn receiver(loads: &BTreeMap<u8, Load>, from: u8, generation: u8, bytes: u64) -> Option<u8> {
    let all = loads.values().fold(Load::default(), |all, load| Load {
        used: all.used + load.used,
        capacity: all.capacity + load.capacity,
    });
    let source = loads.get(&from)?;
    let even = all.full() * source.capacity as f64;
    let is_worth = source.used as f64 > even * TOLERANCE;
    let (group, load) = emptiest(loads, generation, Some(from))?;
    let more = Load {
        used: load.used + bytes,
        ..load
    };
    let is_even = source.used.saturating_sub(bytes) as f64 >= even && more.full() <= source.full();
    (is_worth && is_even).then_some(group)
}

/// The emptiest group with a number above `generation`, but for one of them.
fn emptiest(loads: &BTreeMap<u8, Load>, generation: u8, but: Option<u8>) -> Option<(u8, Load)> {
    let newer = loads
        .iter()
        .filter(|(group, _)| **group > generation && Some(**group) != but);
    let emptiest = newer.min_by(|(_, a), (_, b)| a.full().total_cmp(&b.full()));
    emptiest.map(|(group, load)| (*group, *load))
}
