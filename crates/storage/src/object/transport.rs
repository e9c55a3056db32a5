//! HTTP for object stores, with typed refusals and a limit on uploads.
//!
//! Every request of every service goes through here. A refusal becomes a [`StorageError`] here,
//! where the server's explanation is at hand: the interface of `object_store` would reduce it to a
//! text. No URL, header or credential gets into an error.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, HeaderMap};
use reqwest::StatusCode;

use super::location::Service;
use super::refusal::Refusal;
use crate::error::{StorageError, StorageErrorKind, causes};
use crate::limit::Limiter;
use crate::options::TlsOptions;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which a request whose body does not move is given up.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// Bytes of an upload that go at a time.
const PIECE_LEN: usize = 16 << 10;

/// The most bytes read of an explanation.
const EXPLANATION_LEN_MAX: usize = 64 << 10;

/// Hosts at which clouds hand credentials to their machines.
const METADATA_HOSTS: [&str; 3] = [
    "169.254.169.254",
    "169.254.170.2",
    "metadata.google.internal",
];

/// Error codes of services for missing or existing objects; all other codes concern buckets, users
/// or request rates.
const OF_OBJECTS: [&str; 5] = [
    "",
    "NoSuchKey",
    "NoSuchVersion",
    "BlobNotFound",
    "BlobAlreadyExists",
];

