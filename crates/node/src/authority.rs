//! The authority of a cluster: makes the certificate of each client and node.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use tabane_storage::{Id, Result, StorageError, StorageErrorKind};
use tabane_striped::cluster::file::{ClusterFile, Credentials, NodeAddress, NodeFile, write};
use tabane_striped::cluster::{tls, wire};
use tabane_striped::container::ROLES_MAX;

/// Validity of certificates.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(3650 * 86_400);

/// The most by which clocks may lag behind that of the machine on which certificates are made.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(86_400);

/// The file of the key that signs certificates.
#[derive(Serialize, Deserialize)]
struct AuthorityFile {
    cluster: Id,
    /// In DER.
    #[serde(with = "hex::serde")]
    certificate: Vec<u8>,
    /// The key in PKCS #8. Its holder can make clients and nodes of the cluster.
    #[serde(with = "hex::serde")]
    key: Vec<u8>,
}

/// Path of the authority's file for this cluster file.
pub fn authority_path(cluster: &Path) -> PathBuf {
    beside(cluster, "authority")
}

/// Path of a node's file for this cluster file.
pub fn node_path(cluster: &Path, node: &str) -> PathBuf {
    beside(cluster, node)
}

fn beside(cluster: &Path, what: &str) -> PathBuf {
    let stem = cluster.file_stem().unwrap_or_default().to_string_lossy();
    cluster.with_file_name(format!("{stem}-{what}.json"))
}

/// Makes an authority, and files for clients and for each node. Returns the paths written.
///
/// # Errors
/// When nodes are more than 32, a name is invalid, or a file exists already or cannot be written.
pub fn create(path: &Path, nodes: &[NodeAddress]) -> Result<Vec<PathBuf>> {
    if nodes.len() > ROLES_MAX {
        let text = format!(
            "a cluster has at most {ROLES_MAX} nodes, and these are {}",
            nodes.len()
        );
        return Err(StorageError::new(StorageErrorKind::Invalid, text));
    }
    for (number, node) in nodes.iter().enumerate() {
        check_name(&node.name)?;
        if nodes[..number].iter().any(|other| other.name == node.name) {
            let text = format!("two nodes are called {}", node.name);
            return Err(StorageError::new(StorageErrorKind::Invalid, text));
        }
        check_address(node, &nodes[..number])?;
    }
    let cluster = wire::new_cluster_id();
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = authority_params(cluster)
        .self_signed(&key)
        .map_err(failed)?;
    let authority = AuthorityFile {
        cluster,
        certificate: certificate.der().to_vec(),
        key: key.serialize_der(),
    };
    let mut written = vec![authority_path(path)];
    write(&written[0], &authority, false)?;
    for node in nodes {
        written.push(write_node(path, &authority, cluster, node, false)?);
    }
    let client = authority.issue("client", None, SystemTime::now() + CERTIFICATE_LIFETIME)?;
    write(
        path,
        &ClusterFile::new(cluster, nodes.to_vec(), client),
        false,
    )?;
    written.push(path.to_owned());
    Ok(written)
}

/// Makes another node's file, and adds the node to the cluster file. Returns the path written.
///
/// # Errors
/// As [`create`]; [`StorageErrorKind::AlreadyExists`] when a node of this name exists.
pub fn add(path: &Path, node: &NodeAddress) -> Result<PathBuf> {
    check_name(&node.name)?;
    let _alone = alone(path)?;
    let mut file = ClusterFile::read(path)?;
    if file.nodes.iter().any(|other| other.name == node.name) {
        let text = format!("the cluster has a node {} already", node.name);
        return Err(StorageError::new(StorageErrorKind::AlreadyExists, text));
    }
    check_address(node, &file.nodes)?;
    let authority = AuthorityFile::read(path)?;
    // There may be a file of one that was removed, or that an interrupted run has left.
    let written = write_node(path, &authority, file.cluster, node, true)?;
    file.nodes.push(node.clone());
    write(path, &file, true)?;
    Ok(written)
}

/// Changes the nodes that the client's file has.
///
/// # Errors
/// When the file cannot be read or written.
pub fn change(path: &Path, change: impl FnOnce(&mut Vec<NodeAddress>)) -> Result<()> {
    let _alone = alone(path)?;
    let mut file = ClusterFile::read(path)?;
    change(&mut file.nodes);
    write(path, &file, true)
}

/// Locks the files of a cluster against other changes, as long as the returned file is open.
fn alone(path: &Path) -> Result<File> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

fn write_node(
    path: &Path,
    authority: &AuthorityFile,
    cluster: Id,
    node: &NodeAddress,
    replace: bool,
) -> Result<PathBuf> {
    let until = SystemTime::now() + CERTIFICATE_LIFETIME;
    let credentials = authority.issue(&node.name, Some(&node.name), until)?;
    let file = node_path(path, &node.name);
    write(&file, &NodeFile::new(cluster, node, credentials), replace)?;
    Ok(file)
}

