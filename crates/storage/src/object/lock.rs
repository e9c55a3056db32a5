//! Object lock of S3: objects that nobody can remove before a time, set when they are put and moved
//! on later. `object_store` knows no such requests, so they are made here, with URLs that it signs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::BodyExt;
use jiff::Timestamp;
use object_store::PutPayload;
use object_store::aws::AmazonS3;
use object_store::client::HttpRequest;
use object_store::path::Path;
use object_store::signer::{HeaderName, HeaderValue, Method, SignedUrlOptions, Signer};
use tabane_engine::Algorithm;

use super::transport::Transport;
use crate::error::{Result, StorageError, StorageErrorKind};
use crate::options::Lock;

/// How long a signed URL is good for: longer than any request takes.
const URL_LIFETIME: Duration = Duration::from_secs(3600);

/// Answers by which a server says that there is no lock: of the object, of its bucket, or at all.
const NO_LOCK: [u16; 4] = [400, 404, 405, 501];

/// Makes the requests of object lock.
pub struct Locker {
    store: Arc<AmazonS3>,
    transport: Transport,
    /// How new objects are locked, if at all.
    pub lock: Option<Lock>,
    has_none: AtomicBool,
}

/// The lock of an object.
struct Retention {
    mode: String,
    until: SystemTime,
}

impl Locker {
    pub fn new(store: Arc<AmazonS3>, transport: Transport, lock: Option<Lock>) -> Self {
        Self {
            store,
            transport,
            lock,
            has_none: AtomicBool::new(false),
        }
    }

    /// Puts an object that must not exist yet, in this storage class, locked from the beginning.
    pub async fn put_new(
        &self,
        path: &Path,
        bytes: &Bytes,
        lock: Lock,
        class: Option<&String>,
    ) -> Result<()> {
        let class = class.map(|class| ("x-amz-storage-class", class.clone()));
        let headers = [("if-none-match", "*".to_owned())].into_iter().chain(class);
        self.put(path, bytes, lock, headers).await
    }

    /// Puts an object in the place of one, locked from the beginning.
    pub async fn replace(&self, path: &Path, bytes: &Bytes, lock: Lock) -> Result<()> {
        self.put(path, bytes, lock, []).await
    }

