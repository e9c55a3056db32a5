//! A directory as a tar archive of POSIX.1-2001 (PAX).

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::tar::{Builder, EntryType, Header};

use crate::Format;
use crate::acl::AccessList;
use crate::sparse::SparseMap;
use tabane_store::Result;
use tabane_store::Snapshot;
use tabane_store::entry::{Entry, HardLink, Kind, Piece, Time, Xattr};

/// The end of an archive: two empty blocks.
const END_LEN: usize = 1024;

/// Length in bytes of a block of an archive.
const BLOCK_LEN: u64 = 512;

/// Makes the bytes of a tar archive.
pub struct Tar {
    /// Has the names of owners.
    snapshot: Arc<Snapshot>,
    /// The first name and the kind of each inode with several names; the kind tells apart inodes
    /// whose number was reused.
    links: HashMap<HardLink, (PathBuf, Kind)>,
    /// Zeros that fill the last block of the content.
    padding: usize,
}

impl Tar {
    /// For entries of `snapshot`.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            links: HashMap::new(),
            padding: 0,
        }
    }
}

impl Format for Tar {
    fn begin(&mut self, path: &Path, entry: Entry) -> Result<Option<(Vec<u8>, Vec<Piece>)>> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let mut header = Header::new_ustar();
        let mut records = Records::default();
        header.set_mode(entry.mode);
        header.set_uid(entry.uid.into());
        header.set_gid(entry.gid.into());
        let names = [
            ("uname", self.snapshot.user(entry.uid)),
            ("gname", self.snapshot.group(entry.gid)),
        ];
        for (key, name) in names {
            let Some(name) = name else { continue };
            let fits = match key {
                "uname" => header.set_username(name),
                _ => header.set_groupname(name),
            };
            if fits.is_err() || !name.is_ascii() {
                records.push(key, name);
            }
        }
        header.set_size(0);
        // Numbers too large for the old fields (7 or 11 octal digits) get a record too.
        for (key, id) in [("uid", entry.uid), ("gid", entry.gid)] {
            if id >= 1 << 21 {
                records.push(key, id.to_string());
            }
        }
        header.set_mtime(u64::try_from(entry.mtime.s).unwrap_or(0));
        if entry.mtime.ns != 0 || !(0..1 << 33).contains(&entry.mtime.s) {
            records.push("mtime", decimal(entry.mtime));
        }
        for xattr in &entry.xattrs {
            records.push_xattr(xattr);
        }
        let mut name = path.as_os_str().as_bytes().to_vec();
        let mut content = Vec::new();
        let mut map = Vec::new();
        let earlier = entry
            .hard_link
            .and_then(|link| match self.links.entry(link) {
                Slot::Occupied(first) => {
                    let (path, kind) = first.get();
                    (*kind == entry.kind).then(|| path.clone())
                }
                Slot::Vacant(slot) => {
                    slot.insert((path.to_owned(), entry.kind.clone()));
                    None
                }
            });
        match (&entry.kind, earlier) {
            (Kind::Socket, _) => return Ok(None),
            (_, Some(earlier)) => {
                header.set_entry_type(EntryType::Link);
                set_link(&mut header, &mut records, earlier.as_os_str().as_bytes());
            }
            (
                Kind::File {
                    size,
                    content: pieces,
                },
                None,
            ) => {
                header.set_entry_type(EntryType::Regular);
                let sparse = SparseMap::of(pieces);
                let stored = match &sparse {
                    Some(sparse) => {
                        records.push("GNU.sparse.major", "1");
                        records.push("GNU.sparse.minor", "0");
                        records.push("GNU.sparse.name", &name[..]);
                        records.push("GNU.sparse.realsize", size.to_string());
                        name = sparse_name(path);
                        map = sparse.text();
                        content = sparse.content().to_vec();
                        sparse.stored_len()
                    }
                    None => {
                        content.clone_from(pieces);
                        *size
                    }
                };
                header.set_size(stored);
                if stored >= 1 << 33 {
                    records.push("size", stored.to_string());
                }
                self.padding = (stored.wrapping_neg() % BLOCK_LEN) as usize;
            }
            (Kind::Directory { .. }, None) => {
                header.set_entry_type(EntryType::Directory);
                name.push(b'/');
            }
            (Kind::Symlink { target }, None) => {
                header.set_entry_type(EntryType::Symlink);
                set_link(&mut header, &mut records, target);
            }
            (Kind::CharDevice { major, minor }, None) => {
                header.set_entry_type(EntryType::Char);
                set_device(&mut header, *major, *minor);
            }
            (Kind::BlockDevice { major, minor }, None) => {
                header.set_entry_type(EntryType::Block);
                set_device(&mut header, *major, *minor);
            }
            (Kind::Fifo, None) => header.set_entry_type(EntryType::Fifo),
        }
        if header.set_path(OsStr::from_bytes(&name)).is_err() {
            let field = &mut header.as_old_mut().name;
            fill(field, &name);
            records.push("path", name);
        }
        header.set_cksum();
        let mut head = records.encode();
        head.extend_from_slice(header.as_bytes());
        head.append(&mut map);
        Ok(Some((head, content)))
    }

    fn pass(&mut self, content: Vec<u8>) -> Vec<u8> {
        content
    }

    fn end(&mut self) -> Vec<u8> {
        vec![0; std::mem::take(&mut self.padding)]
    }

    fn finish(&mut self) -> Vec<u8> {
        vec![0; END_LEN]
    }
}

