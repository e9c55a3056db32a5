//! The algorithms: one file each, and one line each in the table below.

/// Calls `$f::<T, V>(args)` for each `T` in the list: an unrolled loop whose counter is a constant.
macro_rules! repeat {
    ($f:ident $args:tt : $($t:literal)*) => { $( repeat!(@ $f $t $args); )* };
    (@ $f:ident $t:literal ($($arg:expr),*)) => { $f::<$t, V>($($arg),*) };
}

pub(crate) mod sha1;
pub(crate) mod sha256;

use crate::digest::Digest;
use crate::plan::Plan;
use crate::vector::{Ahead, MAX_WORDS, Vector};

/// A hash of the Merkle–Damgård kind with 64-byte blocks, 32-bit words and a 64-bit length at the end.
pub(crate) trait Kernel: 'static {
    /// Words of state, which are also the words of the digest.
    const WORDS: usize;
    /// The state before the first block, `WORDS` long.
    const INITIAL: &'static [u32];
    /// Whether words and the length are stored most significant byte first.
    const BIG_ENDIAN: bool;

    /// Adds one block of each lane to the state. `state` has `MAX_WORDS` elements, of which the first `WORDS` count.
    /// Calls [`Ahead::fetch`] for every part of as many parts as it likes.
    fn compress<V: Vector>(state: &mut [V], block: [V; 16], ahead: Ahead<'_>);
}

/// What the rest of the crate needs to know of an algorithm at run time.
pub(crate) struct Entry {
    pub(crate) algorithm: Algorithm,
    pub(crate) name: &'static str,
    pub(crate) digest_len: usize,
    pub(crate) engines: fn(crate::Backend) -> Vec<crate::arch::Engine>,
    pub(crate) hash_many: fn(&Plan, &[&[u8]], &mut [Digest]),
    pub(crate) hash_one: fn(&Plan, &[u8]) -> Digest,
}

macro_rules! algorithms {
    ($($(#[$doc:meta])* $variant:ident = $kernel:path, $name:literal;)*) => {
        /// A hash algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Algorithm {
            $($(#[$doc])* $variant,)*
        }

        impl Algorithm {
            /// Every algorithm of this crate.
            pub const ALL: &[Algorithm] = &[$(Algorithm::$variant),*];
        }

        pub(crate) static TABLE: [Entry; Algorithm::ALL.len()] = [$(Entry {
            algorithm: Algorithm::$variant,
            name: $name,
            digest_len: 4 * <$kernel as Kernel>::WORDS,
            engines: |backend| crate::arch::engines::<$kernel>(backend, Algorithm::$variant),
            hash_many: crate::schedule::hash_many::<$kernel>,
            hash_one: crate::schedule::hash_one::<$kernel>,
        }),*];

        const _: () = {
            $(assert!(<$kernel as Kernel>::WORDS <= MAX_WORDS);)*
            $(assert!(<$kernel as Kernel>::WORDS == <$kernel as Kernel>::INITIAL.len());)*
        };
    };
}

algorithms! {
    /// SHA-1 (FIPS 180-4): 20 bytes. Collisions are known, so it identifies only what nobody has reason to forge.
    Sha1 = sha1::Sha1, "sha1";
    /// SHA-256 (FIPS 180-4): 32 bytes.
    Sha256 = sha256::Sha256, "sha256";
}

impl Algorithm {
    /// The algorithm's line of the table.
    pub(crate) fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// The name in lower case, as [`FromStr`](core::str::FromStr) reads it: `"sha1"`, `"sha256"`.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Bytes in a digest: 20 for SHA-1, 32 for SHA-256.
    pub fn digest_len(self) -> usize {
        self.entry().digest_len
    }
}

impl core::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

/// The word is not the name of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl core::fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "unknown hash algorithm {:?}; known:", self.0)?;
        TABLE
            .iter()
            .try_for_each(|entry| write!(f, " {}", entry.name))
    }
}

impl std::error::Error for UnknownAlgorithm {}

impl core::str::FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(word: &str) -> Result<Self, UnknownAlgorithm> {
        TABLE
            .iter()
            .find(|entry| entry.name == word)
            .map(|entry| entry.algorithm)
            .ok_or_else(|| UnknownAlgorithm(word.to_owned()))
    }
}
