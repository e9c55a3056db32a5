//! AVX2: 8 lanes of 32 bits, or 4 of 64.

use core::arch::x86_64::*;

use super::{pin_256, reverse};
use crate::compress::{Compress, compress_lanes};
use crate::kernel::Kernel;
use crate::registers::Registers;
use crate::vector::{LaneSet, Several, Vector, ask_ahead};

register! {
    /// 8 lanes. A value exists only where the processor has AVX2.
    X8(__m256i) = [u32; 8];
    pin pin_256, load _mm256_loadu_si256, store _mm256_storeu_si256, splat _mm256_set1_epi32 as i32;
    fn add(other) = _mm256_add_epi32;
    fn and(other) = _mm256_and_si256;
    fn or(other) = _mm256_or_si256;
    fn xor(other) = _mm256_xor_si256;
    {
        and_not!(_mm256_andnot_si256);
        rotate_by_shifts!(_mm256_slli_epi32, _mm256_srli_epi32, _mm256_or_si256);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises AVX2 and 64 readable bytes a lane.
            unsafe { wrap!(block, load_block_8::<BIG_ENDIAN>(data, offset)) }
        }
    }
}

register! {
    /// 4 lanes. A value exists only where the processor has AVX2.
    Y4(__m256i) = [u64; 4];
    pin pin_256, load _mm256_loadu_si256, store _mm256_storeu_si256,
        splat _mm256_set1_epi64x as i64;
    fn add(other) = _mm256_add_epi64;
    fn and(other) = _mm256_and_si256;
    fn or(other) = _mm256_or_si256;
    fn xor(other) = _mm256_xor_si256;
    {
        and_not!(_mm256_andnot_si256);
        rotate_by_shifts!(_mm256_slli_epi64, _mm256_srli_epi64, _mm256_or_si256);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises AVX2 and 128 readable bytes a lane.
            unsafe { wrap!(block, load_block_4::<BIG_ENDIAN>(data, offset)) }
        }
    }
}

/// Bytes `at ..` of two messages, the one in the lower half.
///
/// # Safety
///
/// The processor has AVX2, and both are readable for 16 bytes.
#[inline(always)]
unsafe fn halves<const BIG_ENDIAN: bool, const BYTES: usize>(
    low: *const u8,
    high: *const u8,
) -> __m256i {
    // SAFETY: the caller promises the instruction set and 16 readable bytes behind each pointer.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
        let both = _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.cast()));
        if BIG_ENDIAN {
            _mm256_shuffle_epi8(both, _mm256_broadcastsi128_si256(reverse::<BYTES>()))
        } else {
            both
        }
    }
}

/// The transposing load of 8 lanes of 16 words of 32 bits: lanes 0–3 in the registers' lower
/// halves, 4–7 in the upper.
///
/// # Safety
///
/// As [`Vector::load_block`] with 8 lanes; the instruction set is AVX2.
#[inline(always)]
pub(super) unsafe fn load_block_8<const BIG_ENDIAN: bool>(
    data: *const *const u8,
    offset: usize,
) -> [__m256i; 16] {
    // SAFETY: the caller promises AVX2 and 64 readable bytes a lane.
    unsafe {
        let mut block = [_mm256_setzero_si256(); 16];
        for quarter in 0..4 {
            let at = offset + 16 * quarter;
            let mut rows = [_mm256_setzero_si256(); 4];
            for (lane, row) in rows.iter_mut().enumerate() {
                let (low, high) = (*data.add(lane), *data.add(lane + 4));
                if quarter == 0 {
                    ask_ahead(low.add(at));
                    ask_ahead(high.add(at));
                }
                *row = halves::<BIG_ENDIAN, 4>(low.add(at), high.add(at));
            }
            let low01 = _mm256_unpacklo_epi32(rows[0], rows[1]);
            let low23 = _mm256_unpacklo_epi32(rows[2], rows[3]);
            let high01 = _mm256_unpackhi_epi32(rows[0], rows[1]);
            let high23 = _mm256_unpackhi_epi32(rows[2], rows[3]);
            block[4 * quarter] = _mm256_unpacklo_epi64(low01, low23);
            block[4 * quarter + 1] = _mm256_unpackhi_epi64(low01, low23);
            block[4 * quarter + 2] = _mm256_unpacklo_epi64(high01, high23);
            block[4 * quarter + 3] = _mm256_unpackhi_epi64(high01, high23);
        }
        block
    }
}

/// The transposing load of 4 lanes of 16 words of 64 bits: lanes 0 and 1 in the registers' lower
/// halves, 2 and 3 in the upper.
///
/// # Safety
///
/// As [`Vector::load_block`] with 4 lanes; the instruction set is AVX2.
#[inline(always)]
pub(super) unsafe fn load_block_4<const BIG_ENDIAN: bool>(
    data: *const *const u8,
    offset: usize,
) -> [__m256i; 16] {
    // SAFETY: the caller promises AVX2 and 128 readable bytes a lane.
    unsafe {
        let mut block = [_mm256_setzero_si256(); 16];
        for eighth in 0..8 {
            let at = offset + 16 * eighth;
            if eighth % 4 == 0 {
                for lane in 0..4 {
                    ask_ahead((*data.add(lane)).add(at));
                }
            }
            let row0 = halves::<BIG_ENDIAN, 8>((*data).add(at), (*data.add(2)).add(at));
            let row1 = halves::<BIG_ENDIAN, 8>((*data.add(1)).add(at), (*data.add(3)).add(at));
            block[2 * eighth] = _mm256_unpacklo_epi64(row0, row1);
            block[2 * eighth + 1] = _mm256_unpackhi_epi64(row0, row1);
        }
        block
    }
}

pub(crate) fn lane_kernels<K: Kernel>() -> Vec<(usize, Compress)> {
    let full = <K::Word as Registers>::Avx2::LANES;
    let mut lane_kernels = vec![(full, several::<K, 1> as Compress)];
    if const { K::SHORT } {
        lane_kernels.push((2 * full, several::<K, 2>));
        lane_kernels.push((3 * full, several::<K, 3>));
    }
    lane_kernels
}

/// `N` registers interleaved.
///
/// # Safety
///
/// As [`Compress`]; the instruction set is AVX2.
#[target_feature(enable = "avx2")]
unsafe fn several<K: Kernel, const N: usize>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress_lanes::<K, Several<<K::Word as Registers>::Avx2, N>>(set, blocks) }
}
