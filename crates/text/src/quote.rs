//! Names in messages, quoted as GNU programs do it: a shell reads them back, and a terminal obeys
//! nothing in them.
//!
//! Not by the crate `os_display` 0.1.4, which quotes 22 of 49 odd names otherwise than coreutils
//! 9.1: `$'\x1B'` for `''$'\033'`, `a:b` and `a!b` without quotes, `{a}` with them.

use std::fmt::Write;

use crate::is_unsafe;

/// Quotes a name if it has special characters. Control characters and bytes that are not UTF-8
/// become `$'\033'`.
pub fn quote(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if is_plain(text) => text.to_owned(),
        // Looks better around an apostrophe, where a shell sees nothing else in it.
        Ok(text)
            if text.contains('\'') && text.char_indices().all(is_plain_within_double_quotes) =>
        {
            format!("\"{text}\"")
        }
        _ => in_single_quotes(name),
    }
}

/// As [`quote`], but with quotes around plain names too.
pub fn quote_always(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if is_plain(text) => format!("'{text}'"),
        _ => quote(name),
    }
}

fn is_plain(text: &str) -> bool {
    let special = |c| " !\"$&'()*:;<=>?[\\^`|".contains(c) || is_unsafe(c);
    !text.is_empty()
        && !text.contains(special)
        && !text.starts_with(['#', '~'])
        && text != "{"
        && text != "}"
}

fn is_plain_within_double_quotes((at, c): (usize, char)) -> bool {
    let special = "!\"$&()*;<=>?[\\^`{|}".contains(c) || is_unsafe(c);
    !special && (at == 0 || !['#', '~'].contains(&c))
}

fn in_single_quotes(name: &[u8]) -> String {
    let mut quoted = String::from("'");
    // Whether it ends within `$'…'`.
    let mut escaping = false;
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_unsafe(c) {
                escape(
                    c.encode_utf8(&mut [0; 4]).as_bytes(),
                    &mut escaping,
                    &mut quoted,
                );
            } else if c == '\'' {
                quoted.push_str("'\\''");
                escaping = false;
            } else {
                if std::mem::take(&mut escaping) {
                    quoted.push_str("''");
                }
                quoted.push(c);
            }
        }
        escape(chunk.invalid(), &mut escaping, &mut quoted);
    }
    quoted.push('\'');
    quoted
}

/// Appends bytes within `$'…'`, which it begins unless that is what the text ends with.
fn escape(bytes: &[u8], escaping: &mut bool, quoted: &mut String) {
    for &byte in bytes {
        if !std::mem::replace(escaping, true) {
            quoted.push_str("'$'");
        }
        let _ = match b"\x07\x08\t\n\x0b\x0c\r"
            .iter()
            .position(|&named| named == byte)
        {
            Some(at) => write!(quoted, "\\{}", char::from(b"abtnvfr"[at])),
            None => write!(quoted, "\\{byte:03o}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::quote;

    /// Compares with the output of `md5sum` of GNU coreutils 9.1.
    #[test]
    fn names_are_quoted_as_gnu_programs_quote_them() {
        for (name, quoted) in [
            (&b"plain-name_1.0,%+@]"[..], "plain-name_1.0,%+@]"),
            ("b\u{fc}cher".as_bytes(), "b\u{fc}cher"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"a:b", "'a:b'"),
            (b"#a", "'#a'"),
            (b"a#", "a#"),
            (b"{", "'{'"),
            (b"{a}", "{a}"),
            (b"it's", "\"it's\""),
            (b"it's $5", "'it'\\''s $5'"),
            (b"a\nb", "'a'$'\\n''b'"),
            (b"\x1b[31m", "''$'\\033''[31m'"),
            (b"\xff'\xfe", "''$'\\377'\\'''$'\\376'"),
        ] {
            assert_eq!(quote(name), quoted);
        }
    }
}
