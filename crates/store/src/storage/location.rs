//! Where a repository can be: one style of URL for all services.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

/// What a repository can be named by; shown to whoever names it otherwise.
const FORMS: &str = "a directory, file:///DIRECTORY, s3://BUCKET/PREFIX, s3+https://HOST/BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, webdav+https://HOST/PATH or, over several of these, striped:FILE, or, over the nodes of a cluster, cluster:FILE";

/// A place for a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory.
    Directory(PathBuf),
    /// A prefix on some server.
    Remote(RemoteLocation),
    /// Several places, which this file lists: see [`super::striped`].
    Striped(PathBuf),
    /// The nodes of a cluster, which this file describes: see [`super::cluster`].
    Cluster(PathBuf),
}

/// A place on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLocation {
    /// What it speaks.
    pub service: Service,
    /// Scheme, host and port, without a slash at the end, where the service does not imply them.
    pub endpoint: Option<String>,
    /// The bucket; Azure calls it a container, and WebDAV has none.
    pub bucket: String,
    /// Path below it, without a slash at either end; may be empty.
    pub prefix: String,
}

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon's S3, and all that imitate it.
    S3,
    /// Google Cloud Storage.
    GoogleCloud,
    /// Azure Blob Storage.
    Azure,
    /// HTTP with RFC 4918.
    WebDav,
}

impl Service {
    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::GoogleCloud => "gs",
            Self::Azure => "az",
            Self::WebDav => "webdav",
        }
    }

    /// Where its credentials come from.
    pub fn credentials(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            Self::GoogleCloud => "GOOGLE_APPLICATION_CREDENTIALS",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
            Self::WebDav => "WEBDAV_USERNAME and WEBDAV_PASSWORD",
        }
    }
}

impl Location {
    /// Reads what a person gave.
    ///
    /// # Errors
    /// One sentence that says what is wrong and what is known.
    pub fn parse(given: &OsStr) -> Result<Self, String> {
        // A name that is no UTF-8 is no URL.
        let Some(text) = given.to_str() else {
            return Ok(Self::Directory(given.into()));
        };
        let Some((scheme, rest)) = split_scheme(text) else {
            if is_ssh_place(text) {
                return Err(format!(
                    "{text:?} looks like a folder on another machine, and tabane has no SFTP yet: \
                     for a local folder of that name write ./{text}; a repository is {FORMS}"
                ));
            }
            return Ok(Self::Directory(given.into()));
        };
        if scheme == "striped" && !rest.is_empty() {
            return Ok(Self::Striped(rest.into()));
        }
        if scheme == "cluster" && !rest.is_empty() {
            return Ok(Self::Cluster(rest.into()));
        }
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(format!(
                "{text:?} is neither a directory nor a URL: for a directory of that name write ./{text}; a repository is {FORMS}"
            ));
        };
        if scheme == "file" {
            return file(text, rest);
        }
        let (service, transport) = match scheme {
            "s3" => (Service::S3, None),
            "s3+https" => (Service::S3, Some("https")),
            "s3+http" => (Service::S3, Some("http")),
            "gs" => (Service::GoogleCloud, None),
            "az" => (Service::Azure, None),
            "webdav+https" => (Service::WebDav, Some("https")),
            "webdav+http" => (Service::WebDav, Some("http")),
            _ => {
                return Err(format!(
                    "there is no kind of storage called {scheme:?}: a repository is {FORMS}"
                ));
            }
        };
        let host = rest.split('/').next().unwrap_or_default();
        if host.contains('@') {
            // Not shown again: it may have a password in it.
            return Err(format!(
                "a URL is no place for a name or a password, since every user of this machine can see it: set {}",
                service.credentials()
            ));
        }
        if let Some(bad) = rest
            .chars()
            .find(|c| "?#%\\".contains(*c) || c.is_whitespace() || c.is_control())
        {
            return Err(format!(
                "{text:?} has {bad:?} in it, which no part of such a URL may have: it has no parameters, and all of it is taken as it stands"
            ));
        }
        let mut parts: Vec<&str> = rest.split('/').collect();
        // One slash at the end changes nothing.
        if parts.last() == Some(&"") {
            parts.pop();
        }
        if parts.is_empty() || parts.iter().any(|part| ["", ".", ".."].contains(part)) {
            return Err(format!(
                "{text:?} lacks something, or has a part that is empty, . or ..: write {}",
                form(service, transport)
            ));
        }
        let mut parts = parts.into_iter();
        let endpoint = transport.map(|transport| {
            let host = parts.next().unwrap_or_default();
            format!("{transport}://{host}")
        });
        let bucket = match service {
            Service::WebDav => String::new(),
            _ => parts.next().unwrap_or_default().to_owned(),
        };
        if bucket.is_empty() && service != Service::WebDav {
            return Err(format!(
                "{text:?} names no bucket: write {}",
                form(service, transport)
            ));
        }
        Ok(Self::Remote(RemoteLocation {
            service,
            endpoint,
            bucket,
            prefix: parts.collect::<Vec<_>>().join("/"),
        }))
    }
}

impl fmt::Display for RemoteLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.service.scheme();
        match &self.endpoint {
            Some(endpoint) => write!(f, "{scheme}+{endpoint}")?,
            None => write!(f, "{scheme}:/")?,
        }
        for part in [&self.bucket, &self.prefix] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

/// How a URL of a service looks.
fn form(service: Service, transport: Option<&str>) -> String {
    let scheme = service.scheme();
    match (service, transport) {
        (Service::WebDav, transport) => {
            format!("{scheme}+{}://HOST/PATH", transport.unwrap_or("https"))
        }
        (_, Some(transport)) => format!("{scheme}+{transport}://HOST/BUCKET/PREFIX"),
        (Service::Azure, None) => format!("{scheme}://CONTAINER/PREFIX"),
        (_, None) => format!("{scheme}://BUCKET/PREFIX"),
    }
}

/// What stands before the first colon and behind it, if that can be the scheme of a URL (RFC 3986).
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some((scheme, rest))
}

/// Whether this is how ssh, scp, rsync and borg name a folder on another machine: `ada@nas:x`, `10.0.0.1:/x`.
fn is_ssh_place(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, path)| {
        let is_host = !host.is_empty() && !host.contains('/');
        is_host && (host.contains('@') || path.starts_with('/'))
    })
}

fn file(text: &str, rest: &str) -> Result<Location, String> {
    if !rest.starts_with('/') || rest.contains(['%', '?', '#']) {
        return Err(format!(
            "{text:?} is no file URL that is understood here: write file:///DIRECTORY without escapes, or just the directory"
        ));
    }
    Ok(Location::Directory(rest.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Location, String> {
        Location::parse(OsStr::new(text))
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
            Location::parse(bytes),
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
        for text in [
            "ada@nas:/x",
            "ada@nas:x",
            "ada@10.0.0.1:",
            "10.0.0.1:/x",
            "1:/",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("no SFTP yet"), "{text}: {error}");
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
            ("sftp://host/path", "no kind of storage called \"sftp\""),
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
