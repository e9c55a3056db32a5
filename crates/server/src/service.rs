//! Answers requests.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::header::{CONTENT_LENGTH, HeaderMap, RANGE};
use hyper::{Method, Request, Response, StatusCode};
use tabane_storage::buffer::{self, Buffer};
use tabane_storage::protocol::{self, Operation};
use tabane_storage::{
    Id, LocalStorage, Name, OBJECT_LEN_MAX, ObjectKind, Result, Storage, StorageError,
    StorageErrorKind, object_id,
};

use crate::counters::Counters;
use crate::realm::Realm;
use crate::repository::{Repository, SessionId, Who};

/// Bytes that are read or written at a time.
const PIECE_LEN: usize = 1 << 20;

/// Time after which an upload is given up when nothing more arrives.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The body of an answer.
pub type Answer = UnsyncBoxBody<Bytes, std::io::Error>;

/// Answers the requests of all clients.
#[derive(Clone)]
pub struct Service {
    /// The repositories.
    pub realm: Arc<Realm>,
    /// Counts what is done.
    pub counters: Arc<Counters>,
}

impl Service {
    /// A service for these repositories.
    pub fn new(realm: Realm) -> Self {
        Self {
            realm: Arc::new(realm),
            counters: Arc::default(),
        }
    }

    /// Answers a request of `who`, whose session the request names.
    pub async fn answer<B>(&self, who: Who, request: Request<B>) -> Response<Answer>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let method = request.method().clone();
        let response = match self.act(who, request).await {
            Ok(response) => response,
            Err(error) => refusal(&method, &error),
        };
        if response.status().is_success() {
            self.counters.requests.add(1)
        } else {
            self.counters.failed_requests.add(1)
        }
        response
    }

    async fn act<B>(&self, mut who: Who, request: Request<B>) -> Result<Response<Answer>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let asked = Asked::parse(&request)?;
        if !who.has(&asked.repository) {
            let text = format!(
                "the client {} has no repository {:?} here",
                who.name, asked.repository
            );
            return Err(StorageError::new(StorageErrorKind::Unauthorized, text));
        }
        who.session = asked.session;
        let (realm, name, operation) = (Arc::clone(&self.realm), asked.repository, asked.operation);
        let permitted = who.clone();
        let repository = blocking(move || {
            let repository = realm.find(&name)?;
            repository.permit(&permitted, operation)?;
            Ok(repository)
        })
        .await?;
        match operation {
            Operation::Get(name) => {
                let (len, response) = send(&repository, name, asked.range).await?;
                self.counters.sent_bytes.add(len);
                Ok(response)
            }
            Operation::Put(name) => {
                let len = length(asked.len)?;
                let expected = (Arc::clone(&repository), who.clone());
                // Dropped, too, when the client goes away.
                let room = blocking(move || expected.0.expect(&expected.1, name, len)).await?;
                receive(&repository, &who, name, len, request.into_body()).await?;
                room.keep();
                repository.remember(&who, name);
                self.counters.received_bytes.add(len);
                Ok(done(StatusCode::CREATED))
            }
            Operation::Replace(name) => {
                let bytes = collect(request.into_body(), length(asked.len)?).await?;
                self.counters
                    .received_bytes
                    .add(bytes.as_ref().len() as u64);
                blocking(move || {
                    repository.check_name(name, object_id(&[bytes.as_ref()]))?;
                    repository.storage().replace(name, &[bytes.as_ref()])
                })
                .await?;
                Ok(done(StatusCode::CREATED))
            }
            operation => blocking(move || short(&repository, &who, operation)).await,
        }
    }
}

/// A request without its body.
struct Asked {
    /// What the request calls the repository.
    repository: String,
    /// What is to be done.
    operation: Operation,
    /// The client's session.
    session: Option<SessionId>,
    /// Bytes of the body.
    len: Option<u64>,
    /// Bytes of the object that are wanted.
    range: Option<Range<u64>>,
}

impl Asked {
    /// Reads the head of a request.
    ///
    /// # Errors
    /// [`StorageErrorKind::Malformed`].
    fn parse<B>(request: &Request<B>) -> Result<Self> {
        let malformed = |what: &str| {
            let text = format!("the request has {what}");
            StorageError::new(StorageErrorKind::Malformed, text)
        };
        let path = request.uri().path();
        let (repository, operation) = Operation::parse(request.method().as_str(), path)
            .ok_or_else(|| malformed("no operation that this server knows"))?;
        let headers = request.headers();
        let session = match text(headers, protocol::SESSION) {
            None => None,
            Some(text) => {
                let mut session = SessionId::default();
                hex::decode_to_slice(text, &mut session)
                    .map_err(|_| malformed("a session that is none"))?;
                Some(session)
            }
        };
        let len = match text(headers, CONTENT_LENGTH.as_str()) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| malformed("no length"))?),
        };
        let range = match text(headers, RANGE.as_str()) {
            None => None,
            Some(text) => Some(range(text).ok_or_else(|| malformed("a range that is none"))?),
        };
        Ok(Self {
            repository,
            operation,
            session,
            len,
            range,
        })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Reads a range of at least one byte.
