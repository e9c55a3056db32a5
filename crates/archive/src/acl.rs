//! POSIX access control lists as text.

use std::fmt;

/// Linux's version of the attribute.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();

/// Length in bytes of an entry of the attribute.
const ENTRY_LEN: usize = 8;

/// The entries of an access control list: tag, rights, ID of the user or group.
pub struct AccessList(Vec<(u16, u16, u32)>);

impl AccessList {
    /// Parses an attribute `system.posix_acl_…`; `None` if the bytes are not in Linux's format.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let entries = value.strip_prefix(&VERSION)?.chunks(ENTRY_LEN);
        let entries = entries.map(|entry| {
            let (tag, rest) = entry.split_first_chunk()?;
            let (rights, rest) = rest.split_first_chunk()?;
            let (tag, rights) = (u16::from_le_bytes(*tag), u16::from_le_bytes(*rights));
            let id = u32::from_le_bytes(rest.try_into().ok()?);
            (tag_name(tag).is_some() && rights < 8).then_some((tag, rights, id))
        });
        entries.collect::<Option<Vec<_>>>().map(Self)
    }
}

/// The name of an entry's tag, and whether the entry has a user's or group's ID.
fn tag_name(tag: u16) -> Option<(&'static str, bool)> {
    Some(match tag {
        0x01 => ("user", false),
        0x02 => ("user", true),
        0x04 => ("group", false),
        0x08 => ("group", true),
        0x10 => ("mask", false),
        0x20 => ("other", false),
        _ => return None,
    })
}

impl fmt::Display for AccessList {
    /// A line for each entry, as `user:1000:rw-`, and no line break at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, &(tag, rights, id)) in self.0.iter().enumerate() {
            let (name, has_id) = tag_name(tag).expect("checked when it was read");
            let right = |bit, letter| if rights & bit == 0 { '-' } else { letter };
            let (r, w, x) = (right(4, 'r'), right(2, 'w'), right(1, 'x'));
            let id = if has_id {
                id.to_string()
            } else {
                String::new()
            };
            let end = if number + 1 < self.0.len() { "\n" } else { "" };
            write!(f, "{name}:{id}:{r}{w}{x}{end}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_linux_writes_is_a_list() {
        let mut value = VERSION.to_vec();
        for (tag, rights, id) in [(1_u16, 6_u16, u32::MAX), (2, 7, 1234), (0x20, 0, u32::MAX)] {
            value.extend(tag.to_le_bytes());
            value.extend(rights.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        let text = |value: &[u8]| AccessList::parse(value).map(|list| list.to_string());
        let whole = text(&value);
        assert_eq!(
            whole.as_deref(),
            Some("user::rw-\nuser:1234:rwx\nother::---")
        );
        assert_eq!(text(&value[..value.len() - 1]), None);
        assert_eq!(text(&value[..3]), None);
        for (at, byte) in [(0, 3), (4, 3), (6, 8)] {
            let mut bad = value.clone();
            bad[at] = byte;
            assert_eq!(text(&bad), None, "byte {at}");
        }
    }
}
