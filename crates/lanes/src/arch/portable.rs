//! Plain Rust, for every processor, and the reference against which the other instruction sets are
//! tested.

use crate::compress::{Compress, compress_blocks, compress_lanes};
use crate::kernel::Kernel;
use crate::vector::{LaneSet, Several, State, Vector};

/// One lane. (Four in an array, left to the compiler to vectorise, are slower than four times one.)
macro_rules! one_lane {
    ($word:ty, $template:literal) => {
        impl Vector for $word {
            type Word = $word;
            const LANES: usize = 1;
            const AHEAD: bool = false;

            #[inline(always)]
            unsafe fn load(words: *const $word) -> Self {
                // SAFETY: the caller promises the instruction set and the words, which need not be
                // aligned.
                unsafe { words.read() }
            }

            #[inline(always)]
            unsafe fn store(self, words: *mut $word) {
                // SAFETY: the caller promises the words, which need not be aligned.
                unsafe { words.write(self) }
            }

            #[inline(always)]
            unsafe fn load_block<const BIG_ENDIAN: bool>(
                data: *const *const u8,
                offset: usize,
                _: usize,
                block: &mut [Self; 16],
            ) {
                type Bytes = [[u8; size_of::<$word>()]; 16];
                // SAFETY: the caller promises 16 words behind the pointer; bytes need no alignment.
                let bytes = unsafe { (*data).add(offset).cast::<Bytes>().read() };
                for (to, from) in block.iter_mut().zip(bytes) {
                    *to = if BIG_ENDIAN {
                        <$word>::from_be_bytes(from)
                    } else {
                        <$word>::from_le_bytes(from)
                    };
                }
            }

            #[inline(always)]
            fn pin(self) -> Self {
                // Miri knows no assembly.
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                {
                    let mut word = self;
                    // SAFETY: the portable code needs no instruction set.
                    unsafe {
                        core::arch::asm!($template, inout(reg) word, options(pure, nomem, nostack,
                            preserves_flags));
                    }
                    word
                }
                #[cfg(any(not(target_arch = "x86_64"), miri))]
                self
            }

            #[inline(always)]
            fn splat(self, word: $word) -> Self {
                word
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn and_not(self, other: Self) -> Self {
                self & !other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
                const { assert!(LEFT + RIGHT == <$word>::BITS as i32) };
                <$word>::rotate_left(self, LEFT as u32)
            }
            #[inline(always)]
            fn shift_right<const BITS: i32>(self) -> Self {
                self >> BITS
            }
        }
    };
}

one_lane!(u32, "/* {0:e} */");
one_lane!(u64, "/* {0:r} */");

pub(crate) fn lane_kernels<K: Kernel>() -> Vec<(usize, Compress)> {
    let mut lane_kernels = vec![(1, single::<K> as Compress)];
    if const { K::SHORT } {
        lane_kernels.push((2, several::<K, 2>));
        lane_kernels.push((3, several::<K, 3>));
    }
    lane_kernels
}

/// One message, by the same code as [`one`].
///
/// # Safety
///
/// As [`Compress`]. Every processor has the instruction set.
unsafe fn single<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    let mut states = set.states::<K::Word, 1>();
    // SAFETY: what the caller promises is what the callee asks for.
    unsafe { one::<K>(&mut states[0], set.data[0], blocks) };
    set.set_states::<K::Word, 1>(&states);
}

/// `N` messages by turns.
///
/// # Safety
///
/// As [`Compress`]. Every processor has the instruction set.
unsafe fn several<K: Kernel, const N: usize>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for, with the same instruction set.
    unsafe { compress_lanes::<K, Several<K::Word, N>>(set, blocks) }
}

/// # Safety
///
/// As [`CompressOne`](crate::compress::CompressOne). Every processor has the instruction set.
pub(crate) unsafe fn one<K: Kernel>(state: &mut State, data: *const u8, blocks: usize) {
    // SAFETY: what the caller promises is what the callee asks for; every processor has the
    // instructions.
    unsafe { compress_blocks::<K, K::Word>(state.words_mut(), &data, blocks) }
}
