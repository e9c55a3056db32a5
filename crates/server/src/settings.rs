//! The folder with a server's certificates and clients, and the making of them.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use tabane_http::tls::{TlsError, read_certificates, read_key};
use tabane_storage::{Result, StorageError, StorageErrorKind, protocol, sync_name};

use crate::clients::{self, Client, Clients};

/// Files of the folder.
const AUTHORITY: &str = "authority.pem";
const AUTHORITY_KEY: &str = "authority-key.pem";
const CERTIFICATE: &str = "server.pem";
const KEY: &str = "server-key.pem";
const CLIENTS: &str = "clients.toml";

/// Validity of certificates.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(3650 * 86_400);

/// The most by which clocks may lag behind that of the machine on which certificates are made.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(86_400);

/// The file of clients.
pub fn clients(folder: &Path) -> PathBuf {
    folder.join(CLIENTS)
}

/// The files that [`read_tls`] reads.
pub fn certificates(folder: &Path) -> [PathBuf; 3] {
    [CERTIFICATE, KEY, AUTHORITY].map(|file| folder.join(file))
}

/// Reads the clients.
///
/// # Errors
/// A sentence that names the file.
pub fn read_clients(folder: &Path) -> std::result::Result<Clients, String> {
    let path = clients(folder);
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Clients::parse(&text).map_err(|why| format!("{}, {why}", path.display()))
}

/// Reads the server's certificate and key, and who signs clients' certificates, if anybody does.
///
/// # Errors
/// A sentence that names the file.
pub fn read_tls(folder: &Path) -> std::result::Result<ServerConfig, String> {
    let [certificate, key, authority] = certificates(folder);
    let unusable = |path: &Path, why: &dyn std::fmt::Display| {
        format!("{} cannot be used: {why}", path.display())
    };
    let unreadable = |error: TlsError| format!("cannot use {error}");
    let chain = read_certificates(&certificate).map_err(unreadable)?;
    let private = read_key(&key).map_err(unreadable)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|why| why.to_string())?;
    let builder = if authority.exists() {
        let mut roots = RootCertStore::empty();
        for root in read_certificates(&authority).map_err(unreadable)? {
            roots.add(root).map_err(|why| unusable(&authority, &why))?;
        }
        // Others show a token.
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|why| unusable(&authority, &why))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let config = builder.with_single_cert(chain, private);
    let mut config = config.map_err(|why| unusable(&certificate, &why))?;
    config.alpn_protocols = vec![protocol::ALPN.to_vec()];
    // Each connection shows its certificate anew, so an expired one is noticed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Makes the settings of a new server: an authority, and a certificate for these names and
/// addresses of the server. No client is listed yet.
///
/// # Errors
/// [`StorageErrorKind::AlreadyExists`] when the folder has an authority; when a name is none, or a
/// file cannot be written.
pub fn create(folder: &Path, hosts: &[String]) -> Result<()> {
    for host in hosts {
        if ServerName::try_from(host.as_str()).is_err() {
            let text = format!("{host:?} is neither a host name nor an address");
            return Err(StorageError::new(StorageErrorKind::Invalid, text));
        }
    }
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| {
        let text = format!("cannot make {}: {error}", folder.display());
        StorageError::new(error.kind().into(), text)
    })?;
    if folder.join(AUTHORITY).exists() || folder.join(CERTIFICATE).exists() {
        let text = format!("{} has certificates already", folder.display());
        return Err(StorageError::new(StorageErrorKind::AlreadyExists, text));
    }
    let authority_key = KeyPair::generate().map_err(failed)?;
    let authority = authority_params()
        .self_signed(&authority_key)
        .map_err(failed)?;
    let issuer = Issuer::new(authority_params(), &authority_key);
    let mut params = params("Tabane server", CERTIFICATE_LIFETIME);
    for host in hosts {
        params.subject_alt_names.push(match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.as_str().try_into().map_err(failed)?),
        });
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    write_new(
        &folder.join(AUTHORITY_KEY),
        &authority_key.serialize_pem(),
        0o600,
    )?;
    write_new(&folder.join(KEY), &key.serialize_pem(), 0o600)?;
    write_new(&folder.join(CERTIFICATE), &certificate.pem(), 0o644)?;
    if !clients(folder).exists() {
        let text = "# Clients of the storage server. A change counts at once.\n";
        write_new(&clients(folder), text, 0o600)?;
    }
    // The last file: with it the settings are complete.
    write_new(&folder.join(AUTHORITY), &authority.pem(), 0o644)
}

