//! Turns a server's refusal of a request into one sentence.

use crate::error::{StorageError, StorageErrorKind};

/// A server's refusal of a request.
#[derive(Debug, Default)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// The service's error code, if given.
    pub code: String,
    /// The service's explanation, if given.
    pub message: String,
    /// The bucket's region, if given.
    pub region: Option<String>,
    /// The server's time, if given.
    pub date: Option<String>,
}

impl Refusal {
    /// Explains the refusal; `credentials` names the source of the credentials.
    pub fn explain(&self, credentials: &str) -> StorageError {
        use StorageErrorKind::{Cold, Full, Permanent, Retryable, Unauthorized, Unsupported};
        let answer = self.answer();
        match (self.code.as_str(), self.status) {
            ("InvalidAccessKeyId" | "XAdminUserNotFound", _) => StorageError::new(
                Unauthorized,
                format!("the server does not know this access key: check {credentials}"),
            ),
            ("SignatureDoesNotMatch" | "AuthenticationFailed", _) => StorageError::new(
                Unauthorized,
                format!("the secret key is wrong: check {credentials}"),
            ),
            ("RequestTimeTooSkewed", _) => {
                let date = self.date.as_deref().unwrap_or("something else");
                StorageError::new(
                    Unauthorized,
                    format!(
                        "the clocks differ too much, the server's says {date}: set the clock of \
                         this machine (timedatectl set-ntp true)"
                    ),
                )
            }
            ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired", _) => StorageError::new(
                Unauthorized,
                format!("the credentials have expired: get new ones and check {credentials}"),
            ),
            ("InvalidObjectState" | "BlobArchived" | "BlobBeingRehydrated", _) => {
                let text = "it is in an archive of the service, and has to be brought back first";
                StorageError::new(Cold, text)
            }
            ("NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted", _) => {
                StorageError::new(
                    Permanent,
                    "the bucket does not exist: make it with the tools of its provider, or correct \
                     the URL",
                )
            }
            _ if self.is_about_room() => StorageError::new(Full, answer),
            ("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IncorrectEndpoint", _)
            | (_, 301 | 302 | 307 | 308) => StorageError::new(
                Permanent,
                match &self.region {
                    Some(region) => {
                        format!("the bucket is in region {region}: set AWS_REGION={region}")
                    }
                    None => format!(
                        "{answer}: check the host in the URL, and for S3 set AWS_REGION to the \
                         bucket's region"
                    ),
                },
            ),
            // Two writers of one object, or a request that came too slowly.
            (
                "ConditionalRequestConflict" | "OperationAborted" | "RequestTimeout" | "SlowDown",
                _,
            ) => StorageError::new(Retryable, answer),
            (_, 401) => StorageError::new(Unauthorized, format!("{answer}: check {credentials}")),
            (_, 403) => StorageError::new(
                Unauthorized,
                format!(
                    "{answer}: check {credentials}, and that they may do this \
                     (docs/reference/object-stores.md lists what is needed)"
                ),
            ),
            (_, 501 | 405) => StorageError::new(Unsupported, answer),
            (_, 408 | 425 | 429 | 500 | 502..=599) => StorageError::new(Retryable, answer),
            _ => StorageError::new(Permanent, answer),
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
        if said.is_empty() {
            format!("the server answers {}", self.status)
        } else {
            format!("the server answers {} ({})", self.status, said.join(": "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(status: u16, code: &str, message: &str) -> StorageError {
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
    fn each_refusal_is_explained() {
        use StorageErrorKind::{Cold, Full, Permanent, Retryable, Unauthorized, Unsupported};
        let cases = [
            (404, "XAdminUserNotFound", "", Unauthorized, "check KEYS"),
            (403, "InvalidAccessKeyId", "", Unauthorized, "check KEYS"),
            (
                403,
                "SignatureDoesNotMatch",
                "",
                Unauthorized,
                "secret key is wrong",
            ),
            (
                403,
                "RequestTimeTooSkewed",
                "",
                Unauthorized,
                "set the clock",
            ),
            (400, "ExpiredToken", "", Unauthorized, "expired"),
            (
                403,
                "AccessDenied",
                "Access Unauthorized.",
                Unauthorized,
                "403 (AccessDenied: Access Unauthorized)",
            ),
            (403, "", "", Unauthorized, "answers 403: check KEYS"),
            (401, "", "", Unauthorized, "check KEYS"),
            (404, "NoSuchBucket", "", Permanent, "bucket does not exist"),
            (507, "", "", Full, "answers 507"),
            (403, "QuotaExceeded", "", Full, "403 (QuotaExceeded)"),
            (
                403,
                "AccessDenied",
                "Cannot upload files, storage cap exceeded.",
                Full,
                "storage cap exceeded",
            ),
            (
                507,
                "XMinioStorageFull",
                "",
                Full,
                "507 (XMinioStorageFull)",
            ),
            (403, "InvalidObjectState", "", Cold, "brought back first"),
            (409, "BlobArchived", "", Cold, "brought back first"),
            (409, "BlobBeingRehydrated", "", Cold, "brought back first"),
            (301, "PermanentRedirect", "", Permanent, "AWS_REGION"),
            (503, "SlowDown", "", Retryable, "503 (SlowDown)"),
            (409, "OperationAborted", "", Retryable, "409"),
            (429, "", "", Retryable, "429"),
            (500, "InternalError", "", Retryable, "500"),
            (501, "NotImplemented", "", Unsupported, "501"),
            (
                400,
                "InvalidRequest",
                "why",
                Permanent,
                "400 (InvalidRequest: why)",
            ),
        ];
        for (status, code, message, kind, says) in cases {
            let failure = explain(status, code, message);
            assert_eq!(failure.kind(), kind, "{status} {code}: {failure}");
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
