//! AVX-512 (F, BW, VL): 16 lanes of 32 bits or 8 of 64, several registers of them interleaved, and
//! half a register for fewer messages. Rotates and three-operand logic are one instruction each.

use core::arch::x86_64::*;

use super::{avx2, pin_256, pin_512, reverse};
use crate::compress::{Compress, compress_lanes};
use crate::kernel::Kernel;
use crate::registers::Registers;
use crate::vector::{LaneSet, Several, Vector, ask_ahead};

/// Rotation by one instruction. Shifts take their count from a register: the immediate form wants a
/// constant of another type, and the compiler makes that one of it.
macro_rules! rotate {
    ($rotate:ident, $shift:ident) => {
        const TERNARY: bool = true;

        #[inline(always)]
        fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
            const { assert!(LEFT + RIGHT == 8 * size_of::<Self::Word>() as i32) };
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self($rotate::<LEFT>(self.0)) }
        }

        #[inline(always)]
        fn shift_right<const BITS: i32>(self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self($shift(self.0, _mm_cvtsi32_si128(BITS))) }
        }
    };
}

register! {
    /// 16 lanes. A value exists only where the processor has AVX-512 F and BW.
    X16(__m512i) = [u32; 16];
    pin pin_512, load _mm512_loadu_si512, store _mm512_storeu_si512, splat _mm512_set1_epi32 as i32;
    fn add(other) = _mm512_add_epi32;
    fn and(other) = _mm512_and_si512;
    fn or(other) = _mm512_or_si512;
    fn xor(other) = _mm512_xor_si512;
    fn xor3(b, c) = _mm512_ternarylogic_epi32::<0x96>;
    fn choose(yes, no) = _mm512_ternarylogic_epi32::<0xca>;
    fn majority(b, c) = _mm512_ternarylogic_epi32::<0xe8>;
    fn xor_or_not(b, c) = _mm512_ternarylogic_epi32::<0x2d>;
    {
        and_not!(_mm512_andnot_si512);
        rotate!(_mm512_rol_epi32, _mm512_srl_epi32);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises AVX-512 and 64 readable bytes a lane.
            unsafe {
                let mut rows = [_mm512_setzero_si512(); 16];
                for (lane, row) in rows.iter_mut().enumerate() {
                    *row = line::<BIG_ENDIAN, 4>((*data.add(lane)).add(offset));
                }
                wrap!(block, transpose_16(rows));
            }
        }
    }
}

register! {
    /// 8 lanes of 32 bits. A value exists only where the processor has AVX-512 F, BW and VL.
    X8(__m256i) = [u32; 8];
    pin pin_256, load _mm256_loadu_si256, store _mm256_storeu_si256, splat _mm256_set1_epi32 as i32;
    fn add(other) = _mm256_add_epi32;
    fn and(other) = _mm256_and_si256;
    fn or(other) = _mm256_or_si256;
    fn xor(other) = _mm256_xor_si256;
    fn xor3(b, c) = _mm256_ternarylogic_epi32::<0x96>;
    fn choose(yes, no) = _mm256_ternarylogic_epi32::<0xca>;
    fn majority(b, c) = _mm256_ternarylogic_epi32::<0xe8>;
    fn xor_or_not(b, c) = _mm256_ternarylogic_epi32::<0x2d>;
    {
        and_not!(_mm256_andnot_si256);
        rotate!(_mm256_rol_epi32, _mm256_srl_epi32);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises AVX-512, which includes AVX2, and 64 readable bytes a
            // lane.
            unsafe { wrap!(block, avx2::load_block_8::<BIG_ENDIAN>(data, offset)) }
        }
    }
}

register! {
    /// 8 lanes of 64 bits. A value exists only where the processor has AVX-512 F and BW.
    Y8(__m512i) = [u64; 8];
    pin pin_512, load _mm512_loadu_si512, store _mm512_storeu_si512, splat _mm512_set1_epi64 as i64;
    fn add(other) = _mm512_add_epi64;
    fn and(other) = _mm512_and_si512;
    fn or(other) = _mm512_or_si512;
    fn xor(other) = _mm512_xor_si512;
    fn xor3(b, c) = _mm512_ternarylogic_epi64::<0x96>;
    fn choose(yes, no) = _mm512_ternarylogic_epi64::<0xca>;
    fn majority(b, c) = _mm512_ternarylogic_epi64::<0xe8>;
    fn xor_or_not(b, c) = _mm512_ternarylogic_epi64::<0x2d>;
    {
        and_not!(_mm512_andnot_si512);
        rotate!(_mm512_rol_epi64, _mm512_srl_epi64);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises AVX-512 and 128 readable bytes a lane.
            unsafe {
                for half in 0..2 {
                    let mut rows = [_mm512_setzero_si512(); 8];
                    for (lane, row) in rows.iter_mut().enumerate() {
                        *row = line::<BIG_ENDIAN, 8>((*data.add(lane)).add(offset + 64 * half));
                    }
                    let words = transpose_8(rows);
                    for word in 0..8 {
                        block[8 * half + word] = Self(words[word]);
                    }
                }
            }
        }
    }
}

