//! What is fixed for the life of a repository.

use serde::{Deserialize, Serialize};
use tabane_engine::Algorithm;

use crate::chunker::Chunking;
use tabane_storage::Id;

/// The hashes that may name blocks. Their digests fit an [`Id`]; matches of SHA-1, which has known
/// collisions, are confirmed byte for byte.
pub const BLOCK_HASHES: [Algorithm; 3] = [Algorithm::Sha256, Algorithm::Blake3, Algorithm::Sha1];

/// The feature of a repository that has, or had, write-only keys.
pub const WRITE_ONLY: &str = "write-only";

/// Reads the name of one of [`BLOCK_HASHES`].
///
/// # Errors
/// It is the name of none; the message says which there are.
pub fn parse_block_hash(name: &str) -> Result<Algorithm, String> {
    let found = BLOCK_HASHES.into_iter().find(|hash| hash.name() == name);
    found.ok_or_else(|| {
        let names = BLOCK_HASHES.map(Algorithm::name).join(", ");
        format!("no block hash is called {name:?}: use one of {names}")
    })
}

/// The contents of the object `config`, sealed JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Random name of the repository.
    pub id: Id,
    /// The hash that names blocks.
    #[serde(with = "algorithm_name")]
    pub hash: Algorithm,
    /// How files are cut into blocks.
    pub chunking: Chunking,
    /// 32 random bytes from which the gear table is derived.
    pub chunker_secret: Id,
    /// What a program must know besides the format to use the repository: nothing, or
    /// `write-only`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

impl Config {
    /// Whether the repository has, or had, write-only keys.
    pub fn has_writers(&self) -> bool {
        self.features.iter().any(|feature| feature == WRITE_ONLY)
    }

    /// A feature that this program does not know.
    pub fn unknown_feature(&self) -> Option<&str> {
        let mut features = self.features.iter().map(String::as_str);
        features.find(|feature| *feature != WRITE_ONLY)
    }
}

mod algorithm_name {
    use serde::{Deserialize, Deserializer, Serializer};
    use tabane_engine::Algorithm;

    pub fn serialize<S: Serializer>(
        algorithm: &Algorithm,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(algorithm.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Algorithm, D::Error> {
        let name = String::deserialize(deserializer)?;
        super::parse_block_hash(&name).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_block_hashes_name_blocks() {
        for hash in BLOCK_HASHES {
            assert_eq!(parse_block_hash(hash.name()), Ok(hash));
            assert!(hash.digest_len() <= tabane_storage::ID_LEN);
        }
        let known = Algorithm::all().filter(|hash| parse_block_hash(hash.name()).is_ok());
        assert_eq!(known.count(), BLOCK_HASHES.len());
        let config = Config {
            id: Id::default(),
            hash: Algorithm::Xxh3,
            chunking: Chunking::default(),
            chunker_secret: Id::default(),
            features: Vec::new(),
        };
        let json = serde_json::to_string(&config).unwrap();
        let error = serde_json::from_str::<Config>(&json)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no block hash is called \"xxh3\""),
            "{error}"
        );
    }
}
