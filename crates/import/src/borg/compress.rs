//! Decompresses what borg compressed.

use std::io::{self, Write};

use crate::error::Sound;

/// Appends the bytes of a chunk to `out`; at most `limit` bytes.
///
/// # Errors
/// What is wrong with the chunk.
pub fn decompress(chunk: &[u8], limit: usize, out: &mut Vec<u8>) -> Sound<()> {
    let wrong = |why: &dyn std::fmt::Display| format!("it cannot be decompressed: {why}");
    let (code, data) = chunk.split_at_checked(2).ok_or("it is cut short")?;
    match code {
        [0, 0] => out.extend_from_slice(data),
        [1, 0] => {
            // Nothing says how long it gets: LZ4 makes no more than 255 bytes of one.
            let room = limit.min(data.len().saturating_mul(255));
            let start = out.len();
            out.resize(start + room, 0);
            let len = lz4_flex::block::decompress_into(data, &mut out[start..]);
            out.truncate(start + *len.as_ref().unwrap_or(&0));
            len.map_err(|error| wrong(&error))?;
        }
        [2, 0] => {
            let mut limited = Limited { out, left: limit };
            lzma_rs::xz_decompress(&mut io::Cursor::new(data), &mut limited)
                .map_err(|error| wrong(&format!("{error:?}")))?;
        }
        [3, 0] => {
            let mut decoder = zstd::Decoder::new(data).map_err(|error| wrong(&error))?;
            let mut limited = Limited { out, left: limit };
            io::copy(&mut decoder, &mut limited).map_err(|error| wrong(&error))?;
        }
        // A stream of zlib says so itself.
        [first, _] if first & 15 == 8 => {
            let done = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(chunk, limit);
            out.extend_from_slice(&done.map_err(|error| wrong(&error))?);
        }
        _ => return Err("it is compressed in a way that is not known".to_owned()),
    }
    Ok(())
}

/// Takes so many bytes and no more.
struct Limited<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let too_long = || io::Error::other("it is too long");
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(too_long)?;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
