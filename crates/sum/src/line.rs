//! The lines of check files, as GNU coreutils (9.1), BSD and OpenSSL write them.

use std::io::Write;

use tabane_engine::{Algorithm, Digest};

use crate::etag::Upload;
use crate::sum::Sum;

/// The format of a line with checksum and name.
///
/// The default is `sha256sum`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Format {
    /// The arrangement.
    pub style: Style,
    /// Whether lines end with NUL instead of a newline, and nothing is escaped.
    pub zero: bool,
}

impl Default for Format {
    fn default() -> Self {
        Self::new(Style::Untagged {
            algorithm: Algorithm::Sha256,
            binary: false,
        })
    }
}

/// The arrangement of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The checksum, a space, a space or for `binary` a `*`, the name. `binary` means nothing but
    /// that. Sums of XXH3 have `XXH3_` before them, as xxhsum has it, since they are as long as
    /// those of XXH64.
    Untagged {
        /// The algorithm of the checksums.
        algorithm: Algorithm,
        /// Whether the character before the name is `*`.
        binary: bool,
    },
    /// As BSD has it: `SHA256 (name) = checksum`.
    Tagged(Algorithm),
}

impl Format {
    /// Lines of this arrangement that end with a newline.
    pub fn new(style: Style) -> Self {
        Self { style, zero: false }
    }

    /// Says whether lines end with NUL instead of a newline, and nothing is escaped.
    #[must_use]
    pub fn zero(mut self, zero: bool) -> Self {
        self.zero = zero;
        self
    }

    /// Appends the line to `out`.
    ///
    /// If the name has a backslash, a newline or a carriage return in it, these are written as
    /// `\\`, `\n` and `\r`, and the line begins with a backslash.
    pub fn write(&self, sum: &Sum, name: &[u8], out: &mut Vec<u8>) {
        let escape = !self.zero && name.iter().any(|byte| b"\\\n\r".contains(byte));
        if escape {
            out.push(b'\\');
        }
        let put_name = |out: &mut Vec<u8>| {
            if escape {
                escape_name(name, out);
            } else {
                out.extend_from_slice(name);
            }
        };
        match self.style {
            Style::Tagged(algorithm) => {
                out.extend_from_slice(tag(algorithm).as_bytes());
                out.extend_from_slice(b" (");
                put_name(out);
                out.extend_from_slice(b") = ");
                put_sum(sum, out);
            }
            Style::Untagged { algorithm, binary } => {
                out.extend_from_slice(prefix(algorithm));
                put_sum(sum, out);
                out.extend_from_slice(if binary { b" *" } else { b"  " });
                put_name(out);
            }
        }
        out.push(if self.zero { 0 } else { b'\n' });
    }
}

fn put_sum(sum: &Sum, out: &mut Vec<u8>) {
    write!(out, "{sum}").expect("memory takes all");
}

/// Prefix of the checksum in an untagged line.
fn prefix(algorithm: Algorithm) -> &'static [u8] {
    match algorithm {
        Algorithm::Xxh3 => b"XXH3_",
        _ => b"",
    }
}

/// Appends a name with backslashes, newlines and carriage returns escaped.
pub fn escape_name(name: &[u8], out: &mut Vec<u8>) {
    for &byte in name {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(byte),
        }
    }
}

/// The name of an algorithm in tagged lines.
pub fn tag(algorithm: Algorithm) -> String {
    algorithm.name().to_ascii_uppercase()
}

/// The name that `openssl dgst` of OpenSSL 3 has for an algorithm, where it is another one.
fn openssl_tag(algorithm: Algorithm) -> Option<String> {
    use Algorithm::{HmacSha256, Sha224, Sha256, Sha384, Sha512};
    let is_sha2 = matches!(algorithm, Sha224 | Sha256 | Sha384 | Sha512 | HmacSha256);
    is_sha2.then(|| tag(algorithm).replacen("SHA", "SHA2-", 1))
}

/// A line of a check file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The algorithm of the checksum.
    pub algorithm: Algorithm,
    /// The checksum. It has parts only with [`Accept::Etags`].
    pub sum: Sum,
    /// Name of the file; `-` is standard input.
    pub name: Vec<u8>,
}

/// Which checksums a check file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Checksums of one algorithm.
    Only(Algorithm),
    /// Tagged ones of any algorithm, untagged ones of this.
    AnyTagged(Algorithm),
    /// ETags of uploads in parts of this length, and of whole uploads.
    Etags(Upload),
}

/// Reads lines of check files.
///
/// Lines of the three forms `sum  name` (or `sum *name`), `sum name` and `TAG (name) = sum` are
/// read. Once a line of one of the first two forms was read, lines of the other are rejected:
/// otherwise a space before a name would make a line valid for another file.
#[derive(Clone, Debug)]
pub struct Parser {
    accept: Accept,
    /// Which of the two untagged forms was met.
    one_space: Option<bool>,
}

