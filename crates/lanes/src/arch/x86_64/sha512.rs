//! SHA-512 of one message: the message schedule in vectors of two words, the steps in ordinary
//! registers.
//!
//! The two run on different units of a processor. With AVX2 come BMI1 and BMI2, whose rotations
//! leave their operand as it is; with AVX-512 the compiler makes one rotation of two shifts.

use core::arch::x86_64::*;

use super::reverse;
use crate::algorithm::Algorithm;
use crate::algorithm::sha2::{K512, round};
use crate::backend::Backend;
use crate::compress::{Compress, CompressOne};
use crate::vector::{LaneSet, State};

pub(crate) fn lane_kernels(backend: Backend, algorithm: Algorithm) -> Vec<(usize, Compress)> {
    match (algorithm, backend) {
        (Algorithm::Sha384 | Algorithm::Sha512, Backend::Avx2) => vec![(1, lane::<false>)],
        (Algorithm::Sha384 | Algorithm::Sha512, Backend::Avx512) => vec![(1, lane::<true>)],
        _ => Vec::new(),
    }
}

pub(crate) fn one(backend: Backend, algorithm: Algorithm) -> Option<CompressOne> {
    match (algorithm, backend) {
        (Algorithm::Sha384 | Algorithm::Sha512, Backend::Avx2) => Some(avx2),
        (Algorithm::Sha384 | Algorithm::Sha512, Backend::Avx512) => Some(avx512),
        _ => None,
    }
}

/// # Safety
///
/// As [`Compress`] with one lane; the instruction sets are those of [`avx512`], or of [`avx2`].
unsafe fn lane<const AVX512: bool>(set: &mut LaneSet, blocks: usize) {
    let mut state = State::new(&set.state.map(|row| row.words::<u64>()[0]));
    // SAFETY: the caller promises the instruction set, and blocks behind the first lane's pointer.
    unsafe {
        if AVX512 {
            avx512(&mut state, set.data[0], blocks);
        } else {
            avx2(&mut state, set.data[0], blocks);
        }
    }
    for (row, word) in set.state.iter_mut().zip(state.words()) {
        row.words_mut::<u64>()[0] = *word;
    }
}

/// # Safety
///
/// As [`CompressOne`]; the instruction sets are AVX2, BMI1 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2")]
unsafe fn avx2(state: &mut State, data: *const u8, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress(state.words_mut(), data, blocks) }
}

/// # Safety
///
/// As [`CompressOne`]; the instruction sets are AVX-512 F and VL, BMI1 and BMI2.
#[target_feature(enable = "avx512f,avx512vl,bmi1,bmi2")]
unsafe fn avx512(state: &mut State, data: *const u8, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress(state.words_mut(), data, blocks) }
}

/// # Safety
///
/// As [`CompressOne`]; the instruction set is AVX at least.
#[inline(always)]
unsafe fn compress(to: &mut [u64; 8], data: *const u8, blocks: usize) {
    let mut state = *to;
    // SAFETY: the caller promises AVX and 128 readable bytes for each block.
    unsafe {
        for block in 0..blocks {
            let data = data.add(128 * block);
            // A ring of the words of the last 16 steps, two words in each register.
            let mut w = [_mm_setzero_si128(); 8];
            // The words of these 16 steps, with their constants.
            let mut sums = [0; 16];
            for (i, pair) in w.iter_mut().enumerate() {
                let bytes = _mm_loadu_si128(data.add(16 * i).cast());
                *pair = _mm_shuffle_epi8(bytes, reverse::<8>());
                add_constants(*pair, &mut sums[2 * i..], &K512[2 * i..]);
            }
            let mut v = state;
            for turn in 1..5 {
                // Through memory: the compiler would take words out of vectors one by one, which is
                // slower.
                core::hint::black_box(&mut sums);
                macro_rules! steps {
                    ($($pair:literal $first:literal $second:literal;)*) => {$(
                        round::<$first, u64>(&mut v, &sums, &[0; 16]);
                        round::<$second, u64>(&mut v, &sums, &[0; 16]);
                        w[$pair] = expand(
                            w[$pair],
                            _mm_alignr_epi8::<8>(w[($pair + 1) % 8], w[$pair]),
                            _mm_alignr_epi8::<8>(w[($pair + 5) % 8], w[($pair + 4) % 8]),
                            w[($pair + 7) % 8],
                        );
                        add_constants(w[$pair], &mut sums[$first..], &K512[16 * turn + $first..]);
                    )*};
                }
                steps! { 0 0 1; 1 2 3; 2 4 5; 3 6 7; 4 8 9; 5 10 11; 6 12 13; 7 14 15; }
            }
            core::hint::black_box(&mut sums);
            macro_rules! steps {
                ($($step:literal)*) => {$( round::<$step, u64>(&mut v, &sums, &[0; 16]); )*};
            }
            steps! { 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 }
            for (word, add) in state.iter_mut().zip(v) {
                *word = word.wrapping_add(add);
            }
        }
    }
    *to = state;
}

/// Two words of the schedule: the words 16, 15, 7 and 2 steps before go in.
///
/// # Safety
///
/// The processor has AVX.
#[inline(always)]
unsafe fn expand(w16: __m128i, w15: __m128i, w7: __m128i, w2: __m128i) -> __m128i {
    // SAFETY: the caller promises the instruction set; all is in registers.
    unsafe {
        macro_rules! mix {
            ($w:ident, $right:literal $left:literal, $right2:literal $left2:literal,
                $shift:literal) => {
                _mm_xor_si128(
                    _mm_xor_si128(
                        _mm_or_si128(_mm_srli_epi64::<$right>($w), _mm_slli_epi64::<$left>($w)),
                        _mm_or_si128(_mm_srli_epi64::<$right2>($w), _mm_slli_epi64::<$left2>($w)),
                    ),
                    _mm_srli_epi64::<$shift>($w),
                )
            };
        }
        let sum = _mm_add_epi64(_mm_add_epi64(w16, w7), mix!(w15, 1 63, 8 56, 7));
        _mm_add_epi64(sum, mix!(w2, 19 45, 61 3, 6))
    }
}

/// Writes the sums of two words and their constants, the first of each slice.
///
/// # Safety
///
/// The processor has AVX.
#[inline(always)]
unsafe fn add_constants(words: __m128i, sums: &mut [u64], constants: &[u64]) {
    let (sums, constants) = (&mut sums[..2], &constants[..2]);
    // SAFETY: the caller promises AVX; both slices are two words long, and need not be aligned.
    unsafe {
        let constants = _mm_loadu_si128(constants.as_ptr().cast());
        _mm_storeu_si128(sums.as_mut_ptr().cast(), _mm_add_epi64(words, constants));
    }
}
