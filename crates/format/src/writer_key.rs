//! Write-only keys: what a client needs that backs up and cannot read.

use std::fmt;

use serde::{Deserialize, Serialize};
use tabane_engine::Algorithm;
use tabane_storage::Id;

use crate::chunker::{Chunker, Chunking};
use crate::config::{Config, WRITE_ONLY, parse_block_hash};
use crate::crypto::Secret;
use crate::recipient::{ML_KEM_LEN, Recipient, X25519_LEN};

/// Length of a [`WriterId`] in bytes.
pub const WRITER_ID_LEN: usize = 16;

/// Names a write-only key. The key keeps it when its password is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterId(pub [u8; WRITER_ID_LEN]);

/// What a write-only key wraps.
#[derive(Clone)]
pub struct WriterKey {
    /// The key itself.
    pub id: WriterId,
    /// Of the config.
    pub repository: Id,
    /// Of the config.
    pub hash: Algorithm,
    /// Of the config.
    pub chunking: Chunking,
    /// Of the config.
    pub chunker_secret: Id,
    /// Where data and names are sealed to.
    pub recipient: Recipient,
    /// Public key of Ed25519 that verifies index objects and removals.
    pub authority: [u8; 32],
    /// By which a storage can prove what it stored.
    pub storage: Secret,
    /// Opens index objects and removals.
    pub index: Secret,
    /// Of this writer.
    pub own: Secret,
}

/// A [`WriterKey`] as it is stored, in postcard's encoding.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    id: [u8; WRITER_ID_LEN],
    repository: Id,
    #[serde(borrow)]
    hash: &'a str,
    chunking: Chunking,
    chunker_secret: Id,
    x25519: [u8; X25519_LEN],
    #[serde(borrow, with = "serde_bytes")]
    ml_kem: &'a [u8],
    authority: [u8; 32],
    storage: [u8; 32],
    index: [u8; 32],
    own: [u8; 32],
}

impl WriterKey {
    /// The bytes that a password wraps.
    pub fn to_bytes(&self) -> zeroize::Zeroizing<Vec<u8>> {
        let stored = Stored {
            id: self.id.0,
            repository: self.repository,
            hash: self.hash.name(),
            chunking: self.chunking,
            chunker_secret: self.chunker_secret,
            x25519: self.recipient.x25519,
            ml_kem: &*self.recipient.ml_kem,
            authority: self.authority,
            storage: self.storage.0,
            index: self.index.0,
            own: self.own.0,
        };
        postcard::to_stdvec(&stored)
            .expect("a key is plain data")
            .into()
    }

    /// Undoes [`WriterKey::to_bytes`].
    ///
    /// # Errors
    /// A sentence, for bytes that are no key, or one of a newer program.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let stored: Stored<'_> = postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
        let chunking = stored.chunking;
        Chunker::new(chunking, &stored.chunker_secret).map_err(|error| error.to_string())?;
        let ml_kem: &[u8; ML_KEM_LEN] = stored
            .ml_kem
            .try_into()
            .map_err(|_| "its key of ML-KEM-768 has another length")?;
        let recipient = Recipient {
            x25519: stored.x25519,
            ml_kem: Box::new(*ml_kem),
        };
        recipient
            .encapsulate()
            .ok_or("nothing can be sealed to its public keys")?;
        Ok(Self {
            id: WriterId(stored.id),
            repository: stored.repository,
            hash: parse_block_hash(stored.hash)?,
            chunking,
            chunker_secret: stored.chunker_secret,
            recipient,
            authority: stored.authority,
            storage: Secret(stored.storage),
            index: Secret(stored.index),
            own: Secret(stored.own),
        })
    }

    /// As much of the config as the key has.
    pub fn config(&self) -> Config {
        Config {
            id: self.repository,
            hash: self.hash,
            chunking: self.chunking,
            chunker_secret: self.chunker_secret,
            features: vec![WRITE_ONLY.to_owned()],
        }
    }
}

impl WriterId {
    /// The first eight hexadecimal digits, for people.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..4])
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl Serialize for WriterId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WriterId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut id = [0; WRITER_ID_LEN];
        hex::decode_to_slice(&text, &mut id).map_err(serde::de::Error::custom)?;
        Ok(Self(id))
    }
}
