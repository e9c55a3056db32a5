//! The AES instructions on one block a register.

use core::arch::x86_64::*;

use super::kernels;
use crate::aes::Block;
use crate::aes::block::BlockVector;

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
    fn delayed(self, before: Self) -> Self {
        before
    }
}

kernels! {
    #[target_feature(enable = "aes,sse4.1")]
    single: X1;
    one: X1, 8;
    many: X1, 2; X1, 4; X1, 8;
}