fn range(text: &str) -> Option<Range<u64>> {
    let (start, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (start, last): (u64, u64) = (start.parse().ok()?, last.parse().ok()?);
    let end = last.checked_add(1)?;
    (start < end && end - start <= OBJECT_LEN_MAX).then_some(start..end)
}

/// Does what needs no body and has a short answer.
fn short(repository: &Repository, who: &Who, operation: Operation) -> Result<Response<Answer>> {
    let storage = repository.storage();
    Ok(match operation {
        Operation::Stat(name) => {
            let mut response = done(StatusCode::OK);
            let len = storage.stat(name)?;
            response.headers_mut().insert(protocol::LENGTH, len.into());
            response
        }
        Operation::Delete(name) => {
            repository.delete(who, name)?;
            done(StatusCode::NO_CONTENT)
        }
        Operation::List(kind) => {
            let bytes = protocol::encode_list(&repository.list(kind)?);
            let len = bytes.len();
            let mut response = Response::new(full(bytes));
            response.headers_mut().insert(protocol::LENGTH, len.into());
            response
        }
        Operation::Create => {
            storage.create()?;
            done(StatusCode::CREATED)
        }
        Operation::MakeFolders => {
            storage.make_folders()?;
            done(StatusCode::CREATED)
        }
        Operation::RemoveLeftovers(age) => {
            let removed = storage.remove_leftovers(age)?;
            Response::new(full(removed.to_string()))
        }
        Operation::Get(_) | Operation::Put(_) | Operation::Replace(_) => {
            unreachable!("they have bodies")
        }
    })
}

/// Sends an object or a range of it; returns how many bytes these are.
async fn send(
    repository: &Arc<Repository>,
    name: Name,
    range: Option<Range<u64>>,
) -> Result<(u64, Response<Answer>)> {
    let is_part = range.is_some();
    let opened = Arc::clone(repository);
    // The first piece tells whether there will be others.
    let (range, piece) = blocking(move || {
        let storage = opened.storage();
        let range = match range {
            Some(range) => range,
            None => 0..storage.stat(name)?,
        };
        let piece = read(storage, name, &range)?;
        Ok((range, piece))
    })
    .await?;
    let len = range.end - range.start;
    if len > OBJECT_LEN_MAX {
        let text = "it is longer than any object";
        return Err(StorageError::new(StorageErrorKind::Permanent, text));
    }
    let start = range.start + piece.len() as u64;
    let body = if start == range.end {
        full(piece)
    } else {
        let rest = (Arc::clone(repository), start..range.end, Some(piece));
        let pieces = stream::unfold(rest, move |(repository, range, piece)| async move {
            if let Some(piece) = piece {
                return Some((Ok(Frame::data(piece)), (repository, range, None)));
            }
            if range.is_empty() {
                return None;
            }
            let (opened, wanted) = (Arc::clone(&repository), range.clone());
            match blocking(move || read(opened.storage(), name, &wanted)).await {
                Ok(piece) => {
                    let rest = range.start + piece.len() as u64..range.end;
                    Some((Ok(Frame::data(piece)), (repository, rest, None)))
                }
                // The client sees that the answer breaks off, and asks again.
                Err(error) => {
                    let error = std::io::Error::other(error.to_string());
                    Some((Err(error), (repository, range.end..range.end, None)))
                }
            }
        });
        StreamBody::new(pieces).boxed_unsync()
    };
    let mut response = Response::new(body);
    if is_part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response.headers_mut().insert(protocol::LENGTH, len.into());
    Ok((len, response))
}

/// Reads the first piece of a range.
fn read(storage: &LocalStorage, name: Name, range: &Range<u64>) -> Result<Bytes> {
    let end = range.end.min(range.start + PIECE_LEN as u64);
    let bytes = storage.get(name, Some(range.start..end))?;
    Ok(Bytes::from_owner(Buffer::from(bytes)))
}

/// Receives an object and gives it its name, durably.
async fn receive<B>(
    repository: &Arc<Repository>,
    who: &Who,
    name: Name,
    len: u64,
    body: B,
) -> Result<()>
where
    B: Body<Data = Bytes> + Unpin,
{
    if len <= PIECE_LEN as u64 {
        let bytes = collect(body, len).await?;
        let (repository, who) = (Arc::clone(repository), who.clone());
        return blocking(move || {
            let bytes = bytes.as_ref();
            repository.check_name(name, object_id(&[bytes]))?;
            repository.check_copy(&who, name, bytes)?;
            repository.storage().put(name, &[bytes])
        })
        .await;
    }
    if name.kind == ObjectKind::Copy {
        let text = "no copy of a config or of a key is so long";
        return Err(StorageError::new(StorageErrorKind::Invalid, text));
    }
    let opened = Arc::clone(repository);
    let draft = blocking(move || opened.storage().draft(name)).await?;
    let mut writing = (draft, blake3::Hasher::new(), 0);
    let mut pieces = Pieces { body, left: len };
    while let Some(piece) = pieces.next().await? {
        // The disk must not hold up the other connections of this thread.
        writing = blocking(move || {
            let (draft, mut hasher, mut offset) = writing;
            for bytes in &piece {
                hasher.update(bytes);
                draft.write_at(offset, [bytes, &[]])?;
                offset += bytes.len() as u64;
            }
            Ok((draft, hasher, offset))
        })
        .await?;
    }
    let repository = Arc::clone(repository);
    blocking(move || {
        let (draft, hasher, _) = writing;
        repository.check_name(name, Id(*hasher.finalize().as_bytes()))?;
        let published = repository.storage().publish([draft]);
        published.into_iter().collect()
    })
    .await
}

/// Receives a body of this length.
async fn collect<B>(body: B, len: u64) -> Result<Buffer>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut bytes = buffer::with_capacity(PIECE_LEN.min(len as usize));
    let mut pieces = Pieces { body, left: len };
    while let Some(piece) = pieces.next().await? {
        piece
            .iter()
            .for_each(|piece| bytes.extend_from_slice(piece));
    }
    Ok(Buffer::from(bytes))
}

