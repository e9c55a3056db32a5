//! Blocks, and the one interface between modes and instruction sets.

use super::round_keys::{ROUND_KEYS_MAX, RoundKeys};

/// Bytes in a block of AES.
pub const BLOCK: usize = 16;

/// A block.
pub(super) type Block = [u8; BLOCK];

/// Which byte goes to each place in [`BlockVector::word_everywhere`].
pub(super) const fn word_places(word: usize, bytes: usize) -> Block {
    let mut from = [0; BLOCK];
    let mut i = 0;
    while i < BLOCK {
        from[i] = (4 * word + (i + bytes) % 4) as u8;
        i += 1;
    }
    from
}

/// A register of one, two or four blocks.
///
/// A value exists only if the processor has the instruction set: its constructor demands this. So
/// the operations on values, and with them the cipher and its modes, are safe code.
///
/// Every function must be `#[inline(always)]`: the caller at the bottom of the stack is the only
/// one that has the `#[target_feature]`.
pub(super) trait BlockVector: Copy {
    /// Blocks in a register: 1, 2 or 4.
    const BLOCKS: usize;

    /// Whether a round's instruction adds a key before all else, rather than at the end.
    const KEY_FIRST: bool = false;

    /// Whether a round is few instructions, so that lanes have their rounds written out.
    const SHORT_ROUNDS: bool = true;

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

    /// The form of one key for all blocks that suits the register.
    type Keys<'k>: RoundKeys<Self>;

    /// # Safety
    ///
    /// The processor has the instruction set.
    unsafe fn keys(round_keys: &[Block; ROUND_KEYS_MAX]) -> Self::Keys<'_>;

    /// Reads `count` blocks, less than `BLOCKS`; the others are zeros.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, and `from` is readable for `count` blocks.
    #[inline(always)]
    unsafe fn load_part(from: *const Block, count: usize) -> Self {
        let mut blocks = [[0; BLOCK]; 4];
        // SAFETY: the caller's promise; a register has at most four blocks.
        unsafe {
            from.copy_to_nonoverlapping(blocks.as_mut_ptr(), count);
            Self::load(blocks.as_ptr())
        }
    }

    /// Writes the first `count` blocks, less than `BLOCKS`.
    ///
    /// # Safety
    ///
    /// `to` is writable for `count` blocks.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut Block, count: usize) {
        let mut blocks = [[0; BLOCK]; 4];
        // SAFETY: the caller's promise; a register has at most four blocks.
        unsafe {
            self.store(blocks.as_mut_ptr());
            to.copy_from_nonoverlapping(blocks.as_ptr(), count);
        }
    }

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

    /// Reads half of a chunk, which is four blocks, of each of `BLOCKS` messages, from
    /// `from[lane] + offset` bytes: element `i` of `columns` is to hold block `i` of each. Half 0
    /// and half 1
    /// together fill in all of it; which half does what is for the implementation to choose.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, `from` is readable for `BLOCKS` pointers, and each of
    /// these plus `offset` is readable for four blocks.
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
    /// `to` is readable for `BLOCKS` pointers, and each of these plus `offset` is writable for four
    /// blocks.
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

    /// Word `WORD` of the first block in all of its places, with its bytes moved down by `BYTES`,
    /// around the edge: RotWord for the expansion of keys.
    #[inline(always)]
    fn word_everywhere<const WORD: usize, const BYTES: usize>(self) -> Self {
        let block = self.first();
        let word = core::array::from_fn(|i| block[4 * WORD + (i + BYTES) % 4]);
        // SAFETY: a value of this type exists, so the processor has the instruction set.
        unsafe { Self::broadcast(&word) }
    }

    /// Adds to each word of the first block all words before it.
    #[inline(always)]
    fn running_sums(self) -> Self {
        let mut block = self.first();
        for i in 4..BLOCK {
            block[i] ^= block[i - 4];
        }
        // SAFETY: a value of this type exists, so the processor has the instruction set.
        unsafe { Self::broadcast(&block) }
    }

    /// All blocks one place further; in the first place comes the last block of `before`.
    fn delayed(self, before: Self) -> Self;

    /// The register's blocks as polynomials of GHASH.
    type Polynomials: Polynomials;

    /// The blocks, in order, as polynomials: one register, or several.
    fn polynomials(self) -> impl IntoIterator<Item = Self::Polynomials>;
}

/// One or more polynomials over GF(2) of degree less than 128 side by side, as GHASH needs them.
/// The first bit of a block is the coefficient of x⁰ and the highest bit of the number.
///
/// As with [`BlockVector`], a value exists only where the processor has the instruction set.
pub(super) trait Polynomials: Copy {
    /// Number of polynomials.
    const COUNT: usize;

    /// Reads `COUNT` polynomials.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set, and `from` is readable for `COUNT` numbers.
    unsafe fn read(from: *const u128) -> Self;

    /// This polynomial in the first place, zeros elsewhere.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set.
    unsafe fn single(polynomial: u128) -> Self;

    /// This polynomial in all places.
    ///
    /// # Safety
    ///
    /// The processor has the instruction set.
    unsafe fn everywhere(polynomial: u128) -> Self;

    /// Writes `COUNT` polynomials.
    ///
    /// # Safety
    ///
    /// `to` is writable for `COUNT` numbers.
    unsafe fn write(self, to: *mut u128);

    /// The polynomial in the first place.
    fn number(self) -> u128;

    /// The sum of all in the first place, zeros elsewhere.
    fn gathered(self) -> Self;

    /// Addition.
    fn plus(self, other: Self) -> Self;

    /// The two halves of each, exchanged.
    fn exchanged(self) -> Self;

    /// Products of halves: the half of `self` (0 the low one, 1 the high one) times that of
    /// `other`.
    fn times<const HALF: bool, const OTHER: bool>(self, other: Self) -> Self;
}
