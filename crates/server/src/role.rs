//! Roles: what a client may do.

use std::fmt;
use std::str::FromStr;

use tabane_storage::ObjectKind;
use tabane_storage::protocol::Operation;

/// What a client may do; each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads, and says in `clients/` that it is at work.
    Read,
    /// Adds what a backup writes, and takes back what it put in the same session.
    Append,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Read, Self::Append, Self::Admin];

    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Append => "append",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut roles = Self::ALL.into_iter();
        roles
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("there is no role {text:?}: use read, append or admin"))
    }
}

/// A condition under which a role that is not enough by itself may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unless {
    /// The same session put the object.
    Own,
    /// The repository is being made: it has neither a config nor anything else.
    New,
}

/// The least role for an operation; a lower one, under a condition.
pub fn needed(operation: Operation) -> (Role, Option<(Role, Unless)>) {
    match operation {
        Operation::Get(_) | Operation::Stat(_) | Operation::List(_) => (Role::Read, None),
        Operation::Put(name) => match name.kind {
            ObjectKind::Client => (Role::Read, None),
            ObjectKind::Pack | ObjectKind::Index | ObjectKind::Snapshot | ObjectKind::Pending => {
                (Role::Append, None)
            }
            ObjectKind::Config | ObjectKind::Key | ObjectKind::Copy => {
                (Role::Admin, Some((Role::Append, Unless::New)))
            }
            ObjectKind::Removal | ObjectKind::Target | ObjectKind::Set | ObjectKind::Deleted => {
                (Role::Admin, None)
            }
        },
        Operation::Delete(name) => match name.kind {
            ObjectKind::Client => (Role::Admin, Some((Role::Read, Unless::Own))),
            ObjectKind::Pending | ObjectKind::Index | ObjectKind::Snapshot => {
                (Role::Admin, Some((Role::Append, Unless::Own)))
            }
            _ => (Role::Admin, None),
        },
        Operation::Create => (Role::Append, None),
        Operation::Replace(_) | Operation::MakeFolders | Operation::RemoveLeftovers(_) => {
            (Role::Admin, None)
        }
    }
}

/// The operation in words, for refusals.
pub fn describe(operation: Operation) -> String {
    match operation {
        Operation::Get(name) | Operation::Stat(name) => format!("reading {name}"),
        Operation::List(kind) => format!("listing {}", kind.name()),
        Operation::Put(name) => format!("writing {name}"),
        Operation::Replace(name) => format!("replacing {name}"),
        Operation::Delete(name) => format!("deleting {name}"),
        Operation::Create => "making a repository".to_owned(),
        Operation::MakeFolders => "making folders".to_owned(),
        Operation::RemoveLeftovers(_) => "removing leftovers".to_owned(),
    }
}
