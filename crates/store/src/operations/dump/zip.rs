//! A directory as a zip archive, uncompressed, with what Info-ZIP keeps of Unix.
//!
//! Written in one pass: the length and the checksum of a file stand behind its bytes. All sizes are
//! those of zip64, since nothing says beforehand how long an archive gets.

use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::tz::TimeZone;

use super::tar::Archived;
use super::{ContentReader, DumpError};
use crate::access::browse::{Browser, Walk};
use crate::error::Error;
use crate::format::entry::{Entry, Kind, Piece, Time};

/// Version of the format: 4.5 has zip64.
const VERSION: u16 = 45;
/// Unix, in the upper byte of the version that made an archive.
const MADE_ON_UNIX: u16 = 3 << 8;
/// A file's length and checksum follow its bytes; names are UTF-8.
const FLAGS: u16 = (1 << 3) | (1 << 11);
/// Bytes of a name at most.
const NAME_LEN_MAX: usize = u16::MAX as usize;

/// Writes `entry`, whose path is `path`, and everything below it as a zip archive.
///
/// Names are paths without the slash at the beginning. Kept are modes, owners by number, times in
/// seconds and symbolic links. Extended attributes, holes and hard links are not: a file with
/// several names is written several times. Devices, pipes and sockets are left out.
///
/// # Errors
/// When something cannot be read or written.
pub fn archive_zip(
    browser: &mut Browser,
    path: &Path,
    entry: &Entry,
    out: &mut impl Write,
) -> Result<Archived, DumpError> {
    let mut archiver = Archiver {
        out: Counted { out, written: 0 },
        members: Vec::new(),
        archived: Archived::default(),
    };
    if path != Path::new("/") {
        archiver.append(browser, path, entry)?;
    }
    let mut walk = Walk::below(path, entry);
    while let Some(entry) = walk.next(browser)? {
        archiver.append(browser, &entry.path, &entry.entry)?;
    }
    archiver.finish()?;
    Ok(archiver.archived)
}

/// Counts what is written.
struct Counted<'a, W> {
    out: &'a mut W,
    written: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A member, for the directory at the end.
struct Member {
    name: Vec<u8>,
    /// `st_mode`, with the type.
    mode: u32,
    time: Time,
    owners: (u32, u32),
    checksum: u32,
    len: u64,
    offset: u64,
}

struct Archiver<'a, W> {
    out: Counted<'a, W>,
    members: Vec<Member>,
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
        let mut name = path.as_os_str().as_bytes().to_vec();
        let kind = match &entry.kind {
            Kind::File { .. } => 0o100_000,
            Kind::Directory { .. } => {
                name.push(b'/');
                0o040_000
            }
            Kind::Symlink { .. } => 0o120_000,
            _ => {
                self.archived.left_out += 1;
                return Ok(());
            }
        };
        if name.len() > NAME_LEN_MAX {
            let name = path.display();
            return Err(Error::Invalid(format!("{name} is too long for a zip archive")).into());
        }
        let mut member = Member {
            name,
            mode: kind | entry.mode,
            time: entry.mtime,
            owners: (entry.uid, entry.gid),
            checksum: 0,
            len: 0,
            offset: self.out.written,
        };
        self.out.write_all(&member.header())?;
        let mut hasher = Crc32::new();
        match &entry.kind {
            Kind::File { content, .. } => self.copy(browser, content, &mut hasher)?,
            Kind::Symlink { target } => {
                hasher.update(target);
                self.out.write_all(target)?;
            }
            _ => {}
        }
        member.checksum = hasher.finish();
        member.len = hasher.len;
        self.out.write_all(&member.trailer())?;
        self.members.push(member);
        self.archived.entries += 1;
        Ok(())
    }

    fn copy(
        &mut self,
        browser: &mut Browser,
        content: &[Piece],
        hasher: &mut Crc32,
    ) -> Result<(), DumpError> {
        let mut reader = ContentReader::new(browser, content);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let len = reader.read(&mut buffer)?;
            if len == 0 {
                return Ok(());
            }
            hasher.update(&buffer[..len]);
            self.out.write_all(&buffer[..len])?;
        }
    }

    /// Writes the directory of the archive.
    fn finish(&mut self) -> Result<(), DumpError> {
        let start = self.out.written;
        for member in &self.members {
            self.out.write_all(&member.directory_entry())?;
        }
        let (len, count) = (self.out.written - start, self.members.len() as u64);
        let end = start + len;
        let mut bytes = Bytes::default();
        // The end of the directory for zip64, where to find it, and the one of old, which refers
        // to it by numbers that are full of ones.
        bytes
            .u32(0x0606_4b50)
            .u64(44)
            .u16(MADE_ON_UNIX | VERSION)
            .u16(VERSION);
        bytes
            .u32(0)
            .u32(0)
            .u64(count)
            .u64(count)
            .u64(len)
            .u64(start);
        bytes.u32(0x0706_4b50).u32(0).u64(end).u32(1);
        bytes
            .u32(0x0605_4b50)
            .u16(0)
            .u16(0)
            .u16(u16::MAX)
            .u16(u16::MAX);
        bytes.u32(u32::MAX).u32(u32::MAX).u16(0);
        self.out.write_all(&bytes.0)?;
        Ok(self.out.flush()?)
    }
}

