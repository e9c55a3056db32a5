//! What a client asks of properties.

use quick_xml::events::Event;
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

/// The namespace of WebDAV.
pub const NAMESPACE: &str = "DAV:";

/// A property, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Empty if it is in none.
    pub namespace: String,
    /// Without a prefix.
    pub name: String,
}

/// Which properties are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All, with their values.
    All,
    /// The names of all.
    Names,
    /// Those of this list, with their values.
    Some(Vec<Property>),
}

/// Properties of one request.
const PROPERTIES_MAX: usize = 100;

impl Wanted {
    /// Reads the body of a `PROPFIND`; nothing if it is none.
    pub fn parse(body: &[u8]) -> Option<Self> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Some(Self::All);
        }
        let text = std::str::from_utf8(body).ok()?;
        let mut reader = NsReader::from_str(text);
        let mut depth = 0;
        let mut wanted = None;
        let mut properties = Vec::new();
        loop {
            let (namespace, event) = reader.read_resolved_event().ok()?;
            let is_empty = matches!(event, Event::Empty(_));
            match event {
                Event::Start(element) | Event::Empty(element) => {
                    let namespace = match namespace {
                        ResolveResult::Bound(namespace) => {
                            std::str::from_utf8(namespace.as_ref()).ok()?.to_owned()
                        }
                        ResolveResult::Unbound => String::new(),
                        ResolveResult::Unknown(_) => return None,
                    };
                    let name = element.local_name();
                    let name = std::str::from_utf8(name.as_ref()).ok()?.to_owned();
                    let is_dav = namespace == NAMESPACE;
                    match (depth, &name[..]) {
                        (0, "propfind") if is_dav => {}
                        (0, _) => return None,
                        (1, "allprop") if is_dav => wanted = Some(Self::All),
                        (1, "propname") if is_dav => wanted = Some(Self::Names),
                        (1, "prop") if is_dav => wanted = Some(Self::Some(Vec::new())),
                        (2, _) if properties.len() < PROPERTIES_MAX => {
                            properties.push(Property { namespace, name });
                        }
                        _ => {}
                    }
                    depth += u32::from(!is_empty);
                }
                Event::End(_) => depth -= 1,
                Event::DocType(_) => return None,
                Event::Eof => break,
                _ => {}
            }
        }
        match wanted? {
            Self::Some(_) => Some(Self::Some(properties)),
            wanted => Some(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_programs_are_understood() {
        let davfs = br#"<?xml version="1.0" encoding="utf-8"?>
            <propfind xmlns="DAV:"><prop>
            <getetag/><getcontentlength/><executable xmlns="http://apache.org/dav/props/"/>
            </prop></propfind>"#;
        let Some(Wanted::Some(properties)) = Wanted::parse(davfs) else {
            panic!("it asks for properties");
        };
        let names: Vec<(&str, &str)> = properties
            .iter()
            .map(|property| (&property.namespace[..], &property.name[..]))
            .collect();
        assert_eq!(
            names,
            [
                ("DAV:", "getetag"),
                ("DAV:", "getcontentlength"),
                ("http://apache.org/dav/props/", "executable")
            ]
        );
        let all = br#"<D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>"#;
        assert_eq!(Wanted::parse(all), Some(Wanted::All));
        assert_eq!(Wanted::parse(b""), Some(Wanted::All));
        let names = br#"<a:propfind xmlns:a="DAV:"><a:propname/></a:propfind>"#;
        assert_eq!(Wanted::parse(names), Some(Wanted::Names));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "x",
            "<propfind/>",
            "<D:propfind xmlns:D=\"DAV:\">",
            "<D:propfind xmlns:D=\"DAV:\"/>",
            "<D:other xmlns:D=\"DAV:\"><D:allprop/></D:other>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><D:propfind xmlns:D=\"DAV:\"><D:allprop/>\
             </D:propfind>",
            "<Z:propfind><Z:allprop/></Z:propfind>",
        ] {
            assert_eq!(Wanted::parse(text.as_bytes()), None, "{text}");
        }
    }
}
