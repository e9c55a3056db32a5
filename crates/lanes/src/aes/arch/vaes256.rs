//! VAES with AVX2: two blocks a register.

use core::arch::x86_64::*;

use super::aesni::X1;
use super::kernels;
use super::register::register;
use crate::aes::block::{Block, BlockVector, Polynomials};
use crate::aes::cipher::KeyInPlace;
use crate::aes::round_keys::ROUND_KEYS_MAX;

register! {
    /// Two blocks. A value exists only where the processor has VAES and AVX2.
    X2(__m256i) = [Block; 2];
    load _mm256_loadu_si256, store _mm256_storeu_si256;
    everywhere _mm256_broadcastsi128_si256, first _mm256_zextsi128_si256;
    add _mm256_add_epi64, multiply _mm256_clmulepi64_epi128;
    shuffle_bytes _mm256_shuffle_epi8, shuffle_words _mm256_shuffle_epi32;
    fn xor(other) = _mm256_xor_si256;
    fn encrypt_round(key) = _mm256_aesenc_epi128;
    fn encrypt_last(key) = _mm256_aesenclast_epi128;
    fn decrypt_round(key) = _mm256_aesdec_epi128;
    fn decrypt_last(key) = _mm256_aesdeclast_epi128;
    {
        #[inline(always)]
        unsafe fn numbers(first: u128) -> Self {
            let numbers = [first, first.wrapping_add(1)].map(u128::to_le_bytes);
            // SAFETY: the caller vouches for the instruction set; the numbers are as long as the
            // register.
            unsafe { Self::load(numbers.as_ptr()) }
        }

        #[inline(always)]
        unsafe fn load_part(from: *const Block, _count: usize) -> Self {
            // SAFETY: the caller vouches for `count` blocks, fewer than a register has.
            unsafe { Self(_mm256_zextsi128_si256(_mm_loadu_si128(from.cast()))) }
        }

        #[inline(always)]
        unsafe fn store_part(self, to: *mut Block, _count: usize) {
            // SAFETY: the caller vouches for `count` blocks, fewer than a register has.
            unsafe { _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0)) }
        }

        #[inline(always)]
        unsafe fn load_columns(
            from: *const *mut Block,
            offset: usize,
            half: usize,
            columns: &mut [Self; 4],
        ) {
            // SAFETY: behind each of the pointers are four readable blocks, of which each half is
            // two.
            unsafe {
                let two = |lane| Self::load((*from.add(lane)).byte_add(offset).add(2 * half)).0;
                let (a, b) = (two(0), two(1));
                columns[2 * half] = Self(_mm256_permute2x128_si256::<0x20>(a, b));
                columns[2 * half + 1] = Self(_mm256_permute2x128_si256::<0x31>(a, b));
            }
        }

        #[inline(always)]
        unsafe fn store_columns(
            columns: &[Self; 4],
            to: *const *mut Block,
            offset: usize,
            half: usize,
        ) {
            // SAFETY: behind each of the pointers are four writable blocks, of which each half is
            // two.
            unsafe {
                let (even, odd) = (columns[2 * half].0, columns[2 * half + 1].0);
                let two = |lane| (*to.add(lane)).byte_add(offset).add(2 * half);
                Self(_mm256_permute2x128_si256::<0x20>(even, odd)).store(two(0));
                Self(_mm256_permute2x128_si256::<0x31>(even, odd)).store(two(1));
            }
        }

        #[inline(always)]
        fn delayed(self, before: Self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self(_mm256_permute2x128_si256::<0x21>(before.0, self.0)) }
        }
    }
    {
        #[inline(always)]
        fn gathered(self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe {
                let (low, high) = (
                    _mm256_castsi256_si128(self.0),
                    _mm256_extracti128_si256::<1>(self.0),
                );
                Self(_mm256_zextsi128_si256(_mm_xor_si128(low, high)))
            }
        }
    }
}

kernels! {
    #[target_feature(enable = "aes,vaes,vpclmulqdq,avx2")]
    backend: Vaes256;
    single: X1;
    one: X2, 8;
    many: X2, 1; X2, 2; X2, 4; X2, 8;
}
