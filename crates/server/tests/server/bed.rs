//! A running server with a few clients, and requests as nobody else would send them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tabane_server::clients::Client;
use tabane_server::settings::{self, Proof};
use tabane_server::{Role, Server, ServerOptions};
use tabane_storage::{RemoteOptions, ServedLocation, ServedStorage, ServerCredentials, protocol};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A server; stopped when dropped.
pub struct Bed {
    dir: TempDir,
    server: Option<Server>,
    tokens: HashMap<&'static str, String>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Bed {
    /// With these clients, which have a token and one repository each.
    pub fn new(clients: &[(&'static str, Role, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = dir.path().join("settings");
        let directory = dir.path().join("repositories");
        fs::create_dir(&directory).unwrap();
        settings::create(&settings, &["127.0.0.1".to_owned()]).unwrap();
        let tokens = clients.iter().map(|(name, role, repository)| {
            let client = client(name, *role, repository);
            match settings::add(&settings, client, false).unwrap() {
                Proof::Token(token) => (*name, token),
                Proof::Certificate(_) => unreachable!("it was to be a token"),
            }
        });
        let tokens = tokens.collect();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let logged = Arc::clone(&log);
        let server = Server::start(ServerOptions {
            directory,
            settings,
            listen: "127.0.0.1:0".to_owned(),
            metrics: None,
            scrub_interval: None,
            log: Arc::new(move |line| logged.lock().unwrap().push(line.to_owned())),
        });
        Self {
            dir,
            server: Some(server.unwrap()),
            tokens,
            log,
        }
    }

    pub fn port(&self) -> u16 {
        self.server.as_ref().unwrap().address().port()
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn settings(&self) -> PathBuf {
        self.dir.path().join("settings")
    }

    pub fn repository(&self, name: &str) -> PathBuf {
        self.dir.path().join("repositories").join(name)
    }

    pub fn token(&self, client: &str) -> &str {
        &self.tokens[client]
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub fn authority(&self) -> Vec<u8> {
        fs::read(self.settings().join("authority.pem")).unwrap()
    }

    /// The storage of a client.
    pub fn storage(&self, client: &str, repository: &str) -> ServedStorage {
        let credentials = ServerCredentials::default().token(self.token(client).to_owned());
        self.storage_with(credentials, repository)
    }

    pub fn storage_with(&self, credentials: ServerCredentials, repository: &str) -> ServedStorage {
        let location = ServedLocation::Https {
            host: "127.0.0.1".to_owned(),
            port: self.port(),
            repository: repository.to_owned(),
        };
        let credentials = credentials.authorities(self.authority());
        let options = RemoteOptions::default().patience(Duration::from_secs(20));
        ServedStorage::connect(&location, &credentials, &options).unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.server.take().unwrap().stop();
    }
}

/// A client with one repository.
pub fn client(name: &str, role: Role, repository: &str) -> Client {
    Client {
        name: name.to_owned(),
        role,
        repositories: vec![repository.to_owned()],
        quota: None,
        token_hash: None,
        certificate_hash: None,
    }
}

/// All files below a folder, by their paths.
pub fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// An asynchronous runtime for raw requests.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// An answer.
pub struct Answer {
    pub status: u16,
    /// The kind of error.
    pub kind: Option<String>,
    /// Bytes of the body.
    pub body_len: usize,
}

/// The body of a request.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// A connection for any requests.
pub struct Raw {
    sender: SendRequest<Body>,
    authority: String,
    /// The authorization of all requests.
    pub token: Option<String>,
}

impl Raw {
    pub async fn connect(bed: &Bed, token: Option<&str>) -> Self {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&bed.authority()) {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol::ALPN.to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", bed.port())).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = TokioIo::new(stream.await.unwrap());
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            authority: format!("https://127.0.0.1:{}", bed.port()),
            token: token.map(str::to_owned),
        }
    }

    /// Sends a request; `None` if it is none of HTTP, or the connection has ended.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Answer> {
        let body = Full::new(Bytes::copy_from_slice(body)).boxed_unsync();
        self.send_body(method, path, headers, body).await
    }

    /// As [`Raw::send`], with any body.
    pub async fn send_body(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Option<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.authority));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).ok()?;
        self.sender.ready().await.ok()?;
        let response = self.sender.send_request(request).await.ok()?;
        let (head, body) = response.into_parts();
        let kind = head.headers.get(protocol::ERROR);
        let body_len = body.collect().await.ok()?.to_bytes().len();
        Some(Answer {
            status: head.status.as_u16(),
            kind: kind.map(|kind| kind.to_str().unwrap().to_owned()),
            body_len,
        })
    }
}
