//! VAES with AVX2: two blocks a register.

use core::arch::x86_64::*;

use super::aesni::X1;
use super::kernels;
use crate::aes::Block;
use crate::aes::block::{BlockVector, Polynomials};
use crate::aes::cipher::{KeyInPlace, MAX_ROUND_KEYS};

/// Two blocks. A value exists only where the processor has VAES and AVX2.
#[derive(Clone, Copy)]
pub(super) struct X2(__m256i);

impl BlockVector for X2 {
    const BLOCKS: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const Block) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Block) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(block: &Block) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe {
            Self(_mm256_broadcastsi128_si256(_mm_loadu_si128(
                block.as_ptr().cast(),
            )))
        }
    }

    type Keys<'k> = KeyInPlace<'k>;

    #[inline(always)]
    unsafe fn keys(round_keys: &[Block; MAX_ROUND_KEYS]) -> KeyInPlace<'_> {
        KeyInPlace::new(round_keys)
    }

    #[inline(always)]
    unsafe fn load_part(from: *const Block, _count: usize) -> Self {
        // SAFETY: the caller's promise: it can only be one block.
        unsafe { Self(_mm256_zextsi128_si256(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut Block, _count: usize) {
        // SAFETY: the caller's promise: it can only be one block.
        unsafe { _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0)) }
    }

    /// Little-endian blocks.
    type Numbers = Self;

    #[inline(always)]
    unsafe fn numbers(first: u128) -> Self {
        let numbers = [first, first.wrapping_add(1)].map(u128::to_le_bytes);
        // SAFETY: the caller's promise.
        unsafe { Self::load(numbers.as_ptr()) }
    }

    #[inline(always)]
    fn count_on(numbers: Self, more: u64) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            Self(_mm256_add_epi64(
                numbers.0,
                _mm256_set_epi64x(0, more as i64, 0, more as i64),
            ))
        }
    }

    #[inline(always)]
    fn counters(numbers: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            let reverse = _mm256_broadcastsi128_si256(_mm_set_epi64x(
                0x0001_0203_0405_0607,
                0x0809_0a0b_0c0d_0e0f,
            ));
            Self(_mm256_shuffle_epi8(numbers.0, reverse))
        }
    }

    #[inline(always)]
    unsafe fn load_columns(
        from: *const *mut Block,
        offset: usize,
        half: usize,
        columns: &mut [Self; 4],
    ) {
        // SAFETY: the caller's promise; unaligned.
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
        // SAFETY: the caller's promise; unaligned.
        unsafe {
            let (even, odd) = (columns[2 * half].0, columns[2 * half + 1].0);
            let two = |lane| (*to.add(lane)).byte_add(offset).add(2 * half);
            Self(_mm256_permute2x128_si256::<0x20>(even, odd)).store(two(0));
            Self(_mm256_permute2x128_si256::<0x31>(even, odd)).store(two(1));
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_aesenc_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_aesenclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_aesdec_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_aesdeclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn delayed(self, before: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_permute2x128_si256::<0x21>(before.0, self.0)) }
    }

    type Polynomials = Self;

    #[inline(always)]
    fn polynomials(self) -> impl IntoIterator<Item = Self> {
        // The same bytes the other way round.
        [Self::counters(self)]
    }
}

impl Polynomials for X2 {
    const COUNT: usize = 2;

    #[inline(always)]
    unsafe fn read(from: *const u128) -> Self {
        // SAFETY: the caller's promise; unaligned.
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn single(polynomial: u128) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self(_mm256_zextsi128_si256(_mm_loadu_si128(
                (&raw const polynomial).cast(),
            )))
        }
    }

    #[inline(always)]
    unsafe fn everywhere(polynomial: u128) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::broadcast(&polynomial.to_le_bytes()) }
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut u128) {
        // SAFETY: the caller's promise; unaligned.
        unsafe { self.store(to.cast()) }
    }

    #[inline(always)]
    fn number(self) -> u128 {
        u128::from_le_bytes(self.first())
    }

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

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.xor(other)
    }

    #[inline(always)]
    fn exchanged(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm256_shuffle_epi32::<0x4e>(self.0)) }
    }

    #[inline(always)]
    fn times<const HALF: bool, const OTHER: bool>(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            Self(match (HALF, OTHER) {
                (false, false) => _mm256_clmulepi64_epi128::<0x00>(a, b),
                (true, false) => _mm256_clmulepi64_epi128::<0x01>(a, b),
                (false, true) => _mm256_clmulepi64_epi128::<0x10>(a, b),
                (true, true) => _mm256_clmulepi64_epi128::<0x11>(a, b),
            })
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
