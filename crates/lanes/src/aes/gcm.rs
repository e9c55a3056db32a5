//! GCM: messages that are encrypted and authenticated.

use core::fmt;

use zeroize::Zeroize;

use super::backend::Backend;
use super::block::{BLOCK, Block};
use super::error::Error;
use super::in_out::InOut;
use super::key::{Key, erase};
use super::messages::ecb_encrypt;
use super::powers::Powers;

/// Bytes of a message that counters of 32 bits are enough for.
const DATA_BYTES_MAX: u64 = (1 << 36) - 32;
/// Bytes of additional data whose number of bits has 64 bits at most.
const AAD_BYTES_MAX: u64 = (1 << 61) - 1;

/// A key for [`Gcm`]: that of AES, and the powers of the hash key that follows from it. Overwritten
/// with zeros when dropped.
#[derive(Clone)]
pub struct GcmKey {
    key: Key,
    powers: Powers,
}

impl GcmKey {
    /// Expands a key of 16, 24 or 32 bytes.
    ///
    /// # Errors
    ///
    /// As [`Key::new`].
    ///
    /// # Panics
    ///
    /// As [`Key::new`].
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        Self::expanded(Backend::fastest(), bytes)
    }

    /// As [`new`](Self::new), for use with one backend. For tests and measurements.
    ///
    /// # Errors
    ///
    /// As [`Key::new_on`].
    pub fn new_on(backend: Backend, bytes: &[u8]) -> Result<Self, Error> {
        if !backend.is_available() {
            return Err(Error::Unavailable(backend));
        }
        Self::expanded(backend, bytes)
    }

    /// The backend is available.
    fn expanded(backend: Backend, bytes: &[u8]) -> Result<Self, Error> {
        let mut key = Self {
            key: Key::unset(backend),
            powers: Powers::default(),
        };
        key.set(bytes)?;
        Ok(key)
    }

    /// Becomes another key, in the same place.
    ///
    /// # Errors
    ///
    /// As [`Key::set`].
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.key.set_encrypting(bytes)?;
        let mut hash_key = [0; BLOCK];
        ecb_encrypt(&self.key, &mut hash_key)?;
        // SAFETY: a key's backend is available.
        unsafe { (self.key.kernels().powers)(&mut self.powers, &hash_key) };
        hash_key.zeroize();
        Ok(())
    }

    /// The key of AES.
    pub(super) fn cipher(&self) -> &Key {
        &self.key
    }

    /// Adds blocks to the hash.
    pub(super) fn hash(&self, sum: &mut u128, blocks: &[Block]) {
        // SAFETY: a key's backend is available.
        unsafe { (self.key.kernels().ghash)(&self.powers, sum, blocks) };
    }
}

impl fmt::Debug for GcmKey {
    /// No secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gcm{:?}", self.key)
    }
}

/// A message in GCM (NIST SP 800-38D), encrypted or decrypted piece by piece, in pieces of any
/// length: first the additional data, then the message, then the tag.
///
/// A plain value that can be cloned at any point; every call wants the key with which it began.
///
/// ```
/// use tabane_lanes::aes::{Gcm, GcmKey};
///
/// let key = GcmKey::new(&[7; 16])?;
/// let mut message = *b"attack at dawn";
/// let mut sealed = Gcm::new(&key, &[9; 12])?;
/// sealed.aad(&key, b"from: me")?;
/// sealed.encrypt(&key, &mut message)?;
///
/// let mut opened = Gcm::new(&key, &[9; 12])?;
/// opened.aad(&key, b"from: me")?;
/// opened.decrypt(&key, &mut message)?;
/// assert_eq!(&message, b"attack at dawn");
/// // Compare them in constant time, and use the message only if they are equal.
/// assert_eq!(opened.tag(&key), sealed.tag(&key));
/// # Ok::<(), tabane_lanes::aes::Error>(())
/// ```
#[derive(Clone)]
pub struct Gcm {
    /// The counter block of the next whole block.
    counter: u128,
    /// The encrypted first counter block, which is added to the hash.
    mask: Block,
    /// The hash of whole blocks.
    sum: u128,
    /// Additional data or ciphertext since the last whole block.
    begun: Block,
    /// The keystream of the block that was begun.
    stream: Block,
    aad_len: u64,
    data_len: u64,
}

impl Gcm {
    /// Begins a message. Never use an initialization vector twice with the same key. 12 bytes is
    /// the usual length.
    ///
    /// # Errors
    ///
    /// [`Error::IvLength`] if it is empty.
    pub fn new(key: &GcmKey, iv: &[u8]) -> Result<Self, Error> {
        let mut first = [0; BLOCK];
        if iv.is_empty() {
            return Err(Error::IvLength(0));
        } else if let Ok(iv) = <&[u8; 12]>::try_from(iv) {
            first[..12].copy_from_slice(iv);
            first[15] = 1;
        } else {
            let mut sum = 0;
            let (blocks, rest) = iv.as_chunks();
            key.hash(&mut sum, blocks);
            let mut last = [0; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            let bits = (8 * iv.len() as u128).to_be_bytes();
            if rest.is_empty() {
                key.hash(&mut sum, &[bits]);
            } else {
                key.hash(&mut sum, &[last, bits]);
            }
            first = sum.to_be_bytes();
        }
        let mut mask = first;
        ecb_encrypt(&key.key, &mut mask)?;
        Ok(Self {
            counter: next(u128::from_be_bytes(first), 1),
            mask,
            sum: 0,
            begun: [0; BLOCK],
            stream: [0; BLOCK],
            aad_len: 0,
            data_len: 0,
        })
    }

    /// Appends additional data, which are authenticated and not encrypted.
    ///
    /// # Errors
    ///
    /// [`Error::TooLong`] above 2⁶¹ − 1 bytes, and if the message has begun.
    pub fn aad(&mut self, key: &GcmKey, mut data: &[u8]) -> Result<(), Error> {
        let len = self.aad_len.checked_add(data.len() as u64);
        let len = len.filter(|&len| len <= AAD_BYTES_MAX && self.data_len == 0);
        let len = len.ok_or(Error::TooLong)?;
        let begun = self.aad_len as usize % BLOCK;
        self.aad_len = len;
        if begun > 0 {
            let (first, rest) = data.split_at(data.len().min(BLOCK - begun));
            self.begun[begun..begun + first.len()].copy_from_slice(first);
            if begun + first.len() < BLOCK {
                return Ok(());
            }
            key.hash(&mut self.sum, &[self.begun]);
            data = rest;
        }
        let (blocks, rest) = data.as_chunks();
        key.hash(&mut self.sum, blocks);
        self.begun[..rest.len()].copy_from_slice(rest);
        Ok(())
    }

    /// Encrypts the next bytes of the message.
    ///
    /// # Errors
    ///
    /// [`Error::TooLong`] above 2³⁶ − 32 bytes. Then nothing is encrypted.
    pub fn encrypt<'a>(&mut self, key: &GcmKey, data: impl Into<InOut<'a>>) -> Result<(), Error> {
        self.crypt::<true>(key, data.into())
    }

