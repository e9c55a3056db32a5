//! VAES with AVX-512 (F, BW, VL): four blocks a register.

use core::arch::x86_64::*;

use super::aesni::X1;
use super::kernels;
use super::register::register;
use crate::aes::block::{Block, BlockVector, Polynomials};
use crate::aes::cipher::KeyInPlace;
use crate::aes::round_keys::ROUND_KEYS_MAX;

register! {
    /// Four blocks. A value exists only where the processor has VAES and AVX-512 F, BW and VL.
    X4(__m512i) = [Block; 4];
    load _mm512_loadu_si512, store _mm512_storeu_si512;
    everywhere _mm512_broadcast_i32x4, first _mm512_zextsi128_si512;
    add _mm512_add_epi64, multiply _mm512_clmulepi64_epi128;
    shuffle_bytes _mm512_shuffle_epi8, shuffle_words _mm512_shuffle_epi32;
    fn xor(other) = _mm512_xor_si512;
    fn encrypt_round(key) = _mm512_aesenc_epi128;
    fn encrypt_last(key) = _mm512_aesenclast_epi128;
    fn decrypt_round(key) = _mm512_aesdec_epi128;
    fn decrypt_last(key) = _mm512_aesdeclast_epi128;
    {
        #[inline(always)]
        unsafe fn numbers(first: u128) -> Self {
            // SAFETY: the caller vouches for the instruction set; the numbers are as long as the
            // register.
            unsafe {
                if (first as u64).checked_add(3).is_none() {
                    let numbers = [0, 1, 2, 3].map(|i| first.wrapping_add(i).to_le_bytes());
                    return Self::load(numbers.as_ptr());
                }
                // Built in registers: memory written in pieces stalls when read as a whole.
                let first = Self::broadcast(&first.to_le_bytes()).0;
                Self(_mm512_add_epi64(
                    first,
                    _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0),
                ))
            }
        }

        #[inline(always)]
        unsafe fn load_part(from: *const Block, count: usize) -> Self {
            // Masked loads wait for stores that were just made to the same place, these do not.
            // SAFETY: the caller vouches for `count` blocks, fewer than a register has.
            unsafe {
                let block = |at| _mm_loadu_si128(from.add(at).cast());
                let two = || _mm256_loadu_si256(from.cast());
                Self(match count {
                    1 => _mm512_zextsi128_si512(block(0)),
                    2 => _mm512_zextsi256_si512(two()),
                    _ => _mm512_inserti32x4::<2>(_mm512_zextsi256_si512(two()), block(2)),
                })
            }
        }

        #[inline(always)]
        unsafe fn store_part(self, to: *mut Block, count: usize) {
            // Loads that follow wait for masked stores.
            // SAFETY: the caller vouches for `count` blocks, fewer than a register has.
            unsafe {
                let block = |block, at| _mm_storeu_si128(to.add(at).cast(), block);
                let two = || _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(self.0));
                match count {
                    1 => block(_mm512_castsi512_si128(self.0), 0),
                    2 => two(),
                    _ => {
                        two();
                        block(_mm512_extracti32x4_epi32::<2>(self.0), 2);
                    }
                }
            }
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
                let two =
                    |lane| _mm256_loadu_si256(
                        (*from.add(lane)).byte_add(offset).add(2 * half).cast(),
                    );
                let ab = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(two(0)), two(1));
                let cd = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(two(2)), two(3));
                columns[2 * half] = Self(_mm512_shuffle_i64x2::<0x88>(ab, cd));
                columns[2 * half + 1] = Self(_mm512_shuffle_i64x2::<0xdd>(ab, cd));
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
                let [a, b, c, d] = columns;
                let (ab, cd) = if half == 0 {
                    (
                        _mm512_shuffle_i64x2::<0x44>(a.0, b.0),
                        _mm512_shuffle_i64x2::<0x44>(c.0, d.0),
                    )
                } else {
                    (
                        _mm512_shuffle_i64x2::<0xee>(a.0, b.0),
                        _mm512_shuffle_i64x2::<0xee>(c.0, d.0),
                    )
                };
                let lane = |lane| (*to.add(lane)).byte_add(offset);
                Self(_mm512_shuffle_i64x2::<0x88>(ab, cd)).store(lane(2 * half));
                Self(_mm512_shuffle_i64x2::<0xdd>(ab, cd)).store(lane(2 * half + 1));
            }
        }

        #[inline(always)]
        fn delayed(self, before: Self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self(_mm512_alignr_epi64::<6>(self.0, before.0)) }
        }
    }
    {
        #[inline(always)]
        fn gathered(self) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe {
                let (low, high) = (
                    _mm512_castsi512_si256(self.0),
                    _mm512_extracti64x4_epi64::<1>(self.0),
                );
                let two = _mm256_xor_si256(low, high);
                let (low, high) = (
                    _mm256_castsi256_si128(two),
                    _mm256_extracti128_si256::<1>(two),
                );
                Self(_mm512_zextsi128_si512(_mm_xor_si128(low, high)))
            }
        }
    }
}

kernels! {
    #[target_feature(enable = "aes,vaes,vpclmulqdq,avx512f,avx512bw,avx512vl")]
    backend: Vaes;
    single: X1;
    one: X4, 8;
    many: X4, 1; X4, 4; X4, 8; X4, 12;
}