impl AuthorityFile {
    /// Reads the authority of this cluster file.
    fn read(cluster: &Path) -> Result<Self> {
        let path = authority_path(cluster);
        let bytes = std::fs::read(&path).map_err(|error| {
            let text = format!(
                "cannot read {}, which signs the certificates of new nodes and belongs beside {}: \
                 {error}",
                path.display(),
                cluster.display()
            );
            StorageError::new(error.kind().into(), text)
        })?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let text = format!("the file {} cannot be used: {error}", path.display());
            StorageError::new(StorageErrorKind::Invalid, text)
        })
    }

    /// Credentials of a node, or of a client.
    fn issue(&self, subject: &str, node: Option<&str>, until: SystemTime) -> Result<Credentials> {
        let signer = KeyPair::try_from(self.key.as_slice()).map_err(failed)?;
        // Other certificates repeat the authority's name and key identifier, which are the same
        // each time.
        let issuer = Issuer::new(authority_params(self.cluster), signer);
        let mut params = params(subject, until);
        params.use_authority_key_identifier_extension = true;
        // A node cannot pass for a client, nor for another node.
        let usage = match node {
            Some(node) => {
                let name = tls::server_name(node).try_into().map_err(failed)?;
                params.subject_alt_names = vec![rcgen::SanType::DnsName(name)];
                ExtendedKeyUsagePurpose::ServerAuth
            }
            None => ExtendedKeyUsagePurpose::ClientAuth,
        };
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        Ok(Credentials {
            authority: self.certificate.clone(),
            certificate: certificate.der().to_vec(),
            key: key.serialize_der(),
        })
    }
}

/// Contents of the certificate of a cluster's authority.
fn authority_params(cluster: Id) -> CertificateParams {
    let until = SystemTime::now() + CERTIFICATE_LIFETIME;
    let mut params = params(&format!("Tabane cluster {cluster}"), until);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn params(subject: &str, until: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, subject);
    params.not_before = (SystemTime::now() - CLOCK_SKEW_MAX).into();
    params.not_after = until.into();
    params
}

fn check_name(name: &str) -> Result<()> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.is_empty()
        && name.len() <= 32
        && name.bytes().all(is_good)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name != "authority"
    {
        Ok(())
    } else {
        Err(StorageError::new(
            StorageErrorKind::Invalid,
            format!(
                "{name:?} is no name for a node: use up to 32 small letters, digits and hyphens"
            ),
        ))
    }
}

/// Two nodes are not found at the same place; port 0 is any.
fn check_address(node: &NodeAddress, others: &[NodeAddress]) -> Result<()> {
    let is_same = |other: &&NodeAddress| other.address == node.address;
    match others.iter().find(is_same) {
        Some(other) if !node.address.ends_with(":0") => Err(StorageError::new(
            StorageErrorKind::Invalid,
            format!(
                "{} and {} would both be at {}",
                other.name, node.name, node.address
            ),
        )),
        _ => Ok(()),
    }
}

fn failed(error: impl std::fmt::Display) -> StorageError {
    let text = format!("cannot make a certificate: {error}");
    StorageError::new(StorageErrorKind::Permanent, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tabane_striped::cluster;

    use super::*;
    use crate::{Server, ServerOptions};

    /// The result of a client's question to a node, with certificates that end at these times.
    fn answer(client_until: SystemTime, node_until: SystemTime) -> Result<()> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.json");
        let mut nodes = ["a", "b", "c"].map(|name| NodeAddress {
            name: name.to_owned(),
            address: "127.0.0.1:0".to_owned(),
        });
        create(&path, &nodes).unwrap();
        let authority = AuthorityFile::read(&path).unwrap();
        let issue = |subject, node, until| authority.issue(subject, node, until).unwrap();
        let credentials = issue("a", Some("a"), node_until);
        let server = Server::start(ServerOptions {
            node: NodeFile::new(authority.cluster, &nodes[0], credentials),
            directory: dir.path().join("a"),
            listen: nodes[0].address.clone(),
            fabric: None,
            metrics: None,
            log: Arc::new(|_| {}),
        })
        .unwrap();
        nodes[0].address = server.address().to_string();
        let credentials = issue("client", None, client_until);
        let file = ClusterFile::new(authority.cluster, nodes.to_vec(), credentials);
        write(&path, &file, true).unwrap();
        let answer = cluster::nodes(&path).unwrap()[0].status();
        server.stop();
        answer.map(|_| ())
    }

    #[test]
    fn certificates_that_have_expired_are_refused_and_both_sides_say_so() {
        let hour = Duration::from_secs(3600);
        let now = SystemTime::now();
        answer(now + hour, now + hour).unwrap();
        for (client, node) in [(now - hour, now + hour), (now + hour, now - hour)] {
            let error = answer(client, node).unwrap_err().to_string();
            assert!(error.to_lowercase().contains("expired"), "{error}");
            assert!(error.contains("Is the clock wrong"), "{error}");
        }
    }
}
