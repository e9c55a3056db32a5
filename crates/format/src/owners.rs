//! Names of users and groups: numbers mean somebody else on another machine.

use std::collections::{BTreeMap, BTreeSet};

use nix::unistd::{Gid, Group, Uid, User};
use serde::{Deserialize, Serialize};
use tabane_files::acl::{self, Who};

use crate::entry::Entry;

/// The names that the owners in a snapshot had on its machine, by their numbers. Those without a
/// name are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owners {
    /// Users.
    pub users: BTreeMap<u32, String>,
    /// Groups.
    pub groups: BTreeMap<u32, String>,
}

/// The numbers of the users and groups that entries have, and that their ACLs name.
#[derive(Debug, Default)]
pub struct Numbers {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

impl Numbers {
    /// Adds those of an entry.
    pub fn add(&mut self, entry: &Entry) {
        self.users.insert(entry.uid);
        self.groups.insert(entry.gid);
        for who in acl::named(&entry.xattrs) {
            match who {
                Who::User(number) => self.users.insert(number),
                Who::Group(number) => self.groups.insert(number),
            };
        }
    }

    /// Their names on this machine.
    pub fn names(&self) -> Owners {
        let user = |number| User::from_uid(Uid::from_raw(number)).ok().flatten();
        let group = |number| Group::from_gid(Gid::from_raw(number)).ok().flatten();
        let users = self.users.iter();
        let groups = self.groups.iter();
        Owners {
            users: users
                .filter_map(|&number| Some((number, user(number)?.name)))
                .collect(),
            groups: groups
                .filter_map(|&number| Some((number, group(number)?.name)))
                .collect(),
        }
    }
}

/// The numbers that owners of a snapshot have on this machine, where these are others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Renumbering {
    users: BTreeMap<u32, u32>,
    groups: BTreeMap<u32, u32>,
}

impl Renumbering {
    /// The numbers on this machine.
    pub fn here(owners: &Owners) -> Self {
        let user = |name: &str| Some(User::from_name(name).ok()??.uid.as_raw());
        let group = |name: &str| Some(Group::from_name(name).ok()??.gid.as_raw());
        Self::by(owners, user, group)
    }

    /// Who has number 0 keeps it, and nobody else gets it: its rights go with the number, whatever
    /// its name.
    fn by(
        owners: &Owners,
        user: impl Fn(&str) -> Option<u32>,
        group: impl Fn(&str) -> Option<u32>,
    ) -> Self {
        let map = |names: &BTreeMap<u32, String>, find: &dyn Fn(&str) -> Option<u32>| {
            let found = names.iter().filter_map(|(&number, name)| {
                let here = find(name)?;
                (number != 0 && here != 0 && here != number).then_some((number, here))
            });
            found.collect()
        };
        Self {
            users: map(&owners.users, &user),
            groups: map(&owners.groups, &group),
        }
    }

    /// Gives an entry, and those that its ACLs name, the numbers of this machine.
    pub fn apply(&self, entry: &mut Entry) {
        if self.users.is_empty() && self.groups.is_empty() {
            return;
        }
        let user = |number| *self.users.get(&number).unwrap_or(&number);
        let group = |number| *self.groups.get(&number).unwrap_or(&number);
        entry.uid = user(entry.uid);
        entry.gid = group(entry.gid);
        acl::rename(&mut entry.xattrs, |who| match who {
            Who::User(number) => user(number),
            Who::Group(number) => group(number),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_never_somebody_else() {
        let owners = Owners {
            users: [
                (0, "root"),
                (5, "toor"),
                (10, "ada"),
                (11, "bob"),
                (12, "eve"),
            ]
            .map(|(number, name)| (number, name.to_owned()))
            .into(),
            groups: [(0, "wheel"), (20, "staff")]
                .map(|(number, name)| (number, name.to_owned()))
                .into(),
        };
        let user = |name: &str| match name {
            "root" => Some(7),
            "toor" => Some(0),
            "ada" => Some(100),
            "bob" => Some(11),
            _ => None,
        };
        let group = |name: &str| Some(if name == "staff" { 30 } else { 40 });
        let renumbering = Renumbering::by(&owners, user, group);
        assert_eq!(renumbering.users, [(10, 100)].into());
        assert_eq!(renumbering.groups, [(20, 30)].into());
    }
}