impl Member {
    /// What stands before the bytes.
    fn header(&self) -> Vec<u8> {
        let mut extra = self.owner_and_time();
        // Room for the lengths, which are not known yet.
        extra.u16(1).u16(16).u64(0).u64(0);
        let mut bytes = Bytes::default();
        let (time, date) = dos_time(self.time);
        bytes
            .u32(0x0403_4b50)
            .u16(VERSION)
            .u16(FLAGS)
            .u16(0)
            .u16(time)
            .u16(date);
        bytes.u32(0).u32(u32::MAX).u32(u32::MAX);
        bytes.u16(self.name.len() as u16).u16(extra.0.len() as u16);
        bytes.0.extend_from_slice(&self.name);
        bytes.0.extend_from_slice(&extra.0);
        bytes.0
    }

    /// What stands behind the bytes.
    fn trailer(&self) -> Vec<u8> {
        let mut bytes = Bytes::default();
        bytes
            .u32(0x0807_4b50)
            .u32(self.checksum)
            .u64(self.len)
            .u64(self.len);
        bytes.0
    }

    /// What stands at the end of the archive.
    fn directory_entry(&self) -> Vec<u8> {
        let mut extra = self.owner_and_time();
        extra
            .u16(1)
            .u16(24)
            .u64(self.len)
            .u64(self.len)
            .u64(self.offset);
        let mut bytes = Bytes::default();
        let (time, date) = dos_time(self.time);
        bytes
            .u32(0x0201_4b50)
            .u16(MADE_ON_UNIX | VERSION)
            .u16(VERSION)
            .u16(FLAGS)
            .u16(0);
        bytes
            .u16(time)
            .u16(date)
            .u32(self.checksum)
            .u32(u32::MAX)
            .u32(u32::MAX);
        bytes
            .u16(self.name.len() as u16)
            .u16(extra.0.len() as u16)
            .u16(0)
            .u16(0)
            .u16(0);
        // The lowest bits are those of DOS: a directory.
        let dos = if self.name.ends_with(b"/") { 0x10 } else { 0 };
        bytes.u32(self.mode << 16 | dos).u32(u32::MAX);
        bytes.0.extend_from_slice(&self.name);
        bytes.0.extend_from_slice(&extra.0);
        bytes.0
    }

    /// Extra fields of Info-ZIP: the time in seconds of Unix, and the owner.
    fn owner_and_time(&self) -> Bytes {
        let mut extra = Bytes::default();
        if let Ok(seconds) = i32::try_from(self.time.s) {
            extra.u16(0x5455).u16(5).0.push(1);
            extra.u32(seconds as u32);
        }
        let (user, group) = self.owners;
        extra.u16(0x7875).u16(11).0.extend([1, 4]);
        extra.u32(user).0.push(4);
        extra.u32(group);
        extra
    }
}

/// Bytes, little end first.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(&mut self, number: u16) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }
}

/// Time and date as DOS has them: local, from 1980 to 2107.
fn dos_time(time: Time) -> (u16, u16) {
    let moment = jiff::Timestamp::new(time.s, 0).unwrap_or_default();
    let local = moment.to_zoned(TimeZone::system());
    match local.year() {
        1980..=2107 => {
            let (year, month, day) = (local.year() - 1980, local.month(), local.day());
            let time = ((local.hour() as u16) << 11) | ((local.minute() as u16) << 5);
            let date = ((year as u16) << 9) | ((month as u16) << 5) | day as u16;
            (time | (local.second() as u16 / 2), date)
        }
        _ => (0, (1 << 5) | 1),
    }
}

/// The checksum of zip: CRC-32 as of Ethernet.
struct Crc32 {
    state: u32,
    len: u64,
}

/// Eight tables, so that eight bytes take one step.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ ((value & 1) * 0xedb8_8320);
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

impl Crc32 {
    fn new() -> Self {
        Self {
            state: u32::MAX,
            len: 0,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        let (steps, rest) = bytes.as_chunks::<8>();
        for step in steps {
            let mixed = u64::from_le_bytes(*step) ^ u64::from(self.state);
            let mixed = mixed.to_le_bytes();
            self.state = (0..8).fold(0, |sum, at| sum ^ TABLES[7 - at][usize::from(mixed[at])]);
        }
        for byte in rest {
            let at = (self.state ^ u32::from(*byte)) & 0xff;
            self.state = self.state >> 8 ^ TABLES[0][at as usize];
        }
    }

    fn finish(&self) -> u32 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zip_in_any_pieces() {
        let of = |parts: &[&[u8]]| {
            let mut hasher = Crc32::new();
            parts.iter().for_each(|part| hasher.update(part));
            hasher.finish()
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[b"123456789"]), 0xcbf4_3926);
        let text = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(of(&[text]), 0x414f_a339);
        for cut in 0..text.len() {
            assert_eq!(of(&[&text[..cut], &text[cut..]]), 0x414f_a339);
        }
    }
}
