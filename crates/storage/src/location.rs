//! Locations of storages: one style of URL for all kinds of places.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{StorageError, StorageErrorKind};
use crate::files::{Files, LocalFiles};
use crate::local::LocalStorage;
use crate::object::{ObjectStorage, RemoteLocation};
use crate::options::RemoteOptions;
use crate::served::{ServedLocation, ServedStorage, ServerCredentials};
use crate::sftp::SftpStorage;
use crate::ssh::SshPlace;
use crate::storage::Storage;

/// Forms of locations, for messages.
const FORMS: &str = "a directory, file:///DIRECTORY, s3://BUCKET/PREFIX, \
     s3+https://HOST/BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, \
     webdav+https://HOST/PATH, sftp://USER@HOST/PATH, or of a server of Tabane \
     ssh://USER@HOST/PATH or tabane+https://HOST/NAME";

/// A place for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory.
    Directory(PathBuf),
    /// A prefix on a server.
    Remote(RemoteLocation),
    /// A folder on a machine with SFTP.
    Sftp(SshPlace),
    /// A repository on a storage server.
    Served(ServedLocation),
}

impl Location {
    /// Parses a location as a person writes it. `others` names further forms of the caller's, for
    /// messages.
    ///
    /// # Errors
    /// A sentence with the mistake and the known forms.
    pub fn parse(given: &OsStr, others: &str) -> Result<Self, String> {
        // A URL is UTF-8.
        let Some(text) = given.to_str() else {
            return Ok(Self::Directory(given.into()));
        };
        let scheme = split_scheme(text);
        let is_url = scheme.is_some_and(|(_, rest)| rest.starts_with("//"));
        if !is_url && is_ssh_place(text) {
            return Err(format!(
                "{text:?} looks like a folder on another machine: write {}; for a local folder of \
                 that name write ./{text}",
                as_url(text)
            ));
        }
        let Some((scheme, rest)) = scheme else {
            return Ok(Self::Directory(given.into()));
        };
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(format!(
                "{text:?} is neither a directory nor a URL: for a directory of that name write \
                 ./{text}; a place is {FORMS}{others}"
            ));
        };
        if scheme == "file" {
            return file(text, rest);
        }
        if scheme == "sftp" {
            return SshPlace::parse(text, "sftp", rest).map(Self::Sftp);
        }
        if scheme == "ssh" {
            let place = SshPlace::parse(text, "ssh", rest)?;
            return Ok(Self::Served(ServedLocation::Ssh(place)));
        }
        if scheme == "tabane+https" {
            return ServedLocation::parse_https(text, rest).map(Self::Served);
        }
        match RemoteLocation::parse(text, scheme, rest) {
            Some(remote) => Ok(Self::Remote(remote?)),
            None => Err(format!(
                "there is no kind of storage called {scheme:?}: a place is {FORMS}{others}"
            )),
        }
    }

    /// Opens the storage; a server is contacted at the first operation.
    ///
    /// # Errors
    /// When the environment lacks settings of the service.
    pub fn open(&self, options: &RemoteOptions) -> crate::error::Result<Arc<dyn Storage>> {
        Ok(match self {
            Self::Directory(_) | Self::Sftp(_) | Self::Served(_) if options.lock.is_some() => {
                let text = "only S3, and what imitates it, locks objects";
                return Err(StorageError::new(StorageErrorKind::Unsupported, text));
            }
            Self::Directory(path) => Arc::new(LocalStorage::new(path)),
            Self::Remote(remote) => Arc::new(ObjectStorage::connect(remote, options)?),
            Self::Sftp(place) => Arc::new(SftpStorage::connect(place, options)?),
            Self::Served(place) => {
                let credentials = ServerCredentials::from_environment(&options.tls)?;
                Arc::new(ServedStorage::connect(place, &credentials, options)?)
            }
        })
    }

    /// Opens the place to read files there that another program wrote; a server is contacted at
    /// the first operation.
    ///
    /// # Errors
    /// When the environment lacks settings of the service.
    pub fn open_files(&self, options: &RemoteOptions) -> crate::error::Result<Arc<dyn Files>> {
        Ok(match self {
            Self::Directory(path) => Arc::new(LocalFiles(path.clone())),
            Self::Remote(remote) => Arc::new(ObjectStorage::connect(remote, options)?),
            Self::Sftp(_) | Self::Served(_) => {
                let text = format!(
                    "files of other programs are read from a directory or an object store: mount \
                     {self}, for example with sshfs"
                );
                return Err(StorageError::new(StorageErrorKind::Unsupported, text));
            }
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Remote(remote) => remote.fmt(f),
            Self::Sftp(place) => place.fmt(f),
            Self::Served(place) => place.fmt(f),
        }
    }
}

/// Splits at the first colon, if the text in front of it can be the scheme of a URL (RFC 3986).
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

