//! The listener: accepts connections within limits, and serves each.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::stall::Watched;
use crate::tls::{self, Tls};

/// A pause after the system could not accept a connection, as when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for open requests to end after the listener was stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Bounds on what clients can take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; further ones wait.
    pub connections_max: usize,
    /// Time for a TLS handshake, and from there or the end of a response to the end of the next
    /// request's head.
    pub head_timeout: Duration,
    /// Time for which a client may take nothing of what is sent to it.
    pub stall_timeout: Duration,
    /// Bytes of a request's head.
    pub head_len_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            head_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(60),
            head_len_max: 64 << 10,
        }
    }
}

/// Who has sent a request; among the request's extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The certificate that it has shown, if the server asks for one.
    pub certificate: Option<CertificateDer<'static>>,
}

/// A bound socket that waits for [`Listener::serve`].
pub struct Listener {
    socket: TcpListener,
    tls: Option<Tls>,
    limits: Limits,
    report: fn(&str),
}

impl Listener {
    /// Binds a socket.
    ///
    /// # Errors
    /// When the address is in use, or is none of this machine.
    pub async fn bind(
        address: impl ToSocketAddrs,
        tls: Option<Tls>,
        limits: Limits,
    ) -> io::Result<Self> {
        Ok(Self::new(TcpListener::bind(address).await?, tls, limits))
    }

    /// Takes a socket that is bound.
    pub fn new(socket: TcpListener, tls: Option<Tls>, limits: Limits) -> Self {
        Self {
            socket,
            tls,
            limits,
            report: |_| {},
        }
    }

    /// Tells `report` of clients that are refused for their certificates.
    pub fn report_to(self, report: fn(&str)) -> Self {
        Self { report, ..self }
    }

    /// The address, with the port that the system has chosen if it was 0.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers requests with `handler` until `stop` ends; then requests in work have three seconds.
    pub async fn serve<H, F, B>(self, handler: H, stop: impl Future)
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self {
            socket,
            tls,
            limits,
            report,
        } = self;
        let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config));
        let free = Arc::new(Semaphore::new(limits.connections_max));
        let (stopping, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let next = async {
                let permit = Arc::clone(&free).acquire_owned().await;
                (permit, socket.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                next = next => next,
                _ = &mut stop => break,
            };
            // Tasks that have ended are let go of here.
            while connections.try_join_next().is_some() {}
            let Ok((stream, address)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (acceptor, handler, stopped) = (acceptor.clone(), handler.clone(), stopped.clone());
            connections.spawn(async move {
                let _permit = permit;
                connection(stream, address, acceptor, limits, report, handler, stopped).await;
            });
        }
        drop(socket);
        let _ = stopping.send(true);
        let ended = async { while connections.join_next().await.is_some() {} };
        // Those that have not ended are dropped.
        let _ = tokio::time::timeout(STOP_TIMEOUT, ended).await;
    }
}

/// Serves one connection to its end. Its errors are the client's affair.
async fn connection<H, F, B>(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    limits: Limits,
    report: fn(&str),
    handler: H,
    stopped: watch::Receiver<bool>,
) where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Only delays small answers.
    let _ = stream.set_nodelay(true);
    let stream = Watched::new(stream, limits.stall_timeout);
    let Some(acceptor) = acceptor else {
        let peer = Peer {
            address,
            certificate: None,
        };
        return requests(stream, peer, limits, handler, stopped).await;
    };
    match tokio::time::timeout(limits.head_timeout, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates();
            let certificate = shown.and_then(|chain| chain.first()).cloned();
            let peer = Peer {
                address,
                certificate: certificate.map(CertificateDer::into_owned),
            };
            requests(stream, peer, limits, handler, stopped).await;
        }
        Ok(Err(error)) => {
            // Scanners that speak something else are not worth a line.
            if let Some(why) = tls::refusal(&error) {
                report(&format!("a client at {} was refused: {why}", address.ip()));
            }
        }
        Err(_) => {}
    }
}

/// Answers the requests of a connection, one after the other.
async fn requests<T, H, F, B>(
    stream: T,
    peer: Peer,
    limits: Limits,
    handler: H,
    mut stopped: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_buf_size(limits.head_len_max)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
