//! The authority of a cluster: makes the certificate of each client and node, and withdraws them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SigningKey,
};
use serde::{Deserialize, Serialize};
use tabane_storage::{Id, Result, Role, StorageError, StorageErrorKind};
use tabane_striped::cluster::file::{
    ClientName, ClusterFile, Credentials, NodeAddress, NodeFile, write,
};
use tabane_striped::cluster::{groups, tls, wire};

use crate::withdrawn::{List, fingerprint};

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
    /// The certificates that it has made. Older programs did not note them.
    #[serde(default)]
    issued: Vec<Issued>,
    /// The number of the latest list of withdrawn certificates.
    #[serde(default)]
    lists: u64,
}

/// A certificate that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Issued {
    /// Of the client or node.
    name: String,
    /// A client's role; none for a node.
    role: Option<Role>,
    /// Its [`fingerprint`].
    certificate: Id,
    /// When it ends, in seconds since 1970.
    until: u64,
    #[serde(default)]
    is_withdrawn: bool,
}

/// The name of the client whose file is made with a cluster.
pub const FIRST_CLIENT: &str = "admin";

/// Path of the authority's file for this cluster file.
pub fn authority_path(cluster: &Path) -> PathBuf {
    beside(cluster, "authority")
}

/// Path of a client's file for this cluster file.
pub fn client_path(cluster: &Path, client: &str) -> PathBuf {
    beside(cluster, &format!("client-{client}"))
}

/// Path of a node's file for this cluster file.
pub fn node_path(cluster: &Path, node: &str) -> PathBuf {
    beside(cluster, node)
}

fn beside(cluster: &Path, what: &str) -> PathBuf {
    let stem = cluster.file_stem().unwrap_or_default().to_string_lossy();
    cluster.with_file_name(format!("{stem}-{what}.json"))
}

/// Makes an authority, and files for clients and for each node, which are divided into groups of
/// about `group_size`, or make one group. Returns the paths written.
///
/// # Errors
/// When nodes cannot be divided so, a name is invalid, or a file exists already or cannot be
/// written.
pub fn create(
    path: &Path,
    nodes: &[NodeAddress],
    group_size: Option<usize>,
) -> Result<Vec<PathBuf>> {
    let racks: Vec<Option<&str>> = nodes.iter().map(|node| node.rack.as_deref()).collect();
    let groups = groups::divide(&racks, group_size)
        .map_err(|text| StorageError::new(StorageErrorKind::Invalid, text))?;
    let nodes: Vec<NodeAddress> = nodes
        .iter()
        .zip(groups)
        .map(|(node, group)| NodeAddress {
            group,
            ..node.clone()
        })
        .collect();
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
    let mut authority = AuthorityFile {
        cluster,
        certificate: certificate.der().to_vec(),
        key: key.serialize_der(),
        issued: Vec::new(),
        lists: 0,
    };
    let mut files = Vec::new();
    for node in &nodes {
        let credentials = authority.issue(&node.name, None, CERTIFICATE_LIFETIME)?;
        files.push(NodeFile::new(cluster, node, credentials));
    }
    let credentials = authority.issue(FIRST_CLIENT, Some(Role::Admin), CERTIFICATE_LIFETIME)?;
    let client = ClientName {
        name: FIRST_CLIENT.to_owned(),
        role: Role::Admin,
    };
    let mut written = vec![authority_path(path)];
    write(&written[0], &authority, false)?;
    for file in files {
        let of_node = node_path(path, &file.name);
        write(&of_node, &file, false)?;
        written.push(of_node);
    }
    write(
        path,
        &ClusterFile::new(cluster, nodes, client, credentials),
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
    let mut authority = AuthorityFile::read(path)?;
    authority.check_free(&node.name, None)?;
    let written = authority.write_node(path, node)?;
    file.nodes.push(node.clone());
    authority.write_cluster(path, &file)?;
    Ok(written)
}

/// Makes the file of another client, whose certificate is valid for so long. Returns its path.
///
/// # Errors
/// As [`create`]; [`StorageErrorKind::AlreadyExists`] when there is a client of this name, or a
/// node.
pub fn add_client(path: &Path, name: &str, role: Role, lifetime: Duration) -> Result<PathBuf> {
    check_name(name)?;
    let _alone = alone(path)?;
    let mut authority = AuthorityFile::read(path)?;
    authority.check_free(name, Some(role))?;
    authority.write_client(path, name, role, lifetime)
}

/// Makes a new certificate for a client or a node, valid for so long, and puts it into its file.
/// The former one stays valid as long as it was. Returns the path written.
///
/// # Errors
/// [`StorageErrorKind::NotFound`] when the authority has made no certificate of this name, or it
/// was withdrawn; when a file cannot be written.
pub fn renew(path: &Path, name: &str, lifetime: Duration) -> Result<PathBuf> {
    let _alone = alone(path)?;
    let mut authority = AuthorityFile::read(path)?;
    let issued = authority.issued.iter().rev();
    let mut known = issued.filter(|issued| issued.name == name && !issued.is_withdrawn);
    let Some(role) = known.next().map(|issued| issued.role) else {
        return Err(unknown(name));
    };
    let mut file = ClusterFile::read(path)?;
    match role {
        None => {
            let node = file.nodes.iter().find(|node| node.name == name);
            let node = node.ok_or_else(|| unknown(name))?;
            authority.write_node(path, node)
        }
        Some(role)
            if file
                .client
                .as_ref()
                .is_some_and(|client| client.name == name) =>
        {
            file.credentials = authority.issue(name, Some(role), lifetime)?;
            write(&authority_path(path), &authority, true)?;
            write(path, &file, true)?;
            Ok(path.to_owned())
        }
        Some(role) => authority.write_client(path, name, role, lifetime),
    }
}

/// Withdraws all certificates of a client. The list is in the cluster file then, for
/// nodes to be told.
///
/// # Errors
/// [`StorageErrorKind::NotFound`] when there is none of this name that was not withdrawn.
pub fn withdraw(path: &Path, name: &str) -> Result<()> {
    let _alone = alone(path)?;
    let mut authority = AuthorityFile::read(path)?;
    let mut count = 0;
    for issued in authority
        .issued
        .iter_mut()
        .filter(|issued| issued.name == name)
    {
        count += usize::from(!std::mem::replace(&mut issued.is_withdrawn, true));
    }
    if count == 0 {
        return Err(unknown(name));
    }
    authority.lists += 1;
    let withdrawn = authority.issued.iter().filter(|issued| issued.is_withdrawn);
    let list = List {
        cluster: Some(authority.cluster),
        number: authority.lists,
        certificates: withdrawn.map(|issued| issued.certificate).collect(),
    };
    let sealed = list.seal(|message| {
        let key = KeyPair::try_from(authority.key.as_slice()).map_err(failed)?;
        key.sign(message).map_err(failed)
    })?;
    write(&authority_path(path), &authority, true)?;
    let mut file = ClusterFile::read(path)?;
    file.withdrawn = sealed;
    authority.write_cluster(path, &file)
}

/// The number of a list of withdrawn certificates, as it is in a cluster file; 0 without any.
pub fn list_number(file: &ClusterFile) -> u64 {
    let authority = &file.credentials.authority;
    List::open(&file.withdrawn, file.cluster, authority).map_or(0, |list| list.number)
}

/// A client or a node that has a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its name.
    pub name: String,
    /// A client's role; none for a node.
    pub role: Option<Role>,
    /// When the certificate that was made last ends, in seconds since 1970.
    pub until: u64,
    /// Whether its certificates were withdrawn.
    pub is_withdrawn: bool,
}

