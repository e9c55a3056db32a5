//! Instruction sets of x86-64.

use core::arch::x86_64::{__m128i, __m256i, __m512i, _mm_set_epi8};

use crate::registers::Registers;

pin!(pin_128(__m128i as xmm_reg), "sse2", "/* {0} */");
pin!(pin_256(__m256i as ymm_reg), "avx", "/* {0} */");
pin!(pin_512(__m512i as zmm_reg), "avx512f", "/* {0} */");

/// Rotation where the instruction set has only shifts.
macro_rules! rotate_by_shifts {
    ($left:ident, $right:ident, $or:ident) => {
        #[inline(always)]
        fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
            const { assert!(LEFT + RIGHT == 8 * size_of::<Self::Word>() as i32) };
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self($or($left::<LEFT>(self.0), $right::<RIGHT>(self.0))) }
        }

        #[inline(always)]
        fn shift_right<const BITS: i32>(self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self($right::<BITS>(self.0)) }
        }
    };
}

/// `self & !other`, of an instruction that inverts its first operand.
macro_rules! and_not {
    ($and_not:ident) => {
        #[inline(always)]
        fn and_not(self, other: Self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self($and_not(other.0, self.0)) }
        }
    };
}

/// Wraps bare registers into those of `$block`. A loop, because a closure would have to be inlined
/// to have the instruction set.
macro_rules! wrap {
    ($block:ident, $words:expr) => {
        for (to, word) in $block.iter_mut().zip($words) {
            *to = Self(word);
        }
    };
}

pub(crate) mod avx2;
pub(crate) mod avx512;
pub(crate) mod sha512;
pub(crate) mod shani;
pub(crate) mod sse41;

impl Registers for u32 {
    type Sse41 = sse41::X4;
    type Avx2 = avx2::X8;
    type Avx512Half = avx512::X8;
    type Avx512 = avx512::X16;
}

impl Registers for u64 {
    type Sse41 = sse41::Y2;
    type Avx2 = avx2::Y4;
    type Avx512Half = avx512::Y4;
    type Avx512 = avx512::Y8;
}

/// The byte shuffle that reverses each word of `BYTES` bytes.
///
/// # Safety
///
/// The processor has SSE2, as every x86-64 has.
#[inline(always)]
unsafe fn reverse<const BYTES: usize>() -> __m128i {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe {
        if BYTES == 4 {
            _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)
        } else {
            _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
        }
    }
}
