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

/// The format of a set that has tagged shards: that of new sets, and the latest that this program
/// knows.
const TAGGED_FORMAT: u8 = 2;

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
    /// For each generation of stripes, numbered from 1, its targets in their order. New stripes
    /// belong to the last generation.
    pub generations: Vec<Vec<Id>>,
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
    /// The description of a new set of these targets.
    pub fn new(set: Id, targets: Vec<Member>, fixed_roles: bool) -> Self {
        Self {
            format: TAGGED_FORMAT,
            set,
            epoch: 1,
            fixed_roles,
            generations: vec![targets.iter().map(|member| member.id).collect()],
            targets,
        }
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
        check_format(self.format, TAGGED_FORMAT)?;
        let known: HashSet<Id> = self.targets.iter().map(|member| member.id).collect();
        if known.len() != self.targets.len() {
            return Err("it names a target twice".to_owned());
        }
        if known.len() > 64 || !(1..=usize::from(GENERATION_MAX)).contains(&self.generations.len())
        {
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
        Ok(())
    }

    /// Whether the set may have tagged shards. Programs that do not know them refuse such a set.
    pub fn is_tagged(&self) -> bool {
        self.format > PLAIN_FORMAT
    }

    /// A copy, of the next epoch, of a set that may have tagged shards.
    #[must_use]
    pub fn tagged(&self) -> Self {
        let mut next = self.clone();
        next.epoch += 1;
        next.format = TAGGED_FORMAT;
        next
    }

    /// A copy, of the next epoch, with one target in the place of another.
    #[must_use]
    pub fn replace(&self, old: Id, new: Member) -> Self {
        let mut next = self.clone();
        next.epoch += 1;
        for id in next.generations.iter_mut().flatten() {
            if *id == old {
                *id = new.id;
            }
        }
        next.targets.retain(|member| member.id != old);
        next.targets.push(new);
        next
    }

    /// A copy, of the next epoch, with a generation that includes one more target.
    #[must_use]
    pub fn add(&self, new: Member) -> Self {
        let mut next = self.clone();
        next.epoch += 1;
        let mut targets = next.generations.last().cloned().unwrap_or_default();
        targets.push(new.id);
        next.generations.push(targets);
        next.targets.push(new);
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

    fn description() -> Description {
        let member = |number| Member {
            id: Id([number; 32]),
            url: format!("/mnt/{number}"),
        };
        let first = Description::new(Id([9; 32]), (0..4).map(member).collect(), false);
        first.add(member(4)).replace(Id([2; 32]), member(5))
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
            |it| it.format = 3,
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
