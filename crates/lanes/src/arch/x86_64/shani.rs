//! SHA-NI: the SHA-1 and SHA-256 instructions, one message a stream, several streams interleaved.

use core::arch::x86_64::*;

use crate::algorithm::Algorithm;
use crate::algorithm::sha2::K256;
use crate::backend::Backend;
use crate::compress::{Compress, CompressOne};
use crate::vector::{LaneSet, State};

pub(crate) fn lane_kernels(algorithm: Algorithm) -> Vec<(usize, Compress)> {
    match algorithm {
        Algorithm::Sha1 => vec![
            (1, sha1::<1> as Compress),
            (2, sha1::<2>),
            (3, sha1::<3>),
            (4, sha1::<4>),
        ],
        Algorithm::Sha224 | Algorithm::Sha256 => vec![
            (1, sha256::<1> as Compress),
            (2, sha256::<2>),
            (3, sha256::<3>),
            (4, sha256::<4>),
        ],
        _ => Vec::new(),
    }
}

pub(crate) fn one(backend: Backend, algorithm: Algorithm) -> Option<CompressOne> {
    match (algorithm, backend) {
        (Algorithm::Sha1, Backend::ShaNi) => Some(sha1_one),
        (Algorithm::Sha224 | Algorithm::Sha256, Backend::ShaNi) => Some(sha256_one),
        _ => None,
    }
}

/// An array of an expression in `$i` for every stream. A loop, because a closure would have to be
/// inlined to have the instruction set.
macro_rules! each {
    ($n:ident, $i:ident => $e:expr) => {{
        let mut array = [_mm_setzero_si128(); $n];
        for $i in 0..$n {
            array[$i] = $e;
        }
        array
    }};
}

/// SHA-1 of `N` streams.
///
/// # Safety
///
/// As [`Compress`] with `N` lanes; the instruction sets are SHA and SSE4.1.
#[target_feature(enable = "sha,sse4.1")]
unsafe fn sha1<const N: usize>(set: &mut LaneSet, blocks: usize) {
    let state = &mut set.state;
    macro_rules! word {
        ($word:literal, $lane:ident) => {
            state[$word].words::<u32>()[$lane] as i32
        };
    }
    let mut abcd: [__m128i; N] =
        each!(N, i => _mm_set_epi32(word!(0, i), word!(1, i), word!(2, i), word!(3, i)));
    let mut e: [__m128i; N] = each!(N, i => _mm_set_epi32(word!(4, i), 0, 0, 0));
    // SAFETY: the caller promises the instruction sets, and blocks behind the first `N` pointers.
    unsafe { sha1_blocks(&mut abcd, &mut e, &set.data[..N], blocks) };
    for i in 0..N {
        state[0].words_mut()[i] = _mm_extract_epi32::<3>(abcd[i]) as u32;
        state[1].words_mut()[i] = _mm_extract_epi32::<2>(abcd[i]) as u32;
        state[2].words_mut()[i] = _mm_extract_epi32::<1>(abcd[i]) as u32;
        state[3].words_mut()[i] = _mm_extract_epi32::<0>(abcd[i]) as u32;
        state[4].words_mut()[i] = _mm_extract_epi32::<3>(e[i]) as u32;
    }
}

/// SHA-1 of one message.
///
/// # Safety
///
/// As [`CompressOne`]; the instruction sets are SHA and SSE4.1.
#[target_feature(enable = "sha,sse4.1")]
unsafe fn sha1_one(state: &mut State, data: *const u8, blocks: usize) {
    let words = state.words_mut::<u32>();
    // SAFETY: the caller promises the instruction sets and the blocks; the state is eight words of
    // 64 bits long.
    unsafe {
        let mut abcd = [_mm_shuffle_epi32::<0x1b>(_mm_loadu_si128(
            words.as_ptr().cast(),
        ))];
        let mut e = [_mm_set_epi32(words[4] as i32, 0, 0, 0)];
        sha1_blocks(&mut abcd, &mut e, &[data], blocks);
        _mm_storeu_si128(
            words.as_mut_ptr().cast(),
            _mm_shuffle_epi32::<0x1b>(abcd[0]),
        );
        words[4] = _mm_extract_epi32::<3>(e[0]) as u32;
    }
}

