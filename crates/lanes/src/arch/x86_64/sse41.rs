//! SSE4.1: 4 lanes of 32 bits, or 2 of 64.

use core::arch::x86_64::*;

use super::{pin_128, reverse};
use crate::compress::{Compress, compress_lanes};
use crate::kernel::Kernel;
use crate::registers::Registers;
use crate::vector::{LaneSet, Vector};

register! {
    /// 4 lanes. A value exists only where the processor has SSE4.1.
    X4(__m128i) = [u32; 4];
    pin pin_128, load _mm_loadu_si128, store _mm_storeu_si128, splat _mm_set1_epi32 as i32;
    fn add(other) = _mm_add_epi32;
    fn and(other) = _mm_and_si128;
    fn or(other) = _mm_or_si128;
    fn xor(other) = _mm_xor_si128;
    {
        and_not!(_mm_andnot_si128);
        rotate_by_shifts!(_mm_slli_epi32, _mm_srli_epi32, _mm_or_si128);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises SSE4.1 and 64 readable bytes a lane.
            unsafe {
                for quarter in 0..4 {
                    let mut rows = [_mm_setzero_si128(); 4];
                    for (lane, row) in rows.iter_mut().enumerate() {
                        *row = _mm_loadu_si128((*data.add(lane)).add(offset + 16 * quarter).cast());
                        if BIG_ENDIAN {
                            *row = _mm_shuffle_epi8(*row, reverse::<4>());
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
            }
        }
    }
}

register! {
    /// 2 lanes. A value exists only where the processor has SSE4.1.
    Y2(__m128i) = [u64; 2];
    pin pin_128, load _mm_loadu_si128, store _mm_storeu_si128, splat _mm_set1_epi64x as i64;
    fn add(other) = _mm_add_epi64;
    fn and(other) = _mm_and_si128;
    fn or(other) = _mm_or_si128;
    fn xor(other) = _mm_xor_si128;
    {
        and_not!(_mm_andnot_si128);
        rotate_by_shifts!(_mm_slli_epi64, _mm_srli_epi64, _mm_or_si128);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises SSE4.1 and 128 readable bytes a lane.
            unsafe {
                for eighth in 0..8 {
                    let mut rows = [_mm_setzero_si128(); 2];
                    for (lane, row) in rows.iter_mut().enumerate() {
                        *row = _mm_loadu_si128((*data.add(lane)).add(offset + 16 * eighth).cast());
                        if BIG_ENDIAN {
                            *row = _mm_shuffle_epi8(*row, reverse::<8>());
                        }
                    }
                    block[2 * eighth] = Self(_mm_unpacklo_epi64(rows[0], rows[1]));
                    block[2 * eighth + 1] = Self(_mm_unpackhi_epi64(rows[0], rows[1]));
                }
            }
        }
    }
}

pub(crate) fn lane_kernels<K: Kernel>() -> Vec<(usize, Compress)> {
    vec![(
        <K::Word as Registers>::Sse41::LANES,
        compress::<K> as Compress,
    )]
}

/// # Safety
///
/// As [`Compress`]; the instruction set is SSE4.1.
#[target_feature(enable = "sse4.1")]
unsafe fn compress<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress_lanes::<K, <K::Word as Registers>::Sse41>(set, blocks) }
}
