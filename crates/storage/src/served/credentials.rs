//! What a client shows a storage server: a token or a certificate, from the environment.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hyper::header::HeaderValue;
use rustls::ClientConfig;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls_platform_verifier::Verifier;

use crate::error::{Result, StorageError, StorageErrorKind};
use crate::options::TlsOptions;
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
    /// Certificates of authorities in PEM, to trust beside those of the system.
    pub authorities: Vec<u8>,
}

crate::setters!(ServerCredentials {
    into => token: Option<String>,
    into => certificate: Option<Vec<u8>>,
    set => authorities: Vec<u8>,
});

impl ServerCredentials {
    /// What `TABANE_SERVER_TOKEN_FILE`, `TABANE_SERVER_TOKEN` and `TABANE_SERVER_CERTIFICATE` name,
    /// and the authorities of `tls`, whose certificate goes before that of the environment.
    ///
    /// # Errors
    /// When a file cannot be read, or `tls` asks not to check the server.
    pub fn from_environment(tls: &TlsOptions) -> Result<Self> {
        if tls.is_insecure {
            let text = "the certificate of a storage server is always checked: trust its authority";
            return Err(StorageError::new(StorageErrorKind::Invalid, text));
        }
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
        let certificate = tls.identity.clone();
        let certificate =
            certificate.or_else(|| env::var_os("TABANE_SERVER_CERTIFICATE").map(PathBuf::from));
        let authorities = tls.authorities.iter().cloned().map(read);
        Ok(Self {
            token,
            certificate: certificate.map(read).transpose()?,
            authorities: authorities.collect::<Result<Vec<_>>>()?.concat(),
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
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| no_authorities(&error))?;
        let authorities: std::result::Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(&self.authorities).collect();
        let authorities = authorities.map_err(|error| no_authorities(&error))?;
        let verifier = Verifier::new_with_extra_roots(authorities, provider)
            .map_err(|error| no_authorities(&error))?;
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
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