/// The blocks of `N` streams.
///
/// # Safety
///
/// `data` has `N` pointers, each readable for `64 * blocks` bytes; the instruction sets are SHA and
/// SSE4.1.
#[inline]
#[target_feature(enable = "sha,sse4.1")]
unsafe fn sha1_blocks<const N: usize>(
    abcd: &mut [__m128i; N],
    e: &mut [__m128i; N],
    data: &[*const u8],
    blocks: usize,
) {
    // SAFETY: the caller promises the instruction sets, and `64 * blocks` readable bytes a lane.
    unsafe {
        let swap = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
        for block in 0..blocks {
            let (abcd_before, e_before) = (*abcd, *e);
            let mut w: [[__m128i; N]; 4] = [*abcd; 4];
            // Groups of four steps; `e` is what the group before had in `abcd`.
            macro_rules! group {
                ($g:literal) => {
                    if $g < 4 {
                        w[$g % 4] = each!(N, i => {
                            _mm_shuffle_epi8(
                                _mm_loadu_si128(data[i].add(64 * block + 16 * ($g % 4)).cast()),
                                swap,
                            )
                        });
                    } else {
                        w[$g % 4] = each!(N, i => {
                            let w_4 = _mm_sha1msg1_epu32(w[$g % 4][i], w[($g + 1) % 4][i]);
                            _mm_sha1msg2_epu32(_mm_xor_si128(w_4, w[($g + 2) % 4][i]),
                                w[($g + 3) % 4][i])
                        });
                    }
                    for i in 0..N {
                        let sum = if $g == 0 {
                            _mm_add_epi32(e[i], w[0][i])
                        } else {
                            _mm_sha1nexte_epu32(e[i], w[$g % 4][i])
                        };
                        e[i] = abcd[i];
                        abcd[i] = _mm_sha1rnds4_epu32::<{ $g / 5 }>(abcd[i], sum);
                    }
                };
            }
            group!(0);
            group!(1);
            group!(2);
            group!(3);
            group!(4);
            group!(5);
            group!(6);
            group!(7);
            group!(8);
            group!(9);
            group!(10);
            group!(11);
            group!(12);
            group!(13);
            group!(14);
            group!(15);
            group!(16);
            group!(17);
            group!(18);
            group!(19);
            for i in 0..N {
                e[i] = _mm_sha1nexte_epu32(e[i], e_before[i]);
                abcd[i] = _mm_add_epi32(abcd[i], abcd_before[i]);
            }
        }
    }
}

/// SHA-256 of `N` streams.
///
/// # Safety
///
/// As [`Compress`] with `N` lanes; the instruction sets are SHA and SSE4.1.
#[target_feature(enable = "sha,sse4.1")]
unsafe fn sha256<const N: usize>(set: &mut LaneSet, blocks: usize) {
    let state = &mut set.state;
    macro_rules! word {
        ($word:literal, $lane:ident) => {
            state[$word].words::<u32>()[$lane] as i32
        };
    }
    let mut abef: [__m128i; N] =
        each!(N, i => _mm_set_epi32(word!(0, i), word!(1, i), word!(4, i), word!(5, i)));
    let mut cdgh: [__m128i; N] =
        each!(N, i => _mm_set_epi32(word!(2, i), word!(3, i), word!(6, i), word!(7, i)));
    // SAFETY: the caller promises the instruction sets, and blocks behind the first `N` pointers.
    unsafe { sha256_blocks(&mut abef, &mut cdgh, &set.data[..N], blocks) };
    for i in 0..N {
        state[0].words_mut()[i] = _mm_extract_epi32::<3>(abef[i]) as u32;
        state[1].words_mut()[i] = _mm_extract_epi32::<2>(abef[i]) as u32;
        state[4].words_mut()[i] = _mm_extract_epi32::<1>(abef[i]) as u32;
        state[5].words_mut()[i] = _mm_extract_epi32::<0>(abef[i]) as u32;
        state[2].words_mut()[i] = _mm_extract_epi32::<3>(cdgh[i]) as u32;
        state[3].words_mut()[i] = _mm_extract_epi32::<2>(cdgh[i]) as u32;
        state[6].words_mut()[i] = _mm_extract_epi32::<1>(cdgh[i]) as u32;
        state[7].words_mut()[i] = _mm_extract_epi32::<0>(cdgh[i]) as u32;
    }
}

