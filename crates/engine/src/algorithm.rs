//! The one table of hash algorithms.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::serial::Begin;
use crate::vmac::TagSize;

/// A hash algorithm.
///
/// Some take a key: they are used through [`Function`](crate::Function). Digests are the bytes in
/// the order in which the algorithm's own programs print them; where there are none, as the
/// reference code leaves them in memory on a little-endian machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// MD5 (RFC 1321), one message a lane. Anyone can make two messages with the same digest.
    Md5,
    /// SHA-1 (FIPS 180-4), one message a lane. Two messages with the same digest have been made.
    Sha1,
    /// SHA-224 (FIPS 180-4), one message a lane.
    Sha224,
    /// SHA-256 (FIPS 180-4), one message a lane.
    Sha256,
    /// SHA-384 (FIPS 180-4), one message a lane.
    Sha384,
    /// SHA-512 (FIPS 180-4), one message a lane.
    Sha512,
    /// BLAKE3 in its default mode; its lanes are within a message.
    Blake3,
    /// XXH32 with seed 0.
    Xxh32,
    /// XXH64 with seed 0.
    Xxh64,
    /// XXH3 of 64 bits with seed 0.
    Xxh3,
    /// XXH3 of 128 bits with seed 0.
    Xxh128,
    /// CityHash128 of CityHash 1.1, which FarmHash calls Fingerprint128. Its first step needs the
    /// length of the message, so a [`Hasher`](crate::Hasher) keeps the whole of it: see
    /// [`Algorithm::needs_whole_message`].
    CityHash128,
    /// MurmurHash3 for x64 of 128 bits with seed 0.
    Murmur3,
    /// BLAKE3 in its keyed mode.
    Blake3Keyed,
    /// HMAC (RFC 2104) with MD5, one message a lane. The known attacks on MD5 are not known to
    /// affect it.
    HmacMd5,
    /// HMAC with SHA-1, one message a lane.
    HmacSha1,
    /// HMAC with SHA-256, one message a lane.
    HmacSha256,
    /// HighwayHash of 256 bits. Its authors claim that it is a pseudorandom function; few others
    /// have examined it.
    HighwayHash256,
    /// SipHash-2-4 of 64 bits.
    SipHash24,
    /// VMAC-64 on AES-128 (draft-krovetz-vmac-01): see [`vmac`](crate::vmac). A digest is the
    /// nonce, 16 random bytes, and then the tag: so a message has another one each time, and
    /// [`Function::to_check`](crate::Function::to_check) is needed to compare.
    Vmac64,
    /// VMAC-128 on AES-128, in the same manner.
    Vmac128,
}

/// Which keys an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyRule {
    /// The algorithm takes no key.
    None,
    /// A key of exactly this many bytes.
    Exactly(usize),
    /// A key of one byte or more; keys shorter than the digest are weaker than it.
    AnyLength,
}

/// Changes of a file that its digest reveals, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Withstands {
    /// Accidental changes. Anyone can make another file with the same digest.
    Accidents,
    /// Also replacement of an existing file; but an author of both files can give them the same
    /// digest.
    Substitution,
    /// Also replacement by the file's own author: nobody can make two files with the same digest.
    Collisions,
    /// Also replacement of file and digest together by anybody without the key, whatever digests
    /// they have seen. Of holders of the key it promises only [`Withstands::Accidents`].
    Forgery,
}

/// Implementations of algorithms.
#[derive(Clone, Copy)]
pub(crate) enum Kernel {
    /// One message a lane.
    Lanes(tabane_lanes::Algorithm),
    /// HMAC over an algorithm of the lanes.
    Hmac(tabane_lanes::Algorithm),
    /// One message at a time.
    Serial(Begin),
    /// One message, hashed in a single call.
    Whole(fn(&[u8]) -> Digest),
    /// One message at a time, with a nonce.
    Vmac(TagSize),
}

