//! A directory as a zip archive, readable from its front to its end.
//!
//! Lengths are known before an entry, its checksum only behind it. So contents are of the method
//! "deflated", in blocks that are stored as they are: these tell where they end, and programs that
//! read from the front know where to look for the checksum.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::Format;
use tabane_store::Result;
use tabane_store::entry::{Entry, Kind, Piece};

/// Bytes of a stored block of the method "deflated".
const STORED_LEN_MAX: usize = 0xffff;

/// Lengths and offsets from here on stand in fields of 64 bits.
const LARGE: u64 = 0xffff_ffff;

/// Numbers of entries from here on stand in fields of 64 bits.
const MANY: usize = 0xffff;

/// Bytes of a name.
const NAME_LEN_MAX: usize = 0xffff;

const VERSION: u16 = 20;
const VERSION_LARGE: u16 = 45;

/// Made by a program for Unix, so that modes are meant.
const MADE_BY: u16 = 3 << 8;

/// A descriptor with checksum and lengths is behind the content.
const HAS_DESCRIPTOR: u16 = 1 << 3;

/// The name is UTF-8.
const IS_UTF8: u16 = 1 << 11;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// Makes the bytes of a zip archive.
#[derive(Default)]
pub struct Zip {
    /// Length of the archive so far.
    offset: u64,
    members: Vec<u8>,
    count: usize,
    /// The entry that is being added.
    current: Option<Member>,
}

/// An entry of the archive.
struct Member {
    name: Vec<u8>,
    flags: u16,
    method: u16,
    /// Date and time as DOS has them.
    dos: u32,
    mtime: i32,
    mode: u32,
    uid: u32,
    gid: u32,
    offset: u64,
    size: u64,
    stored: u64,
    crc: Digest,
    /// What of the content waits for a whole block.
    block: Vec<u8>,
    is_file: bool,
}

impl Format for Zip {
    fn begin(&mut self, path: &Path, entry: Entry) -> Result<Option<(Vec<u8>, Vec<Piece>)>> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let mut name = path.as_os_str().as_bytes().to_vec();
        name.iter_mut()
            .filter(|byte| **byte == b'\\')
            .for_each(|byte| *byte = b'_');
        let (kind, size, content, link) = match entry.kind {
            Kind::File { size, content } => (0o100_000, size, content, Vec::new()),
            Kind::Directory { .. } => {
                name.push(b'/');
                (0o040_000, 0, Vec::new(), Vec::new())
            }
            Kind::Symlink { target } => (0o120_000, target.len() as u64, Vec::new(), target),
            _ => return Ok(None),
        };
        if name.len() > NAME_LEN_MAX {
            return Ok(None);
        }
        let is_file = kind == 0o100_000;
        let blocks = size.div_ceil(STORED_LEN_MAX as u64).max(1);
        let utf8 = match std::str::from_utf8(&name) {
            Ok(_) => IS_UTF8,
            Err(_) => 0,
        };
        let mut member = Member {
            name,
            flags: utf8 | if is_file { HAS_DESCRIPTOR } else { 0 },
            method: if is_file { DEFLATED } else { STORED },
            dos: dos_time(entry.mtime.s),
            mtime: entry.mtime.s.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            mode: kind | entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            offset: self.offset,
            size,
            stored: if is_file {
                size.saturating_add(5 * blocks)
            } else {
                size
            },
            crc: Digest::new(CrcAlgorithm::Crc32IsoHdlc),
            block: Vec::new(),
            is_file,
        };
        member.crc.update(&link);
        let mut head = member.local_header();
        head.extend_from_slice(&link);
        self.offset += head.len() as u64;
        self.current = Some(member);
        Ok(Some((head, content)))
    }

    fn pass(&mut self, content: Vec<u8>) -> Vec<u8> {
        let Some(member) = &mut self.current else {
            return content;
        };
        member.crc.update(&content);
        member.block.extend_from_slice(&content);
        let mut out = Vec::with_capacity(content.len() + content.len() / 1000);
        let whole = member.block.len() / STORED_LEN_MAX * STORED_LEN_MAX;
        // The last block is marked as such, so one stays until the content ends.
        let whole = if member.block.len() == whole {
            whole.saturating_sub(STORED_LEN_MAX)
        } else {
            whole
        };
        for block in member.block[..whole].chunks(STORED_LEN_MAX) {
            put_block(&mut out, block, false);
        }
        member.block.drain(..whole);
        self.offset += out.len() as u64;
        out
    }

    fn end(&mut self) -> Vec<u8> {
        let Some(member) = self.current.take() else {
            return Vec::new();
        };
        let mut out = Vec::new();
        if member.is_file {
            put_block(&mut out, &member.block, true);
            member.put_descriptor(&mut out);
        }
        self.offset += out.len() as u64;
        member.put_central(&mut self.members);
        self.count += 1;
        out
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.members);
        let (start, len) = (self.offset, out.len() as u64);
        if start >= LARGE || len >= LARGE || self.count >= MANY {
            let count = self.count as u64;
            put(&mut out, &0x0606_4b50_u32.to_le_bytes());
            put(&mut out, &44_u64.to_le_bytes());
            put(&mut out, &(MADE_BY | VERSION_LARGE).to_le_bytes());
            put(&mut out, &VERSION_LARGE.to_le_bytes());
            put(&mut out, &[0; 8]);
            put(&mut out, &count.to_le_bytes());
            put(&mut out, &count.to_le_bytes());
            put(&mut out, &len.to_le_bytes());
            put(&mut out, &start.to_le_bytes());
            put(&mut out, &0x0706_4b50_u32.to_le_bytes());
            put(&mut out, &[0; 4]);
            put(&mut out, &(start + len).to_le_bytes());
            put(&mut out, &1_u32.to_le_bytes());
        }
        let count = (self.count.min(MANY) as u16).to_le_bytes();
        put(&mut out, &0x0605_4b50_u32.to_le_bytes());
        put(&mut out, &[0; 4]);
        put(&mut out, &count);
        put(&mut out, &count);
        put(&mut out, &(len.min(LARGE) as u32).to_le_bytes());
        put(&mut out, &(start.min(LARGE) as u32).to_le_bytes());
        put(&mut out, &[0; 2]);
        out
    }
}

