//! The AES instructions on one block a register.

use core::arch::x86_64::*;

use super::kernels;
use crate::aes::block::{BlockVector, Polynomials};
use crate::aes::cipher::{KeyInPlace, MAX_ROUND_KEYS};
use crate::aes::{BLOCK, Block};

/// One block. A value exists only where the processor has AES-NI and SSE4.1.
#[derive(Clone, Copy)]
pub(super) struct X1(pub(super) __m128i);

impl BlockVector for X1 {
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const Block) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Block) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(block: &Block) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::load(block) }
    }

    type Keys<'k> = KeyInPlace<'k>;

    #[inline(always)]
    unsafe fn keys(round_keys: &[Block; MAX_ROUND_KEYS]) -> KeyInPlace<'_> {
        KeyInPlace::new(round_keys)
    }

    /// A little-endian block.
    type Numbers = Self;

    #[inline(always)]
    unsafe fn numbers(first: u128) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::load(&first.to_le_bytes()) }
    }

    #[inline(always)]
    fn count_on(numbers: Self, more: u64) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_add_epi64(numbers.0, _mm_set_epi64x(0, more as i64))) }
    }

    #[inline(always)]
    fn counters(numbers: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            let reverse = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
            Self(_mm_shuffle_epi8(numbers.0, reverse))
        }
    }

    #[inline(always)]
    unsafe fn load_columns(
        from: *const *mut Block,
        offset: usize,
        half: usize,
        columns: &mut [Self; 4],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let from = (*from).byte_add(offset);
            for i in [2 * half, 2 * half + 1] {
                columns[i] = Self::load(from.add(i));
            }
        }
    }

    #[inline(always)]
    unsafe fn store_columns(
        columns: &[Self; 4],
        to: *const *mut Block,
        offset: usize,
        half: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let to = (*to).byte_add(offset);
            for i in [2 * half, 2 * half + 1] {
                columns[i].store(to.add(i));
            }
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_xor_si128(self.0, other.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_aesenc_si128(self.0, key.0)) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_aesenclast_si128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_aesdec_si128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_aesdeclast_si128(self.0, key.0)) }
    }

    #[inline(always)]
    fn word_everywhere<const WORD: usize, const BYTES: usize>(self) -> Self {
        let from = const {
            let mut from = [0; BLOCK];
            let mut i = 0;
            while i < BLOCK {
                from[i] = (4 * WORD + (i + BYTES) % 4) as u8;
                i += 1;
            }
            from
        };
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_shuffle_epi8(self.0, Self::load(&from).0)) }
    }

    #[inline(always)]
    fn running_sums(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            let two = _mm_xor_si128(self.0, _mm_slli_si128::<4>(self.0));
            Self(_mm_xor_si128(two, _mm_slli_si128::<8>(two)))
        }
    }

    #[inline(always)]
    fn delayed(self, before: Self) -> Self {
        before
    }

    type Polynomials = Self;

    #[inline(always)]
    fn polynomials(self) -> impl IntoIterator<Item = Self> {
        // The same bytes the other way round.
        [Self::counters(self)]
    }
}

impl Polynomials for X1 {
    const COUNT: usize = 1;

    #[inline(always)]
    unsafe fn read(from: *const u128) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn single(polynomial: u128) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self(_mm_loadu_si128((&raw const polynomial).cast())) }
    }

    #[inline(always)]
    unsafe fn everywhere(polynomial: u128) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::single(polynomial) }
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut u128) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { self.store(to.cast()) }
    }

    #[inline(always)]
    fn number(self) -> u128 {
        u128::from_le_bytes(self.first())
    }

    #[inline(always)]
    fn gathered(self) -> Self {
        self
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.xor(other)
    }

    #[inline(always)]
    fn exchanged(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_shuffle_epi32::<0x4e>(self.0)) }
    }

    #[inline(always)]
    fn times<const HALF: bool, const OTHER: bool>(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            Self(match (HALF, OTHER) {
                (false, false) => _mm_clmulepi64_si128::<0x00>(a, b),
                (true, false) => _mm_clmulepi64_si128::<0x01>(a, b),
                (false, true) => _mm_clmulepi64_si128::<0x10>(a, b),
                (true, true) => _mm_clmulepi64_si128::<0x11>(a, b),
            })
        }
    }
}

kernels! {
    #[target_feature(enable = "aes,pclmulqdq,sse4.1")]
    backend: AesNi;
    single: X1;
    one: X1, 8;
    many: X1, 2; X1, 4; X1, 8;
}
