//! VAES with AVX-512 (F, BW, VL): four blocks a register.

use core::arch::x86_64::*;

use super::aesni::X1;
use super::kernels;
use crate::aes::Block;
use crate::aes::block::BlockVector;

/// Four blocks. A value exists only where the processor has VAES and AVX-512 F, BW and VL.
#[derive(Clone, Copy)]
pub(super) struct X4(__m512i);

impl BlockVector for X4 {
    const BLOCKS: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const Block) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Block) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(block: &Block) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe {
            Self(_mm512_broadcast_i32x4(_mm_loadu_si128(
                block.as_ptr().cast(),
            )))
        }
    }

    #[inline(always)]
    unsafe fn counters(first: u128) -> Self {
        let (high, low) = ((first >> 64) as u64, first as u64);
        if low > u64::MAX - 3 {
            let numbers = [0, 1, 2, 3].map(|i| first.wrapping_add(i).to_be_bytes());
            // SAFETY: the caller's promise.
            return unsafe { Self::load(numbers.as_ptr()) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            let steps = _mm512_set_epi64(3, 0, 2, 0, 1, 0, 0, 0);
            let reversed = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0));
            let high = _mm512_set1_epi64(high.swap_bytes() as i64);
            let low = _mm512_add_epi64(_mm512_set1_epi64(low as i64), steps);
            Self(_mm512_mask_shuffle_epi8(
                high,
                0xff00_ff00_ff00_ff00,
                low,
                reversed,
            ))
        }
    }

    #[inline(always)]
    unsafe fn gather(from: *const *mut Block, offset: usize) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe {
            let block = |i| _mm_loadu_si128((*from.add(i)).byte_add(offset).cast());
            let blocks = _mm512_castsi128_si512(block(0));
            let blocks = _mm512_mask_broadcast_i32x4(blocks, 0x00f0, block(1));
            let blocks = _mm512_mask_broadcast_i32x4(blocks, 0x0f00, block(2));
            Self(_mm512_mask_broadcast_i32x4(blocks, 0xf000, block(3)))
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: *const *mut Block, offset: usize) {
        // SAFETY: the caller's promise; unaligned.
        unsafe {
            let to = |i| (*to.add(i)).byte_add(offset).cast();
            _mm_storeu_si128(to(0), _mm512_castsi512_si128(self.0));
            _mm_storeu_si128(to(1), _mm512_extracti32x4_epi32::<1>(self.0));
            _mm_storeu_si128(to(2), _mm512_extracti32x4_epi32::<2>(self.0));
            _mm_storeu_si128(to(3), _mm512_extracti32x4_epi32::<3>(self.0));
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_ternarylogic_epi32::<0x96>(self.0, b.0, c.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_aesenc_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_aesenclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_aesdec_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_aesdeclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn delayed(self, before: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_alignr_epi64::<6>(self.0, before.0)) }
    }
}

kernels! {
    #[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl")]
    one: X4, 8;
    many: X1, 1; X4, 1; X4, 2; X4, 4; X4, 8; X4, 12;
}
