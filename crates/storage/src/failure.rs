//! Why a request to a server came to nothing, in one sentence that says what to do next.

use std::fmt;
use std::io;

/// What became of a request that did not do what was wanted.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What follows from it.
    pub kind: FailureKind,
    /// For a person.
    text: String,
}

/// What follows from a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The same request may succeed later.
    Passing,
    /// There is no such object.
    NotFound,
    /// There is an object of that name.
    AlreadyExists,
    /// The object ends before what was asked for.
    PastEnd,
    /// The place holds something else.
    NotEmpty,
    /// The credentials are wrong, too old or too weak.
    Denied,
    /// There is no room left.
    Full,
    /// The server cannot do this at all.
    Unsupported,
    /// Anything else that stays as it is.
    Lasting,
}

impl Failure {
    /// A failure that `text` explains.
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// As this one, with more to say.
    pub fn and(mut self, more: &str) -> Self {
        self.text.push_str(more);
        self
    }

    /// The failure that is somewhere within an error.
    pub fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }
}

/// An error and what caused it, the first cause last.
pub fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            // Callers know what these mean.
            FailureKind::NotFound => return io::ErrorKind::NotFound.into(),
            FailureKind::AlreadyExists => return io::ErrorKind::AlreadyExists.into(),
            FailureKind::PastEnd => return io::ErrorKind::UnexpectedEof.into(),
            FailureKind::NotEmpty => return io::ErrorKind::DirectoryNotEmpty.into(),
            FailureKind::Passing => io::ErrorKind::NotConnected,
            FailureKind::Denied => io::ErrorKind::PermissionDenied,
            FailureKind::Full => io::ErrorKind::QuotaExceeded,
            FailureKind::Unsupported => io::ErrorKind::Unsupported,
            FailureKind::Lasting => io::ErrorKind::Other,
        };
        Self::new(kind, failure)
    }
}

/// What a server said with the status of a refusal.
#[derive(Debug, Default)]
pub struct Refusal {
    /// Status of HTTP.
    pub status: u16,
    /// The service's own name for the case, if it gave one.
    pub code: String,
    /// The service's explanation, if it gave one.
    pub message: String,
    /// Where the bucket is, if the service said so.
    pub region: Option<String>,
    /// The server's clock, as it told it.
    pub date: Option<String>,
}

