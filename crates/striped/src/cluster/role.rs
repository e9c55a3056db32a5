//! What a client may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tabane_storage::{Name, ObjectKind};

use super::wire::Request;

/// What a client may do, as its certificate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// List and read: to restore, mount and check.
    Read,
    /// Also add packs, index objects and snapshots, and rebuild what is missing: to back up. It
    /// deletes nothing but records of clients and pending snapshots.
    Append,
    /// Everything.
    Admin,
}

impl Role {
    /// All, the least first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Append, Self::Admin];

    /// `"read"`, `"append"`, `"admin"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Append => "append",
            Self::Admin => "admin",
        }
    }

    /// Whether a client in this role may ask this of a node.
    pub fn allows(self, request: &Request) -> bool {
        match request {
            Request::Get(..)
            | Request::List(..)
            | Request::Stat(..)
            | Request::Status
            | Request::Usage(..)
            | Request::Doubts => true,
            Request::Put(name, _) => self == Self::Admin || self >= Self::Append && is_added(*name),
            Request::Delete(name) => {
                self == Self::Admin || self >= Self::Append && is_record(*name)
            }
            Request::Stripe(_, stripe) => {
                self == Self::Admin || self >= Self::Append && is_added(stripe.name)
            }
            Request::Open(..) | Request::Join(..) => self >= Self::Append,
            Request::Create | Request::RemoveLeftovers(..) | Request::Withdraw(..) => {
                self == Self::Admin
            }
        }
    }
}

/// Whether an object is one that backups add.
fn is_added(name: Name) -> bool {
    matches!(
        name.kind,
        ObjectKind::Pack | ObjectKind::Index | ObjectKind::Snapshot
    ) || is_record(name)
}

/// Whether an object is one that backups add and delete.
fn is_record(name: Name) -> bool {
    matches!(name.kind, ObjectKind::Pending | ObjectKind::Client)
}

impl FromStr for Role {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let role = Self::ALL.into_iter().find(|role| role.name() == name);
        role.ok_or_else(|| "there are read, append and admin".to_owned())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::wire::{Open, Source, Stripe};
    use tabane_storage::Id;

    #[test]
    fn each_role_may_do_what_the_lesser_may_and_more() {
        let name = |kind| Name::new(kind, Id([1; 32]));
        let open = Open {
            session: [0; 16],
            members: 3,
            me: 0,
            client_ring: 4096,
            peer_ring: 4096,
        };
        let stripe = |kind| {
            let stripe = Stripe {
                number: 0,
                name: name(kind),
                object_len: 1,
                generation: 1,
                seal: None,
                by_role: vec![0, 1, 2],
                source: Source::Client("direct".to_owned()),
                lag: 1,
            };
            Request::Stripe([0; 16], stripe)
        };
        let cases = [
            (Request::Get(name(ObjectKind::Key), None), Role::Read),
            (Request::List(ObjectKind::Pack), Role::Read),
            (Request::Stat(Name::CONFIG), Role::Read),
            (Request::Status, Role::Read),
            (Request::Put(name(ObjectKind::Pack), 1), Role::Append),
            (Request::Put(name(ObjectKind::Index), 1), Role::Append),
            (Request::Put(name(ObjectKind::Snapshot), 1), Role::Append),
            (Request::Put(name(ObjectKind::Client), 1), Role::Append),
            (Request::Delete(name(ObjectKind::Client)), Role::Append),
            (Request::Delete(name(ObjectKind::Pending)), Role::Append),
            (Request::Open(open), Role::Append),
            (Request::Join([0; 16], Vec::new()), Role::Append),
            (stripe(ObjectKind::Pack), Role::Append),
            (stripe(ObjectKind::Key), Role::Admin),
            (Request::Put(name(ObjectKind::Key), 1), Role::Admin),
            (Request::Put(name(ObjectKind::Set), 1), Role::Admin),
            (Request::Put(name(ObjectKind::Removal), 1), Role::Admin),
            (Request::Put(name(ObjectKind::Deleted), 1), Role::Admin),
            (Request::Put(Name::CONFIG, 1), Role::Admin),
            (Request::Put(Name::TARGET, 1), Role::Admin),
            (Request::Delete(name(ObjectKind::Pack)), Role::Admin),
            (Request::Delete(name(ObjectKind::Snapshot)), Role::Admin),
            (Request::Create, Role::Admin),
            (Request::RemoveLeftovers(1), Role::Admin),
            (Request::Withdraw(Vec::new()), Role::Admin),
        ];
        for (request, least) in cases {
            for role in Role::ALL {
                assert_eq!(role.allows(&request), role >= least, "{role} {request:?}");
            }
        }
    }

    #[test]
    fn roles_are_read_as_they_are_written() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().is_err());
    }
}
