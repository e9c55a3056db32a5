//! AVX2: 8 lanes.

use core::arch::x86_64::*;

use crate::algorithm::Kernel;
use crate::arch::{Compress, compress_lanes};
use crate::vector::{LaneSet, Vector};

/// 8 lanes. A value exists only where the processor has AVX2.
#[derive(Clone, Copy)]
struct X8(__m256i);

impl Vector for X8 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn load(words: *const u32) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm256_loadu_si256(words.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, words: *mut u32) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { _mm256_storeu_si256(words.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_blocks<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
    ) -> [Self; 16] {
        // SAFETY: the caller promises AVX2 and 64 readable bytes a lane.
        unsafe {
            let words = load_blocks::<BIG_ENDIAN>(data, offset);
            let mut block = [Self(words[0]); 16];
            for i in 1..16 {
                block[i] = Self(words[i]);
            }
            block
        }
    }

    operations! {
        fn add(other) = _mm256_add_epi32;
        fn and(other) = _mm256_and_si256;
        fn or(other) = _mm256_or_si256;
        fn xor(other) = _mm256_xor_si256;
    }

    #[inline(always)]
    fn add_word(self, word: u32) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_add_epi32(self.0, _mm256_set1_epi32(word as i32))) }
    }

    #[inline(always)]
    fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        const { assert!(LEFT + RIGHT == 32) };
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            Self(_mm256_or_si256(
                _mm256_slli_epi32::<LEFT>(self.0),
                _mm256_srli_epi32::<RIGHT>(self.0),
            ))
        }
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_srli_epi32::<BITS>(self.0)) }
    }
}

/// The transposing load of 8 lanes: lanes 0–3 in the registers' lower halves, 4–7 in the upper.
///
/// # Safety
///
/// As [`Vector::load_blocks`] with 8 lanes; the instruction set is AVX2.
#[inline(always)]
pub(super) unsafe fn load_blocks<const BIG_ENDIAN: bool>(
    data: *const *const u8,
    offset: usize,
) -> [__m256i; 16] {
    // SAFETY: the caller promises AVX2 and 64 readable bytes a lane.
    unsafe {
        let swap = _mm256_broadcastsi128_si256(_mm_set_epi32(
            0x0c0d_0e0f,
            0x0809_0a0b,
            0x0405_0607,
            0x0001_0203,
        ));
        let mut block = [_mm256_setzero_si256(); 16];
        for quarter in 0..4 {
            let mut rows = [_mm256_setzero_si256(); 4];
            for (lane, row) in rows.iter_mut().enumerate() {
                let low = _mm_loadu_si128((*data.add(lane)).add(offset + 16 * quarter).cast());
                let high = _mm_loadu_si128((*data.add(lane + 4)).add(offset + 16 * quarter).cast());
                *row = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                if BIG_ENDIAN {
                    *row = _mm256_shuffle_epi8(*row, swap);
                }
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

pub(crate) fn engines<K: Kernel>() -> Vec<(usize, Compress)> {
    vec![(X8::LANES, compress::<K> as Compress)]
}

/// # Safety
///
/// As [`Compress`]; the instruction set is AVX2.
#[target_feature(enable = "avx2")]
unsafe fn compress<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress_lanes::<K, X8>(set, blocks) }
}
