//! The 32-byte names of blocks and objects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tabane_engine::Digest;

/// Length of an [`Id`] in bytes.
pub const ID_LEN: usize = 32;

/// Names a block (by the digest of its plaintext) or an object (by the BLAKE3 of its bytes).
///
/// Printed and parsed as 64 hexadecimal digits; in binary formats it is its 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id(pub [u8; ID_LEN]);

impl Id {
    /// The first eight hexadecimal digits, for people.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..4])
    }

    /// Whether the hexadecimal form starts with `prefix` (case-insensitive).
    pub fn has_prefix(&self, prefix: &str) -> bool {
        hex::encode(self.0).starts_with(&prefix.to_ascii_lowercase())
    }
}

/// The ID of a block: its digest, padded with zeros. No hash of blocks is longer.
impl From<Digest> for Id {
    fn from(digest: Digest) -> Self {
        let mut id = Self::default();
        id.0[..digest.as_ref().len()].copy_from_slice(digest.as_ref());
        id
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for Id {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; ID_LEN];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            text.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; ID_LEN]>::deserialize(deserializer).map(Self)
        }
    }
}
