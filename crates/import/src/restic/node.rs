//! Entries of restic's directories.

use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use tabane_storage::Id;
use tabane_store::entry::{self, Entry, Flags, HardLink, Kind, Xattr};

/// The blob of a directory.
#[derive(Deserialize)]
pub struct Tree {
    #[serde(deserialize_with = "null_is_empty")]
    pub nodes: Vec<Node>,
}

/// An entry of a directory.
#[derive(Deserialize)]
pub struct Node {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    mode: u32,
    #[serde(default)]
    mtime: Option<Timestamp>,
    #[serde(default)]
    atime: Option<Timestamp>,
    #[serde(default)]
    ctime: Option<Timestamp>,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
    /// Name of the owner.
    #[serde(default)]
    pub user: String,
    /// Name of the group.
    #[serde(default)]
    pub group: String,
    #[serde(default)]
    inode: u64,
    #[serde(default)]
    device_id: u64,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    links: u64,
    #[serde(default)]
    linktarget: String,
    #[serde(default)]
    linktarget_raw: Option<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    extended_attributes: Vec<Attribute>,
    #[serde(default)]
    device: u64,
    /// Blobs of a file.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub content: Vec<Id>,
    /// Blob of a directory.
    #[serde(default)]
    pub subtree: Option<Id>,
}

#[derive(Deserialize)]
struct Attribute {
    name: String,
    #[serde(default)]
    value: Option<String>,
}

/// What the first pass over directories needs of them.
#[derive(Deserialize)]
pub struct Links {
    #[serde(deserialize_with = "null_is_empty")]
    pub nodes: Vec<NodeLinks>,
}

/// The blobs of an entry.
#[derive(Deserialize)]
pub struct NodeLinks {
    #[serde(default, deserialize_with = "null_is_empty")]
    pub content: Vec<Id>,
    #[serde(default)]
    pub subtree: Option<Id>,
}

/// Go writes `null` for an empty list.
fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Bits of Go's `FileMode` that are bits of `st_mode` elsewhere.
const MODE_BITS: [(u32, u32); 3] = [(1 << 23, 0o4000), (1 << 22, 0o2000), (1 << 20, 0o1000)];

impl Node {
    /// The name of the entry.
    ///
    /// # Errors
    /// Why it is none.
    pub fn name(&self) -> Result<Vec<u8>, String> {
        let name =
            unquote(&self.name).ok_or_else(|| format!("{:?} is no quoted name", self.name))?;
        if name.is_empty() || name == b"." || name == b".." {
            return Err(format!("{:?} is no name", self.name));
        }
        if name.iter().any(|byte| [0, b'/'].contains(byte)) {
            Err(format!("{:?} is no name", self.name))
        } else {
            Ok(name)
        }
    }

    /// The entry of this name; the content of a file or directory is still empty.
    ///
    /// # Errors
    /// Why it cannot be an entry.
    pub fn entry(&self, name: Vec<u8>) -> Result<Entry, String> {
        let time = |time: Option<Timestamp>| time.map(entry::time).unwrap_or_default();
        let special = MODE_BITS.iter().filter(|(go, _)| self.mode & go != 0);
        let (major, minor) = (
            rustix::fs::major(self.device),
            rustix::fs::minor(self.device),
        );
        let kind = match self.kind.as_str() {
            "file" => Kind::File {
                size: self.size,
                content: Vec::new(),
            },
            "dir" => Kind::Directory {
                content: Vec::new(),
            },
            "symlink" => Kind::Symlink {
                target: self.link_target()?,
            },
            "dev" => Kind::BlockDevice { major, minor },
            "chardev" => Kind::CharDevice { major, minor },
            "fifo" => Kind::Fifo,
            "socket" => Kind::Socket,
            kind => return Err(format!("entries of the type {kind:?} cannot be stored")),
        };
        let is_directory = matches!(kind, Kind::Directory { .. });
        let is_linked = self.links > 1 && self.inode != 0 && !is_directory;
        Ok(Entry {
            name,
            mode: special.fold(self.mode & 0o777, |mode, (_, bit)| mode | bit),
            uid: self.uid,
            gid: self.gid,
            mtime: time(self.mtime),
            ctime: time(self.ctime),
            // Without --with-atime, restic stores the mtime twice.
            atime: self
                .atime
                .filter(|_| self.atime != self.mtime)
                .map(entry::time),
            inode: self.inode,
            hard_link: is_linked.then_some(HardLink {
                device: self.device_id,
                inode: self.inode,
            }),
            xattrs: self.xattrs()?,
            flags: Flags::default(),
            kind,
        })
    }

    fn link_target(&self) -> Result<Vec<u8>, String> {
        match &self.linktarget_raw {
            Some(raw) => decode(raw),
            None => Ok(self.linktarget.clone().into_bytes()),
        }
    }

