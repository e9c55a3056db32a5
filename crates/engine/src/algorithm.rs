//! The one table of hash algorithms.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::hasher::Hasher;

/// A hash algorithm that runs over many messages at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// MD5 (RFC 1321), 16 bytes, one message a lane. Collisions are known and cheap.
    Md5,
    /// SHA-1 (FIPS 180-4), 20 bytes, one message a lane. Collisions are known.
    Sha1,
    /// SHA-224 (FIPS 180-4), 28 bytes, one message a lane.
    Sha224,
    /// SHA-256 (FIPS 180-4), 32 bytes, one message a lane.
    Sha256,
    /// SHA-384 (FIPS 180-4), 48 bytes, one message a lane.
    Sha384,
    /// SHA-512 (FIPS 180-4), 64 bytes, one message a lane.
    Sha512,
    /// BLAKE3 in its default mode, 32 bytes; its lanes are within a message.
    Blake3,
    /// XXH64 with seed 0, 8 bytes. Finds accidents, not attacks.
    Xxh64,
    /// XXH3 of 64 bits with seed 0, 8 bytes. Finds accidents, not attacks.
    Xxh3,
    /// XXH3 of 128 bits with seed 0, 16 bytes. Finds accidents, not attacks.
    Xxh128,
}

/// What runs an algorithm.
#[derive(Clone, Copy)]
pub(crate) enum Kernel {
    /// One message a lane.
    Lanes(tabane_lanes::Algorithm),
    /// The `blake3` crate.
    Blake3,
    /// The `twox-hash` crate.
    Xxh64,
    /// The `twox-hash` crate.
    Xxh3,
    /// The `twox-hash` crate.
    Xxh128,
}

macro_rules! lanes {
    ($algorithm:ident) => {
        Kernel::Lanes(tabane_lanes::Algorithm::$algorithm)
    };
}

/// Every algorithm with its name and the length of its digest in bytes: a new one is a variant above and a line here.
const TABLE: [(Algorithm, &str, usize, Kernel); 10] = [
    (Algorithm::Md5, "md5", 16, lanes!(Md5)),
    (Algorithm::Sha1, "sha1", 20, lanes!(Sha1)),
    (Algorithm::Sha224, "sha224", 28, lanes!(Sha224)),
    (Algorithm::Sha256, "sha256", 32, lanes!(Sha256)),
    (Algorithm::Sha384, "sha384", 48, lanes!(Sha384)),
    (Algorithm::Sha512, "sha512", 64, lanes!(Sha512)),
    (Algorithm::Blake3, "blake3", 32, Kernel::Blake3),
    (Algorithm::Xxh64, "xxh64", 8, Kernel::Xxh64),
    (Algorithm::Xxh3, "xxh3", 8, Kernel::Xxh3),
    (Algorithm::Xxh128, "xxh128", 16, Kernel::Xxh128),
];

/// The name is none of [`Algorithm::names`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl Algorithm {
    /// All algorithms, in the order in which they are offered.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        TABLE.iter().map(|row| row.0)
    }

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
        match self.kernel() {
            Kernel::Lanes(algorithm) => tabane_lanes::hash_many(algorithm, messages)
                .iter()
                .map(from_lanes)
                .collect(),
            _ => messages
                .iter()
                .map(|message| {
                    let mut hasher = Hasher::new(self);
                    hasher.update(message);
                    hasher.finish()
                })
                .collect(),
        }
    }

    /// The digest of one message.
    pub fn digest(self, message: &[u8]) -> Digest {
        self.digest_many(&[message])[0]
    }

    pub(crate) fn kernel(self) -> Kernel {
        self.row().3
    }

    fn row(self) -> &'static (Algorithm, &'static str, usize, Kernel) {
        TABLE
            .iter()
            .find(|row| row.0 == self)
            .expect("every algorithm has its row")
    }
}

/// Digests of the lanes are never longer than ours.
pub(crate) fn from_lanes(digest: &tabane_lanes::Digest) -> Digest {
    Digest::from_bytes(digest.as_ref()).expect("no digest of the lanes is longer")
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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

    /// FIPS 180-4, RFC 1321, the test vectors of BLAKE3, and what `xxhsum` of the xxHash project prints.
    #[test]
    fn digests_match_published_vectors() {
        let vectors = [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "sha224",
                "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
            ),
            (
                "sha256",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "sha384",
                "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
                 8086072ba1e7cc2358baeca134c825a7",
            ),
            (
                "sha512",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                 2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            (
                "blake3",
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
            ("xxh64", "44bc2cf5ad770999"),
            ("xxh3", "78af5f94892f3950"),
            ("xxh128", "06b05ab6733a618578af5f94892f3950"),
        ];
        assert_eq!(vectors.len(), TABLE.len());
        for (name, expected) in vectors {
            let algorithm: Algorithm = name.parse().unwrap();
            let digest = algorithm.digest(b"abc");
            assert_eq!(digest.to_string(), expected, "{algorithm}");
            assert_eq!(digest.as_ref().len(), algorithm.digest_len());
        }
    }

    #[test]
    fn names_round_trip() {
        for (algorithm, name) in Algorithm::all().zip(Algorithm::names()) {
            assert_eq!(name.parse(), Ok(algorithm));
            assert_eq!(algorithm.name(), name);
        }
        assert!("md4".parse::<Algorithm>().is_err());
    }
}
