//! A connection to an SFTP server: many requests on their way at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};

use super::packet::{self, Attributes, Reply, Request};
use crate::error::{Result, StorageError, StorageErrorKind};
use crate::ssh::{Service, Ssh, SshPlace, Tunnel};
use crate::sync::lock;

/// Bytes of a read or a write where the server says nothing: every server takes as many.
const PIECE_LEN: u64 = 32 << 10;

/// The most bytes of a read or a write, whatever the server says: OpenSSH's own limit.
const PIECE_LEN_MAX: u64 = 255 << 10;

/// Messages that wait to be written.
const QUEUE_LEN: usize = 64;

/// Time after which a session that answers nothing is given up.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// Answers that are awaited, by number; `None` after the end of the session.
type Awaited = Mutex<Option<HashMap<u32, oneshot::Sender<Reply>>>>;

/// A session with a server; ends when dropped.
pub struct Session {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Vec<u8>>,
    next: AtomicU32,
    /// Bytes of a read and of a write at most.
    pub read_len: u64,
    pub write_len: u64,
    extensions: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Shared {
    awaited: Awaited,
    /// Answers so far.
    answers: AtomicU64,
    /// Why the session has ended.
    end: OnceLock<StorageError>,
}

/// An answer that is on its way.
pub struct Pending {
    shared: Arc<Shared>,
    answer: oneshot::Receiver<Reply>,
}

impl Session {
    /// Connects to the server of a place.
    ///
    /// # Errors
    /// When `ssh` fails, or the server speaks no SFTP.
    pub async fn connect(place: &SshPlace) -> Result<Self> {
        let Tunnel {
            mut input,
            output,
            mut ssh,
        } = place.connect(&Service::Subsystem("sftp"))?;
        let mut output = BufReader::with_capacity(PIECE_LEN_MAX as usize, output);
        // Fails when ssh has ended, as the next read does.
        let _ = input.write_all(&packet::greeting()).await;
        let greeting = tokio::time::timeout(SILENCE_MAX, receive(&mut output));
        let greeting = greeting.await.map_err(|_| StorageErrorKind::Retryable)??;
        let Some(greeting) = greeting else {
            return Err(ssh.reason().await);
        };
        let extensions = packet::parse_greeting(&greeting).ok_or_else(malformed)?;
        let shared = Arc::new(Shared {
            awaited: Mutex::new(Some(HashMap::new())),
            answers: AtomicU64::new(0),
            end: OnceLock::new(),
        });
        let (queue, messages) = mpsc::channel(QUEUE_LEN);
        tokio::spawn(write(input, messages));
        tokio::spawn(read(output, ssh, Arc::clone(&shared)));
        let mut session = Self {
            shared,
            queue,
            next: AtomicU32::new(0),
            read_len: PIECE_LEN,
            write_len: PIECE_LEN,
            extensions,
        };
        if session.has("limits@openssh.com", "1") {
            let asked = session.ask(&Request::Extended("limits@openssh.com", &[]));
            if let Reply::Extended(answer) = asked.await?
                && let Some([read, write]) = packet::limits(&answer)
            {
                // Zero says that there is none.
                let or_max = |limit: u64| match limit {
                    0 => PIECE_LEN_MAX,
                    limit => limit.min(PIECE_LEN_MAX),
                };
                (session.read_len, session.write_len) = (or_max(read), or_max(write));
            }
        }
        Ok(session)
    }

    /// Whether the server has this version of an extension.
    pub fn has(&self, name: &str, version: &str) -> bool {
        let wanted = (name.as_bytes(), version.as_bytes());
        let mut all = self.extensions.iter();
        all.any(|(name, version)| (name.as_slice(), version.as_slice()) == wanted)
    }

    /// Whether the session can be used.
    pub fn is_open(&self) -> bool {
        self.shared.end.get().is_none() && !self.queue.is_closed()
    }

    /// Sends a request. The server works on requests in the order of the calls, as far as they
    /// concern one handle.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn send(&self, request: &Request<'_>) -> Result<Pending> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answers, answer) = oneshot::channel();
        let pending = Pending {
            shared: Arc::clone(&self.shared),
            answer,
        };
        match lock(&self.shared.awaited).as_mut() {
            Some(awaited) => awaited.insert(number, answers),
            None => return Err(self.shared.ended()),
        };
        match self.queue.send(request.encode(number)).await {
            Ok(()) => Ok(pending),
            // The task that reads learns why.
            Err(_) => Err(pending.reply().await.err().unwrap_or_else(lost)),
        }
    }

    /// Sends a request, and waits for its answer.
    ///
    /// # Errors
    /// As [`Session::send`] and [`Pending::reply`].
    pub async fn ask(&self, request: &Request<'_>) -> Result<Reply> {
        self.send(request).await?.reply().await
    }

    /// Sends a request that is answered with a status, and waits for success.
    ///
    /// # Errors
    /// As [`Pending::done`].
    pub async fn act(&self, request: &Request<'_>) -> Result<()> {
        self.send(request).await?.done().await
    }

