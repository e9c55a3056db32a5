//! Keys and their expansion.

use core::fmt;

use zeroize::Zeroize;

use super::arch::Kernels;
use super::block::BlockVector;
use super::cipher::MAX_ROUND_KEYS;
use super::{BLOCK, Backend, Block, Error};

/// The round keys of one direction, in the order of use.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct RoundKeyBlocks(pub(super) [Block; MAX_ROUND_KEYS]);

/// An expanded key of AES-128, AES-192 or AES-256. Overwritten with zeros when dropped.
#[derive(Clone)]
pub struct Key {
    pub(super) encrypt: RoundKeyBlocks,
    pub(super) decrypt: RoundKeyBlocks,
    /// 10, 12 or 14.
    pub(super) rounds: usize,
    /// Available: `new_on` is the only way to a key.
    backend: Backend,
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
        Self::new_on(Backend::fastest(), bytes)
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
        if !matches!(bytes.len(), 16 | 24 | 32) {
            return Err(Error::KeyLength(bytes.len()));
        }
        let mut key = Key {
            encrypt: RoundKeyBlocks([[0; BLOCK]; MAX_ROUND_KEYS]),
            decrypt: RoundKeyBlocks([[0; BLOCK]; MAX_ROUND_KEYS]),
            rounds: bytes.len() / 4 + 6,
            backend,
        };
        // SAFETY: the backend is available.
        unsafe { (key.kernels().expand)(&mut key, bytes) };
        Ok(key)
    }

    /// The backend that works with this key.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// 128, 192 or 256.
    pub fn bits(&self) -> usize {
        32 * (self.rounds - 6)
    }

    #[inline]
    pub(super) fn kernels(&self) -> &'static Kernels {
        self.backend.kernels()
    }
}

impl fmt::Debug for Key {
    /// No secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(AES-{}, {})", self.bits(), self.backend)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        erase(&mut self.encrypt.0);
        erase(&mut self.decrypt.0);
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
    let words = key.encrypt.0.as_flattened_mut();
    words[..bytes.len()].copy_from_slice(bytes);
    let mut round_constant = 1_u8;
    for at in (bytes.len()..BLOCK * (key.rounds + 1)).step_by(4) {
        let mut word = [words[at - 4], words[at - 3], words[at - 2], words[at - 1]];
        if at % bytes.len() == 0 {
            word.rotate_left(1);
            // SAFETY: the caller's promise.
            word = unsafe { substitute::<V>(word) };
            word[0] ^= round_constant;
            round_constant = (round_constant << 1) ^ ((round_constant >> 7) * 0x1b);
        } else if bytes.len() == 32 && at % bytes.len() == 16 {
            // SAFETY: the caller's promise.
            word = unsafe { substitute::<V>(word) };
        }
        for (i, byte) in word.into_iter().enumerate() {
            words[at + i] = words[at + i - bytes.len()] ^ byte;
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

/// SubWord.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
unsafe fn substitute<V: BlockVector>(word: [u8; 4]) -> [u8; 4] {
    let mut column = [0; BLOCK];
    for part in column.chunks_exact_mut(4) {
        part.copy_from_slice(&word);
    }
    // SAFETY: the caller's promise.
    let column = unsafe { V::broadcast(&column).encrypt_last(V::broadcast(&[0; BLOCK])) }.first();
    // The four columns were equal, so that ShiftRows has changed nothing.
    [column[0], column[1], column[2], column[3]]
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
