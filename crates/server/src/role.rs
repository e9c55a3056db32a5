//! Which role an operation needs.

use tabane_storage::protocol::Operation;
use tabane_storage::{ObjectKind, Role};

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
            ObjectKind::Pack
            | ObjectKind::Index
            | ObjectKind::Unverified
            | ObjectKind::Snapshot
            | ObjectKind::Pending => (Role::Append, None),
            ObjectKind::Config | ObjectKind::Key | ObjectKind::Copy => {
                (Role::Admin, Some((Role::Append, Unless::New)))
            }
            ObjectKind::Removal
            | ObjectKind::Forgotten
            | ObjectKind::Target
            | ObjectKind::Set
            | ObjectKind::Deleted => (Role::Admin, None),
        },
        Operation::Delete(name) => match name.kind {
            ObjectKind::Client => (Role::Admin, Some((Role::Read, Unless::Own))),
            ObjectKind::Pending
            | ObjectKind::Index
            | ObjectKind::Unverified
            | ObjectKind::Snapshot => (Role::Admin, Some((Role::Append, Unless::Own))),
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
