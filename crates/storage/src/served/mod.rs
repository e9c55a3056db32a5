//! Storage on a storage server: `tabane serve`.

mod connection;
mod credentials;
mod location;

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, RANGE, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use tokio::sync::Mutex;

use self::connection::{Body, Connection, Route};
use crate::buffer::{self, Buffer};
use crate::error::{Result, StorageError, StorageErrorKind};
use crate::hash::random;
use crate::limit::Limiter;
use crate::name::{Name, ObjectKind};
use crate::options::RemoteOptions;
use crate::protocol::{self, Operation};
use crate::remote::Remote;
use crate::storage::{Listed, OBJECT_LEN_MAX, Storage};

pub use credentials::ServerCredentials;
pub use location::{ServedLocation, is_repository_name};

/// Bytes of an upload that go at a time.
const PIECE_LEN: usize = 256 << 10;

/// As [`PIECE_LEN`], where the rate is limited.
const LIMITED_PIECE_LEN: usize = 16 << 10;

/// Time after which a request is given up if nothing of it moves.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// Objects of a repository on a storage server.
///
/// All operations share one connection of HTTP/2, over which many go at a time. A connection that
/// breaks is made anew, and the operation retried.
///
/// Methods block: call them from ordinary threads, not from within an asynchronous runtime.
pub struct ServedStorage {
    remote: Remote,
    route: Route,
    location: String,
    /// Scheme and authority of requests.
    base: String,
    repository: String,
    authorization: Option<HeaderValue>,
    session: HeaderValue,
    /// `None` before the first operation.
    connection: Mutex<Option<Connection>>,
    upload: Option<Arc<Limiter>>,
    download: Option<Limiter>,
}

impl ServedStorage {
    /// The storage at `location`; no request is sent yet.
    ///
    /// # Errors
    /// When the token, the certificate or the authorities cannot be used.
    pub fn connect(
        location: &ServedLocation,
        credentials: &ServerCredentials,
        options: &RemoteOptions,
    ) -> Result<Self> {
        let mut remote = Remote::new(options)?;
        let (route, base, repository, authorization) = match location {
            ServedLocation::Https {
                host,
                port,
                repository,
            } => {
                let route = Route::Tls {
                    host: host.clone(),
                    port: *port,
                    config: credentials.tls()?,
                };
                let authority = if host.contains(':') {
                    format!("https://[{host}]:{port}")
                } else {
                    format!("https://{host}:{port}")
                };
                let authorization = credentials.authorization()?;
                (route, authority, repository.clone(), authorization)
            }
            ServedLocation::Ssh(place) => {
                remote = remote.leisurely();
                let route = Route::Ssh(place.clone());
                (
                    route,
                    "http://ssh".to_owned(),
                    place.path().to_owned(),
                    None,
                )
            }
        };
        let session = hex::encode(random::<{ protocol::SESSION_LEN }>());
        let mut session = HeaderValue::try_from(session).expect("hexadecimal digits");
        session.set_sensitive(true);
        Ok(Self {
            remote,
            route,
            location: location.to_string(),
            base,
            repository,
            authorization,
            session,
            connection: Mutex::new(None),
            upload: options.upload_kib_per_s.map(Limiter::new).map(Arc::new),
            download: options.download_kib_per_s.map(Limiter::new),
        })
    }

