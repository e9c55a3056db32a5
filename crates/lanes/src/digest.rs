//! The result of a hash.

use core::fmt;

use crate::vector::Word;

/// The most bytes that a [`Digest`] holds.
pub(crate) const DIGEST_BYTES_MAX: usize = 64;

/// The hash of one message: [`Algorithm::digest_len`](crate::Algorithm::digest_len) bytes, in the
/// order in which the standard prints them.
///
/// Formats as lower-case hexadecimal with `{}` and `{:x}`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    bytes: [u8; DIGEST_BYTES_MAX],
    len: u8,
}

impl Default for Digest {
    /// No bytes.
    fn default() -> Self {
        Self {
            bytes: [0; DIGEST_BYTES_MAX],
            len: 0,
        }
    }
}

impl Digest {
    /// The first `len` bytes of `words`, most significant byte first if `big_endian`.
    #[inline]
    pub(crate) fn from_words<W: Word>(words: &[W], big_endian: bool, len: usize) -> Self {
        let mut bytes = [0; DIGEST_BYTES_MAX];
        for (to, &word) in bytes[..len].chunks_mut(W::BYTES).zip(words) {
            let word: u64 = word.into();
            if big_endian {
                to.copy_from_slice(&word.to_be_bytes()[8 - W::BYTES..][..to.len()]);
            } else {
                to.copy_from_slice(&word.to_le_bytes()[..to.len()]);
            }
        }
        Self {
            bytes,
            len: len as u8,
        }
    }

    /// The digest's bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::LowerHex for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(self, f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self:x})")
    }
}
