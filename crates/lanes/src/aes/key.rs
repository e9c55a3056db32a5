//! Keys and their expansion.

use core::fmt;

use zeroize::Zeroize;

use super::backend::Backend;
use super::block::{BLOCK, Block, BlockVector};
use super::error::Error;
use super::kernels::Kernels;
use super::round_keys::ROUND_KEYS_MAX;

/// The round keys of one direction, in the order of use. None of them straddles two cache lines.
#[derive(Clone)]
#[repr(align(16))]
pub(super) struct RoundKeyBlocks(pub(super) [Block; ROUND_KEYS_MAX]);

/// An expanded key of AES-128, AES-192 or AES-256. Overwritten with zeros when dropped.
#[derive(Clone)]
pub struct Key {
    pub(super) encrypt: RoundKeyBlocks,
    pub(super) decrypt: RoundKeyBlocks,
    /// 10, 12 or 14.
    pub(super) rounds: usize,
    /// Kernels of an available backend: constructors check this.
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

    /// As [`new`](Self::new), for use with one backend, whatever `TABANE_SIMD` says. For tests and
    /// measurements.
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
        let mut key = Self::unset(backend);
        key.set(bytes)?;
        Ok(key)
    }

    /// No key yet. The backend is available.
    pub(super) fn unset(backend: Backend) -> Key {
        Key {
            encrypt: RoundKeyBlocks([[0; BLOCK]; ROUND_KEYS_MAX]),
            decrypt: RoundKeyBlocks([[0; BLOCK]; ROUND_KEYS_MAX]),
            rounds: 0,
            kernels: backend.kernels(),
        }
    }

    /// Replaces the key in place, the fastest way to use many keys in turn.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`] unless there are 16, 24 or 32 bytes. The key is unchanged then.
    pub fn set(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.set_encrypting(bytes)?;
        // SAFETY: the backend is available.
        unsafe { (self.kernels.invert)(self) };
        Ok(())
    }

    /// As [`set`](Self::set), for modes that never decrypt a block: the other half of the round
    /// keys stays as it was.
    pub(super) fn set_encrypting(&mut self, bytes: &[u8]) -> Result<(), Error> {
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

    /// The key before expansion. It is secret.
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
    // SAFETY: any bytes are a number. (By bytes, which cannot be joined, it would take as long as a
    // message.)
    let (start, numbers, end) = unsafe { blocks.as_flattened_mut().align_to_mut::<u128>() };
    start.zeroize();
    numbers.zeroize();
    end.zeroize();
}

/// The round keys of encryption: FIPS 197, 5.2.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn expand<V: BlockVector>(key: &mut Key, bytes: &[u8]) {
    let to = &mut key.encrypt.0[..=key.rounds];
    // SAFETY: the caller's promise.
    unsafe {
        match bytes.len() {
            16 => expand_words::<V, 4>(to, bytes),
            24 => expand_words::<V, 6>(to, bytes),
            _ => expand_words::<V, 8>(to, bytes),
        }
    }
}

/// Computes the round keys of the equivalent inverse cipher: FIPS 197, 5.3.5.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn invert<V: BlockVector>(key: &mut Key) {
    key.decrypt.0[0] = key.encrypt.0[key.rounds];
    key.decrypt.0[key.rounds] = key.encrypt.0[0];
    for round in 1..key.rounds {
        // SAFETY: the caller's promise.
        key.decrypt.0[round] =
            unsafe { inverse_mix_columns::<V>(&key.encrypt.0[key.rounds - round]) };
    }
}

/// Rcon, in the first byte of every word.
const ROUND_CONSTANTS: [Block; 10] = {
    let mut blocks = [[0; BLOCK]; 10];
    let mut constant = 1_u8;
    let mut i = 0;
    while i < 40 {
        blocks[i / 4][i % 4 * 4] = constant;
        if i % 4 == 3 {
            constant = (constant << 1) ^ ((constant >> 7) * 0x1b);
        }
        i += 1;
    }
    blocks
};

/// A key of `N` words: 4, 6 or 8. The first four of `N` words are in one register and the others in
/// a second one, so that a step takes little longer than SubWord.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
unsafe fn expand_words<V: BlockVector, const N: usize>(to: &mut [Block], key: &[u8]) {
    to.as_flattened_mut()[..4 * N].copy_from_slice(key);
    // A register may have several blocks, and of these the first counts.
    // SAFETY: the caller's promise.
    let (mut low, mut high, zero) = unsafe {
        (
            V::broadcast(&to[0]),
            V::broadcast(&to[1]),
            V::broadcast(&[0; BLOCK]),
        )
    };
    let (words, _) = to.as_flattened_mut().as_chunks_mut::<4>();
    for (place, constant) in (N..words.len()).step_by(N).zip(&ROUND_CONSTANTS) {
        let last = match N {
            4 => low.word_everywhere::<3, 1>(),
            6 => high.word_everywhere::<1, 1>(),
            _ => high.word_everywhere::<3, 1>(),
        };
        // SAFETY: the caller's promise. In a register of equal columns, ShiftRows changes nothing.
        let last = last.encrypt_last(unsafe { V::broadcast(constant) });
        low = low.running_sums().xor(last);
        words[place..place + 4]
            .as_flattened_mut()
            .copy_from_slice(&low.first());
        if N > 4 && place + 4 < words.len() {
            let last = low.word_everywhere::<3, 0>();
            let last = if N == 8 {
                last.encrypt_last(zero)
            } else {
                last
            };
            high = high.running_sums().xor(last);
            // Of which the next words replace what is no word of the key.
            words[place + 4..place + 8]
                .as_flattened_mut()
                .copy_from_slice(&high.first());
        }
    }
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
