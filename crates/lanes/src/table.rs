//! The table of algorithms: a line each.

use crate::algorithm::{Algorithm, md5, sha1, sha2};
use crate::entry::Entry;
use crate::kernel::{BLOCK_BYTES_MAX, Kernel};
use crate::vector::{STATE_WORDS_MAX, State};
use crate::{arch, peak, schedule};

macro_rules! table {
    ($($variant:ident = $kernel:path, blocks of $blocks:path, $name:literal;)*) => {
        static TABLE: [Entry; Algorithm::ALL.len()] = [$(Entry {
            algorithm: Algorithm::$variant,
            name: $name,
            digest_len: <$kernel as Kernel>::DIGEST_LEN,
            block_len: <$kernel as Kernel>::BLOCK,
            count: peak::count::<$blocks>,
            lane_kernels: |backend| arch::lane_kernels::<$blocks>(backend, Algorithm::$variant),
            hash_many: schedule::hash_many::<$kernel>,
            big_endian: <$kernel as Kernel>::BIG_ENDIAN,
            initial: || State::new(<$kernel as Kernel>::INITIAL),
            one: |backend| arch::one::<$blocks>(backend, Algorithm::$variant),
            digest: |state| schedule::digest::<$kernel>(state.words()),
            update_many: schedule::update_many::<$kernel>,
            finish_many: schedule::finish_many::<$kernel>,
        }),*];

        const _: () = {
            $(assert!(<$kernel as Kernel>::INITIAL.len() <= STATE_WORDS_MAX);)*
            $(assert!(<$kernel as Kernel>::BLOCK <= BLOCK_BYTES_MAX);)*
        };
    };
}

// In the order of `Algorithm`. Algorithms that do the same with a block share the code for it.
table! {
    Md5 = md5::Md5, blocks of md5::Md5, "md5";
    Sha1 = sha1::Sha1, blocks of sha1::Sha1, "sha1";
    Sha224 = sha2::Sha224, blocks of sha2::Sha256, "sha224";
    Sha256 = sha2::Sha256, blocks of sha2::Sha256, "sha256";
    Sha384 = sha2::Sha384, blocks of sha2::Sha512, "sha384";
    Sha512 = sha2::Sha512, blocks of sha2::Sha512, "sha512";
}

const _: () = {
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].algorithm as usize == i);
        i += 1;
    }
};

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
