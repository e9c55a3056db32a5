//! Identity of a target, and description of a set: objects on every target.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::container::{GENERATION_MAX, ROLES_MAX};
use tabane_storage::Id;
use tabane_storage::{object_id, random};

/// The format of identities.
const IDENTITY_FORMAT: u8 = 1;

/// The format of a set whose shards are all plain, as older programs made them.
const PLAIN_FORMAT: u8 = 1;

/// The format of a set that has tagged shards: that of new sets of one group.
const TAGGED_FORMAT: u8 = 2;

/// The format of a set of several groups, the latest that this program knows.
const GROUPED_FORMAT: u8 = 3;

/// Targets of a set at most.
pub const TARGETS_MAX: usize = 256;

/// Targets of a set at most that older programs open.
const UNGROUPED_MAX: usize = 64;

/// The identity of a target and of its set: the object `target`, written once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    format: u8,
    /// The set.
    pub set: Id,
    /// The target.
    pub target: Id,
    /// SHA-256 of `set` followed by `target`.
    checksum: Id,
}

impl Identity {
    /// The identity of a target of a set.
    pub fn new(set: Id, target: Id) -> Self {
        Self {
            format: IDENTITY_FORMAT,
            set,
            target,
            checksum: object_id(&[&set.0, &target.0]),
        }
    }

    /// Encodes the object `target`.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an identity is plain data")
    }

    /// Decodes the object `target`.
    ///
    /// # Errors
    /// A sentence about the first mistake.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let identity: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        check_format(identity.format, IDENTITY_FORMAT)?;
        if identity == Self::new(identity.set, identity.target) {
            Ok(identity)
        } else {
            Err("its checksum is wrong".to_owned())
        }
    }
}

/// The targets of a set, and over which targets each generation is striped. Every target has it as
/// an object named by its hash; the description with the highest epoch counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    format: u8,
    /// ID of the set.
    pub set: Id,
    /// Counts the descriptions that the set has had.
    pub epoch: u64,
    /// Whether every target has the same role in all stripes of a generation.
    pub fixed_roles: bool,
    /// All targets.
    pub targets: Vec<Member>,
    /// For each generation of stripes, numbered from 1, its targets in their order.
    pub generations: Vec<Vec<Id>>,
    /// The generations to which new stripes belong, no two of which share a target; the last one
    /// alone if there are none here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<u8>,
}

/// A target of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// ID of the target.
    pub id: Id,
    /// URL at the time of writing; for people.
    pub url: String,
}

impl Description {
    /// The description of a new set of these groups of targets.
    pub fn new(set: Id, groups: Vec<Vec<Member>>, fixed_roles: bool) -> Self {
        let mut description = Self {
            format: TAGGED_FORMAT,
            set,
            epoch: 1,
            fixed_roles,
            generations: Vec::new(),
            targets: Vec::new(),
            groups: Vec::new(),
        };
        for group in groups {
            description.push_group(group);
        }
        description
    }

    fn push_group(&mut self, group: Vec<Member>) {
        let mut groups = self.groups();
        self.generations
            .push(group.iter().map(|member| member.id).collect());
        self.targets.extend(group);
        groups.push(self.generations.len() as u8);
        if groups.len() > 1 {
            self.groups = groups;
            self.format = GROUPED_FORMAT;
        }
    }

    /// Numbers of the generations to which new stripes belong.
    pub fn groups(&self) -> Vec<u8> {
        match self.generations.len() as u8 {
            newest @ 1.. if self.groups.is_empty() => vec![newest],
            _ => self.groups.clone(),
        }
    }

    /// A copy, of the next epoch.
    fn next(&self) -> Self {
        let mut next = self.clone();
        next.epoch += 1;
        next
    }

    /// The targets of the generation of this number, which there is.
    pub fn targets_of(&self, generation: u8) -> &[Id] {
        &self.generations[usize::from(generation) - 1]
    }

    /// Encodes the description; returns its ID and its bytes.
    pub fn to_object(&self) -> (Id, Vec<u8>) {
        let bytes = serde_json::to_vec(self).expect("a description is plain data");
        (object_id(&[&bytes]), bytes)
    }

    /// Decodes the description of this name.
    ///
    /// # Errors
    /// A sentence about the first mistake.
    pub fn parse(name: Id, bytes: &[u8]) -> Result<Self, String> {
        if object_id(&[bytes]) != name {
            return Err("its bytes do not match its name".to_owned());
        }
        let description: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        description.validate()?;
        Ok(description)
    }