/// Numbers that the fields cannot hold, which Linux does not have, become 0.
fn set_device(header: &mut Header, major: u32, minor: u32) {
    if header.set_device_major(major).is_err() || header.set_device_minor(minor).is_err() {
        let _ = header.set_device_major(0);
        let _ = header.set_device_minor(0);
    }
}

/// Records of a PAX header.
#[derive(Default)]
struct Records(Vec<(String, Vec<u8>)>);

impl Records {
    fn push(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.0.push((key.to_owned(), value.into()));
    }

    /// The header before the header of a member; empty without records.
    fn encode(&self) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        if !self.0.is_empty() {
            let records = self.0.iter();
            let records = records.map(|(key, value)| (key.as_str(), value.as_slice()));
            let written = builder.append_pax_extensions(records);
            written.expect("a vector takes all that is written");
        }
        // Dropped, it would put the end of an archive behind them.
        std::mem::take(builder.get_mut())
    }

    /// An access control list as text, which tar programs restore; anything else as it is.
    fn push_xattr(&mut self, xattr: &Xattr) {
        let key = match xattr.name.as_slice() {
            b"system.posix_acl_access" => "SCHILY.acl.access",
            b"system.posix_acl_default" => "SCHILY.acl.default",
            _ => "",
        };
        if let Some(list) = AccessList::parse(&xattr.value).filter(|_| !key.is_empty()) {
            self.push(key, list.to_string());
        } else if let Ok(name) = std::str::from_utf8(&xattr.name) {
            self.push(&format!("SCHILY.xattr.{name}"), xattr.value.clone());
        }
    }
}

/// The name of a sparse file in the old header, to which programs without sparse files extract it:
/// its own name in a directory of GNU tar's choice.
fn sparse_name(path: &Path) -> Vec<u8> {
    let name = path.file_name().unwrap_or_default();
    let above = path.parent().unwrap_or(Path::new(""));
    let path = above.join("GNUSparseFile.0").join(name);
    path.into_os_string().into_encoded_bytes()
}

fn set_link(header: &mut Header, records: &mut Records, target: &[u8]) {
    // Written directly, since the crate would normalise the link's target.
    fill(&mut header.as_old_mut().linkname, target);
    if target.len() > header.as_old().linkname.len() {
        records.push("linkpath", target);
    }
}

/// Puts as much of `bytes` into a field as it holds.
fn fill(field: &mut [u8], bytes: &[u8]) {
    let len = field.len().min(bytes.len());
    field.fill(0);
    field[..len].copy_from_slice(&bytes[..len]);
}

/// Seconds as a decimal fraction.
fn decimal(time: Time) -> String {
    let nanoseconds = i128::from(time.s) * 1_000_000_000 + i128::from(time.ns);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let distance = nanoseconds.unsigned_abs();
    format!(
        "{sign}{}.{:09}",
        distance / 1_000_000_000,
        distance % 1_000_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_negative_fractions() {
        for (s, ns, text) in [
            (0, 0, "0.000000000"),
            (1, 5, "1.000000005"),
            (-1, 500_000_000, "-0.500000000"),
            (-2, 250_000_000, "-1.750000000"),
        ] {
            assert_eq!(decimal(Time { s, ns }), text);
        }
    }
}