    fn xattrs(&self) -> Result<Vec<Xattr>, String> {
        let xattr = |attribute: &Attribute| {
            Ok(Xattr {
                name: attribute.name.clone().into_bytes(),
                value: attribute.value.as_deref().map_or(Ok(Vec::new()), decode)?,
            })
        };
        let xattrs: Result<Vec<_>, String> = self.extended_attributes.iter().map(xattr).collect();
        let mut xattrs = xattrs?;
        xattrs.sort();
        Ok(xattrs)
    }

    /// The owner's number and name, and the group's.
    pub fn owners(&self) -> [(u32, &str); 2] {
        [(self.uid, &self.user), (self.gid, &self.group)]
    }
}

fn decode(base64: &str) -> Result<Vec<u8>, String> {
    BASE64_STANDARD
        .decode(base64)
        .map_err(|error| format!("{base64:?} is not base64: {error}"))
}

/// Undoes Go's `strconv.Quote`, without the quotation marks.
fn unquote(text: &str) -> Option<Vec<u8>> {
    if !text.contains('\\') {
        return Some(text.as_bytes().to_vec());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let code = rest.as_bytes().get(at + 1)?;
        rest = &rest[at + 1..];
        // The digits of a number, and their base.
        let (digits, base) = match code {
            b'x' => (1..3, 16),
            b'u' => (1..5, 16),
            b'U' => (1..9, 16),
            b'0'..=b'7' => (0..3, 8),
            _ => (0..0, 0),
        };
        if base == 0 {
            bytes.push(match code {
                b'a' => 7,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                b'\\' | b'\'' | b'"' => *code,
                _ => return None,
            });
            rest = &rest[1..];
            continue;
        }
        let end = digits.end;
        let number = u32::from_str_radix(rest.get(digits)?, base).ok()?;
        match code {
            b'u' | b'U' => {
                let character = char::from_u32(number)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => bytes.push(u8::try_from(number).ok()?),
        }
        rest = &rest[end..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unquoted_as_go_quotes_them() {
        for (quoted, name) in [
            ("plain", &b"plain"[..]),
            ("größe", "größe".as_bytes()),
            (r"a\\b\tc\nd", b"a\\b\tc\nd"),
            (r#"\"'"#, b"\"'"),
            (r"\xff\x00z", b"\xff\0z"),
            (r"\u00e9\U0001f600", "é😀".as_bytes()),
            (r"\101\a\b\f\r\v", b"A\x07\x08\x0c\r\x0b"),
        ] {
            assert_eq!(unquote(quoted).as_deref(), Some(name), "{quoted}");
        }
        for bad in [
            r"\",
            r"\x1",
            r"\q",
            r"\ud800",
            r"\777",
            r"\xé1",
            r"\U0011ffff",
        ] {
            assert_eq!(unquote(bad), None, "{bad}");
        }
    }

    #[test]
    fn entries_keep_what_restic_kept() {
        let text = r#"{"nodes":[{"name":"s","type":"file","mode":12583405,
            "mtime":"1960-01-02T03:04:05.25+01:00","atime":"1960-01-02T03:04:05.25+01:00",
            "ctime":"2021-01-02T03:04:05Z","uid":1,"gid":2,"user":"u","inode":9,"device_id":3,
            "size":5,"links":2,"content":null,
            "extended_attributes":[{"name":"user.b","value":"eA=="},{"name":"user.a"}]},
            {"name":"l","type":"symlink","linktarget":"?","linktarget_raw":"/w==","links":1},
            {"name":"d","type":"dev","device":2049},
            {"name":"i","type":"irregular"}]}"#;
        let tree: Tree = serde_json::from_str(text).expect("a tree");
        let entry = |at: usize| tree.nodes[at].entry(b"n".to_vec());
        let file = entry(0).expect("an entry");
        assert_eq!(file.mode, 0o6755);
        assert_eq!((file.mtime.s, file.mtime.ns), (-315525355, 250_000_000));
        assert_eq!(file.atime, None);
        let link = HardLink {
            device: 3,
            inode: 9,
        };
        assert_eq!(file.hard_link, Some(link));
        assert_eq!(file.xattrs[0].name, b"user.a");
        assert_eq!(file.xattrs[1].value, b"x");
        let link = entry(1).expect("an entry");
        assert_eq!(link.kind, Kind::Symlink { target: vec![255] });
        let device = entry(2).expect("an entry");
        assert_eq!(device.kind, Kind::BlockDevice { major: 8, minor: 1 });
        assert!(entry(3).is_err());
        assert_eq!(tree.nodes[0].owners(), [(1, "u"), (2, "")]);
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for bad in ["", ".", "..", "a/b", r"a\\x00"] {
            let text = format!(r#"{{"name":"{bad}","type":"file"}}"#);
            let node: Node = serde_json::from_str(&text).expect("a node");
            assert!(node.name().is_err(), "{bad}");
        }
    }
}