/// What a new client shows.
pub enum Proof {
    /// This token.
    Token(String),
    /// The certificate and key in this file.
    Certificate(PathBuf),
}

/// Adds a client, which has a token, or with `is_certificate` a certificate.
///
/// # Errors
/// [`StorageErrorKind::AlreadyExists`] when there is a client of this name; when a file cannot be
/// read or written.
pub fn add(folder: &Path, mut client: Client, is_certificate: bool) -> Result<Proof> {
    let invalid = |why: String| StorageError::new(StorageErrorKind::Invalid, why);
    client.check().map_err(invalid)?;
    let listed = read_clients(folder).map_err(invalid)?;
    if listed.by_name(&client.name).is_some() {
        let text = format!("there is a client {} already", client.name);
        return Err(StorageError::new(StorageErrorKind::AlreadyExists, text));
    }
    let proof = if is_certificate {
        let path = folder.join(format!("{}.pem", client.name));
        let (pem, hash) = issue(folder, &client.name, CERTIFICATE_LIFETIME)?;
        write_new(&path, &pem, 0o600)?;
        client.certificate_hash = Some(hash);
        Proof::Certificate(path)
    } else {
        let (token, hash) = clients::new_token();
        client.token_hash = Some(hash);
        Proof::Token(token)
    };
    let mut file = File::options().append(true).open(clients(folder))?;
    file.write_all(client.entry().as_bytes())?;
    file.sync_all()?;
    Ok(proof)
}

/// A certificate of a client and its key, in PEM, and the BLAKE3 of the certificate in DER.
///
/// # Errors
/// When the authority's key cannot be read.
pub fn issue(folder: &Path, client: &str, lifetime: Duration) -> Result<(String, [u8; 32])> {
    let path = folder.join(AUTHORITY_KEY);
    let pem = fs::read_to_string(&path).map_err(|error| {
        let text = format!("cannot read {}: {error}", path.display());
        StorageError::new(error.kind().into(), text)
    })?;
    let issuer = Issuer::new(authority_params(), KeyPair::from_pem(&pem).map_err(failed)?);
    let mut params = params(client, lifetime);
    let name = client.try_into().map_err(failed)?;
    params.subject_alt_names = vec![SanType::DnsName(name)];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    let hash = *blake3::hash(certificate.der()).as_bytes();
    Ok((certificate.pem() + &key.serialize_pem(), hash))
}

/// The contents of the authority's certificate. Those that it signs repeat its name and the
/// identifier of its key.
fn authority_params() -> CertificateParams {
    let mut params = params("Tabane server authority", CERTIFICATE_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// The contents of a certificate that is valid for so long from now on.
fn params(subject: &str, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, subject);
    let now = SystemTime::now();
    params.not_before = (now - CLOCK_SKEW_MAX).into();
    params.not_after = (now + lifetime).into();
    params
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<()> {
    let write = || {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        sync_name(path)
    };
    write().map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AlreadyExists => "; move it away if it is not needed any more",
            _ => "",
        };
        let text = format!("cannot write {}: {error}{hint}", path.display());
        StorageError::new(error.kind().into(), text)
    })
}

fn failed(error: impl std::fmt::Display) -> StorageError {
    let text = format!("cannot make a certificate: {error}");
    StorageError::new(StorageErrorKind::Permanent, text)
}