register! {
    /// 4 lanes of 64 bits. A value exists only where the processor has AVX-512 F, BW and VL.
    Y4(__m256i) = [u64; 4];
    pin pin_256, load _mm256_loadu_si256, store _mm256_storeu_si256,
        splat _mm256_set1_epi64x as i64;
    fn add(other) = _mm256_add_epi64;
    fn and(other) = _mm256_and_si256;
    fn or(other) = _mm256_or_si256;
    fn xor(other) = _mm256_xor_si256;
    fn xor3(b, c) = _mm256_ternarylogic_epi64::<0x96>;
    fn choose(yes, no) = _mm256_ternarylogic_epi64::<0xca>;
    fn majority(b, c) = _mm256_ternarylogic_epi64::<0xe8>;
    fn xor_or_not(b, c) = _mm256_ternarylogic_epi64::<0x2d>;
    {
        and_not!(_mm256_andnot_si256);
        rotate!(_mm256_rol_epi64, _mm256_srl_epi64);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: the caller promises AVX-512, which includes AVX2, and 128 readable bytes a
            // lane.
            unsafe { wrap!(block, avx2::load_block_4::<BIG_ENDIAN>(data, offset)) }
        }
    }
}

/// 64 bytes, each word of `BYTES` bytes reversed if `BIG_ENDIAN`.
///
/// # Safety
///
/// The processor has AVX-512 F and BW, and `data` is readable for 64 bytes.
#[inline(always)]
unsafe fn line<const BIG_ENDIAN: bool, const BYTES: usize>(data: *const u8) -> __m512i {
    // SAFETY: the caller promises the instruction set and 64 readable bytes.
    unsafe {
        ask_ahead(data);
        let line = _mm512_loadu_si512(data.cast());
        if BIG_ENDIAN {
            _mm512_shuffle_epi8(line, _mm512_broadcast_i32x4(reverse::<BYTES>()))
        } else {
            line
        }
    }
}

/// Transposes 16 rows of 16 words of 32 bits: 64 shuffles.
///
/// # Safety
///
/// The processor has AVX-512 F.
#[inline(always)]
unsafe fn transpose_16(r: [__m512i; 16]) -> [__m512i; 16] {
    // SAFETY: the caller promises the instruction set; all is in registers.
    unsafe {
        let mut words = r;
        // Pairs of rows, then fours: within each 128-bit part, word `4 * part + i` of rows `4 * q
        // ..` is in [4 * q + i].
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
        let mut out = words;
        for i in 0..4 {
            let parts = transpose_parts([words[i], words[4 + i], words[8 + i], words[12 + i]]);
            for part in 0..4 {
                out[4 * part + i] = parts[part];
            }
        }
        out
    }
}

/// Transposes 8 rows of 8 words of 64 bits: 24 shuffles.
///
/// # Safety
///
/// The processor has AVX-512 F.
#[inline(always)]
unsafe fn transpose_8(r: [__m512i; 8]) -> [__m512i; 8] {
    // SAFETY: the caller promises the instruction set; all is in registers.
    unsafe {
        let mut words = r;
        for i in 0..2 {
            let mut pairs = [r[0]; 4];
            for (pair, words) in pairs.iter_mut().enumerate() {
                let (even, odd) = (r[2 * pair], r[2 * pair + 1]);
                *words = if i == 0 {
                    _mm512_unpacklo_epi64(even, odd)
                } else {
                    _mm512_unpackhi_epi64(even, odd)
                };
            }
            let parts = transpose_parts(pairs);
            for part in 0..4 {
                words[2 * part + i] = parts[part];
            }
        }
        words
    }
}

/// Transposes 4 rows of 4 parts of 128 bits: 8 shuffles.
///
/// # Safety
///
/// The processor has AVX-512 F.
#[inline(always)]
unsafe fn transpose_parts(r: [__m512i; 4]) -> [__m512i; 4] {
    // SAFETY: the caller promises the instruction set; all is in registers.
    unsafe {
        let even01 = _mm512_shuffle_i32x4::<0x88>(r[0], r[1]);
        let even23 = _mm512_shuffle_i32x4::<0x88>(r[2], r[3]);
        let odd01 = _mm512_shuffle_i32x4::<0xdd>(r[0], r[1]);
        let odd23 = _mm512_shuffle_i32x4::<0xdd>(r[2], r[3]);
        [
            _mm512_shuffle_i32x4::<0x88>(even01, even23),
            _mm512_shuffle_i32x4::<0x88>(odd01, odd23),
            _mm512_shuffle_i32x4::<0xdd>(even01, even23),
            _mm512_shuffle_i32x4::<0xdd>(odd01, odd23),
        ]
    }
}

pub(crate) fn lane_kernels<K: Kernel>() -> Vec<(usize, Compress)> {
    let full = <K::Word as Registers>::Avx512::LANES;
    let mut lane_kernels = vec![(full / 2, half::<K> as Compress), (full, several::<K, 1>)];
    if const { K::PAIRED } {
        lane_kernels.push((2 * full, several::<K, 2>));
    }
    if const { K::SHORT } {
        lane_kernels.push((<K::Word as Registers>::Sse41::LANES, quarter::<K>));
        lane_kernels.push((3 * full, several::<K, 3>));
        lane_kernels.push((4 * full, several::<K, 4>));
    }
    lane_kernels
}

/// The registers of SSE4.1: of what they do in several steps the compiler makes rotates and
/// three-operand logic.
///
/// # Safety
///
/// As [`Compress`]; the instruction set is AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn quarter<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress_lanes::<K, <K::Word as Registers>::Sse41>(set, blocks) }
}

/// # Safety
///
/// As [`Compress`]; the instruction set is AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn half<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress_lanes::<K, <K::Word as Registers>::Avx512Half>(set, blocks) }
}

/// `N` registers interleaved.
///
/// # Safety
///
/// As [`Compress`]; the instruction set is AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn several<K: Kernel, const N: usize>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress_lanes::<K, Several<<K::Word as Registers>::Avx512, N>>(set, blocks) }
}
