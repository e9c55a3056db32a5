//! The one interface between modes and instruction sets.

use super::{BLOCK, Block};

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

    /// The first block.
    #[inline(always)]
    fn first(self) -> Block {
        let mut blocks = [[0; BLOCK]; 4];
        // SAFETY: a register has at most four blocks.
        unsafe { self.store(blocks.as_mut_ptr()) };
        blocks[0]
    }

    /// The same block everywhere.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set.
    unsafe fn broadcast(block: &Block) -> Self;

    /// As many numbers as there are blocks, in a form that can be counted on.
    type Numbers: Copy;

    /// The numbers `first`, `first + 1`, ... modulo 2¹²⁸.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set.
    unsafe fn numbers(first: u128) -> Self::Numbers;

    /// The numbers, each `more` greater. No lower half of a number may overflow.
    fn count_on(numbers: Self::Numbers, more: u64) -> Self::Numbers;

    /// The numbers as big-endian blocks.
    fn counters(numbers: Self::Numbers) -> Self;

    /// Reads half of a chunk, which is four blocks, of each of `BLOCKS` messages, from `from[lane] + offset` bytes: element `i`
    /// of `columns` is to hold block `i` of each. Half 0 and half 1 together fill in all of it; which half does what is
    /// for the implementation to choose.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, `from` is readable for `BLOCKS` pointers, and each of these plus `offset` is
    /// readable for four blocks.
    unsafe fn load_columns(
        from: *const *mut Block,
        offset: usize,
        half: usize,
        columns: &mut [Self; 4],
    );

    /// The way back of [`load_columns`](Self::load_columns).
    ///
    /// # Safety
    ///
    /// `to` is readable for `BLOCKS` pointers, and each of these plus `offset` is writable for four blocks.
    unsafe fn store_columns(columns: &[Self; 4], to: *const *mut Block, offset: usize, half: usize);

    /// Bit by bit.
    fn xor(self, other: Self) -> Self;

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