/// Whether this looks like a remote folder of ssh, scp, rsync or borg: `ada@nas:x`, `10.0.0.1:/x`.
fn is_ssh_place(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, path)| {
        let is_host = !host.is_empty() && !host.contains('/');
        is_host && (host.contains('@') || path.starts_with('/'))
    })
}

/// The URL for what [`is_ssh_place`]: a path that begins without a slash is in the home directory.
fn as_url(text: &str) -> String {
    let (host, path) = text.split_once(':').unwrap_or((text, ""));
    match path.strip_prefix('/') {
        Some(path) => format!("sftp://{host}/{path}"),
        None => format!("sftp://{host}/~/{path}"),
    }
}

fn file(text: &str, rest: &str) -> Result<Location, String> {
    if !rest.starts_with('/') || rest.contains(['%', '?', '#']) {
        return Err(format!(
            "{text:?} is no file URL that is understood here: write file:///DIRECTORY without \
             escapes, or just the directory"
        ));
    }
    Ok(Location::Directory(rest.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Service;

    fn parse(text: &str) -> Result<Location, String> {
        Location::parse(OsStr::new(text), "")
    }

    #[track_caller]
    fn remote(text: &str) -> (Service, Option<String>, String, String) {
        match parse(text) {
            Ok(Location::Remote(remote)) => {
                assert_eq!(remote.to_string(), text.trim_end_matches('/'));
                (
                    remote.service,
                    remote.endpoint,
                    remote.bucket,
                    remote.prefix,
                )
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn directories() {
        for path in [
            "/mnt/backup",
            "relative",
            "./s3:x",
            "a/b:c",
            "/a:b",
            ".",
            "1:2",
            "with space",
        ] {
            assert_eq!(parse(path), Ok(Location::Directory(path.into())));
        }
        assert_eq!(
            parse("file:///mnt/x"),
            Ok(Location::Directory("/mnt/x".into()))
        );
        let bytes: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"s3://\xff");
        assert_eq!(
            Location::parse(bytes, ""),
            Ok(Location::Directory(bytes.into()))
        );
    }

    #[test]
    fn urls() {
        let none = String::new;
        assert_eq!(remote("s3://b"), (Service::S3, None, "b".into(), none()));
        assert_eq!(
            remote("s3://b/p/q/"),
            (Service::S3, None, "b".into(), "p/q".into())
        );
        let endpoint = Some("http://127.0.0.1:7070".to_owned());
        assert_eq!(
            remote("s3+http://127.0.0.1:7070/b/p"),
            (Service::S3, endpoint, "b".into(), "p".into())
        );
        assert_eq!(remote("gs://b/p").0, Service::GoogleCloud);
        assert_eq!(remote("az://c/p").0, Service::Azure);
        let endpoint = Some("https://host".to_owned());
        assert_eq!(
            remote("webdav+https://host/a/b"),
            (Service::WebDav, endpoint, none(), "a/b".into())
        );
    }

    #[test]
    fn a_place_as_ssh_has_it_is_no_directory_here() {
        for (text, url) in [
            ("ada@nas:/x", "sftp://ada@nas/x"),
            ("ada@nas:x", "sftp://ada@nas/~/x"),
            ("ada@10.0.0.1:", "sftp://ada@10.0.0.1/~/"),
            ("nas:/x", "sftp://nas/x"),
            ("10.0.0.1:/x", "sftp://10.0.0.1/x"),
            ("1:/", "sftp://1/"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("write {url};")), "{text}: {error}");
            assert!(error.contains(&format!("write ./{text}")), "{error}");
        }
        for path in [
            "./ada@nas:/x",
            "/srv/ada@nas:/x",
            "ada@nas",
            "ada@nas/a:b",
            "1:2",
            ":/x",
        ] {
            assert_eq!(parse(path), Ok(Location::Directory(path.into())));
        }
    }

    #[test]
    fn what_is_no_place_says_why() {
        for (text, says) in [
            ("foo:bar", "write ./foo:bar"),
            ("C:\\backup", "neither a directory nor a URL"),
            ("s3:host/bucket", "s3://BUCKET/PREFIX"),
            ("ftp://host/path", "no kind of storage called \"ftp\""),
            ("sftp://host", "names no folder"),
            ("http://host/path", "webdav+https://HOST/PATH"),
            ("s3://", "s3://BUCKET/PREFIX"),
            ("s3+https://host", "names no bucket"),
            ("s3://b//p", "empty"),
            ("s3://b/../c", ".."),
            ("s3://b/p?region=x", "'?'"),
            ("s3://b/a%20b", "'%'"),
            ("gs://b/p#x", "'#'"),
            ("file://host/x", "file:///DIRECTORY"),
            ("file:///a%20b", "without escapes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let error = parse("s3+https://me:secret@host/bucket").unwrap_err();
        assert!(error.contains("AWS_SECRET_ACCESS_KEY"), "{error}");
        assert!(!error.contains("secret@"), "{error}");
    }
}
