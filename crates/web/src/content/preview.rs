//! What of a file can be shown on a page.

use std::sync::Arc;

use tabane_store::Error;
use tabane_store::entry::Piece;
use tabane_store::file_reader::FileReader;
use tabane_store::segment_cache::SegmentCache;

/// Bytes of a text that are shown.
const TEXT_LEN_MAX: usize = 256 << 10;

/// Bytes that are shown of what is no text.
const BYTES_LEN_MAX: usize = 512;

/// Bytes of a picture that a browser is given.
pub const PICTURE_LEN_MAX: u64 = 32 << 20;

/// The beginning of a file, as far as it can be shown.
pub enum Preview {
    /// There is nothing in it.
    Empty,
    /// Text, and whether there is more of it.
    Text(String, bool),
    /// A picture.
    Picture,
    /// Lines of offset, hexadecimal digits and letters; and whether there is more.
    Bytes(String, bool),
}

/// Reads the beginning of a file.
///
/// # Errors
/// When it cannot be read.
pub fn preview(cache: &Arc<SegmentCache>, content: &[Piece]) -> Result<Preview, Error> {
    let reader = FileReader::new(cache, content.to_vec());
    let bytes = reader.read_at(0, TEXT_LEN_MAX)?;
    let is_more = |shown: usize| reader.size() > shown as u64;
    if bytes.is_empty() {
        return Ok(Preview::Empty);
    }
    if picture_kind(&bytes).is_some() && reader.size() <= PICTURE_LEN_MAX {
        return Ok(Preview::Picture);
    }
    Ok(match text_of(&bytes, is_more(bytes.len())) {
        Some(text) => Preview::Text(text, is_more(bytes.len())),
        None => {
            let shown = &bytes[..bytes.len().min(BYTES_LEN_MAX)];
            Preview::Bytes(dump(shown), is_more(shown.len()))
        }
    })
}

/// The media type of a picture that browsers draw and that runs nothing, by its first bytes.
pub fn picture_kind(bytes: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], usize, &str); 7] = [
        (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
        (b"\xff\xd8\xff", 0, "image/jpeg"),
        (b"GIF87a", 0, "image/gif"),
        (b"GIF89a", 0, "image/gif"),
        (b"WEBP", 8, "image/webp"),
        (b"ftypavif", 4, "image/avif"),
        (b"BM", 0, "image/bmp"),
    ];
    let is = |(magic, at, _): &&(&[u8], usize, &str)| {
        bytes
            .get(*at..)
            .is_some_and(|bytes| bytes.starts_with(magic))
    };
    let kind = kinds.iter().find(is)?.2;
    // Much else begins with these two letters.
    let is_bmp = |bytes: &[u8]| bytes.get(6..10) == Some(&[0; 4]);
    (kind != "image/bmp" || is_bmp(bytes)).then_some(kind)
}

/// The bytes as text, if they are: UTF-8 without zeros, whose last character may be cut off.
fn text_of(bytes: &[u8], is_cut: bool) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    Some(shown(text))
}

/// A text of several lines, in which nothing hides.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let end = line.trim_end_matches(['\r', '\n']).len();
        for (number, part) in line[..end].split('\t').enumerate() {
            if number > 0 {
                shown.push('\t');
            }
            shown += &tabane_text::printable(part);
        }
        if line.ends_with('\n') {
            shown.push('\n');
        }
    }
    shown
}

/// Lines as `hexdump -C` has them.
fn dump(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().map(|(number, line)| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x} ")).collect();
        let letter = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        let letters: String = line.iter().map(letter).collect();
        format!("{:08x}  {digits:48} {letters}\n", number * 16)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_bytes() {
        assert_eq!(text_of(b"a\tb\r\nc", false).as_deref(), Some("a\tb\nc"));
        assert_eq!(text_of(b"a\0b", false), None);
        assert_eq!(text_of(b"\xff\xfe", false), None);
        let cut = &"b\u{fc}".as_bytes()[..2];
        assert_eq!(text_of(cut, true).as_deref(), Some("b"));
        assert_eq!(text_of(cut, false), None);
        let hostile = "x\u{202e}\u{1b}[31m\n".as_bytes();
        let shown = text_of(hostile, false);
        assert_eq!(shown.as_deref(), Some("x\\u{202e}\\x1b[31m\n"));
    }

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        assert_eq!(picture_kind(b"\x89PNG\r\n\x1a\n..."), Some("image/png"));
        assert_eq!(picture_kind(b"RIFF....WEBPVP8 "), Some("image/webp"));
        assert_eq!(picture_kind(b"BMW is no picture"), None);
        assert_eq!(picture_kind(b"<svg xmlns="), None);
        assert_eq!(picture_kind(b"<html>"), None);
        assert_eq!(picture_kind(b""), None);
    }

    #[test]
    fn bytes_are_shown_in_lines_of_sixteen() {
        let dumped = dump(b"0123456789abcdef\n");
        assert_eq!(
            dumped,
            "00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\n\
             00000010  0a                                               .\n"
        );
    }
}
