//! Plain Rust, for every processor, and the reference against which the other instruction sets are tested.

use super::{Compress, compress_lanes};
use crate::algorithm::Kernel;
use crate::vector::{LaneSet, Vector};

/// One lane. (Four in an array, left to the compiler to vectorise, are slower than four times one.)
impl Vector for u32 {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn load(words: *const u32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { words.read() }
    }

    #[inline(always)]
    unsafe fn store(self, words: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe { words.write(self) }
    }

    #[inline(always)]
    unsafe fn load_blocks<const BIG_ENDIAN: bool>(
        data: *const *const u8,
        offset: usize,
    ) -> [Self; 16] {
        // SAFETY: the caller's promise; bytes need no alignment.
        let bytes = unsafe { (*data).add(offset).cast::<[[u8; 4]; 16]>().read() };
        let mut block = [0; 16];
        for (to, from) in block.iter_mut().zip(bytes) {
            *to = if BIG_ENDIAN {
                u32::from_be_bytes(from)
            } else {
                u32::from_le_bytes(from)
            };
        }
        block
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn add_word(self, word: u32) -> Self {
        self.wrapping_add(word)
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
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
        const { assert!(LEFT + RIGHT == 32) };
        u32::rotate_left(self, LEFT as u32)
    }
    #[inline(always)]
    fn shift_right<const BITS: i32>(self) -> Self {
        self >> BITS
    }
}

pub(crate) fn engines<K: Kernel>() -> Vec<(usize, Compress)> {
    vec![(u32::LANES, compress::<K> as Compress)]
}

/// # Safety
///
/// As [`Compress`]. Every processor has the instruction set.
unsafe fn compress<K: Kernel>(set: &mut LaneSet, blocks: usize) {
    // SAFETY: the caller's promise.
    unsafe { compress_lanes::<K, u32>(set, blocks) }
}
