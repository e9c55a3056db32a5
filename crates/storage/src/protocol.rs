//! The protocol between a storage server and its clients: which request of HTTP/2 means what.
//!
//! `docs/reference/server.md` describes it for people. Client and server use the same functions, so
//! a request is written and read in one place.

use std::time::{Duration, SystemTime};

use crate::error::StorageErrorKind;
use crate::id::{ID_LEN, Id};
use crate::name::{Name, ObjectKind};
use crate::storage::Listed;

/// The first segment of every path.
const VERSION: &str = "v1";

/// The name of the protocol in a TLS handshake (ALPN).
pub const ALPN: &[u8] = b"h2";

/// What a server says first over SSH, before HTTP/2 begins: a login may print something else.
pub const GREETING: &[u8; 8] = b"TABANE1\n";

/// The command line that a client starts over SSH.
pub const SERVE_COMMAND: &str = "tabane serve --stdio";

/// The port of servers, unless one is given.
pub const DEFAULT_PORT: u16 = 7450;

/// The header that names a client's session: [`SESSION_LEN`] random bytes in hexadecimal digits. A
/// client that may not delete can take back what it put in the same session.
pub const SESSION: &str = "tabane-session";

/// Random bytes of a session's name.
pub const SESSION_LEN: usize = 16;

/// Time in which a client can take back an index object or a snapshot that it put.
pub const TAKE_BACK_MAX: Duration = Duration::from_secs(10 * 60);

/// The header of a refusal that holds its kind; its body is a sentence for a person.
pub const ERROR: &str = "tabane-error";

/// What the path of a question for a length ends in. (An answer to HEAD could not explain itself.)
const LENGTH_SUFFIX: &str = "/length";

/// The header with the length of an object.
pub const LENGTH: &str = "tabane-length";

/// Bytes of a refusal's body at most.
pub const SENTENCE_LEN_MAX: usize = 4 << 10;

/// Bytes of an object in a listing: ID, length, nanoseconds since 1970, the numbers big-endian.
pub const LISTED_LEN: usize = ID_LEN + 16;

/// The kinds of errors that a server tells apart, with their names and the status of HTTP.
const KINDS: [(StorageErrorKind, &str, u16); 15] = [
    (StorageErrorKind::Invalid, "invalid", 400),
    (StorageErrorKind::Malformed, "malformed", 400),
    (StorageErrorKind::Unauthorized, "unauthorized", 403),
    (StorageErrorKind::Denied, "denied", 403),
    (StorageErrorKind::NotFound, "not-found", 404),
    (StorageErrorKind::NotADirectory, "not-a-directory", 404),
    (StorageErrorKind::AlreadyExists, "already-exists", 409),
    (StorageErrorKind::NotEmpty, "not-empty", 409),
    (StorageErrorKind::PastEnd, "past-end", 416),
    (StorageErrorKind::Permanent, "permanent", 500),
    (StorageErrorKind::Damaged, "damaged", 500),
    (StorageErrorKind::Unsupported, "unsupported", 501),
    (StorageErrorKind::Retryable, "retryable", 503),
    (StorageErrorKind::Full, "full", 507),
    (StorageErrorKind::ReadOnly, "read-only", 507),
];

/// An operation on a repository, without its body and the range of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads an object or a range of it.
    Get(Name),
    /// Tells the length of an object.
    Stat(Name),
    /// Writes an object that must not exist.
    Put(Name),
    /// Writes an object in the place of another.
    Replace(Name),
    /// Removes an object.
    Delete(Name),
    /// Lists objects.
    List(ObjectKind),
    /// Prepares the place for a new repository.
    Create,
    /// Makes missing folders.
    MakeFolders,
    /// Removes temporary files of at least this age, in whole seconds.
    RemoveLeftovers(Duration),
}

impl Operation {
    /// The method of HTTP.
    pub fn method(self) -> &'static str {
        match self {
            Self::Get(_) | Self::Stat(_) | Self::List(_) => "GET",
            Self::Put(_) => "PUT",
            Self::Delete(_) => "DELETE",
            Self::Replace(_) | Self::Create | Self::MakeFolders | Self::RemoveLeftovers(_) => {
                "POST"
            }
        }
    }

    /// The path of HTTP for this operation on a repository.
    pub fn path(self, repository: &str) -> String {
        let what = match self {
            Self::Stat(name) => format!("{name}{LENGTH_SUFFIX}"),
            Self::Get(name) | Self::Put(name) | Self::Replace(name) | Self::Delete(name) => {
                name.path()
            }
            Self::List(kind) => format!("{}/", kind.name()),
            Self::Create => "create".to_owned(),
            Self::MakeFolders => "folders".to_owned(),
            Self::RemoveLeftovers(age) => format!("leftovers/{}", age.as_secs()),
        };
        format!("/{VERSION}/{}/{what}", escape(repository))
    }

    /// Reads method and path; returns the repository and the operation, or `None` if they are none.
    /// A name is taken only as [`Name::path`] writes it, so a path leads nowhere else.
    pub fn parse(method: &str, path: &str) -> Option<(String, Self)> {
        let rest = path.strip_prefix('/')?.strip_prefix(VERSION)?;
        let (repository, what) = rest.strip_prefix('/')?.split_once('/')?;
        let name = || Name::from_path(what);
        let operation = match method {
            "GET" => match (what.strip_suffix('/'), what.strip_suffix(LENGTH_SUFFIX)) {
                (Some(folder), _) => Self::List(ObjectKind::from_name(folder)?),
                (_, Some(object)) => Self::Stat(Name::from_path(object)?),
                _ => Self::Get(name()?),
            },
            "PUT" => Self::Put(name()?),
            "DELETE" => Self::Delete(name()?),
            "POST" => match (what, what.strip_prefix("leftovers/")) {
                ("create", _) => Self::Create,
                ("folders", _) => Self::MakeFolders,
                (_, Some(age)) => Self::RemoveLeftovers(Duration::from_secs(age.parse().ok()?)),
                _ => Self::Replace(name()?),
            },
            _ => return None,
        };
        Some((unescape(repository)?, operation))
    }
}