    /// The connection, made anew if it has ended.
    async fn connection(&self) -> Result<Connection> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = current.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        let connection = Connection::open(&self.route).await?;
        Ok(current.insert(connection).clone())
    }

    /// Sends a request with `bytes` for its body; returns a successful answer.
    async fn send(
        &self,
        operation: Operation,
        bytes: Bytes,
        range: Option<&Range<u64>>,
    ) -> Result<Answer<'_>> {
        let mut connection = self.connection().await?;
        let path = operation.path(&self.repository);
        let mut request = Request::builder()
            .method(operation.method())
            .uri(format!("{}{path}", self.base))
            .header(USER_AGENT, concat!("tabane/", env!("CARGO_PKG_VERSION")))
            .header(protocol::SESSION, &self.session);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(range) = range {
            request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
        }
        if matches!(operation, Operation::Put(_) | Operation::Replace(_)) {
            request = request.header(CONTENT_LENGTH, bytes.len());
        }
        let sent = Arc::<AtomicU64>::default();
        let body = in_pieces(bytes, self.upload.clone(), Arc::clone(&sent));
        let request = request.body(body).expect("its parts are valid");
        let response = {
            let mut answer = std::pin::pin!(connection.send(request));
            let mut before = 0;
            loop {
                if let Ok(answer) = tokio::time::timeout(SILENCE_MAX, &mut answer).await {
                    break answer?;
                }
                let now = sent.load(Ordering::Relaxed);
                if std::mem::replace(&mut before, now) == now {
                    return Err(StorageErrorKind::Retryable.into());
                }
            }
        };
        let answer = Answer {
            storage: self,
            connection,
            response,
        };
        if answer.response.status().is_success() {
            Ok(answer)
        } else {
            Err(answer.refusal().await)
        }
    }

    /// As [`ServedStorage::send`], for a request without a body.
    async fn ask(&self, operation: Operation) -> Result<Answer<'_>> {
        self.send(operation, Bytes::new(), None).await
    }

    async fn length(&self, name: Name) -> Result<u64> {
        let answer = self.ask(Operation::Stat(name)).await?;
        answer.length().ok_or_else(malformed)
    }

    /// Whether an object with these bytes exists, after a try with unknown outcome.
    async fn has(&self, name: Name, bytes: &Bytes) -> Result<bool> {
        match name.kind {
            ObjectKind::Config => {
                let answer = self.ask(Operation::Get(name)).await?;
                Ok(answer.whole().await? == *bytes)
            }
            // The name is the hash of the bytes.
            _ => Ok(self.length(name).await? == bytes.len() as u64),
        }
    }

    fn put_as(&self, operation: Operation, name: Name, parts: &[&[u8]]) -> Result<()> {
        let mut bytes = buffer::with_capacity(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let bytes = Bytes::from_owner(Buffer::from(bytes));
        let put = self.remote.run(async |attempt| {
            match self.send(operation, bytes.clone(), None).await {
                Err(failure)
                    if failure.kind() == StorageErrorKind::AlreadyExists && attempt.is_again =>
                {
                    if self.has(name, &bytes).await? {
                        Ok(())
                    } else {
                        Err(failure)
                    }
                }
                sent => sent.map(drop),
            }
        });
        put.map_err(|error| error.about(name))
    }
}

impl Storage for ServedStorage {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn connections(&self) -> usize {
        self.remote.connections()
    }

    fn create(&self) -> Result<()> {
        self.remote
            .run(async |_| self.ask(Operation::Create).await.map(drop))
    }

    fn make_folders(&self) -> Result<()> {
        self.remote
            .run(async |_| self.ask(Operation::MakeFolders).await.map(drop))
    }

    fn put(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.put_as(Operation::Put(name), name, parts)
    }

    fn replace(&self, name: Name, parts: &[&[u8]]) -> Result<()> {
        self.put_as(Operation::Replace(name), name, parts)
    }

    fn get(&self, name: Name, range: Option<Range<u64>>) -> Result<Vec<u8>> {
        let got = self.remote.run(async |_| match &range {
            Some(range) if range.is_empty() => match self.length(name).await? {
                len if range.start <= len => Ok(Vec::new()),
                _ => Err(StorageErrorKind::PastEnd.into()),
            },
            Some(wanted) => {
                let answer = self.send(Operation::Get(name), Bytes::new(), Some(wanted));
                let bytes = answer.await?.bytes(wanted.end - wanted.start).await?;
                if bytes.len() as u64 == wanted.end - wanted.start {
                    Ok(bytes)
                } else {
                    Err(malformed())
                }
            }
            None => self.ask(Operation::Get(name)).await?.whole().await,
        });
        got.map_err(|error| error.about(name))
    }

    fn list(&self, kind: ObjectKind) -> Result<Vec<Listed>> {
        self.remote.run(async |_| {
            let bytes = self.ask(Operation::List(kind)).await?.whole().await?;
            protocol::decode_list(&bytes).ok_or_else(malformed)
        })
    }

    fn stat(&self, name: Name) -> Result<u64> {
        let length = self.remote.run(async |_| self.length(name).await);
        length.map_err(|error| error.about(name))
    }

    fn delete(&self, name: Name) -> Result<()> {
        let deleted =
            self.remote.run(
                async |attempt| match self.ask(Operation::Delete(name)).await {
                    Err(error)
                        if error.kind() == StorageErrorKind::NotFound && attempt.is_again =>
                    {
                        Ok(())
                    }
                    answer => answer.map(drop),
                },
            );
        deleted.map_err(|error| error.about(name))
    }

