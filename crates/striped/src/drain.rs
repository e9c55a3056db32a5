//! Empties a group of targets, so that a set can do without them.
//!
//! First the group is retired: no client that opens the set from then on puts anything there. When
//! all clients that had opened it before have ended, a heal gives others the copies of small
//! objects, and a rebalance moves the stripes. When no stripe is left there, and nothing else
//! that is not elsewhere, the set forgets the targets.

use std::collections::HashSet;

use crate::container::GENERATION_MAX;
use crate::list::{HAS_CHANGED, Holding};
use crate::marks::is_note;
use crate::numbers::Numbers;
use crate::open::refusal;
use crate::set::Description;
use crate::striped::{REPLICAS, StripedStorage};
use tabane_storage::{Id, Name, ObjectKind, Result, StorageError, StorageErrorKind};

impl StripedStorage {
    /// Lets no new objects go to the group of these targets, named by their URLs: all of one group.
    /// Returns false, and changes nothing, if that is so already. Open the set again afterwards.
    ///
    /// # Errors
    /// When these are not the targets of a group, there is no other group, or not enough room in
    /// the others; when a target is missing; when another client changes the set.
    pub fn retire(&self, urls: &[&str]) -> Result<bool> {
        self.check_all_there()?;
        let numbers = self.numbers_of(urls)?;
        if self.is_retired(&numbers) {
            return Ok(false);
        }
        let of_group = |group: &u8| -> Numbers {
            let targets = self.generation(*group).unwrap_or_default();
            targets.iter().copied().collect()
        };
        let mut groups = self.groups.iter().copied();
        let Some(group) = groups.find(|group| of_group(group) == numbers) else {
            return Err(self.no_group(&numbers, of_group));
        };
        if self.groups.len() == 1 {
            return Err(refusal(
                "there is no other group that could keep what these have: add one first".to_owned(),
            ));
        }
        let used: u64 = self
            .survey()?
            .targets
            .iter()
            .enumerate()
            .filter(|(number, _)| numbers.contains(*number))
            .map(|(_, target)| target.bytes)
            .sum();
        let free = self.groups.iter().zip(self.least_free());
        let free = free.filter(|(other, _)| **other != group);
        let room: Option<u64> = free
            .map(|(group, least)| Some(least? * of_group(group).len() as u64))
            .sum();
        if let Some(room) = room.filter(|room| *room < used) {
            return Err(refusal(format!(
                "the other groups have room for {room} bytes, and these targets hold {used}: add \
                 another group first"
            )));
        }
        let retired = self.description.retire(group);
        if retired.generations.len() > usize::from(GENERATION_MAX) {
            let text = format!("a set can grow and shrink {} times", GENERATION_MAX - 1);
            return Err(StorageError::new(StorageErrorKind::TooManyTargets, text));
        }
        self.announce(&[], &retired)?;
        Ok(true)
    }

    /// Forgets these targets of a retired group, and takes what they are from them, so that no
    /// client uses them any more. Open the set again afterwards.
    ///
    /// # Errors
    /// When a stripe is left on them, or something else that is not elsewhere; when a target is
    /// missing; when another client changes the set.
    pub fn forget_retired(&self, urls: &[&str]) -> Result<()> {
        self.check_all_there()?;
        let numbers = self.numbers_of(urls)?;
        if !self.is_retired(&numbers) {
            return Err(refusal(
                "these targets are in a group that is in use".to_owned(),
            ));
        }
        self.copy_marks(&numbers)?;
        let left = self.left_on(&numbers)?;
        if left > 0 {
            return Err(StorageError::new(
                StorageErrorKind::TargetNeeded,
                format!("objects on them that are still to go elsewhere: {left}"),
            ));
        }
        let gone: Vec<Id> = numbers
            .iter()
            .map(|number| self.targets.all()[number].id)
            .collect();
        self.announce(&[], &self.description.without(&gone))?;
        let numbers: Vec<usize> = numbers.iter().collect();
        self.delete_part(&numbers, Name::TARGET)
    }

    /// Fails if what this client puts may be lost, since groups to which it puts objects were
    /// retired, or their targets replaced, after it has opened the set.
    pub(crate) fn check_groups_in_use(&self) -> Result<()> {
        // model: groups/check-groups
        match self.later_description()? {
            Some(later) if self.lacks_a_group(&later) => Err(refusal(HAS_CHANGED.to_owned())),
            _ => Ok(()),
        }
    }

