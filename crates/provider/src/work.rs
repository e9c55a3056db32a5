//! A piece of work: a message to encrypt in CBC mode, or to append to a hash.

use tabane_lanes::Hasher;
use tabane_lanes::aes::{self, BLOCK, InOut, Key};

use crate::error::Reason;

/// A piece of work.
pub(crate) enum Work<'a> {
    Encrypt {
        key: &'a Key,
        iv: &'a mut [u8; BLOCK],
        data: InOut<'a>,
    },
    Hash {
        hasher: &'a mut Hasher,
        data: &'a [u8],
    },
}

impl Work<'_> {
    /// The kind of work: algorithm and binary logarithm of the length.
    pub(crate) fn kind(&self) -> u32 {
        let what = match self {
            Self::Encrypt { .. } => 0,
            Self::Hash { hasher, .. } => 1 + hasher.algorithm() as u32,
        };
        what << 8 | self.len().max(1).ilog2()
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Encrypt { data, .. } => data.len(),
            Self::Hash { data, .. } => data.len(),
        }
    }

    /// Encrypts or hashes this message by itself.
    pub(crate) fn alone(self) -> Result<(), Reason> {
        match self {
            Self::Encrypt { key, iv, data } => {
                aes::cbc_encrypt(key, iv, data).map_err(|_| Reason::CipherOperationFailed)
            }
            Self::Hash { hasher, data } => {
                hasher.update(data);
                Ok(())
            }
        }
    }

    /// Whether it is of the context at this place.
    pub(crate) fn belongs_to(&self, context: *const u8, size: usize) -> bool {
        let part: *const u8 = match self {
            Self::Encrypt { iv, .. } => iv.as_ptr(),
            Self::Hash { hasher, .. } => core::ptr::from_ref::<Hasher>(hasher).cast(),
        };
        part.addr().wrapping_sub(context.addr()) < size
    }
}