    fn remove_leftovers(&self, age: Duration) -> Result<u64> {
        self.remote.run(async |_| {
            let answer = self.ask(Operation::RemoveLeftovers(age)).await?;
            let number = answer.bytes(protocol::SENTENCE_LEN_MAX as u64).await?;
            let number = std::str::from_utf8(&number).ok();
            number
                .and_then(|text| text.parse().ok())
                .ok_or_else(malformed)
        })
    }
}

/// A server's answer, before its body was read.
struct Answer<'a> {
    storage: &'a ServedStorage,
    connection: Connection,
    response: Response<Incoming>,
}

impl Answer<'_> {
    /// The length that the head tells.
    fn length(&self) -> Option<u64> {
        let header = self.response.headers().get(protocol::LENGTH)?;
        header.to_str().ok()?.parse().ok()
    }

    /// Reads a body that is as long as the head tells, so it ends.
    async fn whole(self) -> Result<Vec<u8>> {
        let told = self.length().filter(|len| *len <= OBJECT_LEN_MAX);
        let told = told.ok_or_else(malformed)?;
        let bytes = self.bytes(told).await?;
        if bytes.len() as u64 == told {
            Ok(bytes)
        } else {
            Err(malformed())
        }
    }

    /// Reads a body of at most `max` bytes.
    async fn bytes(mut self, max: u64) -> Result<Vec<u8>> {
        let told = self.length().unwrap_or_default().min(max);
        let mut bytes = buffer::with_capacity(told as usize);
        let body = self.response.body_mut();
        loop {
            let frame = match tokio::time::timeout(SILENCE_MAX, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(bytes),
                Ok(Some(Err(error))) => return Err(self.connection.reason(&error).await),
                Err(_) => return Err(StorageErrorKind::Retryable.into()),
            };
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            if bytes.len() as u64 + piece.len() as u64 > max {
                return Err(malformed());
            }
            if let Some(limiter) = &self.storage.download {
                limiter.wait(piece.len()).await;
            }
            bytes.extend_from_slice(&piece);
        }
    }

    /// The error that a refusal stands for.
    async fn refusal(self) -> StorageError {
        let (head, body) = self.response.into_parts();
        let kind = head.headers.get(protocol::ERROR);
        let kind = kind.and_then(|name| protocol::kind(name.to_str().ok()?));
        if kind.is_some() {
            self.storage.remote.reached();
        }
        let said = Limited::new(body, protocol::SENTENCE_LEN_MAX).collect();
        let said = match tokio::time::timeout(SILENCE_MAX, said).await {
            Ok(Ok(said)) => String::from_utf8_lossy(&said.to_bytes()).into_owned(),
            _ => String::new(),
        };
        match kind {
            // What a server says is shown: it must not move the cursor.
            Some(kind) if !said.is_empty() => {
                StorageError::new(kind, said.replace(char::is_control, " "))
            }
            Some(kind) => kind.into(),
            None => {
                let kind = match head.status {
                    StatusCode::REQUEST_TIMEOUT
                    | StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT => StorageErrorKind::Retryable,
                    _ => StorageErrorKind::Permanent,
                };
                let text = format!("the server answers {}", head.status.as_u16());
                StorageError::new(kind, text)
            }
        }
    }
}

/// A body that is sent in pieces within the rate, and counts the bytes sent.
fn in_pieces(bytes: Bytes, limiter: Option<Arc<Limiter>>, sent: Arc<AtomicU64>) -> Body {
    let piece_len = match limiter {
        Some(_) => LIMITED_PIECE_LEN,
        None => PIECE_LEN,
    };
    let pieces = stream::unfold(bytes, move |mut rest| {
        let (limiter, sent) = (limiter.clone(), Arc::clone(&sent));
        async move {
            if rest.is_empty() {
                return None;
            }
            let piece = rest.split_to(piece_len.min(rest.len()));
            if let Some(limiter) = limiter {
                limiter.wait(piece.len()).await;
            }
            sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Some((Ok::<_, Infallible>(Frame::data(piece)), rest))
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

fn malformed() -> StorageError {
    let text = "the server's answer is malformed";
    StorageError::new(StorageErrorKind::Malformed, text)
}
