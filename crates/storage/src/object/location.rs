//! Locations of object stores: one style of URL for all services.

use std::fmt;

/// A place on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLocation {
    /// The protocol of the server.
    pub service: Service,
    /// Scheme, host and port, without a slash at the end, where the service does not imply them.
    pub endpoint: Option<String>,
    /// The bucket; Azure calls it a container, and WebDAV has none.
    pub bucket: String,
    /// Path below the bucket, without a slash at either end; may be empty.
    pub prefix: String,
}

/// Protocols of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon's S3, and compatible services.
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

    /// The source of the service's credentials, for messages.
    pub fn credentials(self) -> &'static str {
        match self {
            Self::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            Self::GoogleCloud => "GOOGLE_APPLICATION_CREDENTIALS",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
            Self::WebDav => "WEBDAV_USERNAME and WEBDAV_PASSWORD",
        }
    }
}

impl RemoteLocation {
    /// Parses `rest`, the part behind `scheme://` of the URL `text`; `None` if no service has this
    /// scheme.
    ///
    /// # Errors
    /// A sentence about the mistake.
    pub fn parse(text: &str, scheme: &str, rest: &str) -> Option<Result<Self, String>> {
        let (service, transport) = match scheme {
            "s3" => (Service::S3, None),
            "s3+https" => (Service::S3, Some("https")),
            "s3+http" => (Service::S3, Some("http")),
            "gs" => (Service::GoogleCloud, None),
            "az" => (Service::Azure, None),
            "webdav+https" => (Service::WebDav, Some("https")),
            "webdav+http" => (Service::WebDav, Some("http")),
            _ => return None,
        };
        Some(Self::of_service(text, service, transport, rest))
    }

    fn of_service(
        text: &str,
        service: Service,
        transport: Option<&str>,
        rest: &str,
    ) -> Result<Self, String> {
        let host = rest.split('/').next().unwrap_or_default();
        if host.contains('@') {
            // The URL is not shown: it may contain a password.
            return Err(format!(
                "a URL is no place for a name or a password, since every user of this machine can \
                 see it: set {}",
                service.credentials()
            ));
        }
        if let Some(bad) = rest
            .chars()
            .find(|c| "?#%\\".contains(*c) || c.is_whitespace() || c.is_control())
        {
            return Err(format!(
                "{text:?} has {bad:?} in it, which no part of such a URL may have: it has no \
                 parameters, and all of it is taken as it stands"
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
        Ok(Self {
            service,
            endpoint,
            bucket,
            prefix: parts.collect::<Vec<_>>().join("/"),
        })
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

/// The form of a service's URL, for messages.
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
