//! The files of a cluster with addresses and credentials: one for its clients, one for each node.
//! `tabane cluster create` writes them.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use tabane_storage::{Id, Result, Role, StorageError, StorageErrorKind, write_whole};

/// The format that this program writes, and the latest that it reads.
const FORMAT: u8 = 1;

/// Certificates and key of a client or node, each in DER.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The certificate of the cluster's authority, which signed all others.
    #[serde(with = "hex::serde")]
    pub authority: Vec<u8>,
    /// The certificate of this client or node.
    #[serde(with = "hex::serde")]
    pub certificate: Vec<u8>,
    /// The private key of this certificate, in PKCS #8. Secret.
    #[serde(with = "hex::serde")]
    pub key: Vec<u8>,
    /// When the certificate ends, in seconds since 1970; files of older programs do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

impl Credentials {
    /// Time until the certificate ends, by this machine's clock; `None` if the file does not say.
    pub fn time_left(&self) -> Option<Duration> {
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(self.until?);
        Some(until.duration_since(SystemTime::now()).unwrap_or_default())
    }
}

/// Name and address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// The node's name, as in its certificate and in the set.
    pub name: String,
    /// Host and port; this may be changed by hand when a node moves.
    pub address: String,
    /// The rack, or whatever else is lost together with all that is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// The number of the group that it is in when the repository is made.
    #[serde(default, skip_serializing_if = "is_first")]
    pub group: u8,
}

impl NodeAddress {
    /// A node of the first group, and in no rack.
    pub fn new(name: String, address: String) -> Self {
        Self {
            name,
            address,
            rack: None,
            group: 0,
        }
    }
}

fn is_first(group: &u8) -> bool {
    *group == 0
}

/// The file of a cluster's clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterFile {
    format: u8,
    /// Names the cluster.
    pub cluster: Id,
    /// The nodes.
    pub nodes: Vec<NodeAddress>,
    /// The name and the role in the client's certificate; files of older programs do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientName>,
    /// The client's credentials.
    pub credentials: Credentials,
    /// The latest list of withdrawn certificates, as nodes take it, if there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "hex::serde")]
    pub withdrawn: Vec<u8>,
}

/// The name and the role of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientName {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
}

/// The file of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    format: u8,
    /// Names the cluster.
    pub cluster: Id,
    /// The node's name.
    pub name: String,
    /// Host and port at which clients reach the node.
    pub address: String,
    /// The node's credentials.
    pub credentials: Credentials,
}

impl ClusterFile {
    /// The file for clients of a cluster.
    pub fn new(
        cluster: Id,
        nodes: Vec<NodeAddress>,
        client: ClientName,
        credentials: Credentials,
    ) -> Self {
        Self {
            format: FORMAT,
            cluster,
            nodes,
            client: Some(client),
            credentials,
            withdrawn: Vec::new(),
        }
    }

    /// Reads a cluster file.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`]; when the file is malformed or of another kind.
    pub fn read(path: &Path) -> Result<Self> {
        let file: Self = read(path).map_err(|error| match read::<NodeFile>(path) {
            Ok(node) => wrong(
                path,
                &format!("it is that of node {}, not of clients", node.name),
            ),
            Err(_) => error,
        })?;
        check_format(path, file.format)?;
        Ok(file)
    }
}

impl NodeFile {
    /// The file of a node.
    pub fn new(cluster: Id, node: &NodeAddress, credentials: Credentials) -> Self {
        Self {
            format: FORMAT,
            cluster,
            name: node.name.clone(),
            address: node.address.clone(),
            credentials,
        }
    }

    /// As [`ClusterFile::read`].
    ///
    /// # Errors
    /// As [`ClusterFile::read`].
    pub fn read(path: &Path) -> Result<Self> {
        let file: Self = read(path).map_err(|error| match read::<ClusterFile>(path) {
            Ok(_) => wrong(
                path,
                "it is that of clients: each node has its own beside it",
            ),
            Err(_) => error,
        })?;
        check_format(path, file.format)?;
        Ok(file)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).map_err(|error| {
        let text = format!("cannot read {}: {error}", path.display());
        StorageError::new(error.kind().into(), text)
    })?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(path, &error.to_string()))
}

fn check_format(path: &Path, format: u8) -> Result<()> {
    match format {
        FORMAT => Ok(()),
        _ => Err(wrong(
            path,
            &format!("it has format {format}, this program knows {FORMAT}: install a newer tabane"),
        )),
    }
}

fn wrong(path: &Path, why: &str) -> StorageError {
    let text = format!("the file {} cannot be used: {why}", path.display());
    StorageError::new(StorageErrorKind::Invalid, text)
}

/// Writes a file that only its owner may read, whole or not at all; `replace` allows an existing
/// one.
///
/// # Errors
/// [`StorageErrorKind::AlreadyExists`]; when it cannot be written.
pub fn write(path: &Path, file: &impl Serialize, replace: bool) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(file).expect("it is plain data");
    text.push(b'\n');
    write_whole(path, &text, 0o600, replace)
}
