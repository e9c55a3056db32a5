//! What is fixed for the life of a repository.

use serde::{Deserialize, Serialize};
use tabane_engine::Algorithm;

use crate::chunker::Chunking;
use crate::id::Id;

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
        name.parse().map_err(serde::de::Error::custom)
    }
}