    /// Decrypts the next bytes of the message. The plaintext must not be used before the
    /// [`tag`](Self::tag) has proved right.
    ///
    /// # Errors
    ///
    /// As [`encrypt`](Self::encrypt).
    pub fn decrypt<'a>(&mut self, key: &GcmKey, data: impl Into<InOut<'a>>) -> Result<(), Error> {
        self.crypt::<false>(key, data.into())
    }

    /// The tag of the message so far.
    pub fn tag(&self, key: &GcmKey) -> [u8; BLOCK] {
        let mut sum = self.sum;
        let lengths = u128::from(8 * self.aad_len) << 64 | u128::from(8 * self.data_len);
        match self.begun() {
            0 => key.hash(&mut sum, &[lengths.to_be_bytes()]),
            begun => {
                let mut last = [0; BLOCK];
                last[..begun].copy_from_slice(&self.begun[..begun]);
                key.hash(&mut sum, &[last, lengths.to_be_bytes()]);
            }
        }
        (sum ^ u128::from_be_bytes(self.mask)).to_be_bytes()
    }

    /// Bytes of an incomplete block.
    fn begun(&self) -> usize {
        let len = if self.data_len == 0 {
            self.aad_len
        } else {
            self.data_len
        };
        len as usize % BLOCK
    }

    fn crypt<const ENCRYPT: bool>(&mut self, key: &GcmKey, data: InOut) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        let len = self.data_len.checked_add(data.len() as u64);
        let len = len
            .filter(|&len| len <= DATA_BYTES_MAX)
            .ok_or(Error::TooLong)?;
        let mut begun = self.begun();
        if self.data_len == 0 && begun > 0 {
            // The additional data end.
            self.begun[begun..].fill(0);
            key.hash(&mut self.sum, &[self.begun]);
            begun = 0;
        }
        self.data_len = len;

        let missing = data.len().min((BLOCK - begun) % BLOCK);
        let (first, data) = data.split_at(missing);
        self.crypt_begun::<ENCRYPT>(begun, first);
        if begun > 0 && begun + missing == BLOCK {
            key.hash(&mut self.sum, &[self.begun]);
        }

        let whole = data.len() / BLOCK * BLOCK;
        let (mut whole, rest) = data.split_at(whole);
        while !whole.is_empty() {
            // Position at which the last 32 bits of the counter wrap to 0.
            let end = ((1 << 32) - self.counter as u32 as u64) * BLOCK as u64;
            let end = end.min(whole.len() as u64) as usize;
            let (mut now, behind) = whole.split_at(end);
            whole = behind;
            self.crypt_blocks::<ENCRYPT>(key, &mut now);
        }

        if !rest.is_empty() {
            self.stream = self.counter.to_be_bytes();
            self.counter = next(self.counter, 1);
            ecb_encrypt(&key.key, &mut self.stream)?;
            self.crypt_begun::<ENCRYPT>(0, rest);
        }
        Ok(())
    }

    fn crypt_begun<const ENCRYPT: bool>(&mut self, mut at: usize, mut data: InOut) {
        data.map(|byte| {
            let result = byte ^ self.stream[at];
            self.begun[at] = if ENCRYPT { result } else { byte };
            at += 1;
            result
        });
    }

    fn crypt_blocks<const ENCRYPT: bool>(&mut self, key: &GcmKey, data: &mut InOut) {
        let kernels = key.key.kernels();
        let blocks = data.blocks();
        // SAFETY: a key's backend is available.
        unsafe {
            let crypt = if ENCRYPT {
                kernels.gcm_encrypt
            } else {
                kernels.gcm_decrypt
            };
            crypt(&key.key, &key.powers, self.counter, &mut self.sum, blocks);
        }
        self.counter = next(self.counter, blocks.count as u32);
    }
}

impl Drop for Gcm {
    fn drop(&mut self) {
        self.sum.zeroize();
        erase(core::slice::from_mut(&mut self.mask));
        erase(core::slice::from_mut(&mut self.stream));
    }
}

/// The counter block `more` further: only its last 32 bits count.
fn next(counter: u128, more: u32) -> u128 {
    let low = (counter as u32).wrapping_add(more);
    (counter >> 32 << 32) | u128::from(low)
}

impl fmt::Debug for Gcm {
    /// No secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gcm({} bytes)", self.data_len)
    }
}
