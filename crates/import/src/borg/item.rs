//! Entries of borg's archives.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use tabane_storage::Id;
use tabane_store::Algorithm;
use tabane_store::entry::{Entry, Flags, HardLink, Kind, Time, Xattr};

use super::msgpack::Value;
use crate::error::Sound;

/// Types in `st_mode`.
const TYPE_MASK: u32 = 0o170_000;

/// An entry, with what is not in it.
pub struct Item {
    /// Absolute, without `.` and `..`.
    pub path: PathBuf,
    /// Of a file without its content.
    pub entry: Entry,
    /// The chunks of a file, with their lengths in bytes; nothing for another name of a file.
    pub chunks: Option<Vec<(Id, u32)>>,
    /// The path of the name that has the chunks.
    pub link: Option<PathBuf>,
    /// Names of owner and group.
    pub names: [Option<String>; 2],
}

/// The chunks of an item, with their lengths in bytes.
pub fn chunks(item: &Value) -> Sound<Vec<(Id, u32)>> {
    let chunk = |value: &Value| -> Option<(Id, u32)> {
        let Value::List(parts) = value else {
            return None;
        };
        let [Value::Bytes(id), Value::Int(len), ..] = &parts[..] else {
            return None;
        };
        Some((Id(id[..].try_into().ok()?), u32::try_from(*len).ok()?))
    };
    let chunks = item.list("chunks").iter().map(chunk);
    let chunks: Option<Vec<_>> = chunks.collect();
    chunks.ok_or_else(|| "its list of chunks is none".to_owned())
}

impl Item {
    /// Reads an item; the path comes first, for messages.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(item: &Value) -> (PathBuf, Sound<Self>) {
        let given = item.bytes("path").unwrap_or_default();
        let path = match absolute(given) {
            Ok(path) => path,
            Err(why) => {
                let given = Path::new("/").join(OsStr::from_bytes(given));
                return (given, Err(why));
            }
        };
        (path.clone(), Self::of(item, path))
    }

    fn of(item: &Value, path: PathBuf) -> Sound<Self> {
        let mode = item.int("mode").and_then(|mode| u32::try_from(mode).ok());
        let mode = mode.ok_or("it has no mode")?;
        let number = |key: &str| {
            item.int(key)
                .and_then(|id| u32::try_from(id).ok())
                .unwrap_or(0)
        };
        let time = |key: &str| item.int(key).map(time).unwrap_or_default();
        // The first name of a file with several; for a symbolic link, the same field is its target.
        let link = match mode & TYPE_MASK {
            0o040_000 | 0o120_000 => None,
            _ => item.bytes("source").map(absolute).transpose()?,
        };
        let mut content = None;
        let (rdev, mut flags) = (number("rdev").into(), Flags::default());
        let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
        let kind = match mode & TYPE_MASK {
            0o100_000 => {
                if link.is_none() {
                    content = Some(chunks(item)?);
                }
                let lens = content.iter().flatten().map(|(_, len)| u64::from(*len));
                let size = lens.sum();
                let told = item.int("size");
                if content.is_some() && told.is_some_and(|told| told != i128::from(size)) {
                    return Err("its chunks do not add up to its size".to_owned());
                }
                Kind::File {
                    size,
                    content: Vec::new(),
                }
            }
            0o040_000 => Kind::Directory {
                content: Vec::new(),
            },
            0o120_000 => Kind::Symlink {
                target: item.bytes("source").ok_or("it leads nowhere")?.to_vec(),
            },
            0o020_000 => Kind::CharDevice { major, minor },
            0o060_000 => Kind::BlockDevice { major, minor },
            0o010_000 => Kind::Fifo,
            0o140_000 => Kind::Socket,
            _ => {
                return Err(format!(
                    "entries of the type {:o} cannot be stored",
                    mode >> 12
                ));
            }
        };
        if matches!(kind, Kind::File { .. } | Kind::Directory { .. }) {
            let bits = item.int("bsdflags").unwrap_or(0);
            // Those of BSD: nodump, immutable, append-only.
            for (bit, flag) in [
                (1, Flags::NODUMP),
                (2, Flags::IMMUTABLE),
                (4, Flags::APPEND),
            ] {
                if bits & bit != 0 {
                    flags = flags | flag;
                }
            }
        }
        // Borg has no numbers of inodes: names of one file share one made of the first name.
        let is_first = item.int("hardlink_master").is_some_and(|value| value != 0);
        let shared = link.as_ref().or_else(|| is_first.then_some(&path));
        let hard_link = shared.map(|path| HardLink {
            device: 0,
            inode: number_of(path),
        });
        let name = path.file_name().map(|name| name.as_bytes().to_vec());
        Ok(Self {
            entry: Entry {
                name: name.unwrap_or_default(),
                mode: mode & 0o7777,
                uid: number("uid"),
                gid: number("gid"),
                mtime: time("mtime"),
                ctime: time("ctime"),
                atime: item.int("atime").map(self::time),
                inode: 0,
                hard_link,
                xattrs: xattrs(item)?,
                flags,
                kind,
            },
            path,
            chunks: content,
            link,
            names: [item.text("user"), item.text("group")],
        })
    }
}