/// A body that is to have a certain length, in pieces of about [`PIECE_LEN`].
struct Pieces<B> {
    body: B,
    left: u64,
}

impl<B> Pieces<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>> {
        let mut pieces = Vec::new();
        let mut len = 0;
        while len < PIECE_LEN {
            let frame = tokio::time::timeout(SILENCE_MAX, self.body.frame()).await;
            let frame = match frame {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) if self.left > 0 => return Err(broken_off()),
                Ok(None) => break,
                Ok(Some(Err(_))) => return Err(broken_off()),
                Err(_) => {
                    let text = format!(
                        "nothing of the object has come for {} s",
                        SILENCE_MAX.as_secs()
                    );
                    return Err(StorageError::new(StorageErrorKind::Retryable, text));
                }
            };
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            let left = self.left.checked_sub(piece.len() as u64);
            self.left = left.ok_or_else(|| {
                let text = "the object is longer than the request says";
                StorageError::new(StorageErrorKind::Malformed, text)
            })?;
            len += piece.len();
            pieces.push(piece);
        }
        Ok((!pieces.is_empty()).then_some(pieces))
    }
}

fn broken_off() -> StorageError {
    let text = "the object broke off before its end";
    StorageError::new(StorageErrorKind::Retryable, text)
}

/// The length that a request tells of its body.
fn length(told: Option<u64>) -> Result<u64> {
    match told {
        Some(len) if len <= OBJECT_LEN_MAX => Ok(len),
        Some(_) => {
            let text = "it is longer than any object";
            Err(StorageError::new(StorageErrorKind::Invalid, text))
        }
        None => {
            let text = "the request does not tell the length of the object";
            Err(StorageError::new(StorageErrorKind::Malformed, text))
        }
    }
}

/// The answer to a request that is refused, with the error among its extensions.
pub fn refusal(method: &Method, error: &StorageError) -> Response<Answer> {
    let (status, kind) = protocol::of_kind(error.kind());
    let sentence = match *method {
        // What answers this has no body.
        Method::HEAD => String::new(),
        _ => error.to_string(),
    };
    let mut response = Response::new(full(sentence));
    *response.status_mut() = StatusCode::from_u16(status).expect("it is in the table");
    let headers = response.headers_mut();
    headers.insert(protocol::ERROR, kind.parse().expect("it is a word"));
    response.extensions_mut().insert(error.clone());
    response
}

fn done(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// A body that is there already.
pub fn full(bytes: impl Into<Bytes>) -> Answer {
    let body = Full::new(bytes.into());
    body.map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// Does what waits for the disk, on a thread for that.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The runtime is ending.
        Err(_) => Err(StorageErrorKind::Retryable.into()),
    }
}
