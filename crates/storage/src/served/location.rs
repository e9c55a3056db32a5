//! Locations on storage servers.

use std::fmt;

use crate::protocol::DEFAULT_PORT;
use crate::ssh::SshPlace;

/// A repository on a storage server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedLocation {
    /// Over TLS: a repository by its name.
    Https {
        /// Name or address; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
        /// The repository's name.
        repository: String,
    },
    /// Over SSH, where a server is started for this client: a repository by its path.
    Ssh(SshPlace),
}

impl ServedLocation {
    /// Parses `rest`, the part behind `tabane+https://` of the URL `text`.
    ///
    /// # Errors
    /// A sentence about the mistake.
    pub fn parse_https(text: &str, rest: &str) -> Result<Self, String> {
        let form = "write tabane+https://HOST:PORT/NAME, where :PORT may be left out";
        let (authority, repository) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            // The URL is not shown: it may contain a token.
            return Err(
                "a URL is no place for a token, since every user of this machine can see it: set \
                 TABANE_SERVER_TOKEN_FILE"
                    .to_owned(),
            );
        }
        let (host, port) = match authority.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, rest))) => (host, rest.strip_prefix(':')),
            Some(None) => (authority, None),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port.map(str::parse) {
            None => DEFAULT_PORT,
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return Err(format!("{text:?} has no port behind the colon: {form}")),
        };
        let repository = repository.strip_suffix('/').unwrap_or(repository);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if host.is_empty() || !host.chars().all(is_host) || !is_repository_name(repository) {
            return Err(format!(
                "{text:?} names no repository of a server: {form}; names have letters, digits, \
                 '-', '_' and '.'"
            ));
        }
        Ok(Self::Https {
            host: host.to_owned(),
            port,
            repository: repository.to_owned(),
        })
    }
}

/// Whether a repository of a server may have this name: up to 64 letters, digits, `-`, `_` and `.`,
/// no `.` at the front.
pub fn is_repository_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_good) && !name.starts_with('.')
}

impl fmt::Display for ServedLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Https {
                host,
                port,
                repository,
            } => {
                f.write_str("tabane+https://")?;
                if host.contains(':') {
                    write!(f, "[{host}]")?
                } else {
                    f.write_str(host)?
                }
                if *port != DEFAULT_PORT {
                    write!(f, ":{port}")?;
                }
                write!(f, "/{repository}")
            }
            Self::Ssh(place) => place.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (rest, host, port, repository, shown) in [
            ("nas/laptop", "nas", 7450, "laptop", "nas/laptop"),
            (
                "nas.local:443/a.b-c_d/",
                "nas.local",
                443,
                "a.b-c_d",
                "nas.local:443/a.b-c_d",
            ),
            ("[::1]:7450/x", "::1", 7450, "x", "[::1]/x"),
        ] {
            let text = format!("tabane+https://{rest}");
            let location = ServedLocation::parse_https(&text, rest).unwrap();
            let expected = ServedLocation::Https {
                host: host.to_owned(),
                port,
                repository: repository.to_owned(),
            };
            assert_eq!(location, expected);
            assert_eq!(location.to_string(), format!("tabane+https://{shown}"));
        }
        for (rest, says) in [
            ("nas", "names no repository"),
            ("nas/", "names no repository"),
            ("nas/a/b", "names no repository"),
            ("nas/..", "names no repository"),
            ("nas/.hidden", "names no repository"),
            ("/laptop", "names no repository"),
            ("nas:0/laptop", "no port"),
            ("nas:x/laptop", "no port"),
            ("secret@nas/laptop", "TABANE_SERVER_TOKEN_FILE"),
        ] {
            let text = format!("tabane+https://{rest}");
            let error = ServedLocation::parse_https(&text, rest).unwrap_err();
            assert!(error.contains(says), "{rest}: {error}");
            assert!(!error.contains("secret@"), "{error}");
        }
    }
}
