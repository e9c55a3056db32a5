//! Properties as XML.

use std::fmt::Write;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use tabane_store::entry::{Entry, Kind, Time};

use super::request::{NAMESPACE, Property, Wanted};
use crate::content::download;
use crate::encoding::segment;

/// Before all items.
pub const HEAD: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";

/// Behind all items.
pub fn tail() -> &'static str {
    "</D:multistatus>\n"
}

/// What an answer tells of.
pub struct Item {
    /// Empty for what the address itself names.
    name: Vec<u8>,
    /// Length, time and tag of a file; nothing of a directory.
    file: Option<(u64, Option<String>, String)>,
}

impl Item {
    /// A directory above the snapshots, or the root of one.
    pub fn above(name: String) -> Self {
        Self {
            name: name.into_bytes(),
            file: None,
        }
    }

    /// An entry of a snapshot; nothing for what WebDAV has no form for.
    pub fn of(entry: &Entry) -> Option<Self> {
        let file = match &entry.kind {
            Kind::Directory { .. } => None,
            Kind::File { size, .. } => {
                Some((*size, http_time(entry.mtime), download::tag_of(entry)))
            }
            _ => return None,
        };
        Some(Self {
            name: entry.name.clone(),
            file,
        })
    }

    /// The same as what the address itself names.
    pub fn nameless(mut self) -> Self {
        self.name.clear();
        self
    }

    /// The value of a property, escaped; nothing if there is none.
    fn value(&self, name: &str) -> Option<String> {
        match (name, &self.file) {
            ("resourcetype", None) => Some("<D:collection/>".to_owned()),
            ("resourcetype", Some(_)) => Some(String::new()),
            ("getcontentlength", Some((size, _, _))) => Some(size.to_string()),
            ("getlastmodified", Some((_, time, _))) => time.clone(),
            ("getetag", Some((_, _, tag))) => Some(escape(tag)),
            ("getcontenttype", Some(_)) => Some("application/octet-stream".to_owned()),
            _ => None,
        }
    }

    /// Writes what is wanted of the item; `base` is the address that was asked for.
    pub fn write(&self, base: &str, wanted: &Wanted, out: &mut String) {
        const ALL: [&str; 5] = [
            "resourcetype",
            "getcontentlength",
            "getlastmodified",
            "getetag",
            "getcontenttype",
        ];
        let slash = if self.file.is_none() { "/" } else { "" };
        let address = match &self.name[..] {
            [] => format!("{}{slash}", escape(base)),
            name => format!("{}/{}{slash}", escape(base), segment(name)),
        };
        let _ = write!(out, "<D:response><D:href>{address}</D:href>");
        let (mut found, mut missing) = (String::new(), String::new());
        match wanted {
            Wanted::All => {
                for name in ALL {
                    if let Some(value) = self.value(name) {
                        let _ = write!(found, "<D:{name}>{value}</D:{name}>");
                    }
                }
            }
            Wanted::Names => {
                for name in ALL.into_iter().filter(|name| self.value(name).is_some()) {
                    let _ = write!(found, "<D:{name}/>");
                }
            }
            Wanted::Some(properties) => {
                for Property { namespace, name } in properties {
                    match self.value(name).filter(|_| namespace == NAMESPACE) {
                        Some(value) => {
                            let _ = write!(found, "<D:{name}>{value}</D:{name}>");
                        }
                        None => {
                            let namespace = escape(namespace);
                            let _ = write!(missing, "<{name} xmlns=\"{namespace}\"/>");
                        }
                    }
                }
            }
        }
        for (properties, status) in [(found, "200 OK"), (missing, "404 Not Found")] {
            if !properties.is_empty() {
                let _ = write!(
                    out,
                    "<D:propstat><D:prop>{properties}</D:prop><D:status>HTTP/1.1 \
                     {status}</D:status></D:propstat>"
                );
            }
        }
        out.push_str("</D:response>\n");
    }
}

/// Text within XML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A time as HTTP has it.
pub fn http_time(time: Time) -> Option<String> {
    let time = Timestamp::from_second(time.s).ok()?;
    Some(time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
}

/// An answer of several parts.
pub fn multi_status(body: Body) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/xml; charset=utf-8")];
    (StatusCode::MULTI_STATUS, kind, body).into_response()
}

/// Refuses to walk through everything.
pub fn too_deep() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/xml; charset=utf-8")];
    let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\">\
                <D:propfind-finite-depth/></D:error>\n";
    (StatusCode::FORBIDDEN, kind, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_well_formed_whatever_they_are_called() {
        let item = Item {
            name: "a<b>&\"\u{202e}\x1b".as_bytes().to_vec(),
            file: Some((5, http_time(Time { s: 0, ns: 0 }), "\"tag\"".to_owned())),
        };
        let mut out = String::new();
        item.write("/dav/home", &Wanted::All, &mut out);
        assert!(
            out.contains("<D:href>/dav/home/a%3Cb%3E%26%22%E2%80%AE%1B</D:href>"),
            "{out}"
        );
        assert!(out.contains("Thu, 01 Jan 1970 00:00:00 GMT"), "{out}");
        assert!(out.contains("<D:getcontentlength>5</D:getcontentlength>"));
        let properties = vec![Property {
            namespace: "\"><evil".to_owned(),
            name: "x".to_owned(),
        }];
        let mut out = String::new();
        item.write("/dav", &Wanted::Some(properties), &mut out);
        assert!(
            out.contains("<x xmlns=\"&quot;&gt;&lt;evil\"/>") && out.contains("404"),
            "{out}"
        );
    }
}
