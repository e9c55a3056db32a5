//! The result of a hash.

use std::fmt;
use std::hash::{Hash, Hasher};

use constant_time_eq::constant_time_eq_n;

/// Longest digest of any [`Algorithm`](crate::Algorithm), in bytes.
pub const DIGEST_LEN_MAX: usize = 64;

/// The hash of one message: [`Algorithm::digest_len`](crate::Algorithm::digest_len) bytes.
///
/// Formats as lower-case hexadecimal. Compared in constant time, since a digest may be a tag that
/// an attacker tries to guess.
#[derive(Clone, Copy, Eq)]
pub struct Digest {
    /// Zeros behind the digest, so that comparing all is comparing the digest.
    bytes: [u8; DIGEST_LEN_MAX],
    len: u8,
}

impl Digest {
    /// Wraps the bytes of a digest; `None` if they are more than [`DIGEST_LEN_MAX`].
    pub fn from_bytes(digest: &[u8]) -> Option<Self> {
        let mut bytes = [0; DIGEST_LEN_MAX];
        bytes.get_mut(..digest.len())?.copy_from_slice(digest);
        let len = digest.len() as u8;
        Some(Self { bytes, len })
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && constant_time_eq_n(&self.bytes, &other.bytes)
    }
}

impl Hash for Digest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 2 * DIGEST_LEN_MAX];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.as_ref()) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        let text = &text[..2 * usize::from(self.len)];
        f.pad(std::str::from_utf8(text).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_and_printed() {
        let digest = Digest::from_bytes(&[0x01, 0xab, 0x00]).unwrap();
        assert_eq!(digest.as_ref(), [0x01, 0xab, 0x00]);
        assert_eq!(digest.to_string(), "01ab00");
        assert_ne!(digest, Digest::from_bytes(&[0x01, 0xab]).unwrap());
        assert_eq!(Digest::from_bytes(&[0; DIGEST_LEN_MAX + 1]), None);
    }
}
