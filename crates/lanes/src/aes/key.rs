//! Keys and their expansion.

use core::fmt;

use zeroize::Zeroize;

use super::arch::Kernels;
use super::block::BlockVector;
use super::cipher::MAX_ROUND_KEYS;
use super::{BLOCK, Backend, Block, Error};

/// The round keys of one direction, in the order of use. None of them straddles two cache lines.
#[derive(Clone)]
#[repr(align(16))]
pub(super) struct RoundKeyBlocks(pub(super) [Block; MAX_ROUND_KEYS]);

/// An expanded key of AES-128, AES-192 or AES-256. Overwritten with zeros when dropped.
#[derive(Clone)]
pub struct Key {
    pub(super) encrypt: RoundKeyBlocks,
    pub(super) decrypt: RoundKeyBlocks,
    /// 10, 12 or 14.
    pub(super) rounds: usize,
    /// Of a backend that is available: there is no other way to a key.
    kernels: &'static Kernels,
}

impl Key {
    /// Expands a key of 16, 24 or 32 bytes, for use with [`Backend::fastest`].
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`] for any other length.
    ///
    /// # Panics
    ///
    /// If the environment variable `TABANE_SIMD` is wrong: see [`crate::Backend::forced`].
    pub fn new(bytes: &[u8]) -> Result<Key, Error> {
        Self::expanded(Backend::fastest(), bytes)
    }

    /// As [`new`](Self::new), for use with one backend, whatever `TABANE_SIMD` says. For tests and measurements.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the processor lacks the backend, and as [`new`](Self::new).
    pub fn new_on(backend: Backend, bytes: &[u8]) -> Result<Key, Error> {
        if !backend.is_available() {
            return Err(Error::Unavailable(backend));
        }
        Self::expanded(backend, bytes)
    }

    /// The backend is available.
    fn expanded(backend: Backend, bytes: &[u8]) -> Result<Key, Error> {
        let mut key = Key {
            encrypt: RoundKeyBlocks([[0; BLOCK]; MAX_ROUND_KEYS]),
            decrypt: RoundKeyBlocks([[0; BLOCK]; MAX_ROUND_KEYS]),
            rounds: 0,
            kernels: backend.kernels(),
        };
        key.set(bytes)?;
        Ok(key)
    }

    /// Becomes another key, in the same place: for many keys one after the other this is the fastest.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`] unless there are 16, 24 or 32 bytes. Then it stays the same.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !matches!(bytes.len(), 16 | 24 | 32) {
            return Err(Error::KeyLength(bytes.len()));
        }
        let rounds = bytes.len() / 4 + 6;
        if rounds < self.rounds {
            // Round keys of the longer key would remain.
            self.erase();
        }
        self.rounds = rounds;
        // SAFETY: the backend is available.
        unsafe { (self.kernels.expand)(self, bytes) };
        Ok(())
    }

    fn erase(&mut self) {
        erase(&mut self.encrypt.0);
        erase(&mut self.decrypt.0);
    }

    /// The backend that works with this key.
    pub fn backend(&self) -> Backend {
        self.kernels.backend
    }

    /// 128, 192 or 256.
    pub fn bits(&self) -> usize {
        32 * (self.rounds - 6)
    }

    /// The key that was expanded. It is secret.
    pub fn as_bytes(&self) -> &[u8] {
        // FIPS 197, 5.2: the expanded key begins with the key.
        &self.encrypt.0.as_flattened()[..self.bits() / 8]
    }

    #[inline]
    pub(super) fn kernels(&self) -> &'static Kernels {
        self.kernels
    }
}

impl fmt::Debug for Key {
    /// No secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(AES-{}, {})", self.bits(), self.backend())
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.erase();
    }
}

/// Overwrites with zeros, and is not optimised away.
pub(super) fn erase(blocks: &mut [Block]) {
    // SAFETY: any bytes are a number. (By bytes, which cannot be joined, it would take as long as a message.)
    let (start, numbers, end) = unsafe { blocks.as_flattened_mut().align_to_mut::<u128>() };
    start.zeroize();
    numbers.zeroize();
    end.zeroize();
}

/// FIPS 197, 5.2, and 5.3.5 for the equivalent inverse cipher.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn expand<V: BlockVector>(key: &mut Key, bytes: &[u8]) {
    let to = key.encrypt.0.as_flattened_mut();
    let to = &mut to[..BLOCK * (key.rounds + 1)];
    // SAFETY: the caller's promise.
    unsafe {
        match bytes.len() {
            16 => expand_words::<V, 4>(to, bytes),
            24 => expand_words::<V, 6>(to, bytes),
            _ => expand_words::<V, 8>(to, bytes),
        }
    }

    key.decrypt.0[0] = key.encrypt.0[key.rounds];
    key.decrypt.0[key.rounds] = key.encrypt.0[0];
    for round in 1..key.rounds {
        // SAFETY: the caller's promise.
        key.decrypt.0[round] =
            unsafe { inverse_mix_columns::<V>(&key.encrypt.0[key.rounds - round]) };
    }
}

/// A key of `N` words. They are held as they lie in memory, the first byte lowest.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
unsafe fn expand_words<V: BlockVector, const N: usize>(to: &mut [u8], key: &[u8]) {
    let mut words = [0_u32; N];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut round_constant = 1_u8;
    for place in to.as_chunks_mut().0.chunks_mut(N) {
        for (bytes, word) in place.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        // SAFETY: the caller's promise.
        let last = unsafe { substitute::<V>(words[N - 1].rotate_right(8)) };
        words[0] ^= last ^ u32::from(round_constant);
        round_constant = (round_constant << 1) ^ ((round_constant >> 7) * 0x1b);
        for i in 1..N {
            let before = words[i - 1];
            words[i] ^= if N == 8 && i == 4 {
                // SAFETY: the caller's promise.
                unsafe { substitute::<V>(before) }
            } else {
                before
            };
        }
    }
}

/// SubWord.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
unsafe fn substitute<V: BlockVector>(word: u32) -> u32 {
    // Four equal columns, so that ShiftRows changes nothing.
    let columns = (u128::from(word) * 0x0000_0001_0000_0001_0000_0001_0000_0001).to_ne_bytes();
    // SAFETY: the caller's promise.
    let columns = unsafe { V::broadcast(&columns).encrypt_last(V::broadcast(&[0; BLOCK])) };
    u128::from_ne_bytes(columns.first()) as u32
}

/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
unsafe fn inverse_mix_columns<V: BlockVector>(block: &Block) -> Block {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::broadcast(&[0; BLOCK]);
        // The second step undoes the first and does InvMixColumns.
        V::broadcast(block)
            .encrypt_last(zero)
            .decrypt_round(zero)
            .first()
    }
}
