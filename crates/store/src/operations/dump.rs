//! Writes files and directories of a snapshot as a stream.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use crate::access::browse::{Browser, Walk};
use crate::error::Error;
use crate::format::entry::{Entry, HardLink, Kind, Piece, Time};

/// Why a dump ended early.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The repository could not be read.
    #[error(transparent)]
    Repository(#[from] Error),
    /// The stream could not be written.
    #[error(transparent)]
    Output(io::Error),
}

impl From<io::Error> for DumpError {
    /// Errors of the repository pass through readers as [`io::Error`]s, and are unpacked here.
    fn from(error: io::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(error) => Self::Repository(error),
            Err(error) => Self::Output(error),
        }
    }
}

/// Writes the content of a file, holes as zeros.
///
/// # Errors
/// [`Error::WrongKind`] when `entry` is no file, or when it cannot be read or written.
pub fn file(browser: &mut Browser, entry: &Entry, out: &mut impl Write) -> Result<u64, DumpError> {
    let Kind::File { content, .. } = &entry.kind else {
        let name = entry.name.escape_ascii();
        return Err(Error::WrongKind(format!(
            "{name} is no regular file: it has no bytes to write"
        ))
        .into());
    };
    let mut reader = ContentReader::new(browser, content);
    Ok(io::copy(&mut reader, out)?)
}

/// What [`archive`] wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Entries in the archive.
    pub entries: u64,
    /// Sockets, which no archive can hold.
    pub sockets_left_out: u64,
}

/// Writes `entry`, whose path is `path`, and everything below it as a POSIX.1-2001 (PAX) tar
/// archive.
///
/// Names are paths without the slash at the beginning. Owners are numbers. Times have nanoseconds,
/// and extended attributes are those of star (`SCHILY.xattr.…`), which GNU tar restores with
/// `--xattrs`.
///
/// # Errors
/// When something cannot be read or written.
pub fn archive(
    browser: &mut Browser,
    path: &Path,
    entry: &Entry,
    out: &mut impl Write,
) -> Result<Archived, DumpError> {
    let mut archiver = Archiver {
        builder: Builder::new(out),
        links: HashMap::new(),
        archived: Archived::default(),
    };
    // The root has no name, and no attributes of its own.
    if path != Path::new("/") {
        archiver.append(browser, path, entry)?;
    }
    let mut walk = Walk::below(path, entry);
    while let Some(entry) = walk.next(browser)? {
        archiver.append(browser, &entry.path, &entry.entry)?;
    }
    archiver.builder.finish()?;
    Ok(archiver.archived)
}

struct Archiver<'a, W: Write> {
    builder: Builder<&'a mut W>,
    /// The first name of each inode that has several, and what it is: inode numbers are used again.
    links: HashMap<HardLink, (PathBuf, Kind)>,
    archived: Archived,
}

impl<W: Write> Archiver<'_, W> {
    fn append(
        &mut self,
        browser: &mut Browser,
        path: &Path,
        entry: &Entry,
    ) -> Result<(), DumpError> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let mut header = Header::new_ustar();
        let mut records = Records::default();
        header.set_mode(entry.mode);
        header.set_uid(entry.uid.into());
        header.set_gid(entry.gid.into());
        header.set_size(0);
        // What does not fit the old fields (7 or 11 octal digits) stands in a record too.
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
            if let Ok(name) = std::str::from_utf8(&xattr.name) {
                records.push(&format!("SCHILY.xattr.{name}"), xattr.value.clone());
            }
        }
        let mut name = path.as_os_str().as_bytes().to_vec();
        let mut content: &[Piece] = &[];
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
            (Kind::Socket, _) => {
                self.archived.sockets_left_out += 1;
                return Ok(());
            }
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
                header.set_size(*size);
                if *size >= 1 << 33 {
                    records.push("size", size.to_string());
                }
                content = pieces;
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
                header.set_device_major(*major)?;
                header.set_device_minor(*minor)?;
            }
            (Kind::BlockDevice { major, minor }, None) => {
                header.set_entry_type(EntryType::Block);
                header.set_device_major(*major)?;
                header.set_device_minor(*minor)?;
            }
            (Kind::Fifo, None) => header.set_entry_type(EntryType::Fifo),
        }
        if header.set_path(OsStr::from_bytes(&name)).is_err() {
            let field = &mut header.as_old_mut().name;
            fill(field, &name);
            records.push("path", name);
        }
        header.set_cksum();
        if !records.0.is_empty() {
            let records = records
                .0
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_slice()));
            self.builder.append_pax_extensions(records)?;
        }
        self.builder
            .append(&header, ContentReader::new(browser, content))?;
        self.archived.entries += 1;
        Ok(())
    }
}

/// Records of a PAX header.
#[derive(Default)]
struct Records(Vec<(String, Vec<u8>)>);

impl Records {
    fn push(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.0.push((key.to_owned(), value.into()));
    }
}

fn set_link(header: &mut Header, records: &mut Records, target: &[u8]) {
    // The crate would change what a target looks like, which is up to whoever made the link.
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

/// Reads pieces one behind the other.
struct ContentReader<'a> {
    browser: &'a mut Browser,
    pieces: std::slice::Iter<'a, Piece>,
    block: Vec<u8>,
    /// How much of `block` was read.
    position: usize,
    /// How much is left of a hole.
    zeros: u64,
}

impl<'a> ContentReader<'a> {
    fn new(browser: &'a mut Browser, pieces: &'a [Piece]) -> Self {
        Self {
            browser,
            pieces: pieces.iter(),
            block: Vec::new(),
            position: 0,
            zeros: 0,
        }
    }

    /// Gets the next piece that has bytes; says whether there is one.
    fn advance(&mut self) -> io::Result<bool> {
        while self.zeros == 0 && self.position == self.block.len() {
            match self.pieces.next() {
                None => return Ok(false),
                Some(Piece::Hole { len }) => self.zeros = *len,
                Some(Piece::Block { id, len }) => {
                    self.block.clear();
                    self.position = 0;
                    let read = self.browser.append_block(*id, &mut self.block);
                    read.map_err(io::Error::other)?;
                    if self.block.len() != *len as usize {
                        let error = Error::damaged(format!("block {id}"), "it has another length");
                        return Err(io::Error::other(error));
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.advance()? {
            return Ok(0);
        }
        let len = if self.zeros > 0 {
            let len = buffer
                .len()
                .min(usize::try_from(self.zeros).unwrap_or(usize::MAX));
            buffer[..len].fill(0);
            self.zeros -= len as u64;
            len
        } else {
            let left = &self.block[self.position..];
            let len = buffer.len().min(left.len());
            buffer[..len].copy_from_slice(&left[..len]);
            self.position += len;
            len
        };
        Ok(len)
    }
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
