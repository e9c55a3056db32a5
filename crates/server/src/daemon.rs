//! The server over HTTPS: takes connections, and finds out whose requests they carry.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc as thread_mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use tabane_storage::{StorageError, StorageErrorKind, protocol};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::clients::{Client, Clients};
use crate::realm::Realm;
use crate::repository::Who;
use crate::scrub::Scrubber;
use crate::service::{self, Answer, Service};
use crate::throttle::{Throttle, WINDOW};
use crate::watched::Watched;
use crate::{metrics, settings};

/// Connections that the system keeps until they are taken. One beyond is tried again by its client,
/// which takes a second; the library's 128 are soon filled by somebody who means ill.
const QUEUED_MAX: i32 = 4096;
/// Connections that have not yet said whose they are. When one more comes, the oldest is closed.
const UNKNOWN_MAX: usize = 512;

/// Time for the handshake of TLS, and then for the first request of a known client.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections of one client.
const CONNECTIONS_PER_CLIENT_MAX: usize = 64;

/// Time before a wrong token is answered.
const WRONG_TOKEN_DELAY: Duration = Duration::from_secs(1);

/// Time for what is under way to end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Time before a failure to take connections is logged again.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Refusals of one connection that are logged.
const REFUSALS_TOLD_MAX: u32 = 10;

/// Requests of one connection at a time.
const STREAMS_MAX: u32 = 64;

/// Bytes that may be on their way to the server, for one request and for a connection.
const STREAM_WINDOW_LEN: u32 = 4 << 20;
const CONNECTION_WINDOW_LEN: u32 = 16 << 20;

/// Characters of a refusal that are logged.
const REFUSAL_LEN_MAX: usize = 500;
/// Bytes of a frame that the server takes, and of all headers of a request.
const FRAME_LEN_MAX: u32 = 256 << 10;
const HEADERS_LEN_MAX: u32 = 16 << 10;

/// Bytes that wait to be sent, for each request.
const SEND_BUFFER_LEN: usize = 1 << 20;