/// Everybody for whom the authority has made a certificate, in the order of their names.
///
/// # Errors
/// When the authority's file cannot be read.
pub fn holders(path: &Path) -> Result<Vec<Holder>> {
    let authority = AuthorityFile::read(path)?;
    let mut holders: BTreeMap<String, Holder> = BTreeMap::new();
    for issued in authority.issued {
        let holder = Holder {
            name: issued.name.clone(),
            role: issued.role,
            until: issued.until,
            is_withdrawn: issued.is_withdrawn,
        };
        holders.insert(issued.name, holder);
    }
    Ok(holders.into_values().collect())
}

fn unknown(name: &str) -> StorageError {
    let text = format!(
        "the cluster's authority knows no certificate of {name} that is valid: either there is \
         none, or it was withdrawn, or an older program made it"
    );
    StorageError::new(StorageErrorKind::NotFound, text)
}

/// Changes the nodes that the client's file has.
///
/// # Errors
/// When the file cannot be read or written.
pub fn change(path: &Path, change: impl FnOnce(&mut Vec<NodeAddress>)) -> Result<()> {
    let _alone = alone(path)?;
    let mut file = ClusterFile::read(path)?;
    change(&mut file.nodes);
    match AuthorityFile::read(path) {
        Ok(authority) => authority.write_cluster(path, &file),
        // It is kept in a safe place: other clients get their files when it is back.
        Err(_) => write(path, &file, true),
    }
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

    /// Fails if somebody has a name, who is not of this kind or has a certificate that is valid.
    /// Nodes can be made again: there may be a file of one that was removed, or that an interrupted
    /// run has left.
    fn check_free(&self, name: &str, role: Option<Role>) -> Result<()> {
        let has_name = |issued: &&Issued| issued.name == name;
        let is_in_the_way = |issued: &Issued| {
            issued.role.is_some() != role.is_some() || role.is_some() && !issued.is_withdrawn
        };
        if self.issued.iter().filter(has_name).any(is_in_the_way) {
            let text = format!("the cluster has a client or a node called {name} already");
            return Err(StorageError::new(StorageErrorKind::AlreadyExists, text));
        }
        Ok(())
    }

    /// Writes the cluster file, and what changed of it into the files of other clients beside it.
    fn write_cluster(&self, path: &Path, file: &ClusterFile) -> Result<()> {
        write(path, file, true)?;
        for issued in self.issued.iter().filter(|issued| issued.role.is_some()) {
            let other = client_path(path, &issued.name);
            let Ok(mut theirs) = ClusterFile::read(&other) else {
                continue;
            };
            theirs.nodes.clone_from(&file.nodes);
            theirs.withdrawn.clone_from(&file.withdrawn);
            write(&other, &theirs, true)?;
        }
        Ok(())
    }

    /// Makes a certificate for a node, and writes its file.
    fn write_node(&mut self, path: &Path, node: &NodeAddress) -> Result<PathBuf> {
        let credentials = self.issue(&node.name, None, CERTIFICATE_LIFETIME)?;
        write(&authority_path(path), self, true)?;
        let file = node_path(path, &node.name);
        write(&file, &NodeFile::new(self.cluster, node, credentials), true)?;
        Ok(file)
    }

    /// Makes a certificate for a client, and writes its file.
    fn write_client(
        &mut self,
        path: &Path,
        name: &str,
        role: Role,
        lifetime: Duration,
    ) -> Result<PathBuf> {
        let ClusterFile {
            nodes, withdrawn, ..
        } = ClusterFile::read(path)?;
        let credentials = self.issue(name, Some(role), lifetime)?;
        write(&authority_path(path), self, true)?;
        let client = ClientName {
            name: name.to_owned(),
            role,
        };
        let mut file = ClusterFile::new(self.cluster, nodes, client, credentials);
        file.withdrawn = withdrawn;
        let path = client_path(path, name);
        write(&path, &file, true)?;
        Ok(path)
    }

    /// Makes and notes the certificate of a client with this role, or of a node.
    fn issue(&mut self, name: &str, role: Option<Role>, lifetime: Duration) -> Result<Credentials> {
        let until = SystemTime::now() + lifetime;
        let credentials = self.sign(name, role, until)?;
        self.issued.push(Issued {
            name: name.to_owned(),
            role,
            certificate: fingerprint(&credentials.certificate),
            until: credentials.until.unwrap_or(0),
            is_withdrawn: false,
        });
        Ok(credentials)
    }

    /// Credentials of a node, or of a client with a role.
    fn sign(&self, subject: &str, role: Option<Role>, until: SystemTime) -> Result<Credentials> {
        let signer = KeyPair::try_from(self.key.as_slice()).map_err(failed)?;
        // Other certificates repeat the authority's name and key identifier, which are the same
        // each time.
        let issuer = Issuer::new(authority_params(self.cluster), signer);
        let mut params = params(subject, until);
        params.use_authority_key_identifier_extension = true;
        // A node cannot pass for a client, nor for another node.
        let (name, usage) = match role {
            None => (
                tls::server_name(subject),
                ExtendedKeyUsagePurpose::ServerAuth,
            ),
            Some(role) => (
                tls::client_name(subject, role),
                ExtendedKeyUsagePurpose::ClientAuth,
            ),
        };
        let name = name.try_into().map_err(failed)?;
        params.subject_alt_names = vec![rcgen::SanType::DnsName(name)];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        Ok(Credentials {
            authority: self.certificate.clone(),
            certificate: certificate.der().to_vec(),
            key: key.serialize_der(),
            until: Some(seconds(until)),
        })
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
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
                "{name:?} is no name for a node or client: use up to 32 small letters, digits and \
                 hyphens"
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
    use crate::{ScrubOptions, Server, ServerOptions};

    /// The result of a client's question to a node, with certificates that end at these times.
    fn answer(client_until: SystemTime, node_until: SystemTime) -> Result<()> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.json");
        let mut nodes =
            ["a", "b", "c"].map(|name| NodeAddress::new(name.to_owned(), "127.0.0.1:0".to_owned()));
        create(&path, &nodes, None).unwrap();
        let authority = AuthorityFile::read(&path).unwrap();
        let sign = |subject, role, until| authority.sign(subject, role, until).unwrap();
        let credentials = sign("a", None, node_until);
        let server = Server::start(ServerOptions {
            node: NodeFile::new(authority.cluster, &nodes[0], credentials),
            directory: dir.path().join("a"),
            listen: nodes[0].address.clone(),
            fabric: None,
            metrics: None,
            scrub: ScrubOptions::default(),
            quota_bytes: None,
            log: Arc::new(|_| {}),
        })
        .unwrap();
        nodes[0].address = server.address().to_string();
        let credentials = sign("client", Some(Role::Read), client_until);
        let client = ClientName {
            name: "client".to_owned(),
            role: Role::Read,
        };
        let file = ClusterFile::new(authority.cluster, nodes.to_vec(), client, credentials);
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