/// Nanoseconds since 1970.
fn time(nanoseconds: i128) -> Time {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    Time {
        s: seconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
        ns: nanoseconds.rem_euclid(1_000_000_000) as u32,
    }
}

/// A path below the root.
fn absolute(path: &[u8]) -> Sound<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let mut absolute = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) if !name.as_bytes().contains(&0) => absolute.push(name),
            Component::RootDir | Component::CurDir => {}
            _ => return Err(format!("{} is no path of an entry", path.display())),
        }
    }
    Ok(absolute)
}

/// A number for a path, the same each time.
fn number_of(path: &Path) -> u64 {
    let digest = Algorithm::Sha256.digest(path.as_os_str().as_bytes());
    let first = digest.as_ref().first_chunk().expect("it is longer");
    u64::from_le_bytes(*first)
}

fn xattrs(item: &Value) -> Sound<Vec<Xattr>> {
    let mut xattrs = Vec::new();
    for (name, value) in item.map("xattrs") {
        let Value::Bytes(name) = name else {
            return Err("an extended attribute has no name".to_owned());
        };
        let value = match value {
            Value::Bytes(value) => value.clone(),
            _ => Vec::new(),
        };
        xattrs.push(Xattr {
            name: name.clone(),
            value,
        });
    }
    for (key, name) in [
        ("acl_access", "system.posix_acl_access"),
        ("acl_default", "system.posix_acl_default"),
    ] {
        if let Some(text) = item.bytes(key) {
            let value = acl(text).ok_or("its access control list is none")?;
            xattrs.push(Xattr {
                name: name.into(),
                value,
            });
        }
    }
    xattrs.sort();
    Ok(xattrs)
}

/// Turns an access control list as `user:ada:rw-:1000` a line into the kernel's form.
fn acl(text: &[u8]) -> Option<Vec<u8>> {
    const NOBODY: u32 = u32::MAX;
    let text = std::str::from_utf8(text).ok()?;
    let mut entries = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = line.split('#').next()?.trim_end();
        let mut fields = line.split(':');
        let (kind, name, rights) = (fields.next()?, fields.next()?, fields.next()?);
        // Behind the rights stands the number, as the name may be another's here.
        let number = match (name, fields.next()) {
            ("", _) => NOBODY,
            (_, Some(number)) => number.parse().ok()?,
            (name, None) => name.parse().ok()?,
        };
        let tag: u16 = match (kind, name.is_empty()) {
            ("user" | "u", true) => 1,
            ("user" | "u", false) => 2,
            ("group" | "g", true) => 4,
            ("group" | "g", false) => 8,
            ("mask" | "m", _) => 0x10,
            ("other" | "o", _) => 0x20,
            _ => return None,
        };
        let bits = rights.chars().fold(0_u16, |bits, right| match right {
            'r' => bits | 4,
            'w' => bits | 2,
            'x' => bits | 1,
            _ => bits,
        });
        entries.push((tag, number, bits));
    }
    entries.sort_unstable();
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, number, bits) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_control_lists_are_those_of_the_kernel() {
        let text = b"user::rw-\nuser:ada:r--:1000\ngroup::r-x\nmask::r-x\nother::---\n";
        let bytes = acl(text).expect("a list");
        let entry = |tag: u8, bits: u8, number: u32| {
            [&[tag, 0, bits, 0], &number.to_le_bytes()[..]].concat()
        };
        let expected = [
            vec![2, 0, 0, 0],
            entry(1, 6, u32::MAX),
            entry(2, 4, 1000),
            entry(4, 5, u32::MAX),
            entry(0x10, 5, u32::MAX),
            entry(0x20, 0, u32::MAX),
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(acl(b"user"), None);
        assert_eq!(acl(b"user:nobody:r--"), None);
    }

    #[test]
    fn paths_are_absolute_and_lead_nowhere_else() {
        let path = |text: &str| absolute(text.as_bytes()).ok();
        assert_eq!(path("home/./ada//x"), Some("/home/ada/x".into()));
        assert_eq!(path("."), Some("/".into()));
        assert_eq!((path("a/../b"), path("a\0")), (None, None));
        let early = time(-1);
        assert_eq!((early.s, early.ns), (-1, 999_999_999));
    }
}