/// Time after which a silent client is asked whether it is there, and time to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of a server.
#[derive(Clone)]
pub struct ServerOptions {
    /// The directory in which each repository is a folder.
    pub directory: PathBuf,
    /// The folder with certificates and clients: see [`settings`].
    pub settings: PathBuf,
    /// Host and port to listen on.
    pub listen: String,
    /// Host and port of metrics over HTTP.
    pub metrics: Option<String>,
    /// Time from one scrub of a repository to the next; `None` for no scrubs.
    pub scrub_interval: Option<Duration>,
    /// Receives lines for the log.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A running server.
pub struct Server {
    runtime: Runtime,
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    /// Yields the end when all connections have.
    ended: mpsc::Receiver<()>,
    scrubber: Option<(thread_mpsc::Sender<()>, thread::JoinHandle<()>)>,
}

/// What all connections share.
struct Shared {
    service: Service,
    clients: Watched<Clients>,
    tls: Watched<rustls::ServerConfig>,
    throttle: Throttle,
    /// Connections of unknown clients, by age.
    unknown: Mutex<BTreeMap<u64, AbortHandle>>,
    /// Connections of known clients.
    known: Mutex<HashMap<String, usize>>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// When the settings cannot be used, or an address cannot be listened on.
    pub fn start(options: ServerOptions) -> tabane_storage::Result<Self> {
        let unusable = |why: String| StorageError::new(StorageErrorKind::Invalid, why);
        if !options.directory.is_dir() {
            let text = format!("{} is no directory", options.directory.display());
            return Err(StorageError::new(StorageErrorKind::NotADirectory, text));
        }
        let folder = options.settings.clone();
        let clients = Watched::new(
            vec![settings::clients(&folder)],
            Arc::clone(&options.log),
            move || settings::read_clients(&folder),
        );
        let folder = options.settings.clone();
        let tls = Watched::new(
            settings::certificates(&folder).to_vec(),
            Arc::clone(&options.log),
            move || settings::read_tls(&folder),
        );
        let service = Service::new(Realm::named(&options.directory));
        let shared = Arc::new(Shared {
            service: service.clone(),
            clients: clients.map_err(unusable)?,
            tls: tls.map_err(unusable)?,
            throttle: Throttle::default(),
            unknown: Mutex::default(),
            known: Mutex::default(),
            log: Arc::clone(&options.log),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("serve")
            .max_blocking_threads(64)
            .enable_all()
            .build()?;
        let listen = |address: &str| -> tabane_storage::Result<TcpListener> {
            let bound = runtime.block_on(TcpListener::bind(address));
            let listening = bound.and_then(|listener| {
                rustix::net::listen(&listener, QUEUED_MAX)?;
                Ok(listener)
            });
            listening.map_err(|error| {
                let form = match error.kind() {
                    io::ErrorKind::InvalidInput => ": write HOST:PORT",
                    _ => "",
                };
                let text = format!("cannot listen on {address}: {error}{form}");
                StorageError::new(error.kind().into(), text)
            })
        };
        let listener = listen(&options.listen)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let (running, ended) = mpsc::channel(1);
        let metrics_address = match &options.metrics {
            Some(metrics) => {
                let listener = listen(metrics)?;
                let address = listener.local_addr()?;
                runtime.spawn(metrics::serve(listener, service.clone()));
                Some(address)
            }
            None => None,
        };
        runtime.spawn(accept(listener, Arc::clone(&shared), stopped, running));
        let scrubber = options.scrub_interval.map(|interval| {
            let (stop, stopped) = thread_mpsc::channel();
            let scrubber = Scrubber {
                directory: options.directory,
                service,
                interval,
                log: options.log,
            };
            let thread = thread::Builder::new().name("scrub".to_owned());
            let thread = thread.spawn(move || scrubber.run(&stopped))?;
            Ok::<_, io::Error>((stop, thread))
        });
        Ok(Self {
            runtime,
            address,
            metrics_address,
            stop,
            ended,
            scrubber: scrubber.transpose()?,
        })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Takes no more requests, and waits up to 30 seconds for those under way.
    pub fn stop(mut self) {
        self.stop.send_replace(true);
        self.runtime.block_on(async {
            let _ = tokio::time::timeout(STOP_TIMEOUT, self.ended.recv()).await;
        });
        if let Some((stop, thread)) = self.scrubber {
            drop(stop);
            let _ = thread.join();
        }
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// The settings of HTTP/2.
pub fn http2() -> hyper::server::conn::http2::Builder<TokioExecutor> {
    let mut http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_LEN)
        .initial_connection_window_size(CONNECTION_WINDOW_LEN)
        .max_frame_size(FRAME_LEN_MAX)
        .max_header_list_size(HEADERS_LEN_MAX)
        .max_send_buf_size(SEND_BUFFER_LEN);
    http2
}

/// Takes connections until the server stops.
async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    stopped: watch::Receiver<bool>,
    running: mpsc::Sender<()>,
) {
    let mut stop = stopped.clone();
    let mut told: Option<Instant> = None;
    for id in 0.. {
        let accepted = {
            match select(pin!(listener.accept()), pin!(until(&mut stop))).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(_) => return,
            }
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            // Too many open files, for a while.
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() > TOLD_AGAIN) {
                    told = Some(Instant::now());
                    (shared.log)(&format!("cannot take a connection: {error}"));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let peer = Arc::new(Peer {
            id,
            address,
            shared: Arc::clone(&shared),
            client: Mutex::default(),
            is_known: AtomicBool::new(false),
            refusals: AtomicU32::new(0),
        });
        shared.service.counters.connections.add(1);
        let (running, stopped) = (running.clone(), stopped.clone());
        let serving = Arc::clone(&peer);
        let task = tokio::spawn(async move {
            let _running = running;
            serve(&serving, stream, stopped).await;
        });
        let mut unknown = lock(&shared.unknown);
        // It may be over, or known, already.
        if !task.is_finished() && !peer.is_known.load(Ordering::SeqCst) {
            unknown.insert(id, task.abort_handle());
        }
        if unknown.len() > UNKNOWN_MAX
            && let Some((_, oldest)) = unknown.pop_first()
        {
            shared.service.counters.dropped_connections.add(1);
            oldest.abort();
        }
    }
}

/// Waits until the server stops.
async fn until(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// A connection's other end.
struct Peer {
    id: u64,
    address: SocketAddr,
    shared: Arc<Shared>,
    /// The name of the client whose connection it is, and what showed that.
    client: Mutex<Option<(String, Shown)>>,
    is_known: AtomicBool,
    refusals: AtomicU32,
}

/// What a client showed: the hash of a token, or a certificate.
#[derive(Clone, PartialEq, Eq)]
enum Shown {
    Token(blake3::Hash),
    Certificate,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.service.counters.connections.sub(1);
        lock(&self.shared.unknown).remove(&self.id);
        if let Some((name, _)) = lock(&self.client).take() {
            let mut known = lock(&self.shared.known);
            if let Some(count) = known.get_mut(&name) {
                *count -= 1;
            }
        }
    }
}

/// Serves a connection to its end.
async fn serve(peer: &Arc<Peer>, stream: TcpStream, mut stopped: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let shared = &peer.shared;
    let acceptor = TlsAcceptor::from(shared.tls.get());
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            // Scanners that speak something else are not worth a line.
            if let Some(rustls::Error::InvalidCertificate(why)) = tls_error(&error) {
                shared.service.counters.unknown_clients.add(1);
                (shared.log)(&format!(
                    "{}: the client's certificate is not accepted: {why}",
                    peer.address.ip()
                ));
            }
            return;
        }
        Err(_) => return,
    };
    let session = stream.get_ref().1;
    if session.alpn_protocol() != Some(protocol::ALPN) {
        return;
    }
    let certificate = session.peer_certificates().and_then(<[_]>::first).cloned();
    let certificate = certificate.map(CertificateDer::into_owned).map(Arc::new);
    let answering = Arc::clone(peer);
    let service = service_fn(move |request| {
        let (peer, certificate) = (Arc::clone(&answering), certificate.clone());
        async move { Ok::<_, hyper::Error>(answer(&peer, certificate.as_deref(), request).await) }
    });
    let mut connection = pin!(http2().serve_connection(TokioIo::new(stream), service));
    let mut stop = pin!(until(&mut stopped));
    let mut first_request = pin!(tokio::time::sleep(FIRST_REQUEST_TIMEOUT));
    let first = select(&mut first_request, &mut stop);
    match select(&mut connection, first).await {
        Either::Left(_) => return,
        Either::Right((Either::Left(_), _)) => {
            if !peer.is_known.load(Ordering::SeqCst) {
                shared.service.counters.dropped_connections.add(1);
                return;
            }
            if let Either::Left(_) = select(&mut connection, &mut stop).await {
                return;
            }
        }
        Either::Right((Either::Right(_), _)) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Answers a request.
async fn answer(
    peer: &Arc<Peer>,
    certificate: Option<&CertificateDer<'static>>,
    request: Request<Incoming>,
) -> Response<Answer> {
    let shared = &peer.shared;
    let clients = shared.clients.get();
    let client = match identify(peer, &clients, certificate, &request) {
        Ok(client) => client,
        Err(refused) => {
            shared.service.counters.unknown_clients.add(1);
            let method = request.method().clone();
            // What the body would have held is not kept meanwhile.
            drop(request);
            tokio::time::sleep(refused.delay).await;
            let mut response = service::refusal(&method, &refused.error);
            *response.status_mut() = refused.status;
            return response;
        }
    };
    let who = Who {
        name: client.name.clone(),
        role: client.role,
        repositories: Some(client.repositories.clone()),
        quota: client.quota,
        session: None,
    };
    let response = shared.service.answer(who, request).await;
    let is_told = [StatusCode::FORBIDDEN, StatusCode::INSUFFICIENT_STORAGE];
    if is_told.contains(&response.status())
        && let Some(error) = response.extensions().get::<StorageError>()
        && peer.refusals.fetch_add(1, Ordering::Relaxed) < REFUSALS_TOLD_MAX
    {
        // A name that is none may be as long as a request.
        let why: String = error.to_string().chars().take(REFUSAL_LEN_MAX).collect();
        (shared.log)(&format!("{}: refused: {why}", peer.address.ip()));
    }
    response
}

/// An answer to nobody that is known.
struct Refused {
    status: StatusCode,
    error: StorageError,
    delay: Duration,
}

/// Finds out whose request it is.
fn identify<'a>(
    peer: &Arc<Peer>,
    clients: &'a Clients,
    certificate: Option<&CertificateDer<'static>>,
    request: &Request<Incoming>,
) -> Result<&'a Client, Refused> {
    let refuse = |status, kind, text: &str, delay| Refused {
        status,
        error: StorageError::new(kind, text),
        delay,
    };
    let unauthorized = |text: &str, delay| {
        refuse(
            StatusCode::UNAUTHORIZED,
            StorageErrorKind::Unauthorized,
            text,
            delay,
        )
    };
    let (client, shown) = match (request.headers().get(AUTHORIZATION), certificate) {
        (Some(header), _) => {
            let token = header
                .as_bytes()
                .strip_prefix(b"Bearer ")
                .unwrap_or_default();
            let shown = Shown::Token(blake3::hash(token));
            let (now, address) = (Instant::now(), peer.address.ip());
            // The comparison of hashes takes as long whatever they are.
            let is_shown_before =
                matches!(&*lock(&peer.client), Some((_, before)) if *before == shown);
            if !is_shown_before && !peer.shared.throttle.admits(address, now) {
                return Err(refuse(
                    StatusCode::TOO_MANY_REQUESTS,
                    StorageErrorKind::Retryable,
                    "too many wrong tokens have come from this address: the server looks at none \
                     for a minute",
                    Duration::ZERO,
                ));
            }
            match clients.by_token(token) {
                Some(client) => (client, shown),
                None => {
                    let tries = peer.shared.throttle.note(address, now);
                    (peer.shared.log)(&format!(
                        "{address}: a token that no client has, number {tries} within {} s",
                        WINDOW.as_secs()
                    ));
                    return Err(unauthorized(
                        "the server knows no client with this token: check \
                         TABANE_SERVER_TOKEN_FILE or TABANE_SERVER_TOKEN",
                        WRONG_TOKEN_DELAY,
                    ));
                }
            }
        }
        (None, Some(certificate)) => {
            let client = by_certificate(clients, certificate).ok_or_else(|| {
                unauthorized(
                    "the server lists no client with this certificate",
                    WRONG_TOKEN_DELAY,
                )
            })?;
            (client, Shown::Certificate)
        }
        (None, None) => {
            return Err(unauthorized(
                "the server asks for a token or a certificate: set TABANE_SERVER_TOKEN_FILE or \
                 TABANE_SERVER_CERTIFICATE",
                Duration::ZERO,
            ));
        }
    };
    if peer.is_known.load(Ordering::SeqCst) {
        return Ok(client);
    }
    let mut known = lock(&peer.shared.known);
    let count = known.entry(client.name.clone()).or_default();
    if *count >= CONNECTIONS_PER_CLIENT_MAX {
        let text = format!(
            "the client {} has {CONNECTIONS_PER_CLIENT_MAX} connections already",
            client.name
        );
        return Err(refuse(
            StatusCode::TOO_MANY_REQUESTS,
            StorageErrorKind::Retryable,
            &text,
            Duration::ZERO,
        ));
    }
    let mut of_peer = lock(&peer.client);
    if of_peer.is_none() {
        *count += 1;
        *of_peer = Some((client.name.clone(), shown));
        peer.is_known.store(true, Ordering::SeqCst);
        lock(&peer.shared.unknown).remove(&peer.id);
    }
    Ok(client)
}

/// The client whose certificate this is: it has the client's name, and its entry has this one.
fn by_certificate<'a>(
    clients: &'a Clients,
    certificate: &CertificateDer<'_>,
) -> Option<&'a Client> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    clients.iter().find(|client| {
        let name = ServerName::try_from(client.name.as_str());
        let has_name =
            name.is_ok_and(|name| rustls::client::verify_server_name(&parsed, &name).is_ok());
        has_name && client.has_certificate(certificate)
    })
}

/// Locks a mutex under which nothing panics.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}