    /// Whether of a group so many targets are in no group of a later description, or away, that no
    /// two are left which may have copies: one of two may be replaced just now.
    fn lacks_a_group(&self, later: &Description) -> bool {
        let groups = later.groups();
        let groups = groups.iter().map(|&group| later.targets_of(group));
        let used: HashSet<&Id> = groups.flatten().collect();
        let own = self.groups.iter();
        let mut own = own.filter_map(|&group| self.generation(group));
        own.any(|targets| {
            let is_gone = |number: &&usize| !used.contains(&self.targets.all()[**number].id);
            let gone = targets.iter().filter(is_gone).count();
            let is_left = |number: &&usize| !is_gone(number) && self.targets.is_up(**number);
            let lacking = targets.len() - targets.iter().filter(is_left).count();
            gone > 0 && lacking > REPLICAS - 2
        })
    }

    fn numbers_of(&self, urls: &[&str]) -> Result<Numbers> {
        let all = self.targets.all();
        let number = |url: &&str| {
            let number = all.iter().position(|target| target.url == **url);
            number.ok_or_else(|| {
                let text = format!("{url} is no target of this set");
                StorageError::new(StorageErrorKind::NoSuchTarget, text)
            })
        };
        urls.iter().map(number).collect()
    }

    /// Whether none of these targets is in a group.
    pub(crate) fn is_retired(&self, numbers: &Numbers) -> bool {
        let groups = self.groups.iter();
        let targets = groups.filter_map(|&group| self.generation(group));
        !targets.flatten().any(|&number| numbers.contains(number))
    }

    fn no_group(&self, numbers: &Numbers, of_group: impl Fn(&u8) -> Numbers) -> StorageError {
        let urls = |group: Numbers| {
            let urls = group
                .iter()
                .map(|number| self.targets.all()[number].url.clone());
            urls.collect::<Vec<_>>().join(", ")
        };
        let touched = self.groups.iter().map(of_group);
        let touched = touched.filter(|group| !group.and(numbers).is_empty());
        let touched: Vec<String> = touched.map(urls).collect();
        refusal(format!(
            "only a whole group can be drained: name all of {}, and no others",
            touched.join(", or all of ")
        ))
    }

    /// How many objects would have too few copies without these targets, or are stripes that can be
    /// read there: also those that are elsewhere too, since somebody may be about to delete that.
    fn left_on(&self, numbers: &Numbers) -> Result<usize> {
        // model: groups/look-for-what-is-left
        let (objects, _) = self.all_holdings(&ObjectKind::ALL)?;
        // What is cut off everywhere is lost already, or was deleted while a target was away.
        let is_readable =
            |holding: &Holding| self.listed_len(holding).is_some() && !self.is_fragment(holding);
        let is_on = |holding: &Holding| {
            let targets = self.generation(holding.generation()).unwrap_or_default();
            targets.iter().any(|&number| numbers.contains(number))
        };
        let is_left = |(name, lengths): (Name, Vec<Holding>)| {
            if lengths.iter().any(|one| is_on(one) && is_readable(one)) {
                return true;
            }
            let holding = self.settle(name, lengths);
            let is_copy = self.generation(holding.generation()).is_none();
            is_copy && !self.lacking(name, &holding).is_empty() && is_readable(&holding)
        };
        Ok(objects
            .into_iter()
            .map(is_left)
            .filter(|left| *left)
            .count())
    }

    /// Gives others the marks of deleted objects that these targets have.
    fn copy_marks(&self, numbers: &Numbers) -> Result<()> {
        // model: groups/copy-marks
        for (number, list) in self.raw_lists(ObjectKind::Deleted)? {
            let from = self.targets.storage(number);
            let Some(from) = from.filter(|_| numbers.contains(number)) else {
                continue;
            };
            let marks = list
                .iter()
                .map(|listed| Name::new(ObjectKind::Deleted, listed.id));
            for mark in marks.filter(|mark| !is_note(*mark)) {
                let bytes = match from.get(mark, None) {
                    // A heal has just applied it.
                    Err(error) if error.kind() == StorageErrorKind::NotFound => continue,
                    read => read.map_err(|error| self.targets.blame(number, &error))?,
                };
                let others = self.replica_order(mark.id).into_iter();
                let others = others.filter(|other| !numbers.contains(*other));
                let others: Vec<usize> = others.take(REPLICAS).collect();
                for (other, put) in self.targets.each(&others, |_, to| to.put(mark, &[&bytes])) {
                    match put {
                        Err(error) if error.kind() != StorageErrorKind::AlreadyExists => {
                            return Err(self.targets.blame(other, &error));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}