    /// Checks that the description is consistent.
    fn validate(&self) -> Result<(), String> {
        check_format(self.format, GROUPED_FORMAT)?;
        let known: HashSet<Id> = self.targets.iter().map(|member| member.id).collect();
        if known.len() != self.targets.len() {
            return Err("it names a target twice".to_owned());
        }
        let is_grouped = self.format == GROUPED_FORMAT;
        let targets_max = if is_grouped {
            TARGETS_MAX
        } else {
            UNGROUPED_MAX
        };
        let generations = 1..=usize::from(GENERATION_MAX);
        if known.len() > targets_max || !generations.contains(&self.generations.len()) {
            return Err("it has too many targets or generations, or none".to_owned());
        }
        for targets in &self.generations {
            let different: HashSet<&Id> = targets.iter().collect();
            let sound = (3..=ROLES_MAX).contains(&targets.len())
                && different.len() == targets.len()
                && targets.iter().all(|id| known.contains(id));
            if !sound {
                return Err(
                    "one of its generations is no list of 3 to 32 of its targets".to_owned(),
                );
            }
        }
        if self.groups.is_empty() == is_grouped {
            return Err("its format does not say whether it has groups".to_owned());
        }
        let mut seen = HashSet::new();
        for &group in &self.groups {
            let targets = usize::from(group).checked_sub(1);
            let targets = targets.and_then(|index| self.generations.get(index));
            if !targets.is_some_and(|targets| targets.iter().all(|id| seen.insert(*id))) {
                return Err("its groups share a target, or are no generations".to_owned());
            }
        }
        Ok(())
    }

    /// Whether the set may have tagged shards. Programs that do not know them refuse such a set.
    pub fn is_tagged(&self) -> bool {
        self.format > PLAIN_FORMAT
    }

    /// A copy, of the next epoch, of a set that may have tagged shards.
    #[must_use]
    pub fn tagged(&self) -> Self {
        let mut next = self.next();
        next.format = next.format.max(TAGGED_FORMAT);
        next
    }

    /// A copy, of the next epoch, with one target in the place of another.
    #[must_use]
    pub fn replace(&self, old: Id, new: Member) -> Self {
        let mut next = self.next();
        for id in next.generations.iter_mut().flatten() {
            if *id == old {
                *id = new.id;
            }
        }
        next.targets.retain(|member| member.id != old);
        next.targets.push(new);
        next
    }

    /// The group that one more target would make larger: the smallest one.
    pub fn smallest_group(&self) -> u8 {
        let size = |group: &u8| self.targets_of(*group).len();
        let smallest = self.groups().into_iter().min_by_key(size);
        smallest.expect("there is a generation")
    }

    /// A copy, of the next epoch, with a generation that has one more target than the smallest
    /// group, in whose place it is.
    #[must_use]
    pub fn add(&self, new: Member) -> Self {
        let mut next = self.next();
        let smallest = self.smallest_group();
        let mut targets = self.targets_of(smallest).to_vec();
        targets.push(new.id);
        next.generations.push(targets);
        next.targets.push(new);
        let newest = next.generations.len() as u8;
        for group in next.groups.iter_mut().filter(|group| **group == smallest) {
            *group = newest;
        }
        next
    }

    /// A copy, of the next epoch, with one more group.
    #[must_use]
    pub fn add_group(&self, group: Vec<Member>) -> Self {
        let mut next = self.next();
        next.push_group(group);
        next
    }

    /// A copy, of the next epoch, in which no new stripes belong to this group. Groups before it
    /// become new generations, so that its stripes can move to each of the others.
    #[must_use]
    pub fn retire(&self, group: u8) -> Self {
        let mut next = self.next();
        next.groups = self.groups();
        next.groups.retain(|other| *other != group);
        for other in next.groups.iter_mut().filter(|other| **other < group) {
            let targets = self.targets_of(*other).to_vec();
            next.generations.push(targets);
            *other = next.generations.len() as u8;
        }
        next
    }

    /// A copy, of the next epoch, without these targets, which are in no group. Their generations,
    /// of which no stripes are left, have the targets of the newest one.
    #[must_use]
    pub fn without(&self, gone: &[Id]) -> Self {
        let mut next = self.next();
        next.targets.retain(|member| !gone.contains(&member.id));
        let newest = next.generations.last().expect("there is one").clone();
        let is_empty = |targets: &&mut Vec<Id>| targets.iter().any(|id| gone.contains(id));
        for generation in next.generations.iter_mut().filter(is_empty) {
            generation.clone_from(&newest);
        }
        next
    }
}

/// A random ID for a new set or target.
pub fn new_id() -> Id {
    Id(random())
}