impl Member {
    fn is_large(&self) -> bool {
        self.size >= LARGE || self.stored >= LARGE
    }

    fn local_header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let crc = if self.is_file {
            0
        } else {
            self.crc.finalize() as u32
        };
        let mut extra = self.extra();
        if self.is_large() {
            put(&mut extra, &[1, 0, 16, 0]);
            put(&mut extra, &self.size.to_le_bytes());
            put(&mut extra, &self.stored.to_le_bytes());
        }
        put(&mut out, &0x0403_4b50_u32.to_le_bytes());
        self.put_common(&mut out, crc, extra.len());
        put(&mut out, &self.name);
        put(&mut out, &extra);
        out
    }

    /// The fields that both headers have, from the version to the length of the extra field.
    fn put_common(&self, out: &mut Vec<u8>, crc: u32, extra_len: usize) {
        let version = if self.is_large() {
            VERSION_LARGE
        } else {
            VERSION
        };
        let (size, stored) = if self.is_large() {
            (LARGE, LARGE)
        } else {
            (self.size, self.stored)
        };
        put(out, &version.to_le_bytes());
        put(out, &self.flags.to_le_bytes());
        put(out, &self.method.to_le_bytes());
        put(out, &self.dos.to_le_bytes());
        put(out, &crc.to_le_bytes());
        put(out, &(stored as u32).to_le_bytes());
        put(out, &(size as u32).to_le_bytes());
        put(out, &(self.name.len() as u16).to_le_bytes());
        put(out, &(extra_len as u16).to_le_bytes());
    }

    /// Seconds of the last change, numbers of owner and group.
    fn extra(&self) -> Vec<u8> {
        let mut extra = b"UT\x05\0\x01".to_vec();
        put(&mut extra, &self.mtime.to_le_bytes());
        put(&mut extra, b"ux\x0b\0\x01\x04");
        put(&mut extra, &self.uid.to_le_bytes());
        put(&mut extra, &[4]);
        put(&mut extra, &self.gid.to_le_bytes());
        extra
    }

    fn put_descriptor(&self, out: &mut Vec<u8>) {
        put(out, &0x0807_4b50_u32.to_le_bytes());
        put(out, &(self.crc.finalize() as u32).to_le_bytes());
        if self.is_large() {
            put(out, &self.stored.to_le_bytes());
            put(out, &self.size.to_le_bytes());
        } else {
            put(out, &(self.stored as u32).to_le_bytes());
            put(out, &(self.size as u32).to_le_bytes());
        }
    }

    fn put_central(&self, out: &mut Vec<u8>) {
        let mut extra = self.extra();
        let (far, large) = (self.offset >= LARGE, self.is_large());
        if far || large {
            let len = if large { 16 } else { 0 } + if far { 8 } else { 0 };
            put(&mut extra, &[1, 0, len, 0]);
            if large {
                put(&mut extra, &self.size.to_le_bytes());
                put(&mut extra, &self.stored.to_le_bytes());
            }
            if far {
                put(&mut extra, &self.offset.to_le_bytes());
            }
        }
        put(out, &0x0201_4b50_u32.to_le_bytes());
        put(out, &(MADE_BY | VERSION_LARGE).to_le_bytes());
        self.put_common(out, self.crc.finalize() as u32, extra.len());
        // No comment, the first disk, no text.
        put(out, &[0; 6]);
        put(out, &(self.mode << 16).to_le_bytes());
        put(out, &(self.offset.min(LARGE) as u32).to_le_bytes());
        put(out, &self.name);
        put(out, &extra);
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

/// A block of the method "deflated" that is stored as it is.
fn put_block(out: &mut Vec<u8>, block: &[u8], is_last: bool) {
    let len = block.len() as u16;
    out.push(is_last.into());
    put(out, &len.to_le_bytes());
    put(out, &(!len).to_le_bytes());
    put(out, block);
}

/// Date and time as DOS has them, in the local time zone: from 1980 to 2107, to two seconds.
fn dos_time(seconds: i64) -> u32 {
    let time = Timestamp::from_second(seconds).unwrap_or_default();
    let time = time.to_zoned(TimeZone::system());
    let year = i32::from(time.year()) - 1980;
    match year {
        ..0 => (1 << 21) | (1 << 16),
        128.. => (127 << 25) | (12 << 21) | (31 << 16),
        year => {
            let part = |value: i8, shift: u32| (value as u32) << shift;
            ((year as u32) << 25)
                | part(time.month(), 21)
                | part(time.day(), 16)
                | part(time.hour(), 11)
                | part(time.minute(), 5)
                | (part(time.second(), 0) / 2)
        }
    }
}
