//! Mutual TLS: peers without a certificate of the cluster are refused.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, RootCertStore, ServerConfig, crypto,
    version,
};

use tabane_storage::{Result, Role, StorageError, StorageErrorKind};

use super::file::Credentials;

/// The DNS name in the certificate of a node.
pub fn server_name(node: &str) -> String {
    format!("{node}.node.tabane")
}

/// The DNS name in the certificate of a client.
pub fn client_name(client: &str, role: Role) -> String {
    format!("{client}.{role}.client.tabane")
}

/// The name and the role of a client with this DNS name in its certificate.
pub fn parse_client_name(name: &str) -> Option<(String, Role)> {
    let (client, role) = name.strip_suffix(".client.tabane")?.split_once('.')?;
    Some((client.to_owned(), role.parse().ok()?))
}

pub(super) fn name_of(node: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(server_name(node)).map_err(unusable)
}

/// How a client speaks to nodes.
///
/// # Errors
/// When the credentials cannot be used.
pub fn client(credentials: &Credentials) -> Result<Arc<ClientConfig>> {
    let (certificates, key) = own(credentials);
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots(credentials)?)
        .with_client_auth_cert(certificates, key)
        .map_err(unusable)?;
    Ok(Arc::new(config))
}

/// How a node speaks to another one, to which it only wants to know that it is one.
///
/// # Errors
/// As [`client`].
pub fn prover(credentials: &Credentials) -> Result<Arc<ClientConfig>> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots(credentials)?)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// How a node speaks to clients.
///
/// # Errors
/// As [`client`].
pub fn server(credentials: &Credentials) -> Result<Arc<ServerConfig>> {
    let (certificates, key) = own(credentials);
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots(credentials)?), provider())
            .build()
            .map_err(unusable)?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, key)
        .map_err(unusable)?;
    Ok(Arc::new(config))
}

/// Whether the peer's certificate is not valid now, by its clock or by ours.
pub(super) fn is_about_time(error: &Error) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(
        error,
        Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }
        ) | Error::AlertReceived(AlertDescription::CertificateExpired)
    )
}

fn provider() -> Arc<crypto::CryptoProvider> {
    Arc::new(crypto::aws_lc_rs::default_provider())
}

fn roots(credentials: &Credentials) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from(credentials.authority.clone());
    roots.add(authority).map_err(unusable)?;
    Ok(roots)
}

fn own(credentials: &Credentials) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from(credentials.certificate.clone());
    let key = PrivatePkcs8KeyDer::from(credentials.key.clone());
    (vec![certificate], key.into())
}

fn unusable(error: impl std::fmt::Display) -> StorageError {
    let text = format!("the credentials cannot be used: {error}");
    StorageError::new(StorageErrorKind::Permanent, text)
}