impl Refusal {
    /// What it means; `credentials` says where they come from.
    pub fn explain(&self, credentials: &str) -> Failure {
        use FailureKind::{Denied, Full, Lasting, Passing, Unsupported};
        let answer = self.answer();
        match (self.code.as_str(), self.status) {
            ("InvalidAccessKeyId" | "XAdminUserNotFound", _) => Failure::new(
                Denied,
                format!("the server does not know this access key: check {credentials}"),
            ),
            ("SignatureDoesNotMatch" | "AuthenticationFailed", _) => Failure::new(
                Denied,
                format!("the secret key is wrong: check {credentials}"),
            ),
            ("RequestTimeTooSkewed", _) => {
                let date = self.date.as_deref().unwrap_or("something else");
                Failure::new(
                    Denied,
                    format!(
                        "the clocks differ too much, the server's says {date}: set the clock of this machine (timedatectl set-ntp true)"
                    ),
                )
            }
            ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired", _) => Failure::new(
                Denied,
                format!("the credentials have expired: get new ones and check {credentials}"),
            ),
            ("NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted", _) => Failure::new(
                Lasting,
                "the bucket does not exist: make it with the tools of its provider, or correct the URL",
            ),
            _ if self.is_about_room() => Failure::new(
                Full,
                format!(
                    "{answer}: free some space or raise the quota, and run the command again, nothing already stored is lost"
                ),
            ),
            ("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IncorrectEndpoint", _)
            | (_, 301 | 302 | 307 | 308) => Failure::new(
                Lasting,
                match &self.region {
                    Some(region) => {
                        format!("the bucket is in region {region}: set AWS_REGION={region}")
                    }
                    None => format!(
                        "{answer}: check the host in the URL, and for S3 set AWS_REGION to the bucket's region"
                    ),
                },
            ),
            // Two writers of one object, or a request that came too slowly.
            (
                "ConditionalRequestConflict" | "OperationAborted" | "RequestTimeout" | "SlowDown",
                _,
            ) => Failure::new(Passing, answer),
            (_, 401) => Failure::new(Denied, format!("{answer}: check {credentials}")),
            (_, 403) => Failure::new(
                Denied,
                format!(
                    "{answer}: check {credentials}, and that they may do this (docs/object-stores.md lists what is needed)"
                ),
            ),
            (_, 501 | 405) => Failure::new(Unsupported, answer),
            (_, 408 | 425 | 429 | 500 | 502..=599) => Failure::new(Passing, answer),
            _ => Failure::new(Lasting, answer),
        }
    }

    fn is_about_room(&self) -> bool {
        let said = format!("{} {}", self.code, self.message).to_ascii_lowercase();
        let says = [
            "quota",
            "storage cap",
            "cap exceeded",
            "storagefull",
            "insufficientstorage",
        ];
        self.status == 507
            || (400..600).contains(&self.status) && says.iter().any(|word| said.contains(word))
    }

    fn answer(&self) -> String {
        let said: Vec<&str> = [&self.code, &self.message]
            .into_iter()
            .map(|text| text.trim().trim_end_matches('.'))
            .filter(|text| !text.is_empty())
            .collect();
        match said.is_empty() {
            true => format!("the server answers {}", self.status),
            false => format!("the server answers {} ({})", self.status, said.join(": ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(status: u16, code: &str, message: &str) -> Failure {
        let (code, message) = (code.to_owned(), message.to_owned());
        let refusal = Refusal {
            status,
            code,
            message,
            ..Refusal::default()
        };
        refusal.explain("KEYS")
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        use FailureKind::{Denied, Full, Lasting, Passing, Unsupported};
        let cases = [
            (404, "XAdminUserNotFound", "", Denied, "check KEYS"),
            (403, "InvalidAccessKeyId", "", Denied, "check KEYS"),
            (
                403,
                "SignatureDoesNotMatch",
                "",
                Denied,
                "secret key is wrong",
            ),
            (403, "RequestTimeTooSkewed", "", Denied, "set the clock"),
            (400, "ExpiredToken", "", Denied, "expired"),
            (
                403,
                "AccessDenied",
                "Access Denied.",
                Denied,
                "403 (AccessDenied: Access Denied)",
            ),
            (403, "", "", Denied, "answers 403: check KEYS"),
            (401, "", "", Denied, "check KEYS"),
            (404, "NoSuchBucket", "", Lasting, "bucket does not exist"),
            (507, "", "", Full, "free some space"),
            (403, "QuotaExceeded", "", Full, "raise the quota"),
            (
                403,
                "AccessDenied",
                "Cannot upload files, storage cap exceeded.",
                Full,
                "raise the quota",
            ),
            (507, "XMinioStorageFull", "", Full, "free some space"),
            (301, "PermanentRedirect", "", Lasting, "AWS_REGION"),
            (503, "SlowDown", "", Passing, "503 (SlowDown)"),
            (409, "OperationAborted", "", Passing, "409"),
            (429, "", "", Passing, "429"),
            (500, "InternalError", "", Passing, "500"),
            (501, "NotImplemented", "", Unsupported, "501"),
            (
                400,
                "InvalidRequest",
                "why",
                Lasting,
                "400 (InvalidRequest: why)",
            ),
        ];
        for (status, code, message, kind, says) in cases {
            let failure = explain(status, code, message);
            assert_eq!(failure.kind, kind, "{status} {code}: {failure}");
            assert!(
                failure.to_string().contains(says),
                "{status} {code}: {failure}"
            );
        }
    }

    #[test]
    fn a_bucket_elsewhere_is_told_with_its_region() {
        let refusal = Refusal {
            status: 301,
            region: Some("eu-west-1".to_owned()),
            ..Refusal::default()
        };
        let text = refusal.explain("KEYS").to_string();
        assert!(text.contains("AWS_REGION=eu-west-1"), "{text}");
    }
}