/// An algorithm with its name, the length of its digest in bytes, the keys it takes, what it
/// withstands, and what runs it.
struct Row(Algorithm, &'static str, usize, KeyRule, Withstands, Kernel);

/// Every algorithm: a new one needs a variant above and a line here.
#[rustfmt::skip]
static TABLE: [Row; 21] = {
    use crate::serial::*;
    use Algorithm::*;
    use Kernel::{Hmac, Lanes, Serial, Vmac, Whole};
    use KeyRule::{AnyLength, Exactly, None as Keyless};
    use Withstands::*;
    use tabane_lanes::Algorithm as Lane;
    [
        Row(Md5, "md5", 16, Keyless, Substitution, Lanes(Lane::Md5)),
        Row(Sha1, "sha1", 20, Keyless, Substitution, Lanes(Lane::Sha1)),
        Row(Sha224, "sha224", 28, Keyless, Collisions, Lanes(Lane::Sha224)),
        Row(Sha256, "sha256", 32, Keyless, Collisions, Lanes(Lane::Sha256)),
        Row(Sha384, "sha384", 48, Keyless, Collisions, Lanes(Lane::Sha384)),
        Row(Sha512, "sha512", 64, Keyless, Collisions, Lanes(Lane::Sha512)),
        Row(Blake3, "blake3", 32, Keyless, Collisions, Serial(blake3)),
        Row(Xxh32, "xxh32", 4, Keyless, Accidents, Serial(xxh32)),
        Row(Xxh64, "xxh64", 8, Keyless, Accidents, Serial(xxh64)),
        Row(Xxh3, "xxh3", 8, Keyless, Accidents, Serial(xxh3)),
        Row(Xxh128, "xxh128", 16, Keyless, Accidents, Serial(xxh128)),
        Row(CityHash128, "cityhash128", 16, Keyless, Accidents, Whole(cityhash128)),
        Row(Murmur3, "murmur3-128", 16, Keyless, Accidents, Serial(murmur3)),
        Row(Blake3Keyed, "blake3-keyed", 32, Exactly(32), Forgery, Serial(blake3_keyed)),
        Row(HmacMd5, "hmac-md5", 16, AnyLength, Forgery, Hmac(Lane::Md5)),
        Row(HmacSha1, "hmac-sha1", 20, AnyLength, Forgery, Hmac(Lane::Sha1)),
        Row(HmacSha256, "hmac-sha256", 32, AnyLength, Forgery, Hmac(Lane::Sha256)),
        Row(HighwayHash256, "highwayhash-256", 32, Exactly(32), Forgery, Serial(highwayhash256)),
        Row(SipHash24, "siphash-2-4", 8, Exactly(16), Forgery, Serial(siphash24)),
        Row(Vmac64, "vmac-64", 24, Exactly(16), Forgery, Vmac(TagSize::Bits64)),
        Row(Vmac128, "vmac-128", 32, Exactly(16), Forgery, Vmac(TagSize::Bits128)),
    ]
};

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

    /// Which keys it takes.
    pub fn key_rule(self) -> KeyRule {
        self.row().3
    }

    /// The changes that its digests reveal.
    pub fn withstands(self) -> Withstands {
        self.row().4
    }

    /// Whether a message has to be in memory as a whole: a [`Hasher`](crate::Hasher) then keeps all
    /// of it.
    pub fn needs_whole_message(self) -> bool {
        matches!(self.kernel(), Kernel::Whole(_))
    }

    pub(crate) fn kernel(self) -> Kernel {
        self.row().5
    }

    fn row(self) -> &'static Row {
        TABLE
            .iter()
            .find(|row| row.0 == self)
            .expect("every algorithm has its row")
    }
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

impl UnknownAlgorithm {
    /// Suggests an algorithm whose name contains the characters of this name in their order and has
    /// the same first and last character. `b3` is BLAKE3, `SHA-256` and `sha256sum` are SHA-256.
    pub fn similar(&self) -> Option<Algorithm> {
        let letters = |name: &str| -> Vec<u8> {
            let name = name.to_ascii_lowercase();
            let name = name.strip_suffix("sum").unwrap_or(&name);
            let bytes = name.bytes();
            bytes.filter(u8::is_ascii_alphanumeric).collect()
        };
        let given = letters(&self.0);
        let is_similar = |algorithm: &Algorithm| {
            let name = letters(algorithm.name());
            let mut rest = name.iter();
            given.len() > 1
                && (given.first(), given.last()) == (name.first(), name.last())
                && given.iter().all(|letter| rest.any(|other| other == letter))
        };
        let similar = Algorithm::all().filter(is_similar);
        similar.min_by_key(|algorithm| algorithm.name().len())
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
    fn names_round_trip() {
        for (algorithm, name) in Algorithm::all().zip(Algorithm::names()) {
            assert_eq!(name.parse(), Ok(algorithm));
            assert_eq!(algorithm.name(), name);
        }
        assert!("md4".parse::<Algorithm>().is_err());
    }

    #[test]
    fn other_spellings_of_a_name_are_recognised() {
        for (given, meant) in [
            ("b3", Some(Algorithm::Blake3)),
            ("b3sum", Some(Algorithm::Blake3)),
            ("SHA-256", Some(Algorithm::Sha256)),
            ("md5sum", Some(Algorithm::Md5)),
            ("hmac_sha256", Some(Algorithm::HmacSha256)),
            ("XXH3", Some(Algorithm::Xxh3)),
            ("sha3", None),
            ("md4", None),
            ("3", None),
            ("", None),
        ] {
            let unknown = given.parse::<Algorithm>().unwrap_err();
            assert_eq!(unknown.similar(), meant, "{given}");
        }
    }

    #[test]
    fn keys_are_what_withstands_forgery() {
        for algorithm in Algorithm::all() {
            let keyed = algorithm.key_rule() != KeyRule::None;
            assert_eq!(keyed, algorithm.withstands() == Withstands::Forgery);
        }
    }
}
