//! The AES instructions on one block a register.

use core::arch::x86_64::*;
use core::convert::identity;

use super::kernels;
use super::register::register;
use crate::aes::block::{Block, BlockVector, Polynomials, word_places};
use crate::aes::cipher::KeyInPlace;
use crate::aes::round_keys::ROUND_KEYS_MAX;

register! {
    /// A register of one block. A value exists only if the processor has AES-NI and SSE4.1.
    X1(__m128i) = [Block; 1];
    load _mm_loadu_si128, store _mm_storeu_si128;
    everywhere identity, first identity;
    add _mm_add_epi64, multiply _mm_clmulepi64_si128;
    shuffle_bytes _mm_shuffle_epi8, shuffle_words _mm_shuffle_epi32;
    fn xor(other) = _mm_xor_si128;
    fn encrypt_round(key) = _mm_aesenc_si128;
    fn encrypt_last(key) = _mm_aesenclast_si128;
    fn decrypt_round(key) = _mm_aesdec_si128;
    fn decrypt_last(key) = _mm_aesdeclast_si128;
    {
        #[inline(always)]
        unsafe fn numbers(first: u128) -> Self {
            // SAFETY: the caller vouches for the instruction set; the numbers are as long as the
            // register.
            unsafe { Self::load(&first.to_le_bytes()) }
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
                let from = (*from).byte_add(offset);
                for i in [2 * half, 2 * half + 1] {
                    columns[i] = Self::load(from.add(i));
                }
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
                let to = (*to).byte_add(offset);
                for i in [2 * half, 2 * half + 1] {
                    columns[i].store(to.add(i));
                }
            }
        }

        #[inline(always)]
        fn word_everywhere<const WORD: usize, const BYTES: usize>(self) -> Self {
            let from = const { word_places(WORD, BYTES) };
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self(_mm_shuffle_epi8(self.0, Self::load(&from).0)) }
        }

        #[inline(always)]
        fn running_sums(self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe {
                let two = _mm_xor_si128(self.0, _mm_slli_si128::<4>(self.0));
                Self(_mm_xor_si128(two, _mm_slli_si128::<8>(two)))
            }
        }

        #[inline(always)]
        fn delayed(self, before: Self) -> Self {
            before
        }
    }
    {
        #[inline(always)]
        fn gathered(self) -> Self {
            self
        }
    }
}

kernels! {
    #[target_feature(enable = "aes,pclmulqdq,sse4.1")]
    backend: AesNi;
    single: X1;
    one: X1, 8;
    many: X1, 2; X1, 4; X1, 8;
}
