//! The one interface between modes and instruction sets.

use super::Block;

/// A register of one, two or four blocks.
///
/// A value exists only where the processor has the instruction set: whoever makes one promises that. So the
/// operations on values, and with them the cipher and its modes, are safe code.
///
/// Every function must be `#[inline(always)]`: the caller at the bottom of the stack is the only one that has the
/// `#[target_feature]`.
pub(super) trait BlockVector: Copy {
    /// How many blocks are in a register. At most 4.
    const BLOCKS: usize;

    /// Reads `BLOCKS` blocks, one after the other.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, and `from` is readable for `BLOCKS` blocks.
    unsafe fn load(from: *const Block) -> Self;

    /// Writes `BLOCKS` blocks, one after the other.
    ///
    /// # Safety
    ///
    /// `to` is writable for `BLOCKS` blocks.
    unsafe fn store(self, to: *mut Block);

    /// The same block everywhere.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set.
    unsafe fn broadcast(block: &Block) -> Self;

    /// The numbers `first`, `first + 1`, ... modulo 2¹²⁸, as big-endian blocks.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set.
    unsafe fn counters(first: u128) -> Self;

    /// Reads the block at `from[i] + offset` bytes for each `i < BLOCKS`.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, `from` is readable for `BLOCKS` pointers, and each of these plus
    /// `offset` is readable for a block.
    unsafe fn gather(from: *const *mut Block, offset: usize) -> Self;

    /// Writes the blocks to `to[i] + offset` bytes for each `i < BLOCKS`.
    ///
    /// # Safety
    ///
    /// `to` is readable for `BLOCKS` pointers, and each of these plus `offset` is writable for a block.
    unsafe fn scatter(self, to: *const *mut Block, offset: usize);

    /// Bit by bit.
    fn xor(self, other: Self) -> Self;

    /// `self ^ b ^ c`.
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }

    /// SubBytes, ShiftRows, MixColumns, AddRoundKey.
    fn encrypt_round(self, key: Self) -> Self;
    /// SubBytes, ShiftRows, AddRoundKey.
    fn encrypt_last(self, key: Self) -> Self;
    /// InvShiftRows, InvSubBytes, InvMixColumns, AddRoundKey: the equivalent inverse cipher.
    fn decrypt_round(self, key: Self) -> Self;
    /// InvShiftRows, InvSubBytes, AddRoundKey.
    fn decrypt_last(self, key: Self) -> Self;

    /// All blocks one place further; in the first place comes the last block of `before`.
    fn delayed(self, before: Self) -> Self;
}
