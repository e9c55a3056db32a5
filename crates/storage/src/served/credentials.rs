//! What a client shows a storage server: a token or a certificate, from the environment.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::header::HeaderValue;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::error::{Result, StorageError, StorageErrorKind};
use crate::protocol;

/// The variables, for messages.
pub const VARIABLES: &str =
    "TABANE_SERVER_TOKEN_FILE, TABANE_SERVER_TOKEN or TABANE_SERVER_CERTIFICATE";

/// What a client shows a server over TLS, and by what it knows the server.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ServerCredentials {
    /// A token.
    pub token: Option<String>,
    /// A certificate with its chain and private key, in PEM.
    pub certificate: Option<Vec<u8>>,
    /// Certificates of authorities in PEM, in place of the system's.
    pub authorities: Option<Vec<u8>>,
}

crate::setters!(ServerCredentials {
    into => token: Option<String>,
    into => certificate: Option<Vec<u8>>,
    into => authorities: Option<Vec<u8>>,
});

impl ServerCredentials {
    /// What `TABANE_SERVER_TOKEN_FILE`, `TABANE_SERVER_TOKEN` and `TABANE_SERVER_CERTIFICATE` name.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn from_environment() -> Result<Self> {
        let read = |path: PathBuf| {
            fs::read(&path).map_err(|error| {
                let text = format!("cannot read {}: {error}", path.display());
                StorageError::new(StorageErrorKind::Unauthorized, text)
            })
        };
        let token = match env::var_os("TABANE_SERVER_TOKEN_FILE") {
            Some(path) => Some(String::from_utf8_lossy(&read(path.into())?).into_owned()),
            None => env::var("TABANE_SERVER_TOKEN").ok(),
        };
        let certificate = env::var_os("TABANE_SERVER_CERTIFICATE");
        Ok(Self {
            token,
            certificate: certificate.map(|path| read(path.into())).transpose()?,
            authorities: None,
        })
    }

    /// The token, as the header that holds it.
    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>> {
        let Some(token) = &self.token else {
            return Ok(None);
        };
        let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut header = header.map_err(|_| {
            let text = "the server's token has characters that no token has";
            StorageError::new(StorageErrorKind::Unauthorized, text)
        })?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    /// How to speak TLS.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| no_authorities(&error))?;
        let builder = match &self.authorities {
            Some(pem) => builder.with_root_certificates(roots(pem)?),
            None => builder
                .with_platform_verifier()
                .map_err(|error| no_authorities(&error))?,
        };
        let mut config = match &self.certificate {
            Some(pem) => with_certificate(builder, pem)?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol::ALPN.to_vec()];
        Ok(Arc::new(config))
    }
}

fn no_authorities(error: &dyn std::fmt::Display) -> StorageError {
    let text = format!("there are no certificates of authorities to check the server: {error}");
    StorageError::new(StorageErrorKind::Permanent, text)
}

fn roots(pem: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| no_authorities(&error))?;
        roots
            .add(certificate)
            .map_err(|error| no_authorities(&error))?;
    }
    Ok(roots)
}

fn with_certificate(
    builder: rustls::ConfigBuilder<ClientConfig, WantsClientCert>,
    pem: &[u8],
) -> Result<ClientConfig> {
    let unusable = |why: String| {
        let text = format!("the client's certificate cannot be used: {why}");
        StorageError::new(StorageErrorKind::Unauthorized, text)
    };
    let chain: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| unusable(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| unusable("its file has no private key".to_owned()))?;
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(|error| unusable(error.to_string()))
}