/// A client of HTTP for one service. Clones share its connections.
#[derive(Clone)]
pub struct Transport {
    client: reqwest::Client,
    service: Service,
    upload: Option<Arc<Limiter>>,
    /// Name and password, for WebDAV.
    login: Option<(String, String)>,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

/// Whom to trust, and how to be known.
fn with_tls(
    mut builder: reqwest::ClientBuilder,
    options: &TlsOptions,
) -> Result<reqwest::ClientBuilder, StorageError> {
    let unusable = |path: &Path, why: &dyn fmt::Display| {
        let text = format!("cannot use {}: {why}", path.display());
        StorageError::new(StorageErrorKind::Invalid, text)
    };
    let read = |path: &Path| std::fs::read(path).map_err(|error| unusable(path, &error));
    for path in &options.authorities {
        let found = reqwest::Certificate::from_pem_bundle(&read(path)?);
        let found = found.map_err(|error| unusable(path, &explain(&error)))?;
        if found.is_empty() {
            return Err(unusable(path, &"it holds no certificate in PEM"));
        }
        builder = builder.tls_certs_merge(found);
    }
    if let Some(path) = &options.identity {
        let identity = reqwest::Identity::from_pem(&read(path)?);
        let identity = identity
            .map_err(|_| unusable(path, &"it does not hold a certificate and its key in PEM"))?;
        builder = builder.identity(identity);
    }
    Ok(if options.is_insecure {
        builder.tls_danger_accept_invalid_certs(true)
    } else {
        builder
    })
}

impl Transport {
    /// A transport that connects at its first request. `upload` limits the rate of uploads.
    pub fn new(
        service: Service,
        upload: Option<Arc<Limiter>>,
        login: Option<(String, String)>,
        tls: &TlsOptions,
    ) -> Result<Self, StorageError> {
        let client = with_tls(reqwest::Client::builder(), tls)?
            .user_agent(concat!("tabane/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // A signature holds for one host.
            .redirect(reqwest::redirect::Policy::none())
            .http1_only()
            .build();
        let client = client.map_err(|error| explain(&error))?;
        Ok(Self {
            client,
            service,
            upload,
            login,
        })
    }

    /// Sends a request; fails after a time in which no byte of its body, counted in `sent`, moved.
    async fn send(
        &self,
        request: reqwest::Request,
        sent: &AtomicU64,
    ) -> Result<reqwest::Response, StorageError> {
        let mut answer = pin!(self.client.execute(request));
        let mut before = 0;
        loop {
            if let Ok(answer) = tokio::time::timeout(SILENCE_MAX, &mut answer).await {
                // The URL may be a signed one.
                return answer.map_err(|error| explain(&error.without_url()));
            }
            let now = sent.load(Ordering::Relaxed);
            if std::mem::replace(&mut before, now) == now {
                let text = "the server does not answer";
                return Err(StorageError::new(StorageErrorKind::Retryable, text));
            }
        }
    }

    /// Passes on responses that `object_store` understands, and turns all others into errors.
    async fn judge(&self, response: HttpResponse) -> Result<HttpResponse, StorageError> {
        let status = response.status();
        let by_crate = [
            StatusCode::NOT_MODIFIED,
            StatusCode::PRECONDITION_FAILED,
            StatusCode::RANGE_NOT_SATISFIABLE,
        ];
        if status.is_success() || by_crate.contains(&status) {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let said = http_body_util::Limited::new(body, EXPLANATION_LEN_MAX)
            .collect()
            .await
            .map_or_else(|_| Bytes::new(), |said| said.to_bytes());
        let refusal = refusal(status, &parts.headers, &String::from_utf8_lossy(&said));
        let failure = refusal.explain(self.service.credentials());
        let about_object = [StatusCode::NOT_FOUND, StatusCode::CONFLICT].contains(&status)
            && OF_OBJECTS.contains(&refusal.code.as_str());
        if about_object {
            Ok(HttpResponse::from_parts(parts, said.into()))
        } else {
            Err(failure)
        }
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.exchange(request).await.map_err(failed)?;
        self.judge(response).await.map_err(failed)
    }
}

impl Transport {
    /// Sends a request and returns the answer, whatever it is.
    ///
    /// # Errors
    /// When there is none.
    pub async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, StorageError> {
        let (parts, body) = request.into_parts();
        let url: reqwest::Url = match parts.uri.to_string().parse() {
            Ok(url) => url,
            Err(_) => {
                return Err(StorageError::new(
                    StorageErrorKind::Permanent,
                    "it is no URL",
                ));
            }
        };
        let host = url.host_str().unwrap_or_default().to_owned();
        let makes_folder = parts.method.as_str() == "MKCOL";
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        let sent = Arc::<AtomicU64>::default();
        *request.body_mut() = Some(match body.as_bytes() {
            Some(bytes) => bytes.clone().into(),
            None => in_pieces(body, self.upload.clone(), Arc::clone(&sent)),
        });
        if let Some((name, password)) = &self.login {
            let builder = reqwest::RequestBuilder::from_parts(self.client.clone(), request);
            let built = builder.basic_auth(name, Some(password)).build();
            request = built.map_err(|error| explain(&error))?;
        }
        let answer = self.send(request, &sent).await;
        let is_refused = !answer
            .as_ref()
            .is_ok_and(|answer| answer.status().is_success());
        if is_refused && METADATA_HOSTS.contains(&host.as_str()) {
            let text = format!(
                "there are no credentials: set {}",
                self.service.credentials()
            );
            return Err(StorageError::new(StorageErrorKind::Unauthorized, text));
        }
        let mut response = answer?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = reqwest::Body::from(response).map_err(|error| failed(explain(&error)));
        let mut response = HttpResponse::new(HttpResponseBody::new(body));
        *response.headers_mut() = headers;
        *response.status_mut() = if makes_folder && status == StatusCode::METHOD_NOT_ALLOWED {
            StatusCode::CREATED
        } else {
            status
        };
        Ok(response)
    }
}

/// Wraps a failure for `object_store` as an error that this crate does not retry.
fn failed(failure: StorageError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, failure)
}

/// A body that is sent in small pieces within the rate, and counts the bytes sent.
fn in_pieces(
    body: HttpRequestBody,
    limiter: Option<Arc<Limiter>>,
    sent: Arc<AtomicU64>,
) -> reqwest::Body {
    let pieces = stream::unfold((body, Bytes::new()), move |(mut body, mut rest)| {
        let (limiter, sent) = (limiter.clone(), Arc::clone(&sent));
        async move {
            while rest.is_empty() {
                rest = body.frame().await?.ok()?.into_data().ok()?;
            }
            let piece = rest.split_to(PIECE_LEN.min(rest.len()));
            if let Some(limiter) = limiter {
                limiter.wait(piece.len()).await;
            }
            sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Some((Ok::<_, Infallible>(Frame::data(piece)), (body, rest)))
        }
    });
    reqwest::Body::wrap(StreamBody::new(pieces))
}

/// Explains a failure before or during an answer.
fn explain(error: &reqwest::Error) -> StorageError {
    let first = causes(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default();
    // Rust's texts of system errors end in the error number.
    let what = first.split(" (os error").next().unwrap_or_default();
    if first.contains("InvalidContentType") {
        let text =
            "the server does not speak TLS: check host and port, or write http:// if that is meant";
        return StorageError::new(StorageErrorKind::Permanent, text);
    }
    if first.contains("certificate") {
        let text = format!(
            "{what}: if the server is the right one, name the file with its authority in \
             TABANE_CACERT"
        );
        return StorageError::new(StorageErrorKind::Permanent, text);
    }
    if error.is_builder() {
        return StorageError::new(StorageErrorKind::Permanent, what);
    }
    if error.is_timeout() {
        StorageError::new(StorageErrorKind::Retryable, "the server does not answer")
    } else {
        StorageError::new(StorageErrorKind::Retryable, what.to_ascii_lowercase())
    }
}

/// Parses a server's explanation of a refusal. All services have the same two elements; Azure
/// repeats one in a header.
fn refusal(status: StatusCode, headers: &HeaderMap, said: &str) -> Refusal {
    let header = |name: &str| {
        let value = headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let element = |name: &str| {
        let (_, rest) = said.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0.trim().to_owned())
    };
    let code = header("x-ms-error-code").or_else(|| header("x-minio-error-code"));
    Refusal {
        status: status.as_u16(),
        code: element("Code").or(code).unwrap_or_default(),
        message: element("Message")
            // The first line; Azure's further lines are internal numbers.
            .and_then(|text| text.lines().next().map(str::to_owned))
            .unwrap_or_default(),
        region: element("Region").or_else(|| header("x-amz-bucket-region")),
        date: header("date"),
    }
}
