//! The rounds of AES on several registers at once, and where they find their keys.

use super::block::{Block, BlockVector};
use super::round_keys::{ROUND_KEYS_MAX, RoundKeys};

/// A key for all blocks, loaded into registers.
pub(super) struct SameKey<V>([V; ROUND_KEYS_MAX]);

impl<V: BlockVector> SameKey<V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(round_keys: &[Block; ROUND_KEYS_MAX]) -> Self {
        // SAFETY: the caller's promise.
        let mut keys = unsafe { [V::broadcast(&round_keys[0]); ROUND_KEYS_MAX] };
        for (key, block) in keys.iter_mut().zip(round_keys).skip(1) {
            // SAFETY: the caller's promise.
            *key = unsafe { V::broadcast(block) };
        }
        Self(keys)
    }
}

impl<V: BlockVector> RoundKeys<V> for SameKey<V> {
    #[inline(always)]
    fn get(&self, round: usize, _register: usize) -> V {
        self.0[round]
    }
}

/// A key for all blocks, read from memory as needed: without preparation, short messages are quick.
pub(super) struct KeyInPlace<'k>(&'k [Block; ROUND_KEYS_MAX]);

impl<'k> KeyInPlace<'k> {
    pub(super) fn new(round_keys: &'k [Block; ROUND_KEYS_MAX]) -> Self {
        Self(round_keys)
    }
}

impl<V: BlockVector> RoundKeys<V> for KeyInPlace<'_> {
    #[inline(always)]
    fn get(&self, round: usize, _register: usize) -> V {
        debug_assert!(round < ROUND_KEYS_MAX);
        // SAFETY: keys are added to values of this type, so the processor has the instruction set.
        // A key has at most 14 rounds.
        unsafe { V::broadcast(self.0.get_unchecked(round)) }
    }
}

/// Encrypts blocks.
#[inline(always)]
pub(super) fn encrypt<V: BlockVector, const N: usize>(
    mut blocks: [V; N],
    keys: &impl RoundKeys<V>,
    rounds: usize,
) -> [V; N] {
    if V::KEY_FIRST {
        for round in 0..rounds - 1 {
            for (i, block) in blocks.iter_mut().enumerate() {
                let zero = block.xor(*block);
                *block = block.xor(keys.get(round, i)).encrypt_round(zero);
            }
        }
        for (i, block) in blocks.iter_mut().enumerate() {
            let keyed = block.xor(keys.get(rounds - 1, i));
            *block = keyed.encrypt_last(keys.get(rounds, i));
        }
        return blocks;
    }
    for (i, block) in blocks.iter_mut().enumerate() {
        *block = block.xor(keys.get(0, i));
    }
    for round in 1..rounds {
        for (i, block) in blocks.iter_mut().enumerate() {
            *block = block.encrypt_round(keys.get(round, i));
        }
    }
    for (i, block) in blocks.iter_mut().enumerate() {
        *block = block.encrypt_last(keys.get(rounds, i));
    }
    blocks
}

/// Decrypts blocks, with the keys of the equivalent inverse cipher.
#[inline(always)]
pub(super) fn decrypt<V: BlockVector, const N: usize>(
    mut blocks: [V; N],
    keys: &impl RoundKeys<V>,
    rounds: usize,
) -> [V; N] {
    if V::KEY_FIRST {
        for round in 0..rounds - 1 {
            for (i, block) in blocks.iter_mut().enumerate() {
                let zero = block.xor(*block);
                *block = block.xor(keys.get(round, i)).decrypt_round(zero);
            }
        }
        for (i, block) in blocks.iter_mut().enumerate() {
            let keyed = block.xor(keys.get(rounds - 1, i));
            *block = keyed.decrypt_last(keys.get(rounds, i));
        }
        return blocks;
    }
    for (i, block) in blocks.iter_mut().enumerate() {
        *block = block.xor(keys.get(0, i));
    }
    for round in 1..rounds {
        for (i, block) in blocks.iter_mut().enumerate() {
            *block = block.decrypt_round(keys.get(round, i));
        }
    }
    for (i, block) in blocks.iter_mut().enumerate() {
        *block = block.decrypt_last(keys.get(rounds, i));
    }
    blocks
}
