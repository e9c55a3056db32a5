//! Removes objects, also from targets that are away.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::list::Holding;
use crate::marks::are_marked;
use crate::numbers::Numbers;
use crate::striped::StripedStorage;
use tabane_storage::sync::lock;
use tabane_storage::{Id, Name, ObjectKind, Result, StorageErrorKind};

impl StripedStorage {
    /// Removes an object. While targets are missing it is marked first, so that their parts do not
    /// revive it, and in the end if a heal may.
    pub(super) fn delete_object(&self, name: Name, is_again: bool) -> Result<()> {
        self.check_enough()?;
        if self.is_deleted(name) && !is_again {
            return Err(StorageErrorKind::NotFound.into());
        }
        let is_marked = are_marked(name.kind);
        if is_marked && self.targets.up().len() < self.targets.all().len() {
            self.mark(name)?;
        }
        lock(&self.known).remove(&name.id);
        self.decoded.forget(name.id);
        // model: cluster/delete
        // model: groups/delete
        let up = self.targets.up();
        let deleted = self.targets.each(&up, |_, storage| storage.delete(name));
        // An earlier try may have deleted the parts on some targets.
        let (mut found, mut answered) = (is_again, Vec::new());
        for (number, deleted) in deleted {
            match deleted {
                Ok(()) => found = true,
                Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                Err(error) if error.kind() == StorageErrorKind::Unauthorized => {
                    return Err(self.targets.blame(number, &error));
                }
                Err(error) => {
                    self.targets.give_up(number, &error);
                    continue;
                }
            }
            answered.push(number);
        }
        let away = self.all_but(&answered);
        // model: groups/look-for-targets
        if is_marked
            && !self.is_deleted(name)
            && (!away.is_empty() || self.lacks_targets()? || self.may_come_back(name)?)
        {
            self.mark(name)?;
        }
        self.check_enough_but(|number| away.contains(&number))?;
        if is_marked && self.is_deleted(name) {
            // Of targets that are emptied nobody may take the mark any more.
            // model: groups/check-mark
            self.check_groups_in_use()?;
        }
        if found {
            Ok(())
        } else {
            Err(StorageErrorKind::NotFound.into())
        }
    }

    /// Deletes what these targets have of an object.
    pub(super) fn delete_part(&self, numbers: &[usize], name: Name) -> Result<()> {
        for (number, deleted) in self.targets.each(numbers, |_, target| target.delete(name)) {
            match deleted {
                Err(error) if error.kind() != StorageErrorKind::NotFound => {
                    return Err(self.targets.blame(number, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what interrupted writes have left on targets, and shards that are too few to be
    /// an object.
    pub(super) fn remove_all_leftovers(&self, age: Duration) -> Result<u64> {
        let up = self.targets.up();
        let mut removed = 0;
        for (_, count) in self
            .targets
            .each(&up, |_, storage| storage.remove_leftovers(age))
        {
            removed += count?;
        }
        let all_answered = up.len() == self.targets.all().len();
        if !all_answered {
            // Missing targets may hold the parts that seem lost.
            return Ok(removed);
        }
        let mut lists = HashMap::new();
        for kind in ObjectKind::ALL {
            let listed = self.raw_lists(kind)?;
            if listed.len() < up.len() {
                // A target has just failed, and its parts would seem to be missing.
                return Ok(removed);
            }
            lists.insert(kind, listed);
        }
        // Clocks of targets may differ; what a target has put last is about as old as now.
        let times = lists.values().flatten().flat_map(|(_, list)| list);
        let now = times.map(|listed| listed.modified).max();
        let now = now.unwrap_or(SystemTime::UNIX_EPOCH);
        for (kind, lists) in lists {
            let is_old =
                |one: &Holding| now.duration_since(one.modified).is_ok_and(|old| old >= age);
            let old = self.merge(&lists).into_iter().map(|(id, lengths)| {
                // A write that was interrupted, and made again to another group, leaves parts in
                // the first one; a rebalance leaves some in the new one.
                let is_elsewhere = lengths.iter().any(|one| self.has_all(one));
                let is_left = |one: &Holding| {
                    let is_part = self.is_fragment(one) || is_elsewhere && !self.has_all(one);
                    is_part && is_old(one)
                };
                let (mut old, rest): (Vec<_>, Vec<_>) = lengths.into_iter().partition(is_left);
                if rest.iter().any(|one| one.generation() == 0) {
                    old.clear();
                }
                let holders = |all: Vec<Holding>| {
                    let all = all.into_iter();
                    all.fold(Numbers::default(), |all, one| all.or(&one.holders))
                };
                let places = rest.iter();
                let places = places.filter_map(|one| self.generation(one.generation()));
                let used: Numbers = places.flatten().copied().collect();
                (id, holders(old).without(&holders(rest)).without(&used))
            });
            let old: Vec<(Id, Numbers)> = old.filter(|(_, on)| !on.is_empty()).collect();
            for (id, on) in old {
                let name = Name::new(kind, id);
                let on: Vec<usize> = on.iter().collect();
                for (_, deleted) in self.targets.each(&on, |_, storage| storage.delete(name)) {
                    match deleted {
                        Ok(()) => removed += 1,
                        Err(error) if error.kind() == StorageErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(removed)
    }
}
