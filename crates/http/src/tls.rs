//! Certificates and keys from files, and what they are good for.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore, ServerConfig};

/// A server's certificate with its key, ready for connections.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

/// Why files make no TLS server.
#[derive(Debug)]
pub struct TlsError {
    file: PathBuf,
    why: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Reads a chain of certificates, the server's first, and its key, both in PEM. With
    /// `authorities`, a file of certificates in PEM, clients must have a certificate of one of
    /// them.
    ///
    /// # Errors
    /// When a file cannot be read or used; the error names it.
    pub fn from_files(
        certificates: &Path,
        key: &Path,
        authorities: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let wrong = |file: &Path, why: String| TlsError {
            file: file.to_owned(),
            why,
        };
        let chain = read_certificates(certificates)?;
        let certificate = chain[0].clone();
        let key_der = read_key(key)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(certificates, error.to_string()))?;
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for authority in read_certificates(file)? {
                    roots
                        .add(authority)
                        .map_err(|error| wrong(file, error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| wrong(file, error.to_string()))?,
                )
            }
        };
        let mut config = builder
            .with_single_cert(chain, key_der)
            .map_err(|error| wrong(key, format!("it cannot be used: {error}")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            certificate,
        })
    }

    /// Whether the server's certificate is for this name or address, as in the header `Host`
    /// without its port.
    pub fn is_for(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let Ok(name) = ServerName::try_from(host) else {
            return false;
        };
        webpki::EndEntityCert::try_from(&self.certificate)
            .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(&name).is_ok())
    }
}

/// What is wrong with the client's certificate, if a handshake has failed for that.
pub(crate) fn refusal(error: &io::Error) -> Option<String> {
    let why = match error.get_ref()?.downcast_ref()? {
        rustls::Error::NoCertificatesPresented => return Some("it has no certificate".to_owned()),
        rustls::Error::InvalidCertificate(why) => why,
        _ => return None,
    };
    Some(match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not of an authority that is accepted here".to_owned()
        }
        why => format!("its certificate is not accepted: {why}"),
    })
}

/// The private key of a PEM file.
///
/// # Errors
/// When the file cannot be read, or has none.
pub fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| TlsError {
        file: file.to_owned(),
        why: format!("it has no private key in PEM: {error}"),
    })
}

/// The certificates of a PEM file, at least one.
///
/// # Errors
/// When the file cannot be read, or has none.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError {
        file: file.to_owned(),
        why,
    };
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("it has no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}
