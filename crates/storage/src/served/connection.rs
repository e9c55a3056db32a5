//! A connection to a storage server: HTTP/2 over TLS, or over `ssh`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use crate::error::{Result, StorageError, StorageErrorKind, causes};
use crate::protocol;
use crate::ssh::{Service, Ssh, SshPlace, Tunnel};

/// Time to connect and for the handshake of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a server behind SSH to say its greeting, a person's passphrase included.
const GREETING_TIMEOUT: Duration = Duration::from_secs(300);

/// Time after which a silent server is asked whether it is there, and time to answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(40);

/// Bytes that may be on their way to this client, for one answer and for all.
const STREAM_WINDOW_LEN: u32 = 8 << 20;
const CONNECTION_WINDOW_LEN: u32 = 64 << 20;

/// Bytes of a frame that this client takes at most.
const FRAME_LEN_MAX: u32 = 256 << 10;

/// Bytes that wait to be sent, for each request.
const SEND_BUFFER_LEN: usize = 1 << 20;

/// Time for the reason to arrive after a connection has failed.
const REASON_TIMEOUT: Duration = Duration::from_secs(5);

/// The body of a request.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// How a server is reached.
pub enum Route {
    /// By TLS.
    Tls {
        /// Name or address.
        host: String,
        /// The port.
        port: u16,
        /// Authorities and certificates.
        config: Arc<ClientConfig>,
    },
    /// By starting a server with `ssh`.
    Ssh(SshPlace),
}

/// An open connection. Clones share it; it ends when all are dropped.
#[derive(Clone)]
pub struct Connection {
    sender: SendRequest<Body>,
    /// Why the connection has ended, once it has.
    end: watch::Receiver<Option<StorageError>>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When the server cannot be reached or is none.
    pub async fn open(route: &Route) -> Result<Self> {
        match route {
            Route::Tls { host, port, config } => {
                let connect = connect_tls(host, *port, Arc::clone(config));
                let stream = match tokio::time::timeout(CONNECT_TIMEOUT, connect).await {
                    Ok(connected) => connected?,
                    Err(_) => return Err(StorageErrorKind::Retryable.into()),
                };
                Self::start(stream, None).await
            }
            Route::Ssh(place) => {
                let Tunnel {
                    input,
                    mut output,
                    mut ssh,
                } = place.connect(&Service::Command(protocol::SERVE_COMMAND))?;
                let mut greeting = [0; protocol::GREETING.len()];
                let greeted =
                    tokio::time::timeout(GREETING_TIMEOUT, output.read_exact(&mut greeting));
                match greeted.await {
                    Ok(Ok(_)) if greeting == *protocol::GREETING => {}
                    Ok(Err(_)) if [0, protocol::GREETING[0]].contains(&greeting[0]) => {
                        return Err(ssh.reason().await);
                    }
                    Ok(_) => {
                        let text = "what answers there is no storage server of Tabane: does a \
                                    login print something, or is another command forced?";
                        return Err(StorageError::new(StorageErrorKind::Malformed, text));
                    }
                    Err(_) => return Err(StorageErrorKind::Retryable.into()),
                }
                Self::start(tokio::io::join(output, input), Some(ssh)).await
            }
        }
    }

    async fn start(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        ssh: Option<Ssh>,
    ) -> Result<Self> {
        let started = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_LEN)
            .initial_connection_window_size(CONNECTION_WINDOW_LEN)
            .max_frame_size(FRAME_LEN_MAX)
            .max_send_buf_size(SEND_BUFFER_LEN)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = started.map_err(|error| explain(&error))?;
        let (ended, end) = watch::channel(None);
        tokio::spawn(async move {
            let result = connection.await;
            let why = match (ssh, result) {
                (Some(mut ssh), _) => ssh.reason().await,
                (None, Err(error)) => explain(&error),
                (None, Ok(())) => lost(),
            };
            ended.send_replace(Some(why));
        });
        Ok(Self { sender, end })
    }

    /// Whether requests can be sent.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed() && self.end.borrow().is_none()
    }

    /// Sends a request; returns the head of its answer.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>> {
        match self.sender.send_request(request).await {
            Ok(response) => Ok(response),
            Err(error) => Err(self.reason(&error).await),
        }
    }

    /// Why a request or an answer has failed: the end of the connection says more than the error.
    pub async fn reason(&mut self, error: &hyper::Error) -> StorageError {
        let is_refused = explain(error).kind() != StorageErrorKind::Retryable;
        if is_refused || self.is_open() {
            return explain(error);
        }
        let ended = self.end.wait_for(Option::is_some);
        match tokio::time::timeout(REASON_TIMEOUT, ended).await {
            Ok(Ok(why)) => why.clone().unwrap_or_else(lost),
            _ => explain(error),
        }
    }
}

type Stream = tokio_rustls::client::TlsStream<TcpStream>;

async fn connect_tls(host: &str, port: u16, config: Arc<ClientConfig>) -> Result<Stream> {
    let stream = TcpStream::connect((host, port)).await.map_err(|error| {
        let text = error.to_string();
        // Rust's texts of system errors end in the error number.
        let text = text.split(" (os error").next().unwrap_or_default();
        StorageError::new(StorageErrorKind::Retryable, text.to_ascii_lowercase())
    })?;
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| {
        let text = format!("{host:?} is no name of a server: {error}");
        StorageError::new(StorageErrorKind::Permanent, text)
    })?;
    let connected = TlsConnector::from(config).connect(name, stream).await;
    let stream = connected.map_err(|error| explain(&error))?;
    if stream.get_ref().1.alpn_protocol() != Some(protocol::ALPN) {
        let text = "what answers there is no storage server of Tabane: check host and port";
        return Err(StorageError::new(StorageErrorKind::Permanent, text));
    }
    Ok(stream)
}

/// Explains why a connection failed.
fn explain(error: &(dyn std::error::Error + 'static)) -> StorageError {
    let tls = causes(error).find_map(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>()?.get_ref()?;
        cause.downcast_ref::<rustls::Error>()
    });
    match tls {
        Some(error @ rustls::Error::AlertReceived(_)) => not_accepted(&error.to_string()),
        Some(rustls::Error::InvalidCertificate(why)) => {
            let text = format!(
                "the server's certificate is not accepted ({why}): if the server is the right one, \
                 name the file with its authority in TABANE_CACERT"
            );
            StorageError::new(StorageErrorKind::Permanent, text)
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            let text = "the server does not speak TLS: check host and port";
            StorageError::new(StorageErrorKind::Permanent, text)
        }
        _ => {
            let first = causes(error).last().map(ToString::to_string);
            let text = first.unwrap_or_default().to_ascii_lowercase();
            // HTTP/2 keeps nothing of an error below it but its text.
            if text.contains("fatal alert") {
                return not_accepted(&text);
            }
            StorageError::new(StorageErrorKind::Retryable, text)
        }
    }
}

fn not_accepted(alert: &str) -> StorageError {
    let text = format!(
        "the server does not accept this client's certificate ({alert}): check {}, and the clocks \
         of both machines",
        super::credentials::VARIABLES
    );
    StorageError::new(StorageErrorKind::Unauthorized, text)
}

fn lost() -> StorageError {
    let text = "the connection has ended";
    StorageError::new(StorageErrorKind::Retryable, text)
}
