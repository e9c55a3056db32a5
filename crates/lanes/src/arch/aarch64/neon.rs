//! NEON: registers of 4 lanes of 32 bits or 2 of 64, for short steps several of them interleaved.
//!
//! Two registers of the longer steps need more than the processor has, and then gain nothing where
//! two vector instructions run in a cycle.

use core::arch::aarch64::*;

use super::{pin_double_words, pin_words};
use crate::compress::{Compress, compress_lanes};
use crate::kernel::Kernel;
use crate::registers::Registers;
use crate::vector::{LaneSet, Several, Vector, ask_ahead};

/// A rotation is a shift to the left and one to the right that leaves the bits of the other. Logic
/// on three operands is bitwise selection only, of which a majority takes one more instruction.
macro_rules! rotate_and_select {
    ($left:ident, $insert:ident, $right:ident, $select:ident, $or_not:ident) => {
        const CHOICE: bool = true;

        #[inline(always)]
        fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
            const { assert!(LEFT + RIGHT == 8 * size_of::<Self::Word>() as i32) };
            // SAFETY: every processor has NEON.
            unsafe { Self($insert::<RIGHT>($left::<LEFT>(self.0), self.0)) }
        }

        #[inline(always)]
        fn shift_right<const BITS: i32>(self) -> Self {
            // SAFETY: every processor has NEON.
            unsafe { Self($right::<BITS>(self.0)) }
        }

        #[inline(always)]
        fn majority(self, b: Self, c: Self) -> Self {
            // Where two agree they are the majority. `self` is the last to be ready.
            // SAFETY: every processor has NEON.
            unsafe { Self($select(b.xor(c).0, self.0, b.0)) }
        }

        #[inline(always)]
        fn xor_or_not(self, b: Self, c: Self) -> Self {
            // SAFETY: every processor has NEON.
            self.xor(unsafe { Self($or_not(b.0, c.0)) })
        }
    };
}

register! {
    /// 4 lanes.
    X4(uint32x4_t) = [u32; 4];
    pin pin_words, load vld1q_u32, store vst1q_u32, splat vdupq_n_u32 as u32;
    fn add(other) = vaddq_u32;
    fn and(other) = vandq_u32;
    fn and_not(other) = vbicq_u32;
    fn or(other) = vorrq_u32;
    fn xor(other) = veorq_u32;
    fn choose(yes, no) = vbslq_u32;
    {
        rotate_and_select!(vshlq_n_u32, vsriq_n_u32, vshrq_n_u32, vbslq_u32, vornq_u32);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: every processor has NEON; the caller promises 64 readable bytes a lane.
            unsafe {
                for quarter in 0..4 {
                    let mut rows = [block[0].0; 4];
                    for (lane, row) in rows.iter_mut().enumerate() {
                        let from = (*data.add(lane)).add(offset + 16 * quarter);
                        if quarter == 0 {
                            ask_ahead(from);
                        }
                        let bytes = vld1q_u8(from);
                        *row = vreinterpretq_u32_u8(if BIG_ENDIAN {
                            vrev32q_u8(bytes)
                        } else {
                            bytes
                        });
                    }
                    let even01 = vreinterpretq_u64_u32(vtrn1q_u32(rows[0], rows[1]));
                    let even23 = vreinterpretq_u64_u32(vtrn1q_u32(rows[2], rows[3]));
                    let odd01 = vreinterpretq_u64_u32(vtrn2q_u32(rows[0], rows[1]));
                    let odd23 = vreinterpretq_u64_u32(vtrn2q_u32(rows[2], rows[3]));
                    let words = [
                        vtrn1q_u64(even01, even23),
                        vtrn1q_u64(odd01, odd23),
                        vtrn2q_u64(even01, even23),
                        vtrn2q_u64(odd01, odd23),
                    ];
                    for (to, word) in block[4 * quarter..].iter_mut().zip(words) {
                        *to = Self(vreinterpretq_u32_u64(word));
                    }
                }
            }
        }
    }
}

register! {
    /// 2 lanes.
    Y2(uint64x2_t) = [u64; 2];
    pin pin_double_words, load vld1q_u64, store vst1q_u64, splat vdupq_n_u64 as u64;
    fn add(other) = vaddq_u64;
    fn and(other) = vandq_u64;
    fn and_not(other) = vbicq_u64;
    fn or(other) = vorrq_u64;
    fn xor(other) = veorq_u64;
    fn choose(yes, no) = vbslq_u64;
    {
        rotate_and_select!(vshlq_n_u64, vsriq_n_u64, vshrq_n_u64, vbslq_u64, vornq_u64);

        #[inline(always)]
        unsafe fn load_block<const BIG_ENDIAN: bool>(
            data: *const *const u8,
            offset: usize,
            _: usize,
            block: &mut [Self; 16],
        ) {
            // SAFETY: every processor has NEON; the caller promises 128 readable bytes a lane.
            unsafe {
                for eighth in 0..8 {
                    let mut rows = [block[0].0; 2];
                    for (lane, row) in rows.iter_mut().enumerate() {
                        let from = (*data.add(lane)).add(offset + 16 * eighth);
                        if eighth % 4 == 0 {
                            ask_ahead(from);
                        }
                        let bytes = vld1q_u8(from);
                        *row = vreinterpretq_u64_u8(if BIG_ENDIAN {
                            vrev64q_u8(bytes)
                        } else {
                            bytes
                        });
                    }
                    block[2 * eighth] = Self(vtrn1q_u64(rows[0], rows[1]));
                    block[2 * eighth + 1] = Self(vtrn2q_u64(rows[0], rows[1]));
                }
            }
        }
    }
}

pub(crate) fn lane_kernels<K: Kernel>() -> Vec<(usize, Compress)> {
    let lanes = <K::Word as Registers>::Neon::LANES;
    let mut lane_kernels = vec![(lanes, compress::<K, 1> as Compress)];
    if const { K::SHORT } {
        lane_kernels.push((2 * lanes, compress::<K, 2>));
        lane_kernels.push((3 * lanes, compress::<K, 3>));
        lane_kernels.push((4 * lanes, compress::<K, 4>));
    }
    lane_kernels
}

/// `N` registers interleaved.
///
/// # Safety
///
/// As [`Compress`]. Every processor has the instruction set.
unsafe fn compress<K: Kernel, const N: usize>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress_lanes::<K, Several<<K::Word as Registers>::Neon, N>>(set, blocks) }
}
