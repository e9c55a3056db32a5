//! Algorithms with their keys.

use std::fmt;
use std::sync::Arc;

use tabane_lanes::{HmacKey, hmac_many};
use zeroize::Zeroizing;

use crate::algorithm::{Algorithm, Kernel, KeyRule};
use crate::digest::Digest;
use crate::gpu;
use crate::hasher::{Hasher, State};
use crate::serial::{Begin, Whole, WithNonce, exactly, from_lanes};
use crate::vmac::{Nonce, VmacKey};

/// The bytes of a key, wiped when the last clone is dropped.
#[derive(Clone)]
pub struct Key(Arc<Zeroizing<Vec<u8>>>);

impl Key {
    /// A key of these bytes.
    pub fn new(bytes: impl Into<Zeroizing<Vec<u8>>>) -> Self {
        Self(Arc::new(bytes.into()))
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// A hash function: an algorithm, with a key if it takes one. Clones share the key.
///
/// ```
/// use tabane_engine::{Algorithm, Function, Key};
///
/// let function = Function::new(Algorithm::HmacMd5, Some(&Key::new(b"Jefe".to_vec())))?;
/// let digest = function.digest(b"what do ya want for nothing?");
/// assert_eq!(digest.to_string(), "750c783e6ab0b503eaa86e310a5db738");
/// # Ok::<(), tabane_engine::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Function {
    algorithm: Algorithm,
    start: Start,
}

/// The state at the beginning of a message.
#[derive(Clone)]
enum Start {
    Lanes(tabane_lanes::Algorithm),
    Hmac(Arc<HmacKey>),
    Serial(Begin, Option<Key>),
    Whole(fn(&[u8]) -> Digest),
    /// With the nonce of a digest to check.
    Vmac(VmacKey, Option<[u8; 16]>),
}

/// The key does not go with the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The algorithm takes a key, and none is given.
    Missing(Algorithm),
    /// The algorithm takes no key, and one is given.
    Unwanted(Algorithm),
    /// The key has this length in bytes, which the algorithm does not take.
    WrongLength(Algorithm, usize),
}

impl Function {
    /// A function of an algorithm, with a key if the algorithm takes one.
    ///
    /// # Errors
    /// The key is missing, not wanted, or has the wrong length.
    pub fn new(algorithm: Algorithm, key: Option<&Key>) -> Result<Self, KeyError> {
        match (algorithm.key_rule(), key.map(|key| key.bytes().len())) {
            (KeyRule::None, None) => {}
            (KeyRule::None, Some(_)) => return Err(KeyError::Unwanted(algorithm)),
            (_, None) => return Err(KeyError::Missing(algorithm)),
            (KeyRule::Exactly(wanted), Some(len)) if len == wanted => {}
            (KeyRule::AnyLength, Some(1..)) => {}
            (_, Some(len)) => return Err(KeyError::WrongLength(algorithm, len)),
        }
        let bytes = key.map_or(&[][..], Key::bytes);
        let start = match algorithm.kernel() {
            Kernel::Lanes(algorithm) => Start::Lanes(algorithm),
            Kernel::Hmac(algorithm) => Start::Hmac(Arc::new(HmacKey::new(algorithm, bytes))),
            Kernel::Serial(begin) => Start::Serial(begin, key.cloned()),
            Kernel::Whole(digest) => Start::Whole(digest),
            Kernel::Vmac(size) => Start::Vmac(VmacKey::new(size, &exactly(bytes)), None),
        };
        Ok(Self { algorithm, start })
    }

    /// An algorithm that takes no key.
    ///
    /// # Panics
    ///
    /// If it takes one.
    pub fn keyless(algorithm: Algorithm) -> Self {
        Self::new(algorithm, None).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The function to compute digests for comparison with this one: usually the same function;
    /// VMAC takes the digest's nonce. Keep its digests of other messages secret: a nonce used twice
    /// betrays the key.
    #[must_use]
    pub fn to_check(&self, digest: &Digest) -> Self {
        let start = match &self.start {
            Start::Vmac(key, _) => {
                let nonce = digest.as_ref().first_chunk().copied();
                // An invalid nonce means that no message has this digest.
                let nonce = nonce.filter(|nonce| Nonce::from_bytes(nonce).is_ok());
                Start::Vmac(key.clone(), nonce)
            }
            other => other.clone(),
        };
        let algorithm = self.algorithm;
        Self { algorithm, start }
    }

    /// A hasher of the empty message.
    pub fn hasher(&self) -> Hasher {
        Hasher(match &self.start {
            Start::Lanes(algorithm) => State::Lanes(tabane_lanes::Hasher::new(*algorithm)),
            Start::Hmac(key) => State::Hmac(key.begin(), Arc::clone(key)),
            Start::Serial(begin, key) => State::Serial(begin(key.as_ref().map_or(&[], Key::bytes))),
            &Start::Whole(digest) => State::Serial(Box::new(Whole {
                message: Vec::new(),
                digest,
            })),
            Start::Vmac(key, nonce) => State::Serial(Box::new(WithNonce {
                vmac: key.begin(),
                nonce: *nonce,
            })),
        })
    }

    /// The digests of independent messages, in their order.
    ///
    /// More messages in a call fill more lanes; a single one takes the fastest way for one message.
    pub fn digest_many(&self, messages: &[&[u8]]) -> Vec<Digest> {
        match &self.start {
            Start::Lanes(algorithm) => gpu::hash_many(*algorithm, messages),
            Start::Hmac(key) => {
                let keyed: Vec<_> = messages.iter().map(|&message| (&**key, message)).collect();
                hmac_many(&keyed).iter().map(from_lanes).collect()
            }
            Start::Serial(..) | Start::Vmac(..) => {
                let digest = |message: &&[u8]| {
                    let mut hasher = self.hasher();
                    hasher.update(message);
                    hasher.finish()
                };
                messages.iter().map(digest).collect()
            }
            Start::Whole(digest) => messages.iter().map(|message| digest(message)).collect(),
        }
    }

    /// The digest of one message.
    pub fn digest(&self, message: &[u8]) -> Digest {
        self.digest_many(&[message])[0]
    }
}

impl fmt::Debug for Function {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.algorithm).finish()
    }
}

impl Algorithm {
    /// The digests of independent messages, in their order, as [`Function::digest_many`].
    ///
    /// # Panics
    ///
    /// If the algorithm takes a key.
    pub fn digest_many(self, messages: &[&[u8]]) -> Vec<Digest> {
        Function::keyless(self).digest_many(messages)
    }

    /// The digest of one message.
    ///
    /// # Panics
    ///
    /// If the algorithm takes a key.
    pub fn digest(self, message: &[u8]) -> Digest {
        Function::keyless(self).digest(message)
    }
}

impl Hasher {
    /// A hasher of the empty message by an algorithm that takes no key; [`Function::hasher`] is for
    /// all algorithms.
    ///
    /// # Panics
    ///
    /// If the algorithm takes a key.
    pub fn new(algorithm: Algorithm) -> Self {
        Function::keyless(algorithm).hasher()
    }
}

impl fmt::Display for KeyRule {
    /// The required key: `no key`, `a key of 16 bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no key"),
            Self::Exactly(len) => write!(f, "a key of {len} bytes"),
            Self::AnyLength => f.write_str("a key of one byte or more"),
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(algorithm)
        | Self::Unwanted(algorithm)
        | Self::WrongLength(algorithm, _)) = self;
        write!(f, "{algorithm} takes {}", algorithm.key_rule())?;
        match self {
            Self::WrongLength(_, len) => write!(f, ", not of {len}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for KeyError {}
