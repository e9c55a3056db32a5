//! The AES and PMULL instructions of aarch64 on one block a register.

use core::arch::aarch64::*;

use super::kernels;
use crate::aes::block::{Block, BlockVector, Polynomials, word_places};
use crate::aes::cipher::KeyInPlace;
use crate::aes::round_keys::ROUND_KEYS_MAX;

/// Functions of their own, to have the instruction set without being a part of their callers before
/// those have it.
macro_rules! with_instructions {
    ($(fn $name:ident($($arg:ident: $of:ty),*) = $e:expr;)*) => {$(
        #[inline]
        #[target_feature(enable = "aes")]
        fn $name($($arg: $of),*) -> uint8x16_t {
            $e
        }
    )*};
}

// The instructions of AES add a key before they do anything else. The compiler makes that of an
// addition which comes before, so that it costs no instruction.
with_instructions! {
    fn encrypt_and_mix(block: uint8x16_t) = vaesmcq_u8(vaeseq_u8(block, vdupq_n_u8(0)));
    fn encrypt(block: uint8x16_t) = vaeseq_u8(block, vdupq_n_u8(0));
    fn decrypt_and_mix(block: uint8x16_t) = vaesimcq_u8(vaesdq_u8(block, vdupq_n_u8(0)));
    fn decrypt(block: uint8x16_t) = vaesdq_u8(block, vdupq_n_u8(0));
    fn low_product(a: uint64x2_t, b: uint64x2_t) = vreinterpretq_u8_p128(
        vmull_p64(vgetq_lane_u64::<0>(a), vgetq_lane_u64::<0>(b)));
    fn high_product(a: uint64x2_t, b: uint64x2_t) = vreinterpretq_u8_p128(
        vmull_high_p64(vreinterpretq_p64_u64(a), vreinterpretq_p64_u64(b)));
}

/// One block. A value exists only where the processor has the AES and PMULL instructions.
#[derive(Clone, Copy)]
struct X1(uint8x16_t);

impl X1 {
    /// The halves of a polynomial, the low one first.
    #[inline(always)]
    fn halves(self) -> uint64x2_t {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { vreinterpretq_u64_u8(self.0) }
    }
}

impl BlockVector for X1 {
    const BLOCKS: usize = 1;
    const KEY_FIRST: bool = true;

    #[inline(always)]
    unsafe fn load(from: *const Block) -> Self {
        // SAFETY: the caller vouches for the block, which need not be aligned.
        Self(unsafe { vld1q_u8(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Block) {
        // SAFETY: the caller vouches for the block, which need not be aligned.
        unsafe { vst1q_u8(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn broadcast(block: &Block) -> Self {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self::load(block) }
    }

    type Keys<'k> = KeyInPlace<'k>;

    #[inline(always)]
    unsafe fn keys(round_keys: &[Block; ROUND_KEYS_MAX]) -> KeyInPlace<'_> {
        KeyInPlace::new(round_keys)
    }

    /// A little-endian block.
    type Numbers = Self;

    #[inline(always)]
    unsafe fn numbers(first: u128) -> Self {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self::load(&first.to_le_bytes()) }
    }

    #[inline(always)]
    fn count_on(numbers: Self, more: u64) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            let more = vcombine_u64(vcreate_u64(more), vcreate_u64(0));
            Self(vreinterpretq_u8_u64(vaddq_u64(numbers.halves(), more)))
        }
    }

    #[inline(always)]
    fn counters(numbers: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            let halves = vrev64q_u8(numbers.0);
            Self(vextq_u8::<8>(halves, halves))
        }
    }

    #[inline(always)]
    unsafe fn load_columns(
        from: *const *mut Block,
        offset: usize,
        half: usize,
        columns: &mut [Self; 4],
    ) {
        for i in [2 * half, 2 * half + 1] {
            // SAFETY: behind the pointer are four readable blocks, of which each half is two.
            columns[i] = unsafe { Self::load((*from).byte_add(offset).add(i)) };
        }
    }

    #[inline(always)]
    unsafe fn store_columns(
        columns: &[Self; 4],
        to: *const *mut Block,
        offset: usize,
        half: usize,
    ) {
        for i in [2 * half, 2 * half + 1] {
            // SAFETY: behind the pointer are four writable blocks, of which each half is two.
            unsafe { columns[i].store((*to).byte_add(offset).add(i)) };
        }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(veorq_u8(self.0, other.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(encrypt_and_mix(self.0)).xor(key) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(encrypt(self.0)).xor(key) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(decrypt_and_mix(self.0)).xor(key) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(decrypt(self.0)).xor(key) }
    }

    #[inline(always)]
    fn word_everywhere<const WORD: usize, const BYTES: usize>(self) -> Self {
        let from = const { word_places(WORD, BYTES) };
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(vqtbl1q_u8(self.0, Self::load(&from).0)) }
    }

    #[inline(always)]
    fn running_sums(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            let zero = vdupq_n_u8(0);
            let two = veorq_u8(self.0, vextq_u8::<12>(zero, self.0));
            Self(veorq_u8(two, vextq_u8::<8>(zero, two)))
        }
    }

    #[inline(always)]
    fn delayed(self, before: Self) -> Self {
        before
    }

    type Polynomials = Self;

    #[inline(always)]
    fn polynomials(self) -> impl IntoIterator<Item = Self> {
        // The same bytes the other way round.
        [Self::counters(self)]
    }
}

impl Polynomials for X1 {
    const COUNT: usize = 1;

    #[inline(always)]
    unsafe fn read(from: *const u128) -> Self {
        // SAFETY: the caller vouches for the instruction set and the number.
        unsafe { Self::load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn single(polynomial: u128) -> Self {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self::numbers(polynomial) }
    }

    #[inline(always)]
    unsafe fn everywhere(polynomial: u128) -> Self {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self::numbers(polynomial) }
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut u128) {
        // SAFETY: the caller vouches for the number.
        unsafe { self.store(to.cast()) }
    }

    #[inline(always)]
    fn number(self) -> u128 {
        u128::from_le_bytes(self.first())
    }

    #[inline(always)]
    fn gathered(self) -> Self {
        self
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.xor(other)
    }

    #[inline(always)]
    fn exchanged(self) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(vextq_u8::<8>(self.0, self.0)) }
    }

    #[inline(always)]
    fn times<const HALF: bool, const OTHER: bool>(self, other: Self) -> Self {
        // There are products of two low halves and of two high ones.
        let other = if HALF == OTHER {
            other
        } else {
            other.exchanged()
        };
        let (a, b) = (self.halves(), other.halves());
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe {
            Self(if HALF {
                high_product(a, b)
            } else {
                low_product(a, b)
            })
        }
    }
}

kernels! {
    #[target_feature(enable = "aes")]
    backend: ArmCe;
    single: X1;
    one: X1, 8;
    many: X1, 2; X1, 4; X1, 8;
}
