//! The hashes that a card computes, and their kernels.

use crate::context::Core;
use crate::error::Error;
use crate::kernel::Kernel;

/// Threads of a block.
const THREADS: u32 = 128;

/// A hash that a card computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5 (RFC 1321).
    Md5,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 3] = [Self::Md5, Self::Sha1, Self::Sha256];

    /// The algorithm's name in the names of kernels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Words of 32 bits of a state, and a quarter of the bytes of a digest.
    pub fn words(self) -> usize {
        match self {
            Self::Md5 => 4,
            Self::Sha1 => 5,
            Self::Sha256 => 8,
        }
    }

    /// Bytes of a digest.
    pub fn digest_len(self) -> usize {
        4 * self.words()
    }
}

/// The kernels of each algorithm: for messages at multiples of 16 bytes, and anywhere.
pub(crate) struct HashKernels([[Kernel; 2]; 3]);

impl HashKernels {
    pub(crate) fn load(core: &Core) -> Result<Self, Error> {
        let module = core.load_module(include_str!("../ptx/hash.ptx"))?;
        let load = |algorithm: Algorithm, where_: &str| {
            module.kernel(&format!("{}_{where_}", algorithm.name()), THREADS)
        };
        let mut kernels = Vec::new();
        for algorithm in Algorithm::ALL {
            kernels.push([load(algorithm, "aligned")?, load(algorithm, "anywhere")?]);
        }
        Ok(Self(kernels.try_into().expect("one for each")))
    }

    pub(crate) fn of(&self, algorithm: Algorithm, aligned: bool) -> Kernel {
        self.0[algorithm as usize][usize::from(!aligned)]
    }
}