impl Parser {
    /// For files with these checksums.
    pub fn new(accept: Accept) -> Self {
        Self {
            accept,
            one_space: None,
        }
    }

    /// Which checksums it accepts.
    pub fn accept(&self) -> Accept {
        self.accept
    }

    /// Reads a line, given without what ends it. `None` if it is improperly formatted.
    pub fn parse(&mut self, line: &[u8]) -> Option<Line> {
        let line = trim_blanks(line);
        let (escaped, line) = match line.strip_prefix(b"\\") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        if let Some((algorithm, rest)) = self.strip_tag(line) {
            return parse_tagged(algorithm, rest, escaped);
        }
        let (algorithm, sum, rest) = self.parse_untagged_sum(line)?;
        let (b' ' | b'\t', rest) = rest.split_first()? else {
            return None;
        };
        let name = match rest {
            // A single such character is the name itself.
            [b' ' | b'*', name @ ..] if !name.is_empty() => match self.one_space {
                Some(true) => rest,
                _ => {
                    self.one_space = Some(false);
                    name
                }
            },
            [] => return None,
            _ if self.one_space == Some(false) => return None,
            _ => {
                self.one_space = Some(true);
                rest
            }
        };
        let name = parse_name(name, escaped)?;
        Some(Line {
            algorithm,
            sum,
            name,
        })
    }

    /// The algorithm whose tag the line begins with, and what follows the parenthesis behind it.
    fn strip_tag<'a>(&self, line: &'a [u8]) -> Option<(Algorithm, &'a [u8])> {
        let strip = |algorithm| {
            let strip = |tag: String| line.strip_prefix(tag.as_bytes());
            let rest = strip(tag(algorithm)).or_else(|| strip(openssl_tag(algorithm)?))?;
            let rest = rest.strip_prefix(b" ").unwrap_or(rest);
            Some((algorithm, rest.strip_prefix(b"(")?))
        };
        match self.accept {
            Accept::Only(algorithm) => strip(algorithm),
            Accept::AnyTagged(_) => Algorithm::all().find_map(strip),
            Accept::Etags(_) => None,
        }
    }

    fn parse_untagged_sum<'a>(&self, line: &'a [u8]) -> Option<(Algorithm, Sum, &'a [u8])> {
        let (algorithm, etags) = match self.accept {
            Accept::Only(algorithm) | Accept::AnyTagged(algorithm) => (algorithm, false),
            Accept::Etags(_) => (Algorithm::Md5, true),
        };
        let line = line.strip_prefix(prefix(algorithm)).unwrap_or(line);
        let (digest, rest) = parse_digest(algorithm, line)?;
        let (parts, rest) = match rest.strip_prefix(b"-") {
            Some(rest) if etags => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (digits, rest) = rest.split_at(digits);
                (Some(std::str::from_utf8(digits).ok()?.parse().ok()?), rest)
            }
            _ => (None, rest),
        };
        Some((algorithm, Sum { digest, parts }, rest))
    }
}

/// Reads what follows a tag and a parenthesis: `name) = digest`.
fn parse_tagged(algorithm: Algorithm, rest: &[u8], escaped: bool) -> Option<Line> {
    let end = rest.iter().rposition(|&byte| byte == b')')?;
    let name = parse_name(&rest[..end], escaped)?;
    let digest = trim_blanks(trim_blanks(&rest[end + 1..]).strip_prefix(b"=")?);
    let (digest, behind) = parse_digest(algorithm, digest)?;
    // A NUL ends what coreutils sees of a line.
    (behind.is_empty() || behind[0] == 0).then_some(Line {
        algorithm,
        sum: Sum {
            digest,
            parts: None,
        },
        name,
    })
}

/// Reads a digest in hexadecimal; returns it with what follows.
fn parse_digest(algorithm: Algorithm, text: &[u8]) -> Option<(Digest, &[u8])> {
    let (digits, rest) = text.split_at_checked(2 * algorithm.digest_len())?;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> = digits
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect();
    Some((Digest::from_bytes(&bytes?)?, rest))
}

/// Reads a name, undoing its escapes.
fn parse_name(text: &[u8], escaped: bool) -> Option<Vec<u8>> {
    if !escaped {
        // Names contain no NUL; coreutils ends the name there.
        let len = text
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(text.len());
        return Some(text[..len].to_vec());
    }
    let mut name = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        name.push(match byte {
            0 => return None,
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            _ => byte,
        });
    }
    Some(name)
}

fn trim_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    &text[blanks.count()..]
}
