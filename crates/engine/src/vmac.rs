//! VMAC-64 and VMAC-128 on AES-128 (draft-krovetz-vmac-01): authentication at the speed of
//! multiplication.
//!
//! A message is hashed by a secret choice from a family of hashes (VHASH), and the hash is hidden
//! by a pad that AES makes from a *nonce*, a number that must never serve for two messages under
//! one key: an attacker who sees two tags under one nonce learns about the hash and can soon forge.
//! So [`VmacKey::authenticate`] draws the nonce itself, at random from 2¹²⁷, and returns it with
//! the tag; both go along with the message:
//!
//! ```
//! use tabane_engine::vmac::{TagSize, VmacKey};
//!
//! let key = VmacKey::new(TagSize::Bits128, &[7; 16]);
//! let (nonce, tag) = key.authenticate(b"attack at dawn");
//! assert!(key.verify(&nonce, b"attack at dawn", tag.as_ref()));
//! assert!(!key.verify(&nonce, b"attack at noon", tag.as_ref()));
//! ```
//!
//! Nothing here looks up a table by a secret or branches on one: the time depends on lengths alone.

use std::fmt;
use std::sync::Arc;

use constant_time_eq::constant_time_eq;
use tabane_lanes::aes;
use tabane_lanes::vhash::{self, BLOCK};
use zeroize::Zeroize;

use crate::digest::Digest;

/// Length of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagSize {
    /// VMAC-64: tags of 8 bytes. A forgery succeeds with a probability of about 2⁻⁶⁰ at each try.
    Bits64,
    /// VMAC-128: tags of 16 bytes. A forgery succeeds with a probability of about 2⁻¹²⁰ at each
    /// try.
    Bits128,
}

/// A key, expanded for tags of one size. Overwritten with zeros when the last clone is dropped.
#[derive(Clone)]
pub struct VmacKey(Arc<Schedule>);

struct Schedule {
    cipher: aes::Key,
    size: TagSize,
    hash: vhash::Key,
}

impl VmacKey {
    /// Expands a key of AES-128. Tags of different sizes ask for different keys: they would share
    /// pads.
    ///
    /// # Panics
    ///
    /// If the environment variable `TABANE_SIMD` is wrong: see [`tabane_lanes::Backend::forced`].
    pub fn new(size: TagSize, key: &[u8; 16]) -> Self {
        let cipher = aes::Key::new(key).expect("16 bytes are a key of AES-128");
        let hash = vhash::Key::derive(&cipher);
        Self(Arc::new(Schedule { cipher, size, hash }))
    }

    /// Length of the tags.
    pub fn tag_size(&self) -> TagSize {
        self.0.size
    }

    /// A fresh nonce, and the tag of the message under it.
    ///
    /// # Panics
    ///
    /// As [`Nonce::random`].
    pub fn authenticate(&self, message: &[u8]) -> (Nonce, Tag) {
        self.hashed(message).finish()
    }

    /// The tag of the message under a nonce of the caller's. **For experts**: messages under one
    /// key must have different nonces.
    pub fn authenticate_under_nonce(&self, nonce: Nonce, message: &[u8]) -> Tag {
        self.hashed(message).finish_under_nonce(nonce)
    }

    /// Whether `tag` is the message's. Compares in constant time; a tag of another length is wrong.
    #[must_use]
    pub fn verify(&self, nonce: &Nonce, message: &[u8], tag: &[u8]) -> bool {
        self.hashed(message).verify(nonce, tag)
    }

    /// Begins a message that comes in parts.
    pub fn begin(&self) -> Vmac {
        Vmac {
            key: self.clone(),
            hash: vhash::EMPTY,
            last: [0; BLOCK],
            last_len: 0,
        }
    }

    fn hashed(&self, message: &[u8]) -> Vmac {
        let mut vmac = self.begin();
        vmac.update(message);
        vmac
    }

    /// The pad that hides the hash: AES of the nonce, of which a tag of 64 bits needs half, chosen
    /// by the last bit.
    fn pad(&self, nonce: &Nonce) -> [u64; 2] {
        let mut block = nonce.0;
        let mut half = 0;
        if self.0.size == TagSize::Bits64 {
            half = block[15] & 1;
            block[15] ^= half;
        }
        aes::ecb_encrypt(&self.0.cipher, &mut block).expect("one block");
        let halves = block.as_chunks().0;
        let pad = [halves[usize::from(half)], halves[1]].map(u64::from_be_bytes);
        block.zeroize();
        pad
    }
}

impl fmt::Debug for VmacKey {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VmacKey({:?})", self.0.size)
    }
}

/// Authenticates a message that comes in parts; the tag does not depend on where the parts end.
#[derive(Clone)]
pub struct Vmac {
    key: VmacKey,
    /// Sums over all blocks before `last`; the second only for tags of 128 bits.
    hash: [vhash::Sum; 2],
    /// The end of the message so far: empty only if all of it is.
    last: [u8; BLOCK],
    last_len: usize,
}

