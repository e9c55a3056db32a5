//! AVX-512 (F, BW, VL): 16 lanes, two times 16 interleaved, and 8 for fewer messages. Rotates and three-operand
//! logic are one instruction each.

use core::arch::x86_64::*;

use crate::algorithm::Kernel;
use crate::arch::{Compress, compress_lanes};
use crate::vector::{LaneSet, Pair, Vector};

/// 16 lanes. A value exists only where the processor has AVX-512 F and BW.
#[derive(Clone, Copy)]
struct X16(__m512i);

/// 8 lanes. A value exists only where the processor has AVX-512 F, BW and VL.
#[derive(Clone, Copy)]
struct X8(__m256i);

impl Vector for X16 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn load(words: *const u32) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm512_loadu_si512(words.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, words: *mut u32) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { _mm512_storeu_si512(words.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_blocks<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
    ) -> [Self; 16] {
        // SAFETY: the caller promises AVX-512 and 64 readable bytes a lane.
        unsafe {
            let swap = _mm512_broadcast_i32x4(_mm_set_epi32(
                0x0c0d_0e0f,
                0x0809_0a0b,
                0x0405_0607,
                0x0001_0203,
            ));
            let mut rows = [_mm512_setzero_si512(); 16];
            for (lane, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_si512((*data.add(lane)).add(offset).cast());
                if BIG_ENDIAN {
                    *row = _mm512_shuffle_epi8(*row, swap);
                }
            }
            let words = transpose(rows);
            let mut block = [Self(words[0]); 16];
            for i in 1..16 {
                block[i] = Self(words[i]);
            }
            block
        }
    }

    operations! {
        fn add(other) = _mm512_add_epi32;
        fn and(other) = _mm512_and_si512;
        fn or(other) = _mm512_or_si512;
        fn xor(other) = _mm512_xor_si512;
        fn xor3(b, c) = _mm512_ternarylogic_epi32::<0x96>;
        fn choose(yes, no) = _mm512_ternarylogic_epi32::<0xca>;
        fn majority(b, c) = _mm512_ternarylogic_epi32::<0xe8>;
    }

    #[inline(always)]
    fn add_word(self, word: u32) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_add_epi32(self.0, _mm512_set1_epi32(word as i32))) }
    }

    #[inline(always)]
    fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        const { assert!(LEFT + RIGHT == 32) };
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_rol_epi32::<LEFT>(self.0)) }
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self) -> Self {
        // The immediate form wants a constant of another type; the compiler makes this one of it.
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_srl_epi32(self.0, _mm_cvtsi32_si128(BITS))) }
    }
}

/// Transposes 16 rows of 16 words: 64 shuffles.
///
/// # Safety
///
/// The processor has AVX-512 F.
#[inline(always)]
unsafe fn transpose(r: [__m512i; 16]) -> [__m512i; 16] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut words = r;
        // Pairs of rows, then fours: within each 128-bit part, word `4 * part + i` of rows `4 * q ..` is in [4 * q + i].
        for q in 0..4 {
            let low01 = _mm512_unpacklo_epi32(r[4 * q], r[4 * q + 1]);
            let low23 = _mm512_unpacklo_epi32(r[4 * q + 2], r[4 * q + 3]);
            let high01 = _mm512_unpackhi_epi32(r[4 * q], r[4 * q + 1]);
            let high23 = _mm512_unpackhi_epi32(r[4 * q + 2], r[4 * q + 3]);
            words[4 * q] = _mm512_unpacklo_epi64(low01, low23);
            words[4 * q + 1] = _mm512_unpackhi_epi64(low01, low23);
            words[4 * q + 2] = _mm512_unpacklo_epi64(high01, high23);
            words[4 * q + 3] = _mm512_unpackhi_epi64(high01, high23);
        }
        // Then the 128-bit parts.
        let mut out = words;
        for i in 0..4 {
            let even01 = _mm512_shuffle_i32x4::<0x88>(words[i], words[4 + i]);
            let even23 = _mm512_shuffle_i32x4::<0x88>(words[8 + i], words[12 + i]);
            let odd01 = _mm512_shuffle_i32x4::<0xdd>(words[i], words[4 + i]);
            let odd23 = _mm512_shuffle_i32x4::<0xdd>(words[8 + i], words[12 + i]);
            out[i] = _mm512_shuffle_i32x4::<0x88>(even01, even23);
            out[4 + i] = _mm512_shuffle_i32x4::<0x88>(odd01, odd23);
            out[8 + i] = _mm512_shuffle_i32x4::<0xdd>(even01, even23);
            out[12 + i] = _mm512_shuffle_i32x4::<0xdd>(odd01, odd23);
        }
        out
    }
}

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
        // SAFETY: the caller promises AVX-512, which includes AVX2, and 64 readable bytes a lane.
        unsafe {
            let words = super::avx2::load_blocks::<BIG_ENDIAN>(data, offset);
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
        fn xor3(b, c) = _mm256_ternarylogic_epi32::<0x96>;
        fn choose(yes, no) = _mm256_ternarylogic_epi32::<0xca>;
        fn majority(b, c) = _mm256_ternarylogic_epi32::<0xe8>;
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
        unsafe { Self(_mm256_rol_epi32::<LEFT>(self.0)) }
    }

    #[inline(always)]
    fn shift_right<const BITS: i32>(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_srli_epi32::<BITS>(self.0)) }
    }
}

pub(crate) fn engines<K: Kernel>() -> Vec<(usize, Compress)> {
    vec![
        (X8::LANES, compress_8::<K> as Compress),
        (X16::LANES, compress_16::<K>),
        (Pair::<X16>::LANES, compress_32::<K>),
    ]
}

/// # Safety
///
/// As [`Compress`]; the instruction set is AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn compress_8<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress_lanes::<K, X8>(set, blocks) }
}

/// # Safety
///
/// As [`Compress`]; the instruction set is AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn compress_16<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress_lanes::<K, X16>(set, blocks) }
}

/// # Safety
///
/// As [`Compress`]; the instruction set is AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn compress_32<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress_lanes::<K, Pair<X16>>(set, blocks) }
}
