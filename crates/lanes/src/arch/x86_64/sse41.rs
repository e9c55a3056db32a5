//! SSE4.1: 4 lanes.

use core::arch::x86_64::*;

use crate::algorithm::Kernel;
use crate::arch::{Compress, compress_lanes};
use crate::vector::{LaneSet, Vector};

/// 4 lanes. A value exists only where the processor has SSE4.1.
#[derive(Clone, Copy)]
struct X4(__m128i);

impl Vector for X4 {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load(words: *const u32) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm_loadu_si128(words.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, words: *mut u32) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { _mm_storeu_si128(words.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_blocks<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
    ) -> [Self; 16] {
        // SAFETY: the caller promises SSE4.1 and 64 readable bytes a lane.
        unsafe {
            let swap = _mm_set_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203);
            let mut block = [Self(_mm_setzero_si128()); 16];
            for quarter in 0..4 {
                let mut rows = [_mm_setzero_si128(); 4];
                for (lane, row) in rows.iter_mut().enumerate() {
                    *row = _mm_loadu_si128((*data.add(lane)).add(offset + 16 * quarter).cast());
                    if BIG_ENDIAN {
                        *row = _mm_shuffle_epi8(*row, swap);
                    }
                }
                let low01 = _mm_unpacklo_epi32(rows[0], rows[1]);
                let low23 = _mm_unpacklo_epi32(rows[2], rows[3]);
                let high01 = _mm_unpackhi_epi32(rows[0], rows[1]);
                let high23 = _mm_unpackhi_epi32(rows[2], rows[3]);
                block[4 * quarter] = Self(_mm_unpacklo_epi64(low01, low23));
                block[4 * quarter + 1] = Self(_mm_unpackhi_epi64(low01, low23));
                block[4 * quarter + 2] = Self(_mm_unpacklo_epi64(high01, high23));
                block[4 * quarter + 3] = Self(_mm_unpackhi_epi64(high01, high23));
            }
            block
        }
    }

    operations! {
        fn add(other) = _mm_add_epi32;
        fn and(other) = _mm_and_si128;
        fn or(other) = _mm_or_si128;
        fn xor(other) = _mm_xor_si128;
    }

    #[inline(always)]
    fn add_word(self, word: u32) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_add_epi32(self.0, _mm_set1_epi32(word as i32))) }
    }

    #[inline(always)]
    fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        const { assert!(LEFT + RIGHT == 32) };
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            Self(_mm_or_si128(
                _mm_slli_epi32::<LEFT>(self.0),
                _mm_srli_epi32::<RIGHT>(self.0),
            ))
        }
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm_srli_epi32::<BITS>(self.0)) }
    }
}

pub(crate) fn engines<K: Kernel>() -> Vec<(usize, Compress)> {
    vec![(X4::LANES, compress::<K> as Compress)]
}

/// # Safety
///
/// As [`Compress`]; the instruction set is SSE4.1.
#[target_feature(enable = "sse4.1")]
unsafe fn compress<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress_lanes::<K, X4>(set, blocks) }
}
