//! Modes in which the blocks of a message do not wait for each other: one message in all of the
//! registers.

use super::block::{Block, BlockVector};
use super::cipher::{decrypt, encrypt};
use super::in_out::Blocks;
use super::key::Key;

/// A mode's operation on consecutive blocks.
pub(super) trait Mode<V: BlockVector> {
    /// Works on the next `N` registers of the message.
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N];

    /// Works on the last register of the message, of which only the first `_count` blocks belong to
    /// it.
    #[inline(always)]
    fn last(&mut self, blocks: V, _count: usize) -> V {
        let [blocks] = self.next([blocks]);
        blocks
    }
}

/// Each block by itself, encrypted.
pub(super) struct EcbEncrypt<'k, V: BlockVector> {
    keys: V::Keys<'k>,
    rounds: usize,
}

impl<'k, V: BlockVector> EcbEncrypt<'k, V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &'k Key) -> Self {
        Self {
            // SAFETY: the caller's promise.
            keys: unsafe { V::keys(&key.encrypt.0) },
            rounds: key.rounds,
        }
    }
}

impl<V: BlockVector> Mode<V> for EcbEncrypt<'_, V> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N] {
        encrypt(blocks, &self.keys, self.rounds)
    }
}

/// Each block by itself, decrypted.
pub(super) struct EcbDecrypt<'k, V: BlockVector> {
    keys: V::Keys<'k>,
    rounds: usize,
}

impl<'k, V: BlockVector> EcbDecrypt<'k, V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &'k Key) -> Self {
        Self {
            // SAFETY: the caller's promise.
            keys: unsafe { V::keys(&key.decrypt.0) },
            rounds: key.rounds,
        }
    }
}

impl<V: BlockVector> Mode<V> for EcbDecrypt<'_, V> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N] {
        decrypt(blocks, &self.keys, self.rounds)
    }
}

/// Decrypts, then adds the block of ciphertext before.
pub(super) struct CbcDecrypt<'k, V: BlockVector> {
    ecb: EcbDecrypt<'k, V>,
    /// Ciphertext in front of the next blocks: the last block counts.
    before: V,
}

impl<'k, V: BlockVector> CbcDecrypt<'k, V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &'k Key, iv: &Block) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                ecb: EcbDecrypt::new(key),
                before: V::broadcast(iv),
            }
        }
    }
}

impl<V: BlockVector> Mode<V> for CbcDecrypt<'_, V> {
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
pub(super) struct Counter<'k, V: BlockVector> {
    ecb: EcbEncrypt<'k, V>,
    next: u128,
    /// From `next` on.
    numbers: V::Numbers,
}

impl<'k, V: BlockVector> Counter<'k, V> {
    /// # Safety
    ///
    /// The processor has the instruction set.
    #[inline(always)]
    pub(super) unsafe fn new(key: &'k Key, first: u128) -> Self {
        Self {
            // SAFETY: the caller's promise.
            ecb: unsafe { EcbEncrypt::new(key) },
            next: first,
            // SAFETY: the caller's promise.
            numbers: unsafe { V::numbers(first) },
        }
    }
}

impl<V: BlockVector> Mode<V> for Counter<'_, V> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, mut blocks: [V; N]) -> [V; N] {
        let mut counters = blocks;
        let count = (N * V::BLOCKS) as u64;
        // The low 64 bits overflow neither in these numbers nor in those loaded next.
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
                // SAFETY: a value of this type exists, so the processor has the instruction set.
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
pub(super) unsafe fn run<V: BlockVector, const N: usize>(mode: &mut impl Mode<V>, data: Blocks) {
    let Blocks {
        mut from,
        mut to,
        count: mut left,
    } = data;
    // SAFETY: the caller's promise of readable and writable blocks; only the remaining ones are
    // read and written.
    unsafe {
        while left >= N * V::BLOCKS {
            step::<V, N>(mode, from, to);
            (from, to) = (from.add(N * V::BLOCKS), to.add(N * V::BLOCKS));
            left -= N * V::BLOCKS;
        }
        while left >= V::BLOCKS {
            step::<V, 1>(mode, from, to);
            (from, to) = (from.add(V::BLOCKS), to.add(V::BLOCKS));
            left -= V::BLOCKS;
        }
        if left > 0 {
            let register = mode.last(V::load_part(from, left), left);
            register.store_part(to, left);
        }
    }
}

/// The most blocks for [`run_few`].
pub(super) const FEW_BLOCKS_MAX: usize = 8;

/// As [`run`] with at most [`FEW_BLOCKS_MAX`] blocks: all at once, without a loop. With so few
/// blocks, wider registers save nothing, and a program that works repeatedly in one place would
/// stall on reading its own narrower writes.
///
/// # Safety
///
/// As [`run`].
#[inline(always)]
pub(super) unsafe fn run_few<V: BlockVector>(mode: &mut impl Mode<V>, data: Blocks) {
    // SAFETY: the caller's promise.
    unsafe {
        match data.count {
            0 | 1 => run::<V, 1>(mode, data),
            2 => run::<V, 2>(mode, data),
            3 => run::<V, 3>(mode, data),
            4 => run::<V, 4>(mode, data),
            5 => run::<V, 5>(mode, data),
            6 => run::<V, 6>(mode, data),
            7 => run::<V, 7>(mode, data),
            _ => run::<V, FEW_BLOCKS_MAX>(mode, data),
        }
    }
}

/// # Safety
///
/// The processor has the instruction set, `from` is readable and `to` writable for `N * V::BLOCKS`
/// blocks.
#[inline(always)]
unsafe fn step<V: BlockVector, const N: usize>(
    mode: &mut impl Mode<V>,
    from: *const Block,
    to: *mut Block,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut registers = [V::load(from); N];
        for (i, register) in registers.iter_mut().enumerate() {
            *register = V::load(from.add(i * V::BLOCKS));
        }
        let registers = mode.next(registers);
        for (i, register) in registers.iter().enumerate() {
            register.store(to.add(i * V::BLOCKS));
        }
    }
}

/// CBC encryption of one message, in which each block waits for the one before: one lane of a
/// register.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn chain<V: BlockVector>(key: &Key, iv: &mut Block, data: Blocks) {
    // SAFETY: the caller's promise; within the blocks.
    unsafe {
        let keys = V::keys(&key.encrypt.0);
        let mut state = V::broadcast(iv);
        for i in 0..data.count {
            state = state.xor(V::broadcast(&*data.from.add(i)));
            [state] = encrypt([state], &keys, key.rounds);
            data.to.add(i).write(state.first());
        }
        *iv = state.first();
    }
}
