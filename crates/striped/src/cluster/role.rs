//! What nodes let a client do.

use tabane_storage::{Name, ObjectKind, Role};

use super::wire::Request;
use crate::marks::{is_mark_of_record, is_note, is_record};

/// Whether a client in this role may ask this of a node. `Append` deletes nothing but records and
/// notes of heals.
pub fn allows(role: Role, request: &Request) -> bool {
    match request {
        Request::Get(..)
        | Request::List(..)
        | Request::Stat(..)
        | Request::Status
        | Request::Usage(..)
        | Request::Doubts => true,
        Request::Put(name, _) => role == Role::Admin || role >= Role::Append && is_added(*name),
        Request::Delete(name) => {
            role == Role::Admin || role >= Role::Append && (is_record(*name) || is_note(*name))
        }
        Request::Stripe(_, stripe) => {
            role == Role::Admin || role >= Role::Append && is_added(stripe.name)
        }
        Request::Open(..) | Request::Join(..) => role >= Role::Append,
        Request::Create | Request::RemoveLeftovers(..) | Request::Withdraw(..) => {
            role == Role::Admin
        }
    }
}

/// Whether an object is one that backups and heals add.
fn is_added(name: Name) -> bool {
    matches!(
        name.kind,
        ObjectKind::Pack | ObjectKind::Index | ObjectKind::Unverified | ObjectKind::Snapshot
    ) || is_record(name)
        || is_mark_of_record(name)
        || is_note(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::wire::{Open, Source, Stripe};
    use tabane_storage::Id;

    #[test]
    fn each_role_may_do_what_the_lesser_may_and_more() {
        let name = |kind| Name::new(kind, Id([1; 32]));
        let in_deleted = |half: &[u8; 16]| {
            let mut name = name(ObjectKind::Deleted);
            name.id.0[16..].copy_from_slice(half);
            name
        };
        let (mark, note) = (
            in_deleted(b"a deleted record"),
            in_deleted(b"a heal at work !"),
        );
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
                source: Source::Client {
                    schedules: vec!["direct".to_owned()],
                    by_sector: vec![0],
                },
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
            (Request::Put(name(ObjectKind::Unverified), 1), Role::Append),
            (Request::Delete(name(ObjectKind::Unverified)), Role::Admin),
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
            (Request::Put(mark, 1), Role::Append),
            (Request::Delete(mark), Role::Admin),
            (Request::Put(note, 1), Role::Append),
            (Request::Delete(note), Role::Append),
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
                assert_eq!(allows(role, &request), role >= least, "{role} {request:?}");
            }
        }
    }
}