/// SHA-256 of one message.
///
/// # Safety
///
/// As [`CompressOne`]; the instruction sets are SHA and SSE4.1.
#[target_feature(enable = "sha,sse4.1")]
unsafe fn sha256_one(state: &mut State, data: *const u8, blocks: usize) {
    let words: *mut __m128i = state.words_mut::<u32>().as_mut_ptr().cast();
    // SAFETY: the caller promises the instruction sets and the blocks; the state is eight words of
    // 64 bits long.
    unsafe {
        let abcd = _mm_shuffle_epi32::<0x1b>(_mm_loadu_si128(words));
        let efgh = _mm_shuffle_epi32::<0x1b>(_mm_loadu_si128(words.add(1)));
        let mut abef = [_mm_unpackhi_epi64(efgh, abcd)];
        let mut cdgh = [_mm_unpacklo_epi64(efgh, abcd)];
        sha256_blocks(&mut abef, &mut cdgh, &[data], blocks);
        let abcd = _mm_unpackhi_epi64(cdgh[0], abef[0]);
        let efgh = _mm_unpacklo_epi64(cdgh[0], abef[0]);
        _mm_storeu_si128(words, _mm_shuffle_epi32::<0x1b>(abcd));
        _mm_storeu_si128(words.add(1), _mm_shuffle_epi32::<0x1b>(efgh));
    }
}

/// The blocks of `N` streams.
///
/// # Safety
///
/// As [`sha1_blocks`].
#[inline]
#[target_feature(enable = "sha,sse4.1")]
unsafe fn sha256_blocks<const N: usize>(
    abef: &mut [__m128i; N],
    cdgh: &mut [__m128i; N],
    data: &[*const u8],
    blocks: usize,
) {
    // SAFETY: the caller promises the instruction sets, and `64 * blocks` readable bytes a lane.
    unsafe {
        let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        for block in 0..blocks {
            let (abef_before, cdgh_before) = (*abef, *cdgh);
            let mut w: [[__m128i; N]; 4] = [*abef; 4];
            // Groups of four steps.
            macro_rules! group {
                ($g:literal) => {
                    if $g < 4 {
                        w[$g % 4] = each!(N, i => {
                            _mm_shuffle_epi8(
                                _mm_loadu_si128(data[i].add(64 * block + 16 * ($g % 4)).cast()),
                                swap,
                            )
                        });
                    } else {
                        w[$g % 4] = each!(N, i => {
                            let w_4 = _mm_sha256msg1_epu32(w[$g % 4][i], w[($g + 1) % 4][i]);
                            let w_7 = _mm_alignr_epi8::<4>(w[($g + 3) % 4][i], w[($g + 2) % 4][i]);
                            _mm_sha256msg2_epu32(_mm_add_epi32(w_4, w_7), w[($g + 3) % 4][i])
                        });
                    }
                    let k = _mm_loadu_si128(K256.as_ptr().add(4 * $g).cast());
                    for i in 0..N {
                        let sum = _mm_add_epi32(w[$g % 4][i], k);
                        cdgh[i] = _mm_sha256rnds2_epu32(cdgh[i], abef[i], sum);
                        abef[i] = _mm_sha256rnds2_epu32(abef[i], cdgh[i],
                            _mm_shuffle_epi32::<0x0e>(sum));
                    }
                };
            }
            group!(0);
            group!(1);
            group!(2);
            group!(3);
            group!(4);
            group!(5);
            group!(6);
            group!(7);
            group!(8);
            group!(9);
            group!(10);
            group!(11);
            group!(12);
            group!(13);
            group!(14);
            group!(15);
            for i in 0..N {
                abef[i] = _mm_add_epi32(abef[i], abef_before[i]);
                cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_before[i]);
            }
        }
    }
}
