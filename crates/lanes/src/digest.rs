//! The result of a hash.

use core::fmt;

/// The most bytes that a [`Digest`] holds.
pub(crate) const MAX_DIGEST: usize = 32;

/// The hash of one message: [`Algorithm::digest_len`](crate::Algorithm::digest_len) bytes, in the order in which
/// the standard prints them.
///
/// Formats as lower-case hexadecimal with `{}` and `{:x}`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest {
    bytes: [u8; MAX_DIGEST],
    len: u8,
}

impl Digest {
    /// Of `words`, most significant byte first if `big_endian`.
    #[inline]
    pub(crate) fn from_words(words: impl ExactSizeIterator<Item = u32>, big_endian: bool) -> Self {
        let mut bytes = [0; MAX_DIGEST];
        let len = 4 * words.len();
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&if big_endian {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            });
        }
        Self {
            bytes,
            len: len as u8,
        }
    }

    /// The digest's bytes.
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
