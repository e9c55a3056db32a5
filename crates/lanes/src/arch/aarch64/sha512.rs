//! The SHA-512 instructions: one message a stream, two streams interleaved.

use core::arch::aarch64::*;

use crate::algorithm::Algorithm;
use crate::algorithm::sha2::K512;
use crate::backend::Backend;
use crate::compress::{Compress, CompressOne};
use crate::vector::{LaneSet, State};

pub(crate) fn lane_kernels(algorithm: Algorithm) -> Vec<(usize, Compress)> {
    match algorithm {
        Algorithm::Sha384 | Algorithm::Sha512 => {
            vec![(1, lanes::<1> as Compress), (2, lanes::<2>)]
        }
        _ => Vec::new(),
    }
}

pub(crate) fn one(backend: Backend, algorithm: Algorithm) -> Option<CompressOne> {
    match (algorithm, backend) {
        (Algorithm::Sha384 | Algorithm::Sha512, Backend::ArmSha512) => Some(sha512_one),
        _ => None,
    }
}

/// # Safety
///
/// As [`Compress`] with `N` lanes; the instructions are those of SHA-512.
unsafe fn lanes<const N: usize>(set: &mut LaneSet, blocks: usize) {
    let mut states = set.states::<u64, N>();
    // SAFETY: the caller promises the instructions, and blocks behind the first `N` pointers.
    unsafe { sha512(&mut states, &set.data, blocks) };
    set.set_states::<u64, N>(&states);
}

/// # Safety
///
/// As [`CompressOne`]; the instructions are those of SHA-512.
unsafe fn sha512_one(state: &mut State, data: *const u8, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for.
    unsafe { sha512(core::array::from_mut(state), &[data], blocks) }
}

/// Adds blocks of `N` streams to their states.
///
/// # Safety
///
/// The processor has the instructions, and the first `N` pointers of `data`, which are there, are
/// readable for `128 * blocks` bytes each.
#[inline]
#[target_feature(enable = "sha3")]
unsafe fn sha512<const N: usize>(states: &mut [State; N], data: &[*const u8], blocks: usize) {
    let data = &data[..N];
    // Two words each: ab, cd, ef, gh.
    let mut v = [[vdupq_n_u64(0); N]; 4];
    for (i, state) in states.iter().enumerate() {
        for (pair, words) in v.iter_mut().zip(state.words::<u64>().as_chunks::<2>().0) {
            // SAFETY: two words.
            pair[i] = unsafe { vld1q_u64(words.as_ptr()) };
        }
    }
    for block in 0..blocks {
        let before = v;
        let mut w = [v[0]; 8];
        for (at, pair) in w.iter_mut().enumerate() {
            for i in 0..N {
                // SAFETY: the caller promises so many bytes.
                let bytes = unsafe { vld1q_u8(data[i].add(128 * block + 16 * at)) };
                pair[i] = vreinterpretq_u64_u8(vrev64q_u8(bytes));
            }
        }
        // Two steps, after which the pairs have changed their places.
        macro_rules! two_steps {
            ($at:literal, $k:expr) => {
                // SAFETY: two constants.
                let k = unsafe { vld1q_u64($k.as_ptr()) };
                for i in 0..N {
                    let [ab, cd, ef, gh] = [0, 1, 2, 3].map(|pair| (pair + 8 - $at) % 4);
                    let sum = vaddq_u64(w[$at][i], k);
                    let sum = vaddq_u64(vextq_u64::<1>(sum, sum), v[gh][i]);
                    let fg = vextq_u64::<1>(v[ef][i], v[gh][i]);
                    let de = vextq_u64::<1>(v[cd][i], v[ef][i]);
                    let sum = vsha512hq_u64(sum, fg, de);
                    v[gh][i] = vsha512h2q_u64(sum, v[cd][i], v[ab][i]);
                    v[cd][i] = vaddq_u64(v[cd][i], sum);
                }
            };
        }
        let (turns, _) = K512.as_chunks::<16>();
        let (last, turns) = turns.split_last().expect("there are steps");
        for k in turns {
            macro_rules! steps_and_schedule {
                ($($at:literal)*) => {$(
                    two_steps!($at, k[2 * $at..]);
                    for i in 0..N {
                        let w_15 = vsha512su0q_u64(w[$at][i], w[($at + 1) % 8][i]);
                        let w_7 = vextq_u64::<1>(w[($at + 4) % 8][i], w[($at + 5) % 8][i]);
                        w[$at][i] = vsha512su1q_u64(w_15, w[($at + 7) % 8][i], w_7);
                    }
                )*};
            }
            steps_and_schedule!(0 1 2 3 4 5 6 7);
        }
        macro_rules! steps {
            ($($at:literal)*) => {$( two_steps!($at, last[2 * $at..]); )*};
        }
        steps!(0 1 2 3 4 5 6 7);
        for (pair, before) in v.iter_mut().zip(before) {
            for i in 0..N {
                pair[i] = vaddq_u64(pair[i], before[i]);
            }
        }
    }
    for (i, state) in states.iter_mut().enumerate() {
        let (pairs, _) = state.words_mut::<u64>().as_chunks_mut::<2>();
        for (words, pair) in pairs.iter_mut().zip(v) {
            // SAFETY: two words.
            unsafe { vst1q_u64(words.as_mut_ptr(), pair[i]) };
        }
    }
}
