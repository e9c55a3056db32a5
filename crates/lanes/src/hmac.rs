//! HMAC (RFC 2104, FIPS 198-1) over every hash, many messages at once.

use zeroize::Zeroize;

use crate::digest::Digest;
use crate::hasher::{End, Hasher, finish_many_with};
use crate::{Algorithm, hash_one};

/// A key, prepared: both of its blocks have been hashed.
///
/// ```
/// use tabane_lanes::{Algorithm, HmacKey, hmac_many};
///
/// let key = HmacKey::new(Algorithm::Md5, b"Jefe");
/// let tags = hmac_many(&[(&key, b"what do ya want for nothing?")]);
/// assert_eq!(tags[0].to_string(), "750c783e6ab0b503eaa86e310a5db738");
/// ```
#[derive(Clone)]
pub struct HmacKey {
    inner: Hasher,
    outer: Hasher,
}

impl HmacKey {
    /// A key of any length.
    ///
    /// # Panics
    ///
    /// As [`hash_many`](crate::hash_many).
    pub fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        let shortened;
        let key = if key.len() > algorithm.block_len() {
            shortened = hash_one(algorithm, key);
            shortened.as_bytes()
        } else {
            key
        };
        let padded = |pad: u8| {
            let mut block = vec![pad; algorithm.block_len()];
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            let mut hasher = Hasher::new(algorithm);
            hasher.update(&block);
            hasher
        };
        Self {
            inner: padded(0x36),
            outer: padded(0x5c),
        }
    }

    /// The tag of a message that comes in pieces, all of which went to [`begin`](HmacKey::begin)'s
    /// hasher.
    pub fn finish(&self, message: &Hasher) -> Digest {
        hmac_outer_many(&[(self, message.finish())])[0]
    }

    /// Begins a message that comes in pieces: append them, many at once if need be, and give it to
    /// [`finish`](HmacKey::finish).
    pub fn begin(&self) -> Hasher {
        self.inner.clone()
    }
}

impl Drop for HmacKey {
    fn drop(&mut self) {
        self.inner.state.zeroize();
        self.outer.state.zeroize();
    }
}

impl core::fmt::Debug for HmacKey {
    /// Omits the key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HmacKey")
            .field("algorithm", &self.inner.algorithm())
            .finish_non_exhaustive()
    }
}

/// Computes the tag of each message under its key, one message a lane. Algorithms and lengths may
/// differ.
///
/// Compare a tag with a received one in constant time.
///
/// # Panics
///
/// As [`hash_many`](crate::hash_many).
pub fn hmac_many(messages: &[(&HmacKey, &[u8])]) -> Vec<Digest> {
    let parts: Vec<End> = messages
        .iter()
        .map(|&(key, message)| (&key.inner, message))
        .collect();
    let inner = finish_many_with(&parts);
    let keys = messages.iter().map(|(key, _)| *key);
    hmac_outer_many(&keys.zip(inner).collect::<Vec<_>>())
}

/// The tags of messages that came in pieces: each key with the digest of the hasher that
/// [`HmacKey::begin`] gave, all of them at once.
///
/// # Panics
///
/// As [`hash_many`](crate::hash_many).
pub fn hmac_outer_many(inner: &[(&HmacKey, Digest)]) -> Vec<Digest> {
    let parts: Vec<End> = inner
        .iter()
        .map(|(key, digest)| (&key.outer, digest.as_bytes()))
        .collect();
    finish_many_with(&parts)
}