impl Vmac {
    /// Appends to the message.
    pub fn update(&mut self, mut part: &[u8]) {
        // A full block waits for the byte behind it, since the end of a message is hashed in
        // another way.
        let room = BLOCK - self.last_len;
        if part.len() <= room {
            self.keep(part);
            return;
        }
        if self.last_len > 0 {
            let (begin, rest) = part.split_at(room);
            self.keep(begin);
            self.key.absorb(&mut self.hash, &[self.last]);
            self.last_len = 0;
            part = rest;
        }
        let whole = (part.len() - 1) / BLOCK * BLOCK;
        let (blocks, rest) = part.split_at(whole);
        self.key.absorb(&mut self.hash, blocks.as_chunks().0);
        self.keep(rest);
    }

    /// A fresh nonce, and the tag of the message so far under it.
    ///
    /// # Panics
    ///
    /// As [`Nonce::random`].
    pub fn finish(&self) -> (Nonce, Tag) {
        let nonce = Nonce::random();
        let tag = self.tag(&nonce);
        (nonce, tag)
    }

    /// The tag of the message under a nonce of the caller's. **For experts**: messages under one
    /// key must have different nonces.
    pub fn finish_under_nonce(self, nonce: Nonce) -> Tag {
        self.tag(&nonce)
    }

    /// Whether `tag` is the message's so far. Compares in constant time; a tag of another length is
    /// wrong.
    #[must_use]
    pub fn verify(&self, nonce: &Nonce, tag: &[u8]) -> bool {
        constant_time_eq(self.tag(nonce).as_ref(), tag)
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.last[self.last_len..][..bytes.len()].copy_from_slice(bytes);
        self.last_len += bytes.len();
    }

    fn tag(&self, nonce: &Nonce) -> Tag {
        let Schedule { size, hash, .. } = &*self.key.0;
        let end = &self.last[..self.last_len];
        let pad = self.key.pad(nonce);
        match size {
            TagSize::Bits64 => {
                let [sum, _] = self.hash;
                Tag::new(hash.finish([sum], end), pad)
            }
            TagSize::Bits128 => Tag::new(hash.finish(self.hash, end), pad),
        }
    }
}

impl VmacKey {
    /// Hashes whole blocks, behind which the message goes on.
    fn absorb(&self, sums: &mut [vhash::Sum; 2], blocks: &[[u8; BLOCK]]) {
        let Schedule { size, hash, .. } = &*self.0;
        match size {
            TagSize::Bits64 => hash.absorb_one(&mut sums[0], blocks),
            TagSize::Bits128 => hash.absorb_two(sums, blocks),
        }
    }
}

impl fmt::Debug for Vmac {
    /// Omits key and state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vmac({:?})", self.key.0.size)
    }
}

impl Drop for Vmac {
    fn drop(&mut self) {
        self.hash.zeroize();
        self.last.zeroize();
    }
}

/// A nonce: a number below 2¹²⁷ that must differ between any two messages under one key. Not
/// secret.
///
/// It cannot be copied, and authenticating under one takes it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Nonce([u8; 16]);

impl Nonce {
    /// A random nonce. Among 2⁴⁸ nonces, two are equal with a probability of 2⁻³².
    ///
    /// # Panics
    ///
    /// If the system has no random numbers.
    pub fn random() -> Self {
        let mut number = [0; 16];
        getrandom::fill(&mut number).expect("the system has random numbers");
        number[0] &= 0x7f;
        Self(number)
    }

    /// From a big-endian number of 1 to 16 bytes, the first bit of 16 being zero. Zeros in front
    /// make no difference.
    ///
    /// # Errors
    ///
    /// [`NonceError`] for other lengths and greater numbers.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NonceError> {
        let mut number = [0; 16];
        let start = number.len().checked_sub(bytes.len());
        let place = start.and_then(|start| number.get_mut(start..));
        place.ok_or(NonceError)?.copy_from_slice(bytes);
        if bytes.is_empty() || number[0] >= 0x80 {
            return Err(NonceError);
        }
        Ok(Self(number))
    }

    /// All 16 bytes, to be kept with the tag.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The bytes are no nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceError;

impl fmt::Display for NonceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a nonce of VMAC has 1 to 16 bytes, and of 16 the first is below 128")
    }
}

impl std::error::Error for NonceError {}

/// A tag, which proves that its author had the key: 8 or 16 bytes. Compared in constant time;
/// formats as hexadecimal.
#[derive(Clone, Copy)]
pub struct Tag(Digest);

impl Tag {
    fn new<const N: usize>(hash: [u64; N], pad: [u64; 2]) -> Self {
        let mut words = [[0; 8]; N];
        for ((word, hash), pad) in words.iter_mut().zip(hash).zip(pad) {
            *word = hash.wrapping_add(pad).to_be_bytes();
        }
        Self(Digest::from_bytes(words.as_flattened()).expect("no tag is longer than the longest"))
    }
}

impl AsRef<[u8]> for Tag {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(self.as_ref(), other.as_ref())
    }
}

impl Eq for Tag {}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({self})")
    }
}
