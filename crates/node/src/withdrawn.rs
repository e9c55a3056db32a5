//! Certificates that the cluster's authority has withdrawn.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use tabane_storage::{Id, Result, StorageError, StorageErrorKind, object_id, write_whole};
use webpki::EndEntityCert;
use webpki::aws_lc_rs::ECDSA_P256_SHA256;

/// What begins the bytes that are signed, so that no signature stands for something else.
const SIGNED_AS: &[u8] = b"withdrawn certificates of a cluster\n";

/// The list of withdrawn certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// The cluster.
    pub cluster: Option<Id>,
    /// Counts the lists; the latest counts.
    pub number: u64,
    /// Of each withdrawn certificate its [`fingerprint`].
    pub certificates: Vec<Id>,
}

/// A list and its signature.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Signed {
    list: Vec<u8>,
    signature: Vec<u8>,
}

/// What identifies a certificate.
pub fn fingerprint(certificate: &[u8]) -> Id {
    object_id(&[certificate])
}

impl List {
    /// The bytes that nodes take, signed by `sign`.
    ///
    /// # Errors
    /// When signing fails.
    pub fn seal(&self, sign: impl FnOnce(&[u8]) -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let list = postcard::to_allocvec(self).expect("a list is plain data");
        let signature = sign(&[SIGNED_AS, &list].concat())?;
        let signed = Signed { list, signature };
        Ok(postcard::to_allocvec(&signed).expect("a list is plain data"))
    }

    /// Reads a list that the authority with this certificate has signed.
    ///
    /// # Errors
    /// When it has not, or the list is another cluster's.
    pub fn open(bytes: &[u8], cluster: Id, authority: &[u8]) -> Result<Self> {
        let refuse = |why: &str| {
            let text = format!("the list of withdrawn certificates cannot be used: {why}");
            StorageError::new(StorageErrorKind::Denied, text)
        };
        let signed: Signed = postcard::from_bytes(bytes).map_err(|_| refuse("it is malformed"))?;
        let certificate = CertificateDer::from(authority);
        let authority =
            EndEntityCert::try_from(&certificate).map_err(|error| refuse(&error.to_string()))?;
        let message = [SIGNED_AS, &signed.list].concat();
        authority
            .verify_signature(ECDSA_P256_SHA256, &message, &signed.signature)
            .map_err(|_| refuse("the authority of this cluster has not signed it"))?;
        let list: Self =
            postcard::from_bytes(&signed.list).map_err(|_| refuse("it is malformed"))?;
        match list.cluster {
            Some(other) if other == cluster => Ok(list),
            _ => Err(refuse("it is another cluster's")),
        }
    }
}

/// The latest list that a node has, which it keeps in its directory.
pub struct Withdrawn {
    path: PathBuf,
    cluster: Id,
    authority: Vec<u8>,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    number: u64,
    certificates: HashSet<Id>,
}

impl Withdrawn {
    /// The list that was kept at `path`, if any.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path, cluster: Id, authority: &[u8]) -> Result<Self> {
        let withdrawn = Self {
            path: path.to_owned(),
            cluster,
            authority: authority.to_vec(),
            known: RwLock::default(),
        };
        match fs::read(path) {
            Ok(bytes) => withdrawn.learn(&bytes)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(withdrawn)
    }

    fn learn(&self, bytes: &[u8]) -> Result<()> {
        let list = List::open(bytes, self.cluster, &self.authority)?;
        let mut known = self.known.write().expect("no panic under this lock");
        if list.number > known.number {
            known.number = list.number;
            known.certificates = list.certificates.into_iter().collect();
        }
        Ok(())
    }

    /// Takes a list, and keeps it if it is later than the one that is there.
    ///
    /// # Errors
    /// When the authority has not signed it, or it cannot be kept.
    pub fn take(&self, bytes: &[u8]) -> Result<()> {
        let list = List::open(bytes, self.cluster, &self.authority)?;
        if list.number > self.number() {
            write_whole(&self.path, bytes, 0o600, true)?;
            self.learn(bytes)?;
        }
        Ok(())
    }

    /// The number of the list; 0 without any.
    pub fn number(&self) -> u64 {
        self.known.read().expect("no panic under this lock").number
    }

    /// Whether a certificate is withdrawn.
    pub fn has(&self, certificate: Id) -> bool {
        let known = self.known.read().expect("no panic under this lock");
        known.certificates.contains(&certificate)
    }
}
