//! The algorithms: one file each, and one line each in the table below.

/// Calls `$f::<T, V>(args)` for each `T` in the list: an unrolled loop whose counter is a constant.
macro_rules! repeat {
    ($f:ident $args:tt : $($t:literal)*) => { $( repeat!(@ $f $t $args); )* };
    (@ $f:ident $t:literal ($($arg:expr),*)) => { $f::<$t, V>($($arg),*) };
}

mod md5;
mod sha1;
pub(crate) mod sha2;

use crate::arch::{CompressOne, LaneKernel, Registers};
use crate::digest::Digest;
use crate::hasher::{End, Update};
use crate::plan::Plan;
use crate::vector::{Next, STATE_WORDS_MAX, State, Vector, Word};

/// A hash of the Merkle–Damgård kind: blocks of 16 words, and the message's length in two words at the end.
pub(crate) trait Kernel: 'static {
    /// What it computes with.
    type Word: Registers;
    /// The state before the first block.
    const INITIAL: &'static [Self::Word];
    /// Bytes in a digest: the state, or its beginning.
    const DIGEST_LEN: usize;
    /// Whether words and the length are stored most significant byte first.
    const BIG_ENDIAN: bool;
    /// Whether a step is so short, and the state so small, that three or four registers side by side hide the latency
    /// better than two.
    const SHORT: bool = false;
    /// Bytes in a block.
    const BLOCK: usize = 16 * <Self::Word as Word>::BYTES;

    /// Adds one block of each lane to the state, `INITIAL.len()` elements. Calls [`Next::load`] once for every part of as
    /// many parts as it likes. What becomes of `block` is its own affair.
    fn compress<V: Vector<Word = Self::Word>>(
        state: &mut [V],
        block: &mut [V; 16],
        next: Next<'_, V>,
    );
}

/// What the rest of the crate needs to know of an algorithm at run time.
pub(crate) struct Entry {
    pub(crate) algorithm: Algorithm,
    pub(crate) name: &'static str,
    pub(crate) digest_len: usize,
    pub(crate) block_len: usize,
    pub(crate) count: fn(bool) -> crate::peak::Operations,
    pub(crate) lane_kernels: fn(crate::Backend) -> Vec<LaneKernel>,
    pub(crate) hash_many: fn(&Plan, &[&[u8]], &mut [Digest]),
    pub(crate) big_endian: bool,
    pub(crate) initial: fn() -> State,
    pub(crate) one: fn(crate::Backend) -> CompressOne,
    pub(crate) digest: fn(&State) -> Digest,
    pub(crate) update_many: fn(&Plan, &mut [Update<'_, '_>]),
    pub(crate) finish_many: fn(&Plan, &[End<'_, '_>], &mut [Digest]),
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
            digest_len: <$kernel as Kernel>::DIGEST_LEN,
            block_len: <$kernel as Kernel>::BLOCK,
            count: crate::peak::count::<$kernel>,
            lane_kernels: |backend| crate::arch::lane_kernels::<$kernel>(backend, Algorithm::$variant),
            hash_many: crate::schedule::hash_many::<$kernel>,
            big_endian: <$kernel as Kernel>::BIG_ENDIAN,
            initial: || State::new(<$kernel as Kernel>::INITIAL),
            one: |backend| crate::arch::one::<$kernel>(backend, Algorithm::$variant),
            digest: |state| crate::schedule::digest::<$kernel>(state.words()),
            update_many: crate::schedule::update_many::<$kernel>,
            finish_many: crate::schedule::finish_many::<$kernel>,
        }),*];

        const _: () = {
            $(assert!(<$kernel as Kernel>::INITIAL.len() <= STATE_WORDS_MAX);)*
        };
    };
}

algorithms! {
    /// MD5 (RFC 1321): 16 bytes. Broken: anyone can make two messages that have the same. It guards against accidents.
    Md5 = md5::Md5, "md5";
    /// SHA-1 (FIPS 180-4): 20 bytes. Collisions are known, so it identifies only what nobody has reason to forge.
    Sha1 = sha1::Sha1, "sha1";
    /// SHA-224 (FIPS 180-4): 28 bytes.
    Sha224 = sha2::Sha224, "sha224";
    /// SHA-256 (FIPS 180-4): 32 bytes.
    Sha256 = sha2::Sha256, "sha256";
    /// SHA-384 (FIPS 180-4): 48 bytes.
    Sha384 = sha2::Sha384, "sha384";
    /// SHA-512 (FIPS 180-4): 64 bytes.
    Sha512 = sha2::Sha512, "sha512";
}

impl Algorithm {
    /// The algorithm's line of the table.
    pub(crate) fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    /// The name in lower case, as [`FromStr`](core::str::FromStr) reads it: `"md5"`, `"sha256"`.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Bytes in a digest: 16 for MD5, 32 for SHA-256.
    pub fn digest_len(self) -> usize {
        self.entry().digest_len
    }

    /// Bytes in a block, the unit in which messages are hashed: 64, or 128 for SHA-384 and SHA-512.
    pub fn block_len(self) -> usize {
        self.entry().block_len
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
