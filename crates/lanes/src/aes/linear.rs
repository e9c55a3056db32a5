//! A keyed hash that is linear, and what hides it: GHASH without lengths, and AES.

use core::fmt;

use zeroize::Zeroize;

use super::block::BLOCK;
use super::gcm::GcmKey;
use super::messages::ecb_encrypt;

/// A hash of whole blocks under a key of AES-256, in which sums stay sums: the hash of the
/// exclusive or of two messages of one length is the exclusive or of their hashes.
///
/// The hash is a polynomial in a secret of 128 bits, as GHASH (NIST SP 800-38D) is. Alone it proves
/// nothing, since the hash of a known message tells the secret: add the [`mask`](LinearMac::mask)
/// of a place to it that no other message has. Then who lacks the key changes m blocks of a message
/// unnoticed with a chance of m in 2¹²⁸, also if it knows the tags of other messages.
///
/// ```
/// use tabane_lanes::aes::LinearMac;
///
/// let mac = LinearMac::new(&[7; 32]);
/// let (a, b) = ([1; 64], [5; 64]);
/// let sum: Vec<u8> = a.iter().zip(b).map(|(a, b)| a ^ b).collect();
/// assert_eq!(mac.hash(&[&a]) ^ mac.hash(&[&b]), mac.hash(&[&sum]));
/// let tag = mac.hash(&[&a]) ^ mac.mask(1);
/// assert_ne!(tag, mac.hash(&[&a]) ^ mac.mask(2));
/// ```
#[derive(Clone)]
pub struct LinearMac(GcmKey);

impl LinearMac {
    /// The hash under a key.
    ///
    /// # Panics
    ///
    /// If the environment variable `TABANE_SIMD` is wrong: see
    /// [`Backend::forced`](crate::Backend::forced).
    pub fn new(key: &[u8; 32]) -> Self {
        Self(GcmKey::new(key).expect("a key of AES has 32 bytes"))
    }

    /// The hash of parts, one behind the other.
    ///
    /// # Panics
    ///
    /// If the length of a part is no multiple of 16 bytes.
    pub fn hash(&self, parts: &[&[u8]]) -> u128 {
        let mut sum = 0;
        for part in parts {
            let (blocks, rest) = part.as_chunks::<BLOCK>();
            assert!(rest.is_empty(), "a part is whole blocks");
            self.0.hash(&mut sum, blocks);
        }
        sum
    }

    /// The mask of a place, which must not be 0: that block's is the secret of the hash.
    ///
    /// # Panics
    ///
    /// If the place is 0.
    pub fn mask(&self, place: u128) -> u128 {
        assert_ne!(place, 0, "its mask is the secret of the hash");
        let mut block = place.to_be_bytes();
        ecb_encrypt(self.0.cipher(), &mut block).expect("it is one block");
        let mask = u128::from_be_bytes(block);
        block.zeroize();
        mask
    }
}

impl fmt::Debug for LinearMac {
    /// No secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinearMac")
    }
}