    async fn put(
        &self,
        path: &Path,
        bytes: &Bytes,
        lock: Lock,
        further: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<()> {
        let until = SystemTime::now() + lock.put_period();
        let mut headers = vec![
            ("x-amz-object-lock-mode", lock.mode.name().to_owned()),
            ("x-amz-object-lock-retain-until-date", rfc3339(until)?),
            ("x-amz-checksum-sha256", checksum(bytes)),
        ];
        headers.extend(further);
        let (status, said) = self.send(Method::PUT, path, &[], &headers, bytes).await?;
        match status {
            200..300 => Ok(()),
            412 => Err(StorageErrorKind::AlreadyExists.into()),
            409 => Err(StorageErrorKind::Retryable.into()),
            _ => Err(refused("lock new objects", status, &said)),
        }
    }

    /// Until when an object is locked; nothing if it is not.
    pub async fn until(&self, path: &Path) -> Result<Option<SystemTime>> {
        Ok(self.retention(path).await?.map(|retention| retention.until))
    }

    /// Whether the bucket has said that it locks nothing.
    pub fn has_none(&self) -> bool {
        self.has_none.load(Ordering::Relaxed)
    }

    async fn retention(&self, path: &Path) -> Result<Option<Retention>> {
        let query = [("retention", String::new())];
        let nothing = Bytes::new();
        let (status, said) = self.send(Method::GET, path, &query, &[], &nothing).await?;
        match status {
            200..300 => {}
            404 if element(&said, "Code") == Some("NoSuchKey") => {
                return Err(StorageErrorKind::NotFound.into());
            }
            // Of an object without one. All other answers are those of the bucket.
            404 if element(&said, "Code") == Some("NoSuchObjectLockConfiguration") => {
                return Ok(None);
            }
            // Who may not read locks and sets none leaves them to the server.
            status if NO_LOCK.contains(&status) || status == 403 && self.lock.is_none() => {
                self.has_none.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            _ => return Err(refused("read the lock of an object", status, &said)),
        }
        let until = element(&said, "RetainUntilDate").and_then(|text| text.parse().ok());
        let mode = element(&said, "Mode").map(str::to_owned);
        Ok(mode
            .zip(until)
            .map(|(mode, until): (_, Timestamp)| Retention {
                mode,
                until: until.into(),
            }))
    }

    /// Locks an object until this time at least.
    pub async fn extend(&self, path: &Path, lock: Lock, until: SystemTime) -> Result<()> {
        let retention = self.retention(path).await?;
        if retention.as_ref().is_some_and(|there| there.until >= until) {
            return Ok(());
        }
        // A lock cannot get a weaker mode.
        let mode = retention.map_or_else(|| lock.mode.name().to_owned(), |there| there.mode);
        let until = rfc3339(until)?;
        let body = Bytes::from(format!(
            "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{mode}</Mode>\
             <RetainUntilDate>{until}</RetainUntilDate></Retention>"
        ));
        let query = [("retention", String::new())];
        let headers = [("x-amz-checksum-sha256", checksum(&body))];
        let (status, said) = self
            .send(Method::PUT, path, &query, &headers, &body)
            .await?;
        match status {
            200..300 => Ok(()),
            404 if element(&said, "Code") == Some("NoSuchKey") => {
                Err(StorageErrorKind::NotFound.into())
            }
            _ => Err(refused("lock objects", status, &said)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &Path,
        query: &[(&str, String)],
        headers: &[(&'static str, String)],
        body: &Bytes,
    ) -> Result<(u16, String)> {
        let mut options = SignedUrlOptions::new().with_query(query.iter().cloned());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|_| {
                StorageError::new(
                    StorageErrorKind::Invalid,
                    format!("{value:?} cannot be sent"),
                )
            })?;
            options = options.with_signed_header(HeaderName::from_static(name), value);
        }
        let signed = self
            .store
            .signed_url_opts(method.clone(), path, URL_LIFETIME, &options);
        let url = signed.await.map_err(super::explain)?;
        let mut request = if body.is_empty() {
            HttpRequest::new(body.clone().into())
        } else {
            // Sent in pieces, as other objects are, so that a slow line is no silent one.
            HttpRequest::new(PutPayload::from(body.clone()).into())
        };
        *request.method_mut() = method;
        *request.uri_mut() = url.as_str().parse().expect("it is a URL");
        *request.headers_mut() = options.signed_headers;
        if !body.is_empty() {
            let name = HeaderName::from_static("content-length");
            request
                .headers_mut()
                .insert(name, HeaderValue::from(body.len()));
        }
        let response = self.transport.exchange(request).await?;
        let status = response.status().as_u16();
        let said =
            response.into_body().collect().await.map_err(|error| {
                StorageError::new(StorageErrorKind::Retryable, error.to_string())
            })?;
        Ok((
            status,
            String::from_utf8_lossy(&said.to_bytes()).into_owned(),
        ))
    }
}

/// The error of a server that does not do what was asked.
fn refused(what: &str, status: u16, said: &str) -> StorageError {
    let kind = match status {
        403 => StorageErrorKind::Denied,
        408 | 429 | 500 | 502..=504 => StorageErrorKind::Retryable,
        _ => StorageErrorKind::Permanent,
    };
    let why = element(said, "Message").unwrap_or("it does not say why");
    StorageError::new(
        kind,
        format!("the server does not {what} ({status}): {why}"),
    )
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0.trim())
}

fn rfc3339(time: SystemTime) -> Result<String> {
    let time = Timestamp::try_from(time).map_err(|_| {
        StorageError::new(
            StorageErrorKind::Invalid,
            "nothing can be locked for so long",
        )
    })?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// SHA-256 in base64, which S3 wants of requests that lock.
fn checksum(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Algorithm::Sha256.digest(bytes);
    let mut text = String::new();
    for group in digest.as_ref().chunks(3) {
        let bits = group
            .iter()
            .fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (8 * (3 - group.len()));
        for at in 0..4 {
            text.push(if at <= group.len() {
                char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_in_base64() {
        // From `printf abc | openssl dgst -sha256 -binary | base64`.
        assert_eq!(
            checksum(b"abc"),
            "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
    }

    #[test]
    fn times_are_without_fractions() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_506_083_552);
        assert_eq!(rfc3339(time).unwrap(), "2026-11-24T07:41:23Z");
    }
}