fn check_format(format: u8, latest: u8) -> Result<(), String> {
    if (1..=latest).contains(&format) {
        return Ok(());
    }
    Err(format!(
        "it has format {format}, this program knows {latest}: install a newer tabane"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(number: u8) -> Member {
        Member {
            id: Id([number; 32]),
            url: format!("/mnt/{number}"),
        }
    }

    fn description() -> Description {
        let first = Description::new(Id([9; 32]), vec![(0..4).map(member).collect()], false);
        first.add(member(4)).replace(Id([2; 32]), member(5))
    }

    fn grouped() -> Description {
        let groups = vec![(0..4).map(member).collect(), (4..7).map(member).collect()];
        Description::new(Id([9; 32]), groups, false)
    }

    #[test]
    fn sets_have_groups_that_grow_one_by_one_and_get_more() {
        let first = grouped();
        assert_eq!((first.format, first.groups()), (GROUPED_FORMAT, vec![1, 2]));
        let grown = first.add(member(7));
        assert_eq!(grown.groups(), [1, 3], "the smallest one is larger");
        assert_eq!(grown.generations[2].len(), 4);
        let third = grown.add_group((8..12).map(member).collect());
        assert_eq!((third.groups(), third.epoch), (vec![1, 3, 4], 3));
        for sound in [first, grown, third.clone()] {
            let (id, bytes) = sound.to_object();
            assert_eq!(Description::parse(id, &bytes), Ok(sound));
        }
        let spoil: [fn(&mut Description); 5] = [
            |it| it.groups = vec![1, 2, 3],
            |it| it.groups = vec![0, 1],
            |it| it.groups = vec![1, 9],
            |it| it.groups.clear(),
            |it| it.format = TAGGED_FORMAT,
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let mut spoilt = third.clone();
            spoil(&mut spoilt);
            let (id, bytes) = spoilt.to_object();
            assert!(Description::parse(id, &bytes).is_err(), "{number}");
        }
    }

    #[test]
    fn a_set_of_one_group_that_gets_another_has_two() {
        assert_eq!(description().groups(), [2]);
        let two = description().add_group((20..23).map(member).collect());
        assert_eq!((two.groups(), two.format), (vec![2, 3], GROUPED_FORMAT));
        let (id, bytes) = two.to_object();
        assert_eq!(Description::parse(id, &bytes), Ok(two));
    }

    #[test]
    fn a_group_that_is_retired_can_move_to_each_of_the_others_and_be_forgotten() {
        let three = grouped().add_group((8..12).map(member).collect());
        let gone: Vec<Id> = (4..7).map(|number| member(number).id).collect();
        let retired = three.retire(2);
        assert_eq!((retired.groups(), retired.epoch), (vec![4, 3], 3));
        assert_eq!(retired.generations[3], three.generations[0]);
        assert_eq!(retired.targets, three.targets);
        let without = retired.without(&gone);
        assert_eq!((without.groups(), without.epoch), (vec![4, 3], 4));
        assert_eq!(without.generations[1], three.generations[0]);
        assert!(
            without
                .targets
                .iter()
                .all(|member| !gone.contains(&member.id))
        );
        assert_eq!(without.targets.len(), three.targets.len() - 3);
        // The first group has all others behind it.
        let first = three.retire(1);
        assert_eq!((first.groups(), first.generations.len()), (vec![2, 3], 3));
        let last = first.retire(2);
        assert_eq!((last.groups(), last.generations.len()), (vec![3], 3));
        for sound in [retired, without, first, last] {
            let (id, bytes) = sound.to_object();
            assert_eq!(Description::parse(id, &bytes), Ok(sound));
        }
    }

    #[test]
    fn descriptions_come_back_and_what_makes_no_sense_does_not() {
        let sound = description();
        assert_eq!((sound.epoch, sound.generations.len()), (3, 2));
        assert!(sound.is_tagged() && sound.tagged().epoch == 4);
        let (id, bytes) = sound.to_object();
        assert_eq!(Description::parse(id, &bytes), Ok(sound.clone()));
        assert!(Description::parse(Id([0; 32]), &bytes).is_err());
        let spoil: [fn(&mut Description); 7] = [
            |it| it.format = 4,
            |it| it.generations.clear(),
            |it| it.generations[0].truncate(2),
            |it| it.generations[1].push(Id([77; 32])),
            |it| it.generations[0][1] = it.generations[0][0],
            |it| it.targets.push(it.targets[0].clone()),
            |it| it.generations = vec![it.generations[0].clone(); 16],
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let mut spoilt = sound.clone();
            spoil(&mut spoilt);
            let (id, bytes) = spoilt.to_object();
            assert!(Description::parse(id, &bytes).is_err(), "{number}");
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let identity = Identity::new(Id([1; 32]), Id([2; 32]));
        let bytes = identity.to_bytes();
        assert_eq!(Identity::parse(&bytes), Ok(identity.clone()));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                // A hexadecimal digit may become the same digit in upper case.
                let parsed = Identity::parse(&flipped);
                assert!(
                    parsed.is_err() || parsed == Ok(identity.clone()),
                    "byte {at}"
                );
            }
            assert!(Identity::parse(&bytes[..at]).is_err());
            let (_, whole) = description().to_object();
            let part = &whole[..at.min(whole.len() - 1)];
            let name = object_id(&[part]);
            assert!(Description::parse(name, part).is_err());
        }
    }
}
