//! The SHA-1 and SHA-256 instructions: one message a stream, several streams interleaved.

use core::arch::aarch64::*;

use crate::algorithm::Algorithm;
use crate::algorithm::sha2::K256;
use crate::backend::Backend;
use crate::compress::{Compress, CompressOne};
use crate::vector::{LaneSet, State};

pub(crate) fn lane_kernels(algorithm: Algorithm) -> Vec<(usize, Compress)> {
    match algorithm {
        Algorithm::Sha1 => vec![
            (1, sha1_lanes::<1> as Compress),
            (2, sha1_lanes::<2>),
            (3, sha1_lanes::<3>),
        ],
        Algorithm::Sha224 | Algorithm::Sha256 => vec![
            (1, sha256_lanes::<1> as Compress),
            (2, sha256_lanes::<2>),
            (3, sha256_lanes::<3>),
        ],
        _ => Vec::new(),
    }
}

pub(crate) fn one(backend: Backend, algorithm: Algorithm) -> Option<CompressOne> {
    match (algorithm, backend) {
        (Algorithm::Sha1, Backend::ArmCe) => Some(sha1_one),
        (Algorithm::Sha224 | Algorithm::Sha256, Backend::ArmCe) => Some(sha256_one),
        _ => None,
    }
}

/// # Safety
///
/// As [`Compress`] with `N` lanes; the instructions are those of SHA-1.
unsafe fn sha1_lanes<const N: usize>(set: &mut LaneSet, blocks: usize) {
    let mut states = set.states::<u32, N>();
    // SAFETY: the caller promises the instructions, and blocks behind the first `N` pointers.
    unsafe { sha1(&mut states, &set.data, blocks) };
    set.set_states::<u32, N>(&states);
}

/// # Safety
///
/// As [`CompressOne`]; the instructions are those of SHA-1.
unsafe fn sha1_one(state: &mut State, data: *const u8, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for.
    unsafe { sha1(core::array::from_mut(state), &[data], blocks) }
}

/// # Safety
///
/// As [`Compress`] with `N` lanes; the instructions are those of SHA-256.
unsafe fn sha256_lanes<const N: usize>(set: &mut LaneSet, blocks: usize) {
    let mut states = set.states::<u32, N>();
    // SAFETY: the caller promises the instructions, and blocks behind the first `N` pointers.
    unsafe { sha256(&mut states, &set.data, blocks) };
    set.set_states::<u32, N>(&states);
}

/// # Safety
///
/// As [`CompressOne`]; the instructions are those of SHA-256.
unsafe fn sha256_one(state: &mut State, data: *const u8, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for.
    unsafe { sha256(core::array::from_mut(state), &[data], blocks) }
}

