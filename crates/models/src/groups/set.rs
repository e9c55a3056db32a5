//! Descriptions of the set, and what can be read of the object under one of them.

use crate::removal::world::bits;

/// A set of targets, as bits.
pub type Targets = u8;

/// Targets that the set ever has: three pairs.
pub const TARGETS: usize = 6;
/// All of them.
pub const ALL: Targets = (1 << TARGETS) - 1;
/// The first group.
pub const FIRST: Targets = 0b11;
/// The group that is added.
pub const SECOND: Targets = 0b1100;
/// A third group, or the targets that take the places of others.
pub const THIRD: Targets = 0b11_0000;
/// Targets that a list asks at once.
pub const PAIRS: [Targets; 3] = [FIRST, SECOND, THIRD];
/// Copies of a small object.
pub const REPLICAS: u32 = 2;
/// Targets of a group that may be missing.
const MISSING_MAX: u32 = 1;
/// What a target holds that has a copy; numbers of generations are smaller.
pub const COPY: u8 = 15;

const GENERATIONS_MAX: usize = 5;
const GROUPS_MAX: usize = 3;

/// What each target holds of the object: nothing, a part of a stripe of this generation, or a copy.
pub type Parts = [u8; TARGETS];

/// A description of the set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Description {
    /// Its number.
    pub epoch: u8,
    /// All targets.
    pub targets: Targets,
    /// The targets of each generation, from 1 on.
    generations: [Targets; GENERATIONS_MAX],
    /// The generations that are groups, the first one first.
    groups: [u8; GROUPS_MAX],
}

impl Description {
    /// That of a new set of this group.
    pub fn new(group: Targets) -> Self {
        let mut new = Self::default();
        new.push_group(group);
        new.epoch = 1;
        new
    }

    fn push(&mut self, targets: Targets) -> u8 {
        let number = self.generations().len();
        self.generations[number] = targets;
        number as u8 + 1
    }

    fn push_group(&mut self, targets: Targets) {
        let number = self.push(targets);
        let place = self.groups().len();
        self.groups[place] = number;
        self.targets |= targets;
    }

    /// The targets of each generation.
    pub fn generations(&self) -> &[Targets] {
        let count = self.generations.iter().take_while(|it| **it != 0).count();
        &self.generations[..count]
    }

    /// The targets of a generation; none if there is no such one.
    pub fn generation(&self, number: u8) -> Targets {
        let index = usize::from(number).checked_sub(1);
        let targets = index.and_then(|index| self.generations().get(index));
        targets.copied().unwrap_or_default()
    }

    /// Numbers of the groups.
    pub fn groups(&self) -> &[u8] {
        let count = self.groups.iter().take_while(|it| **it != 0).count();
        &self.groups[..count]
    }

    /// The targets of the first group.
    pub fn home(&self) -> Targets {
        self.generation(self.groups[0])
    }

    /// All targets that are in a group.
    pub fn in_groups(&self) -> Targets {
        let groups = self.groups().iter();
        groups.fold(0, |all, group| all | self.generation(*group))
    }

    /// The group with these targets.
    pub fn group_of(&self, targets: Targets) -> Option<u8> {
        let mut groups = self.groups().iter().copied();
        groups.find(|group| self.generation(*group) == targets)
    }

    /// With one more group.
    pub fn add_group(&self, group: Targets) -> Self {
        let mut next = *self;
        next.epoch += 1;
        next.push_group(group);
        next
    }

    /// With one more target in the place of the smallest group.
    pub fn add(&self, target: usize) -> Self {
        let mut next = *self;
        next.epoch += 1;
        let size = |group: &&u8| self.generation(**group).count_ones();
        let smallest = *self.groups().iter().min_by_key(size).expect("there is one");
        let larger = next.push(self.generation(smallest) | 1 << target);
        let groups = next.groups.iter_mut().filter(|group| **group == smallest);
        groups.for_each(|group| *group = larger);
        next.targets |= 1 << target;
        next
    }

    /// Without this group, to which nothing goes any more. Groups before it become new generations.
    pub fn retire(&self, group: u8) -> Self {
        let mut next = *self;
        next.epoch += 1;
        next.groups = [0; GROUPS_MAX];
        let others = self.groups().iter().filter(|other| **other != group);
        for (place, &other) in others.enumerate() {
            next.groups[place] = if other < group {
                next.push(self.generation(other))
            } else {
                other
            };
        }
        next
    }

    /// Without these targets, which are in no group.
    pub fn without(&self, gone: Targets) -> Self {
        let mut next = *self;
        next.epoch += 1;
        next.targets &= !gone;
        let newest = *self.generations().last().expect("there is one");
        let generations = next.generations.iter_mut();
        for generation in generations.filter(|targets| **targets & gone != 0) {
            *generation = newest;
        }
        next
    }

    /// With one target in the place of another.
    pub fn replace(&self, old: usize, new: usize) -> Self {
        let mut next = *self;
        next.epoch += 1;
        let generations = next.generations.iter_mut();
        for targets in generations.filter(|targets| **targets & 1 << old != 0) {
            *targets = *targets & !(1 << old) | 1 << new;
        }
        next.targets = next.targets & !(1 << old) | 1 << new;
        next
    }

    /// The targets with a part of a stripe of a generation.
    fn with_part(&self, parts: &Parts, number: u8) -> Targets {
        let targets = bits(self.generation(number));
        let with = targets.filter(|target| parts[*target] == number);
        with.fold(0, |with, target| with | 1 << target)
    }

    /// Whether a stripe of this generation has all its parts.
    pub fn is_whole(&self, parts: &Parts, number: u8) -> bool {
        self.generation(number) != 0 && self.with_part(parts, number) == self.generation(number)
    }

    /// Whether the object can be read from these parts.
    pub fn finds(&self, parts: &Parts) -> bool {
        let is_enough = |(number, targets): (u8, &Targets)| {
            let lacks = targets & !self.with_part(parts, number);
            lacks.count_ones() <= MISSING_MAX
        };
        self.copies(parts) != 0 || (1..).zip(self.generations()).any(is_enough)
    }

    /// The targets with a copy.
    pub fn copies(&self, parts: &Parts) -> Targets {
        let with = bits(self.targets).filter(|target| parts[*target] == COPY);
        with.fold(0, |with, target| with | 1 << target)
    }

    /// The highest generation of which the object is whole; 0 if there is none.
    pub fn highest_whole(&self, parts: &Parts) -> u8 {
        let numbers = (1..=self.generations().len() as u8).rev();
        let mut whole = numbers.filter(|number| self.is_whole(parts, *number));
        whole.next().unwrap_or_default()
    }

    /// Whether so many targets are missing that this client can still use the set.
    pub fn is_enough(&self, away: Targets) -> bool {
        let mut generations = self.generations().iter();
        generations.all(|targets| (targets & away).count_ones() <= MISSING_MAX)
    }
}