/// The status of HTTP and the name of a kind of error. Kinds that servers do not tell apart are
/// permanent ones.
pub fn of_kind(kind: StorageErrorKind) -> (u16, &'static str) {
    let found = KINDS.iter().find(|(known, ..)| *known == kind);
    found.map_or((500, "permanent"), |(_, name, status)| (*status, *name))
}

/// The kind of this name.
pub fn kind(name: &str) -> Option<StorageErrorKind> {
    let found = KINDS.iter().find(|(_, known, _)| *known == name);
    found.map(|(kind, ..)| *kind)
}

/// The body of a listing.
pub fn encode_list(listed: &[Listed]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(listed.len() * LISTED_LEN);
    for object in listed {
        let since = object.modified.duration_since(SystemTime::UNIX_EPOCH);
        let ns = since.map_or(0, |since| since.as_nanos() as u64);
        bytes.extend(object.id.0);
        bytes.extend(object.len.to_be_bytes());
        bytes.extend(ns.to_be_bytes());
    }
    bytes
}

/// Reads the body of a listing; `None` if it is none.
pub fn decode_list(bytes: &[u8]) -> Option<Vec<Listed>> {
    let (objects, []) = bytes.as_chunks::<LISTED_LEN>() else {
        return None;
    };
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_be_bytes);
    let listed = objects.iter().map(|object| {
        let (id, numbers) = object.split_at(ID_LEN);
        let (len, ns) = numbers.split_at(8);
        Some(Listed {
            id: Id(id.try_into().ok()?),
            len: number(len)?,
            modified: SystemTime::UNIX_EPOCH + Duration::from_nanos(number(ns)?),
        })
    });
    listed.collect()
}

/// Escapes text as a segment of a path (RFC 3986).
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(byte.into());
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn unescape(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back() {
        let pack = Name::new(ObjectKind::Pack, Id([0xab; ID_LEN]));
        for operation in [
            Operation::Get(pack),
            Operation::Stat(Name::CONFIG),
            Operation::Put(Name::new(ObjectKind::Set, Id([1; ID_LEN]))),
            Operation::Replace(Name::TARGET),
            Operation::Delete(Name::new(ObjectKind::Pending, Id([9; ID_LEN]))),
            Operation::List(ObjectKind::Pack),
            Operation::List(ObjectKind::Config),
            Operation::Create,
            Operation::MakeFolders,
            Operation::RemoveLeftovers(Duration::from_secs(86_400)),
        ] {
            for repository in ["laptop", "/srv/backup/my laptop", "~/größe%2F", "..", ""] {
                let path = operation.path(repository);
                assert!(path.is_ascii(), "{path}");
                let parsed = Operation::parse(operation.method(), &path);
                assert_eq!(parsed, Some((repository.to_owned(), operation)), "{path}");
            }
        }
    }

    #[test]
    fn what_is_no_operation_is_refused() {
        let id = "ab".repeat(ID_LEN);
        for (method, path) in [
            ("GET", "/v1/laptop"),
            ("GET", "/v2/laptop/config"),
            ("GET", "v1/laptop/config"),
            ("PATCH", "/v1/laptop/config"),
            ("GET", "/v1/laptop/tmp/"),
            ("GET", "/v1/laptop/../other/config"),
            ("GET", "/v1/laptop/packs/../config"),
            ("GET", "/v1/laptop//config"),
            ("GET", "/v1/laptop/config/config"),
            ("HEAD", "/v1/laptop/config"),
            ("GET", "/v1/laptop/packs/length"),
            ("GET", "/v1/lap%top/config"),
            ("GET", "/v1/lap%ff/config"),
            ("POST", "/v1/laptop/leftovers/soon"),
            ("GET", &format!("/v1/laptop/packs/{id}")),
            ("GET", &format!("/v1/laptop/packs/ac/{id}")),
            ("GET", &format!("/v1/laptop/packs/ab/{}", id.to_uppercase())),
            ("GET", &format!("/v1/laptop/index/{id}0")),
            ("GET", &format!("/v1/laptop/index/{}", &id[2..])),
            ("PUT", "/v1/laptop/index/"),
        ] {
            assert_eq!(Operation::parse(method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn lists_come_back() {
        let listed: Vec<Listed> = (0..3_u8)
            .map(|number| Listed {
                id: Id([number; ID_LEN]),
                len: u64::from(number) << 40,
                modified: SystemTime::UNIX_EPOCH + Duration::new(1 << 31, u32::from(number)),
            })
            .collect();
        let bytes = encode_list(&listed);
        assert_eq!(decode_list(&bytes), Some(listed));
        assert_eq!(decode_list(&[]), Some(Vec::new()));
        assert_eq!(decode_list(&bytes[1..]), None);
        assert!(decode_list(&[0xff; LISTED_LEN]).is_some());
    }

    #[test]
    fn each_kind_of_error_comes_back_or_is_permanent() {
        for known in StorageErrorKind::ALL {
            let (status, name) = of_kind(known);
            assert!((400..600).contains(&status));
            let back = kind(name).unwrap();
            assert!(
                back == known || back == StorageErrorKind::Permanent,
                "{known:?}"
            );
        }
    }
}
