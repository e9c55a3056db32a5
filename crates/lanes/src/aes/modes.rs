//! Modes in which the blocks of a message do not wait for each other: one message in all of the registers.

use super::block::BlockVector;
use super::cipher::{SameKey, decrypt, encrypt};
use super::key::Key;
use super::{BLOCK, Block};

/// What a mode does to blocks that follow each other.
pub(super) trait Mode<V: BlockVector> {
    /// Works on the next `N` registers of the message.
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N];
}

/// Each block by itself, encrypted.
pub(super) struct EcbEncrypt<V> {
    keys: SameKey<V>,
    rounds: usize,
}

impl<V: BlockVector> EcbEncrypt<V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &Key) -> Self {
        Self {
            // SAFETY: the caller's promise.
            keys: unsafe { SameKey::new(&key.encrypt.0) },
            rounds: key.rounds,
        }
    }
}

impl<V: BlockVector> Mode<V> for EcbEncrypt<V> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N] {
        encrypt(blocks, &self.keys, self.rounds)
    }
}

/// Each block by itself, decrypted.
pub(super) struct EcbDecrypt<V> {
    keys: SameKey<V>,
    rounds: usize,
}

impl<V: BlockVector> EcbDecrypt<V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &Key) -> Self {
        Self {
            // SAFETY: the caller's promise.
            keys: unsafe { SameKey::new(&key.decrypt.0) },
            rounds: key.rounds,
        }
    }
}

impl<V: BlockVector> Mode<V> for EcbDecrypt<V> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N] {
        decrypt(blocks, &self.keys, self.rounds)
    }
}

/// Decrypts, then adds the block of ciphertext before.
pub(super) struct CbcDecrypt<V> {
    ecb: EcbDecrypt<V>,
    /// Its last block is the one before the next.
    before: V,
}

impl<V: BlockVector> CbcDecrypt<V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &Key, iv: &Block) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                ecb: EcbDecrypt::new(key),
                before: V::broadcast(iv),
            }
        }
    }
}

impl<V: BlockVector> Mode<V> for CbcDecrypt<V> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N] {
        let mut plain = self.ecb.next(blocks);
        for (plain, cipher) in plain.iter_mut().zip(blocks) {
            *plain = plain.xor(cipher.delayed(self.before));
            self.before = cipher;
        }
        plain
    }
}

/// Adds encrypted numbers.
pub(super) struct Counter<V: BlockVector> {
    ecb: EcbEncrypt<V>,
    next: u128,
    /// From `next` on.
    numbers: V::Numbers,
}

impl<V: BlockVector> Counter<V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &Key, first: u128) -> Self {
        Self {
            // SAFETY: the caller's promise.
            ecb: unsafe { EcbEncrypt::new(key) },
            next: first,
            // SAFETY: the caller's promise.
            numbers: unsafe { V::numbers(first) },
        }
    }
}

impl<V: BlockVector> Mode<V> for Counter<V> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, mut blocks: [V; N]) -> [V; N] {
        let mut counters = blocks;
        let count = (N * V::BLOCKS) as u64;
        // Neither these numbers nor the ones after them.
        let reach = count + V::BLOCKS as u64;
        if (self.next as u64).checked_add(reach).is_some() {
            for (i, counter) in counters.iter_mut().enumerate() {
                *counter = V::counters(V::count_on(self.numbers, (i * V::BLOCKS) as u64));
            }
            self.next += u128::from(count);
            self.numbers = V::count_on(self.numbers, count);
        } else {
            for counter in &mut counters {
                *counter = V::counters(self.numbers);
                self.next = self.next.wrapping_add(V::BLOCKS as u128);
                // SAFETY: there are values of this type.
                self.numbers = unsafe { V::numbers(self.next) };
            }
        }
        let stream = self.ecb.next(counters);
        for (block, stream) in blocks.iter_mut().zip(stream) {
            *block = block.xor(stream);
        }
        blocks
    }
}

/// Puts a message through a mode: `N` registers at a time, then one, then what fills part of one.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn run<V: BlockVector, const N: usize>(mode: &mut impl Mode<V>, data: &mut [u8]) {
    let (blocks, rest) = data.as_chunks_mut::<BLOCK>();
    debug_assert!(rest.is_empty(), "whole blocks");

    let mut groups = blocks.chunks_exact_mut(N * V::BLOCKS);
    for group in &mut groups {
        // SAFETY: a group has N * BLOCKS blocks.
        unsafe { step::<V, N>(mode, group.as_mut_ptr()) };
    }
    let mut registers = groups.into_remainder().chunks_exact_mut(V::BLOCKS);
    for register in &mut registers {
        // SAFETY: a register has BLOCKS blocks.
        unsafe { step::<V, 1>(mode, register.as_mut_ptr()) };
    }
    let part = registers.into_remainder();
    if !part.is_empty() {
        let mut whole = [[0; BLOCK]; 4];
        whole[..part.len()].copy_from_slice(part);
        // SAFETY: a register has at most four blocks.
        unsafe { step::<V, 1>(mode, whole.as_mut_ptr()) };
        part.copy_from_slice(&whole[..part.len()]);
    }
}

/// # Safety
///
/// The processor has the instruction set, and `blocks` is readable and writable for `N * V::BLOCKS` blocks.
#[inline(always)]
unsafe fn step<V: BlockVector, const N: usize>(mode: &mut impl Mode<V>, blocks: *mut Block) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut registers = [V::load(blocks); N];
        for (i, register) in registers.iter_mut().enumerate() {
            *register = V::load(blocks.add(i * V::BLOCKS));
        }
        let registers = mode.next(registers);
        for (i, register) in registers.iter().enumerate() {
            register.store(blocks.add(i * V::BLOCKS));
        }
    }
}

/// CBC encryption of one message, in which each block waits for the one before: one lane of a register.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn chain<V: BlockVector>(key: &Key, iv: &mut Block, data: &mut [u8]) {
    let (blocks, _) = data.as_chunks_mut::<BLOCK>();
    // SAFETY: the caller's promise.
    let (keys, mut state) = unsafe { (SameKey::<V>::new(&key.encrypt.0), V::broadcast(iv)) };
    for block in blocks {
        // SAFETY: the caller's promise.
        state = state.xor(unsafe { V::broadcast(block) });
        [state] = encrypt([state], &keys, key.rounds);
        *block = state.first();
    }
    *iv = state.first();
}
