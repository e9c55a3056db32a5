//! Names and paths in addresses, and what forms send. A name is any bytes, so nothing here takes
//! text for granted.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// What stands for itself in an address.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A name as a part of an address.
pub fn segment(name: &[u8]) -> String {
    percent_encode(name, ENCODED).to_string()
}

/// A path of a snapshot as the end of an address, with a slash before each name; empty for `/`.
pub fn path(path: &Path) -> String {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    names.fold(String::new(), |mut text, name| {
        text.push('/');
        text += &segment(name.as_bytes());
        text
    })
}

/// The path that the end of an address names, from `/` on; nothing if a part is no name that a
/// directory could have, or leads elsewhere.
pub fn parse_path(text: &str) -> Option<PathBuf> {
    let mut path = PathBuf::from("/");
    for part in text.split('/').filter(|part| !part.is_empty()) {
        let name: Vec<u8> = percent_decode_str(part).collect();
        if name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
            return None;
        }
        path.push(OsString::from_vec(name));
    }
    Some(path)
}

/// The fields of a query or a form, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, Vec<u8>)>);

impl Fields {
    /// Reads `a=1&b=2`.
    pub fn parse(text: &str) -> Self {
        let decode = |part: &str| -> Vec<u8> {
            let spaced = part.replace('+', " ");
            percent_decode_str(&spaced).collect()
        };
        let fields = text.split('&').filter(|field| !field.is_empty());
        let fields = fields.map(|field| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let name = String::from_utf8_lossy(&decode(name)).into_owned();
            (name, decode(value))
        });
        Self(fields.collect())
    }

    /// The first value of a field.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let mut named = self.0.iter().filter(|(field, _)| field == name);
        named.next().map(|(_, value)| &value[..])
    }

    /// The first value of a field as text, without spaces around it; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        let value = self.bytes(name).unwrap_or_default();
        String::from_utf8_lossy(value).trim().to_owned()
    }

    /// The number that a field holds.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.text(name).parse().ok()
    }

    /// The path that a field holds, from `/` on.
    pub fn path(&self, name: &str) -> PathBuf {
        let path = OsString::from_vec(self.bytes(name).unwrap_or_default().to_vec());
        tabane_store::browse::absolute(Path::new(&path))
    }

    /// Whether a field is there, as that of a box that is ticked.
    pub fn has(&self, name: &str) -> bool {
        self.bytes(name).is_some()
    }
}

/// A query of these fields, with its question mark; empty without fields.
pub fn query<'a>(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        text.push(if text.is_empty() { '?' } else { '&' });
        text += &segment(name.as_bytes());
        text.push('=');
        text += &segment(value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_any_bytes_come_back() {
        for bytes in [
            &b"/"[..],
            b"/a b/c+d",
            b"/%2e%2e/x?y#z",
            b"/\xff\xfe/\x1b[31m",
            "/\u{202e}b\u{fc}cher/<script>&\"'".as_bytes(),
        ] {
            let given = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            let text = path(&given);
            assert!(text.is_ascii() && !text.contains(['<', '"', '?', '#', ' ', '+']));
            assert_eq!(parse_path(&text), Some(given));
        }
    }

    #[test]
    fn what_leads_elsewhere_is_no_path() {
        for text in [
            "..", "a/../b", "%2e%2e/b", "a/%2E/b", "a%2fb", "a%00b", ".%2e",
        ] {
            assert_eq!(parse_path(text), None, "{text}");
        }
        assert_eq!(parse_path("//a///b/"), Some(PathBuf::from("/a/b")));
    }

    #[test]
    fn fields_are_read_as_browsers_send_them() {
        let fields = Fields::parse("q=a+b%2B&path=%2Fx%FF&box=&q=second&=&&x");
        assert_eq!(fields.text("q"), "a b+");
        assert_eq!(fields.bytes("path"), Some(&b"/x\xff"[..]));
        assert!(fields.has("box") && fields.has("x") && !fields.has("y"));
        assert_eq!(fields.number("q"), None);
        let again = query([("q", &b"a b+"[..]), ("path", b"/x\xff")]);
        assert_eq!(again, "?q=a%20b%2B&path=%2Fx%FF");
    }
}
