//! Hashes files without reading their holes.
//!
//! `SEEK_DATA` and `SEEK_HOLE` find the holes of a file, which read as zeros. If no manifest is
//! wanted, these zeros are not hashed either: then the hash covers the data alone, and is kept with
//! the list of their ranges. Another file has the same bytes if its length is the same, its bytes
//! in these ranges have the same hash, and all others are zeros or holes. Its holes may differ.

use std::fs::File;
use std::io;
use std::iter::once;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use tabane_engine::{Digest, Hasher};
use tabane_files::read::data_extents;

use crate::record::{FileHash, Scope};
use crate::run::Run;

impl FileHash {
    /// Hashes a file.
    pub(crate) fn of(run: &Run, file: &File, buffer: &mut [u8]) -> io::Result<Self> {
        let (len, data) = layout(file)?;
        if !run.hashes_holes() && has_holes(&data, len) {
            let mut hasher = Hasher::new(run.options.algorithm);
            for range in &data {
                read(run, file, range, buffer, |bytes| hasher.update(bytes))?;
            }
            return Ok(Self::data(hasher.finish(), len, data.into()));
        }
        whole_digest(run, file, buffer, |_| {}).map(Self::whole)
    }

    /// Whether a file has the bytes that were hashed. `on_bytes` is told how many bytes were
    /// compared each time, holes among them.
    pub(crate) fn is_of(
        &self,
        run: &Run,
        file: &File,
        buffer: &mut [u8],
        on_bytes: impl Fn(u64),
    ) -> io::Result<bool> {
        Ok(match &self.scope {
            Scope::Whole => whole_digest(run, file, buffer, on_bytes)? == self.digest,
            Scope::Data(len, data) => {
                data_digest(run, file, *len, data, buffer, on_bytes)? == Some(self.digest)
            }
        })
    }
}

/// Whether some bytes of a file of this length are not in its data.
pub(crate) fn has_holes(data: &[Range<u64>], len: u64) -> bool {
    len > 0 && data.first() != Some(&(0..len))
}

/// Appends zeros to a message.
pub(crate) fn hash_zeros(hasher: &mut Hasher, mut len: u64) {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    while len > 0 {
        let part = len.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..part as usize]);
        len -= part;
    }
}

/// The length of a file, and where it has data.
fn layout(file: &File) -> io::Result<(u64, Vec<Range<u64>>)> {
    let stat = rustix::fs::fstat(file)?;
    let len = stat.st_size as u64;
    let allocated = (stat.st_blocks as u64).saturating_mul(512);
    Ok((len, data_extents(file.as_fd(), len, allocated)?))
}

/// The hash of all bytes of a file, whatever length it says.
fn whole_digest(
    run: &Run,
    file: &File,
    buffer: &mut [u8],
    on_bytes: impl Fn(u64),
) -> io::Result<Digest> {
    /// Bytes of a hole that are hashed at a time.
    const HOLE_PART_LEN: u64 = 1 << 20;
    let (len, data) = layout(file)?;
    let mut hasher = Hasher::new(run.options.algorithm);
    let mut at = 0;
    // Files of /proc go on behind their length, and so do those that grow.
    for range in data.into_iter().chain(once(len..u64::MAX)) {
        while at < range.start {
            run.go_on()?;
            let part = HOLE_PART_LEN.min(range.start - at);
            hash_zeros(&mut hasher, part);
            on_bytes(part);
            at += part;
        }
        at = read(run, file, &range, buffer, |bytes| {
            hasher.update(bytes);
            on_bytes(bytes.len() as u64);
        })?;
        if at < range.end {
            break;
        }
    }
    Ok(hasher.finish())
}

/// The hash of the bytes in `data`; nothing if the file has another length, or anything but zeros
/// elsewhere.
fn data_digest(
    run: &Run,
    file: &File,
    len: u64,
    data: &[Range<u64>],
    buffer: &mut [u8],
    on_bytes: impl Fn(u64),
) -> io::Result<Option<Digest>> {
    let (own_len, own) = layout(file)?;
    if own_len != len {
        return Ok(None);
    }
    let mut hasher = Hasher::new(run.options.algorithm);
    let mut at = 0;
    for range in data.iter().cloned().chain(once(len..len)) {
        let mut are_zeros = true;
        for part in within(&own, &(at..range.start)) {
            let end = read(run, file, &part, buffer, |bytes| {
                are_zeros &= bytes.iter().all(|&byte| byte == 0);
            })?;
            are_zeros &= end == part.end;
        }
        on_bytes(range.start - at);
        at = read(run, file, &range, buffer, |bytes| {
            hasher.update(bytes);
            on_bytes(bytes.len() as u64);
        })?;
        if !are_zeros || at < range.end {
            return Ok(None);
        }
    }
    Ok(Some(hasher.finish()))
}

/// The parts of a range that ranges in order cover.
fn within<'a>(
    ranges: &'a [Range<u64>],
    range: &'a Range<u64>,
) -> impl Iterator<Item = Range<u64>> + 'a {
    let first = ranges.partition_point(|one| one.end <= range.start);
    ranges[first..]
        .iter()
        .take_while(|one| one.start < range.end)
        .map(|one| one.start.max(range.start)..one.end.min(range.end))
}

/// Reads a part of a file up to its end; returns the offset behind the last byte read.
fn read(
    run: &Run,
    file: &File,
    range: &Range<u64>,
    buffer: &mut [u8],
    mut on_piece: impl FnMut(&[u8]),
) -> io::Result<u64> {
    let mut at = range.start;
    while at < range.end {
        run.go_on()?;
        let len = (range.end - at).min(buffer.len() as u64) as usize;
        match file.read_at(&mut buffer[..len], at) {
            Ok(0) => break,
            Ok(len) => {
                on_piece(&buffer[..len]);
                at += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn parts_of_ranges_are_found() {
        let parts = |range: Range<u64>| within(&[2..4, 6..9], &range).collect::<Vec<_>>();
        assert_eq!(parts(0..2), []);
        assert_eq!(parts(0..3), [2..3]);
        assert_eq!(parts(3..7), [3..4, 6..7]);
        assert_eq!(parts(4..6), []);
        assert_eq!(parts(7..8), [7..8]);
        assert_eq!(parts(0..20), [2..4, 6..9]);
        assert_eq!(parts(5..5), []);
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn a_file_without_holes_is_all_data() {
        assert!(!has_holes(&[], 0));
        assert!(!has_holes(&[0..5], 5));
        assert!(has_holes(&[0..4], 5));
        assert!(has_holes(&[], 5));
    }
}