    /// Opens a file or a directory.
    ///
    /// # Errors
    /// As [`Pending::handle`].
    pub async fn open(&self, request: &Request<'_>) -> Result<Vec<u8>> {
        self.send(request).await?.handle().await
    }

    /// Closes a handle without waiting.
    pub async fn close(&self, handle: &[u8]) {
        // At the end of the session the server closes all handles.
        let _ = self.send(&Request::Close(handle)).await;
    }

    /// Attributes of a file.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`]; when the session ends.
    pub async fn stat(&self, path: &[u8]) -> Result<Attributes> {
        match self.ask(&Request::Stat(path)).await? {
            Reply::Attributes(attributes) => Ok(attributes),
            reply => Err(refusal(reply)),
        }
    }
}

impl Pending {
    /// Waits for the answer.
    ///
    /// # Errors
    /// [`StorageErrorKind::Retryable`] when the session ends or falls silent.
    pub async fn reply(self) -> Result<Reply> {
        let Self { shared, mut answer } = self;
        let mut before = shared.answers.load(Ordering::Relaxed);
        loop {
            match tokio::time::timeout(SILENCE_MAX, &mut answer).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(_)) => return Err(shared.ended()),
                Err(_) => {
                    let now = shared.answers.load(Ordering::Relaxed);
                    if std::mem::replace(&mut before, now) == now {
                        return Err(shared.finish(StorageErrorKind::Retryable.into()));
                    }
                }
            }
        }
    }

    /// Waits for success.
    ///
    /// # Errors
    /// What the server says, or that the session ended.
    pub async fn done(self) -> Result<()> {
        match self.reply().await? {
            Reply::Status(packet::OK, _) => Ok(()),
            reply => Err(refusal(reply)),
        }
    }

    /// Waits for a handle.
    ///
    /// # Errors
    /// As [`Pending::done`].
    pub async fn handle(self) -> Result<Vec<u8>> {
        match self.reply().await? {
            Reply::Handle(handle) => Ok(handle),
            reply => Err(refusal(reply)),
        }
    }
}

impl Shared {
    /// Ends the session; returns why it ended first.
    fn finish(&self, why: StorageError) -> StorageError {
        let _ = self.end.set(why);
        // Whoever waits gets an error.
        lock(&self.awaited).take();
        self.ended()
    }

    fn ended(&self) -> StorageError {
        self.end.get().cloned().unwrap_or_else(lost)
    }
}

/// The error of an answer that is not the one that the request has.
pub fn refusal(reply: Reply) -> StorageError {
    match reply {
        Reply::Status(packet::NO_SUCH_FILE, _) => StorageErrorKind::NotFound.into(),
        Reply::Status(packet::PERMISSION_DENIED, _) => StorageErrorKind::Denied.into(),
        Reply::Status(packet::UNSUPPORTED, _) => StorageErrorKind::Unsupported.into(),
        Reply::Status(_, said) => {
            let mut text = format!("the server says: {said}");
            // All that OpenSSH says of most errors.
            if said == "Failure" {
                text += " (is its disk full or read-only, or a quota used up?)";
            }
            StorageError::new(StorageErrorKind::Permanent, text)
        }
        _ => malformed(),
    }
}

fn malformed() -> StorageError {
    let text = "the server sent what is no message of SFTP: does a login there print something, or \
                is another command forced?";
    StorageError::new(StorageErrorKind::Malformed, text)
}

fn lost() -> StorageError {
    let text = "the connection of ssh has ended";
    StorageError::new(StorageErrorKind::Retryable, text)
}

/// Writes messages until the session is dropped or `ssh` ends.
async fn write(mut input: ChildStdin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(message) = messages.recv().await {
        if input.write_all(&message).await.is_err() {
            return;
        }
    }
}

/// Hands answers to those who wait for them, until `ssh` ends.
async fn read(mut output: BufReader<ChildStdout>, mut ssh: Ssh, shared: Arc<Shared>) {
    let why = loop {
        let message = match receive(&mut output).await {
            Ok(Some(message)) => message,
            Ok(None) => break ssh.reason().await,
            Err(malformed) => break malformed,
        };
        let Some((number, reply)) = Reply::parse(&message) else {
            break malformed();
        };
        shared.answers.fetch_add(1, Ordering::Relaxed);
        let waiting = match lock(&shared.awaited).as_mut() {
            Some(awaited) => awaited.remove(&number),
            None => return,
        };
        if let Some(waiting) = waiting {
            // Not everybody waits for an answer.
            let _ = waiting.send(reply);
        }
    };
    shared.finish(why);
}

/// Reads a message; `None` at the end.
async fn receive(output: &mut BufReader<ChildStdout>) -> Result<Option<Bytes>> {
    let Ok(len) = output.read_u32().await else {
        return Ok(None);
    };
    if len as usize > packet::MESSAGE_LEN_MAX {
        return Err(malformed());
    }
    let mut message = vec![0; len as usize];
    let read = output.read_exact(&mut message).await;
    Ok(read.ok().map(|_| message.into()))
}