/// Adds blocks of `N` streams to their states.
///
/// # Safety
///
/// The processor has the instructions, and the first `N` pointers of `data`, which are there, are
/// readable for `64 * blocks` bytes each.
#[inline]
#[target_feature(enable = "sha2")]
unsafe fn sha1<const N: usize>(states: &mut [State; N], data: &[*const u8], blocks: usize) {
    const K: [u32; 4] = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6];
    let data = &data[..N];
    let mut abcd = [vdupq_n_u32(0); N];
    let mut e = [0; N];
    for (i, state) in states.iter().enumerate() {
        // SAFETY: a state has more than four words.
        abcd[i] = unsafe { vld1q_u32(state.words::<u32>().as_ptr()) };
        e[i] = state.words::<u32>()[4];
    }
    for block in 0..blocks {
        let (abcd_before, e_before) = (abcd, e);
        let mut w = [abcd; 4];
        // Groups of four steps.
        macro_rules! groups {
            ($rounds:ident: $($g:literal)*) => {$(
                for i in 0..N {
                    w[$g % 4][i] = if $g < 4 {
                        // SAFETY: the caller promises so many bytes.
                        unsafe { words(data[i].add(64 * block + 16 * ($g % 4))) }
                    } else {
                        let w_4 = vsha1su0q_u32(w[$g % 4][i], w[($g + 1) % 4][i],
                            w[($g + 2) % 4][i]);
                        vsha1su1q_u32(w_4, w[($g + 3) % 4][i])
                    };
                    let sum = vaddq_u32(w[$g % 4][i], vdupq_n_u32(K[$g / 5]));
                    let e_next = vsha1h_u32(vgetq_lane_u32::<0>(abcd[i]));
                    abcd[i] = $rounds(abcd[i], e[i], sum);
                    e[i] = e_next;
                }
            )*};
        }
        groups!(vsha1cq_u32: 0 1 2 3 4);
        groups!(vsha1pq_u32: 5 6 7 8 9);
        groups!(vsha1mq_u32: 10 11 12 13 14);
        groups!(vsha1pq_u32: 15 16 17 18 19);
        for i in 0..N {
            abcd[i] = vaddq_u32(abcd[i], abcd_before[i]);
            e[i] = e[i].wrapping_add(e_before[i]);
        }
    }
    for (i, state) in states.iter_mut().enumerate() {
        // SAFETY: a state has more than four words.
        unsafe { vst1q_u32(state.words_mut::<u32>().as_mut_ptr(), abcd[i]) };
        state.words_mut::<u32>()[4] = e[i];
    }
}

/// Adds blocks of `N` streams to their states.
///
/// # Safety
///
/// As [`sha1`].
#[inline]
#[target_feature(enable = "sha2")]
unsafe fn sha256<const N: usize>(states: &mut [State; N], data: &[*const u8], blocks: usize) {
    let data = &data[..N];
    let mut abcd = [vdupq_n_u32(0); N];
    let mut efgh = abcd;
    for (i, state) in states.iter().enumerate() {
        let words = state.words::<u32>();
        // SAFETY: a state has eight words.
        unsafe {
            abcd[i] = vld1q_u32(words.as_ptr());
            efgh[i] = vld1q_u32(words[4..].as_ptr());
        }
    }
    for block in 0..blocks {
        let (abcd_before, efgh_before) = (abcd, efgh);
        let mut w = [abcd; 4];
        // Groups of four steps.
        macro_rules! groups {
            ($($g:literal)*) => {$(
                // SAFETY: there are 64 constants.
                let k = unsafe { vld1q_u32(K256.as_ptr().add(4 * $g)) };
                for i in 0..N {
                    w[$g % 4][i] = if $g < 4 {
                        // SAFETY: the caller promises so many bytes.
                        unsafe { words(data[i].add(64 * block + 16 * ($g % 4))) }
                    } else {
                        let w_4 = vsha256su0q_u32(w[$g % 4][i], w[($g + 1) % 4][i]);
                        vsha256su1q_u32(w_4, w[($g + 2) % 4][i], w[($g + 3) % 4][i])
                    };
                    let sum = vaddq_u32(w[$g % 4][i], k);
                    let before = abcd[i];
                    abcd[i] = vsha256hq_u32(before, efgh[i], sum);
                    efgh[i] = vsha256h2q_u32(efgh[i], before, sum);
                }
            )*};
        }
        groups!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for i in 0..N {
            abcd[i] = vaddq_u32(abcd[i], abcd_before[i]);
            efgh[i] = vaddq_u32(efgh[i], efgh_before[i]);
        }
    }
    for (i, state) in states.iter_mut().enumerate() {
        let words = state.words_mut::<u32>();
        // SAFETY: a state has eight words.
        unsafe {
            vst1q_u32(words.as_mut_ptr(), abcd[i]);
            vst1q_u32(words[4..].as_mut_ptr(), efgh[i]);
        }
    }
}

/// Four words, most significant byte first.
///
/// # Safety
///
/// Sixteen bytes are readable.
#[inline(always)]
unsafe fn words(data: *const u8) -> uint32x4_t {
    // SAFETY: the caller promises the bytes, which need not be aligned; every processor has NEON.
    unsafe { vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data))) }
}
