//! A listener among clients that are slow, many, or strangers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tabane_http::tls::Tls;
use tabane_http::{BodyError, Limits, Listener, Peer, collect};
use tokio::sync::oneshot;

/// A server, until it is dropped.
struct Serving {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// Says whether a certificate was shown; of a body, how long it is. `/large` has 64 MiB.
async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let peer = request.extensions().get::<Peer>().expect("a peer").clone();
    let path = request.uri().path().to_owned();
    let body = collect(request.into_body(), 1000, Duration::from_millis(300)).await;
    let text: Vec<u8> = match (&path[..], body) {
        ("/large", _) => vec![0; 64 << 20],
        (_, Ok(body)) if peer.certificate.is_some() => format!("{} known", body.len()).into(),
        (_, Ok(body)) => format!("{} bytes", body.len()).into(),
        (_, Err(error)) => format!("{error:?}").into(),
    };
    Response::new(Full::from(text))
}

fn serve(tls: Option<Tls>, limits: Limits) -> Serving {
    let (stop, stopped) = oneshot::channel();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0", tls, limits)
                .await
                .expect("bound");
            tell.send(listener.address().expect("an address"))
                .expect("heard");
            listener.serve(answer, stopped).await;
        });
    });
    Serving {
        address: told.recv().expect("an address"),
        stop: Some(stop),
        thread: Some(thread),
    }
}

fn quick() -> Limits {
    Limits {
        connections_max: 50,
        head_timeout: Duration::from_millis(300),
        stall_timeout: Duration::from_millis(300),
        head_len_max: 16 << 10,
    }
}

fn ask(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut text = Vec::new();
    // TLS without a farewell is an error behind the answer.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// Clients that are silent, or slow with head or body, are let go, and do not hold up others.
#[test]
fn slow_clients_are_let_go() {
    let serving = serve(None, quick());
    let connect = || TcpStream::connect(serving.address).expect("it listens");
    let silent: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
    // All places are taken; this one waits until the silent ones were let go.
    assert!(ask(connect(), GET).ends_with("0 bytes"));
    for mut stream in silent {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
    let mut trickle = connect();
    let mut was_cut = false;
    let endless = b"GET / HTTP/1.1\r\nx: "
        .iter()
        .chain(std::iter::repeat_n(&b'x', 500));
    for byte in endless {
        std::thread::sleep(Duration::from_millis(5));
        was_cut = trickle.write_all(&[*byte]).is_err();
        if was_cut {
            break;
        }
    }
    assert!(was_cut);
    let slow = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\n12";
    assert!(ask(connect(), slow).ends_with(&format!("{:?}", BodyError::TooSlow)));
    let long = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\nConnection: close\r\n\r\n{}",
        "x".repeat(2000)
    );
    assert!(ask(connect(), &long).ends_with(&format!("{:?}", BodyError::TooLong)));
    let head = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(20 << 10));
    assert!(!ask(connect(), &head).starts_with("HTTP/1.1 200"));
}

/// A client that asks for much and takes nothing is let go.
#[test]
fn a_client_that_takes_nothing_is_let_go() {
    let serving = serve(None, quick());
    let mut stream = TcpStream::connect(serving.address).expect("it listens");
    stream
        .write_all(GET.replace("/ ", "/large ").as_bytes())
        .expect("it reads");
    std::thread::sleep(Duration::from_millis(1500));
    let mut taken = Vec::new();
    let _ = stream.read_to_end(&mut taken);
    assert!(taken.len() < 64 << 20, "{} bytes", taken.len());
}

/// Requests in work end before the listener does; new ones are not taken.
#[test]
fn it_stops_gracefully() {
    let serving = serve(None, quick());
    let address = serving.address;
    assert!(ask(TcpStream::connect(address).expect("it listens"), GET).ends_with("0 bytes"));
    drop(serving);
    assert!(TcpStream::connect(address).is_err());
}

/// Certificates of an authority, as files.
struct Authority {
    folder: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("written");
        Self { folder, issuer }
    }

    fn issue(&self, name: &str) {
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).expect("written");
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tls(&self, name: &str, clients: Option<&Self>) -> Tls {
        let authorities = clients.map(|authority| authority.path("ca.pem"));
        let (chain, key) = (
            self.path(&format!("{name}.pem")),
            self.path(&format!("{name}.key")),
        );
        Tls::from_files(&chain, &key, authorities.as_deref()).expect("files that fit")
    }

    /// A connection of a client that trusts this authority, with the certificate of that name.
    fn connect(&self, to: SocketAddr, own: Option<&str>) -> impl Read + Write {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = CertificateDer::from_pem_file(self.path(&format!("{name}.pem")));
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key")));
                let chain = vec![chain.expect("there")];
                builder
                    .with_client_auth_cert(chain, key.expect("there"))
                    .expect("they fit")
            }
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
        StreamOwned::new(connection, TcpStream::connect(to).expect("it listens"))
    }
}

#[test]
fn tls_lets_in_who_has_a_certificate_of_the_authority() {
    let (ours, other) = (Authority::new(), Authority::new());
    for authority in [&ours, &other] {
        authority.issue("localhost");
        authority.issue("client");
    }
    let tls = ours.tls("localhost", Some(&ours));
    assert!(tls.is_for("localhost") && !tls.is_for("evil.example") && !tls.is_for("127.0.0.1"));
    let serving = serve(Some(tls), quick());
    assert!(ask(ours.connect(serving.address, Some("client")), GET).ends_with("0 known"));
    let refused = |own| {
        let mut stream = ours.connect(serving.address, own);
        let _ = stream.write_all(GET.as_bytes());
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        assert!(!text.contains("200 OK"), "{text}");
    };
    refused(None);
    // A certificate of another authority, under the same name.
    std::fs::copy(other.path("client.pem"), ours.path("foreign.pem")).expect("copied");
    std::fs::copy(other.path("client.key"), ours.path("foreign.key")).expect("copied");
    refused(Some("foreign"));
    // Plain text, and a handshake that never comes.
    assert!(
        !ask(
            TcpStream::connect(serving.address).expect("it listens"),
            GET
        )
        .contains("200")
    );
    let mut silent = TcpStream::connect(serving.address).expect("it listens");
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    // Without authorities, anybody.
    let open = serve(Some(ours.tls("localhost", None)), quick());
    assert!(ask(ours.connect(open.address, None), GET).ends_with("0 bytes"));
}

#[test]
fn files_that_do_not_fit_are_named() {
    let authority = Authority::new();
    authority.issue("a");
    authority.issue("b");
    let (a, key) = (authority.path("a.pem"), authority.path("b.key"));
    let none = authority.path("none.pem");
    let error = |certificate: &PathBuf, key: &PathBuf| {
        let tls = Tls::from_files(certificate, key, None);
        tls.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(error(&a, &key).contains("b.key"), "{}", error(&a, &key));
    assert!(
        error(&none, &key).contains("none.pem"),
        "{}",
        error(&none, &key)
    );
    assert!(
        error(&key, &key).contains("no certificate"),
        "{}",
        error(&key, &key)
    );
    assert!(
        error(&a, &a).contains("no private key"),
        "{}",
        error(&a, &a)
    );
}
