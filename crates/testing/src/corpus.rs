//! Inputs of fuzzers that the repository keeps: `crates/testing/corpora/NAME`, an input a line,
//! the shortest first.
//!
//! A line in quotation marks is text with Rust's escapes. Any other line is hexadecimal digits.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of one file at most.
const FILE_LEN_MAX: usize = 20_000;

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora");
    folder.join(name)
}

/// The inputs that are kept under this name; none if nothing was kept yet.
///
/// # Panics
/// When a line is malformed; the panic names it.
pub fn kept(name: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(path(name)).unwrap_or_default();
    let inputs = text.lines().map(|line| {
        let input = parse(line);
        input.unwrap_or_else(|| panic!("a malformed line of {name}: {line}"))
    });
    inputs.collect()
}

/// Keeps these inputs under this name instead of those that were kept: the shortest, up to 20 kB.
///
/// # Panics
/// When the file cannot be written.
pub fn keep(name: &str, mut inputs: Vec<Vec<u8>>) {
    inputs.sort_by_key(|input| (input.len(), input.clone()));
    inputs.dedup();
    let mut text = String::new();
    for input in &inputs {
        let line = format(input);
        if text.len() + line.len() < FILE_LEN_MAX {
            text += &line;
            text.push('\n');
        }
    }
    let path = path(name);
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
    fs::write(path, text).expect("a file to write to");
}

/// The shorter of the two forms.
fn format(input: &[u8]) -> String {
    let text = format!("\"{}\"", input.escape_ascii());
    let digits = hex::encode(input);
    if digits.is_empty() || text.len() <= digits.len() {
        text
    } else {
        digits
    }
}

fn parse(line: &str) -> Option<Vec<u8>> {
    let Some(quoted) = line.strip_prefix('"') else {
        return hex::decode(line).ok();
    };
    let mut rest = quoted.strip_suffix('"')?.as_bytes();
    let mut input = Vec::new();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte != b'\\' {
            input.push(byte);
            continue;
        }
        let (&escape, more) = rest.split_first()?;
        rest = more;
        input.push(match escape {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let (digits, more) = rest.split_first_chunk::<2>()?;
                rest = more;
                hex::decode(digits).ok()?[0]
            }
            other => other,
        });
    }
    Some(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_come_back_from_their_lines() {
        let all: Vec<u8> = (0..=255).collect();
        for input in [
            &b""[..],
            b"\"\\\n\r\t'x",
            b"{\"version\": 1}",
            b"\x00\xff",
            &all,
        ] {
            let line = format(input);
            assert!(!line.contains('\n'));
            assert_eq!(parse(&line).as_deref(), Some(input), "{line}");
        }
        for wrong in ["\"", "\"a", "\"\\\"", "\"\\x1\"", "0", "x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
