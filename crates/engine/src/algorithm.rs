//! The one table of hash algorithms.

use std::fmt;
use std::str::FromStr;

/// Longest digest of any [`Algorithm`], in bytes.
pub const DIGEST_LEN_MAX: usize = 32;

/// A digest in its first [`Algorithm::digest_len`] bytes, zeros behind.
pub type Digest = [u8; DIGEST_LEN_MAX];

/// A hash algorithm that runs over many messages at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// SHA-256 (FIPS 180-4), 32 bytes, one message a lane.
    Sha256,
    /// BLAKE3 in its default mode, 32 bytes; its lanes are within a message.
    Blake3,
    /// SHA-1 (FIPS 180-4), 20 bytes, one message a lane. Collisions are known.
    Sha1,
}

/// Every algorithm with its name: a new one is a line here and a case in `digest_many`.
const TABLE: [(Algorithm, &str, usize); 3] = [
    (Algorithm::Sha256, "sha256", 32),
    (Algorithm::Blake3, "blake3", 32),
    (Algorithm::Sha1, "sha1", 20),
];

/// The name is none of [`Algorithm::names`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl Algorithm {
    /// All names, in the order in which they are offered.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|row| row.1)
    }

    /// The name that [`Algorithm::from_str`] takes.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Length of a digest in bytes.
    pub fn digest_len(self) -> usize {
        self.row().2
    }

    /// The digests of independent messages, in their order.
    ///
    /// The more messages a call has, the fuller the lanes; a single one is hashed as fast as one can be.
    pub fn digest_many(self, messages: &[&[u8]]) -> Vec<Digest> {
        match self {
            Self::Sha256 => lanes(tabane_lanes::Algorithm::Sha256, messages),
            Self::Sha1 => lanes(tabane_lanes::Algorithm::Sha1, messages),
            Self::Blake3 => messages
                .iter()
                .map(|message| *blake3::hash(message).as_bytes())
                .collect(),
        }
    }

    /// The digest of one message.
    pub fn digest(self, message: &[u8]) -> Digest {
        self.digest_many(&[message])[0]
    }

    fn row(self) -> &'static (Algorithm, &'static str, usize) {
        TABLE
            .iter()
            .find(|row| row.0 == self)
            .expect("every algorithm has its row")
    }
}

fn lanes(algorithm: tabane_lanes::Algorithm, messages: &[&[u8]]) -> Vec<Digest> {
    let widen = |digest: tabane_lanes::Digest| {
        let mut wide = [0; DIGEST_LEN_MAX];
        wide[..digest.as_ref().len()].copy_from_slice(digest.as_ref());
        wide
    };
    tabane_lanes::hash_many(algorithm, messages)
        .into_iter()
        .map(widen)
        .collect()
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        TABLE
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Algorithm::names().collect();
        write!(
            f,
            "unknown hash {:?}: choose one of {}",
            self.0,
            known.join(", ")
        )
    }
}

impl std::error::Error for UnknownAlgorithm {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_published_vectors() {
        let vectors = [
            (Algorithm::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                Algorithm::Sha256,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                Algorithm::Blake3,
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
        ];
        for (algorithm, expected) in vectors {
            let digest = algorithm.digest(b"abc");
            let hex: String = digest[..algorithm.digest_len()]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hex, expected, "{algorithm}");
            assert!(
                digest[algorithm.digest_len()..]
                    .iter()
                    .all(|&byte| byte == 0)
            );
        }
    }

    #[test]
    fn names_round_trip() {
        for name in Algorithm::names() {
            assert_eq!(name.parse::<Algorithm>().unwrap().name(), name);
        }
        assert!("md4".parse::<Algorithm>().is_err());
    }
}
