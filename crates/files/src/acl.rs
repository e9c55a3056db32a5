//! The users and groups that POSIX ACLs name.

use crate::entry::Xattr;

/// Whom an entry of an ACL is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A user, by number.
    User(u32),
    /// A group, by number.
    Group(u32),
}

/// The users and groups that the ACLs among these attributes name.
pub fn named(xattrs: &[Xattr]) -> impl Iterator<Item = Who> + '_ {
    let acls = xattrs.iter().filter(|xattr| is_acl(&xattr.name));
    acls.flat_map(|acl| entries(&acl.value).filter_map(|(who, _)| who))
}

/// Gives the users and groups that the ACLs among these attributes name other numbers.
pub fn rename(xattrs: &mut [Xattr], number: impl Fn(Who) -> u32) {
    for acl in xattrs.iter_mut().filter(|xattr| is_acl(&xattr.name)) {
        let changes: Vec<(usize, u32)> = entries(&acl.value)
            .filter_map(|(who, at)| Some((at, number(who?))))
            .collect();
        for (at, number) in changes {
            acl.value[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        sort(&mut acl.value);
    }
}

fn is_acl(name: &[u8]) -> bool {
    name == b"system.posix_acl_access" || name == b"system.posix_acl_default"
}

const VERSION_LEN: usize = 4;
const ENTRY_LEN: usize = 8;

/// Each entry's user or group, if it names one, and where its number stands.
///
/// After a version of four bytes come entries of tag and rights (two bytes each) and user or group
/// (four), all little-endian; see posix_acl_xattr.h of Linux.
fn entries(value: &[u8]) -> impl Iterator<Item = (Option<Who>, usize)> + '_ {
    const USER: u16 = 0x02;
    const GROUP: u16 = 0x08;
    let entries = value.get(VERSION_LEN..).unwrap_or_default();
    let numbered = entries.chunks_exact(ENTRY_LEN).enumerate();
    numbered.map(|(place, entry)| {
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let who = match u16::from_le_bytes([entry[0], entry[1]]) {
            USER => Some(Who::User(id)),
            GROUP => Some(Who::Group(id)),
            _ => None,
        };
        (who, VERSION_LEN + place * ENTRY_LEN + 4)
    })
}

/// The kernel returns entries by tag and then by number.
fn sort(value: &mut [u8]) {
    let entries = value.get_mut(VERSION_LEN..).unwrap_or_default();
    let (entries, rest) = entries.as_chunks_mut::<ENTRY_LEN>();
    if rest.is_empty() {
        entries.sort_by_key(|entry| {
            let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
            (u16::from_le_bytes([entry[0], entry[1]]), id)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u32)]) -> Xattr {
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(7_u16.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        Xattr {
            name: b"system.posix_acl_access".to_vec(),
            value,
        }
    }

    #[test]
    fn named_users_and_groups_get_other_numbers() {
        let nobody = u32::MAX;
        let mut xattrs = vec![
            acl(&[
                (1, nobody),
                (2, 10),
                (2, 20),
                (4, nobody),
                (8, 10),
                (16, nobody),
            ]),
            Xattr {
                name: b"user.acl".to_vec(),
                value: acl(&[(2, 10)]).value,
            },
        ];
        let found: Vec<Who> = named(&xattrs).collect();
        assert_eq!(found, [Who::User(10), Who::User(20), Who::Group(10)]);
        rename(&mut xattrs, |who| match who {
            Who::User(10) => 30,
            Who::User(id) => id,
            Who::Group(id) => id + 1,
        });
        let expected = acl(&[
            (1, nobody),
            (2, 20),
            (2, 30),
            (4, nobody),
            (8, 11),
            (16, nobody),
        ]);
        assert_eq!(xattrs[0], expected);
        assert_eq!(xattrs[1].value, acl(&[(2, 10)]).value);
    }

    #[test]
    fn what_is_no_acl_stays_as_it_is() {
        for len in 0..30 {
            let mut xattr = acl(&[]);
            xattr.value = vec![1; len];
            let mut xattrs = [xattr.clone()];
            rename(&mut xattrs, |_| 5);
            assert_eq!(xattrs[0], xattr);
        }
    }
}
