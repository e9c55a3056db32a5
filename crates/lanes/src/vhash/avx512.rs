//! Eight blocks at once, on processors with AVX-512 IFMA: its instructions give the low or the high
//! 52 bits of products of numbers of 52 bits, and add them to 64 bits, which do not overflow for
//! long.
//!
//! * NH: a lane takes every second pair of words of one of four blocks. The two lanes of a block
//!   are summed for eight blocks together, each sum ending in a lane of its own. A word is 52 bits
//!   and 12.
//! * The polynomial: lane `i` takes every eighth coefficient from the `i`th on, and the eighth
//!   power of the point. So it waits for itself once in eight blocks. A number is 43, 43 and 41
//!   bits; its parts may grow during two steps. The lanes are joined at the end.
//!
//! Everything here is inlined into [`absorb`], the one function that has the instruction set: a
//! call would send all of its registers through memory. The test `hot_loops` looks at what the
//! compiler made of it.

use core::arch::x86_64::*;

use super::{BLOCK, Key, Sum, WORDS, fold};
use crate::prefetch::prefetch;

/// Blocks at once.
pub(super) const GROUP_BLOCKS: usize = 8;

/// Distance of prefetching in bytes: the processor itself does not prefetch beyond a page of 4 KiB.
const AHEAD_BYTES: usize = 6144;

/// Groups between which the parts of the polynomial's numbers grow.
const GROWING_GROUPS: usize = 2;

/// Bytes of a block that are in half a register: two pairs of words.
const CHUNK: usize = 32;

/// Bits of each part of a number modulo 2¹²⁷ − 1, low ones first. In a product of the second and
/// third part the third is worth 2¹²⁹, which is 4.
const PART_BITS: [u32; 3] = [43, 43, 41];

/// Eight numbers of 64 bits. A value exists only where the processor has AVX-512 F and IFMA: only
/// the constructor `zero` is `unsafe`, since it demands that.
#[derive(Clone, Copy)]
struct X8(__m512i);

/// The operations that are one instruction each.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $(<const $constant:ident: $type:ty>)? ($($arg:ident),*) = $intrinsic:ident;
    )*) => {$(
        $(#[$doc])*
        #[inline(always)]
        fn $name $(<const $constant: $type>)? (self, $($arg: Self),*) -> Self {
            // SAFETY: a value of this type shows that the processor has the instruction set.
            unsafe { Self($intrinsic $(::<$constant>)? (self.0, $($arg.0),*)) }
        }
    )*};
}

impl X8 {
    /// Zeros.
    ///
    /// # Safety
    ///
    /// The processor has AVX-512 F and IFMA.
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self(_mm512_setzero_si512()) }
    }

    /// Reads eight numbers. `self` only proves that the processor has the instruction set.
    #[inline(always)]
    fn load(self, from: &[u64; 8]) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set; the array
        // is as long as a register.
        unsafe { Self(_mm512_loadu_si512(from.as_ptr().cast())) }
    }

    /// Reads four numbers, and four more. `self` only proves that the processor has the instruction
    /// set.
    #[inline(always)]
    fn load_halves(self, low: &[u8; CHUNK], high: &[u8; CHUNK]) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set; each of
        // the two is as long as half a register, and need not be aligned.
        unsafe {
            let low = _mm512_castsi256_si512(_mm256_loadu_si256(low.as_ptr().cast()));
            let high = _mm256_loadu_si256(high.as_ptr().cast());
            Self(_mm512_inserti64x4::<1>(low, high))
        }
    }

    /// The eight numbers.
    #[inline(always)]
    fn numbers(self) -> [u64; 8] {
        let mut numbers = [0; 8];
        // SAFETY: a value of this type shows that the processor has the instruction set; the array
        // is as long as a register.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), self.0) };
        numbers
    }

    /// `number` in every lane. `self` only proves that the processor has the instruction set.
    #[inline(always)]
    fn splat(self, number: u64) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_set1_epi64(number as i64)) }
    }

    /// The lowest `bits` bits of each number.
    #[inline(always)]
    fn low_bits(self, bits: u32) -> Self {
        self.and(self.splat((1 << bits) - 1))
    }

    /// `number` in lane `LANE`, the others as they are.
    #[inline(always)]
    fn with_lane<const LANE: usize>(self, number: u64) -> Self {
        // SAFETY: a value of this type shows that the processor has the instruction set.
        unsafe { Self(_mm512_mask_set1_epi64(self.0, 1 << LANE, number as i64)) }
    }

    operations! {
        /// Lane by lane, modulo 2⁶⁴.
        fn add(other) = _mm512_add_epi64;
        /// Bit by bit.
        fn and(other) = _mm512_and_si512;
        /// Shifts each number by `BITS` bits.
        fn shift_left<const BITS: u32>() = _mm512_slli_epi64;
        /// Shifts each number by `BITS` bits.
        fn shift_right<const BITS: u32>() = _mm512_srli_epi64;
        /// Adds the low 52 bits of the product of the low 52 bits of `a` and `b`.
        fn add_product_low(a, b) = _mm512_madd52lo_epu64;
        /// Adds the high 52 bits of the same product.
        fn add_product_high(a, b) = _mm512_madd52hi_epu64;
        /// The first numbers of all pairs of lanes, of `self` and `other` by turns.
        fn first_of_pairs(other) = _mm512_unpacklo_epi64;
        /// The second ones.
        fn second_of_pairs(other) = _mm512_unpackhi_epi64;
        /// Two pairs of lanes of `self`, then two of `other`, as `PAIRS` says, two bits for each.
        fn shuffle_pairs<const PAIRS: i32>(other) = _mm512_shuffle_i64x2;
    }
}

/// A power of a point in parts, each in all lanes, ready to be multiplied with.
#[derive(Clone, Copy)]
struct Power {
    /// Shifted so that the low 52 bits of a product are what remains in the same part, and the high
    /// ones go to the next.
    parts: [X8; 3],
    /// The highest part times 4.
    wrapped: X8,
}

/// As [`Key::absorb_one`] and [`Key::absorb_two`], for `N` hashes.
///
/// # Safety
///
/// The processor has AVX-512 F and IFMA.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) unsafe fn absorb<const N: usize>(
    key: &Key,
    sums: &mut [Sum; N],
    groups: &[[[u8; BLOCK]; GROUP_BLOCKS]],
) {
    // SAFETY: the caller vouches for the instruction set.
    let zero = unsafe { X8::zero() };
    let mut nh = [NhKey::EMPTY; N];
    let mut powers = [Power::new(zero, 0); N];
    let mut state = [[zero; 3]; N];
    for hash in 0..N {
        nh[hash] = NhKey::new(key.nh[2 * hash..].first_chunk().expect("two pairs more"));
        powers[hash] = Power::new(zero, key.eighth_powers[hash]);
        // The sum so far starts in the last lane, whose sum needs no multiplication in the end.
        for (part, number) in state[hash].iter_mut().zip(parts(sums[hash])) {
            *part = zero.with_lane::<{ GROUP_BLOCKS - 1 }>(number);
        }
    }

    // Loops over hashes and parts: `map` would call what is not inlined into it.
    let (several, rest) = groups.as_chunks::<GROWING_GROUPS>();
    for groups in several {
        for group in groups {
            let coefficients = coefficients(&nh, &powers, group);
            for hash in 0..N {
                state[hash] = powers[hash].step(state[hash], coefficients[hash]);
            }
        }
        for state in &mut state {
            *state = shorten(*state);
        }
    }
    for group in rest {
        let coefficients = coefficients(&nh, &powers, group);
        for hash in 0..N {
            state[hash] = shorten(powers[hash].step(state[hash], coefficients[hash]));
        }
    }

    for hash in 0..N {
        let [low, middle, high] = state[hash];
        let (low, middle, high) = (low.numbers(), middle.numbers(), high.numbers());
        sums[hash] = (0..GROUP_BLOCKS).fold(0, |sum, lane| {
            let [low, middle, high] = [low, middle, high].map(|part| u128::from(part[lane]));
            let number = low + (middle << PART_BITS[0]) + (high << (PART_BITS[0] + PART_BITS[1]));
            fold(key.points[hash].step(sum, 0) + fold(fold(number)))
        });
    }
}

/// The key of NH: for each chunk of a block the first words of its two pairs and the second ones,
/// each in the lanes of four blocks.
#[derive(Clone, Copy)]
struct NhKey([[[u64; 8]; 2]; BLOCK / CHUNK]);

impl NhKey {
    const EMPTY: Self = Self([[[0; 8]; 2]; _]);

    #[inline(always)]
    fn new(words: &[u64; WORDS]) -> Self {
        let mut key = Self::EMPTY;
        for (chunk, key) in key.0.iter_mut().enumerate() {
            for (place, key) in key.iter_mut().enumerate() {
                for (lane, word) in key.iter_mut().enumerate() {
                    *word = words[CHUNK / 8 * chunk + 2 * (lane / 2 % 2) + place];
                }
            }
        }
        key
    }
}

/// Sums of products of NH, each split into its bits from 0, 52 and 104 on.
type Products = [X8; 3];

/// Adds the products of words `a` and `b` of all lanes.
#[inline(always)]
fn add_products([low, middle, high]: Products, a: X8, b: X8) -> Products {
    let (a_high, b_high) = (a.shift_right::<52>(), b.shift_right::<52>());
    [
        low.add_product_low(a, b),
        middle
            .add_product_high(a, b)
            .add_product_low(a, b_high)
            .add_product_low(a_high, b),
        high.add_product_high(a, b_high)
            .add_product_high(a_high, b)
            .add_product_low(a_high, b_high),
    ]
}

/// The sums of NH of eight blocks, each in a lane of its own, modulo 2¹²⁶ but for high bits that
/// [`Power::step`] leaves out.
#[inline(always)]
fn coefficients<const N: usize>(
    keys: &[NhKey; N],
    powers: &[Power; N],
    group: &[[u8; BLOCK]; GROUP_BLOCKS],
) -> [Products; N] {
    let zero = powers[0].parts[0].splat(0);
    for line in (0..GROUP_BLOCKS * BLOCK).step_by(64) {
        prefetch(
            group
                .as_flattened()
                .as_ptr()
                .wrapping_add(AHEAD_BYTES + line),
        );
    }
    let mut halves = [[[zero; 3]; 2]; N];
    for (half, [first, second, third, fourth]) in group.as_chunks().0.iter().enumerate() {
        for chunk in 0..BLOCK / CHUNK {
            let even = zero.load_halves(chunk_of(first, chunk), chunk_of(third, chunk));
            let odd = zero.load_halves(chunk_of(second, chunk), chunk_of(fourth, chunk));
            let (a, b) = (even.first_of_pairs(odd), even.second_of_pairs(odd));
            for hash in 0..N {
                let [a_key, b_key] = &keys[hash].0[chunk];
                let (a, b) = (a.add(zero.load(a_key)), b.add(zero.load(b_key)));
                halves[hash][half] = add_products(halves[hash][half], a, b);
            }
        }
    }
    let mut sums = [[zero; 3]; N];
    for hash in 0..N {
        for part in 0..3 {
            sums[hash][part] = add_halves(halves[hash][0][part], halves[hash][1][part]);
        }
        sums[hash] = carry(sums[hash]);
    }
    sums
}

/// Adds neighbouring pairs of lanes: in the low half those of `a`, in the high half of `b`.
#[inline(always)]
fn add_halves(a: X8, b: X8) -> X8 {
    let even = a.shuffle_pairs::<0b10_00_10_00>(b);
    even.add(a.shuffle_pairs::<0b11_01_11_01>(b))
}

#[inline(always)]
fn chunk_of(block: &[u8; BLOCK], chunk: usize) -> &[u8; CHUNK] {
    &block.as_chunks().0[chunk]
}

/// Carries bits beyond 52 upwards. The first two parts keep the carried bits, which [`Power::step`]
/// leaves out; the last part is cut, which reduces the sum modulo 2¹²⁶.
#[inline(always)]
fn carry([low, middle, high]: Products) -> Products {
    let middle = middle.add(low.shift_right::<52>());
    let high = high.add(middle.shift_right::<52>());
    [low, middle, high.low_bits(126 - 104)]
}

/// Carries what goes beyond a part: less than two bits remain to carry.
#[inline(always)]
fn shorten([first, second, third]: [X8; 3]) -> [X8; 3] {
    [
        first
            .low_bits(PART_BITS[0])
            .add(third.shift_right::<{ PART_BITS[2] }>()),
        second
            .low_bits(PART_BITS[1])
            .add(first.shift_right::<{ PART_BITS[0] }>()),
        third
            .low_bits(PART_BITS[2])
            .add(second.shift_right::<{ PART_BITS[1] }>()),
    ]
}

impl Power {
    /// The power `number`. `zero` only proves that the processor has the instruction set.
    #[inline(always)]
    fn new(zero: X8, number: Sum) -> Self {
        let [low, middle, high] = parts(number);
        let part = |part: u64| part << (52 - PART_BITS[0]);
        let high = zero.splat(part(high));
        Self {
            parts: [zero.splat(part(low)), zero.splat(part(middle)), high],
            wrapped: high.shift_left::<2>(),
        }
    }

    /// `state` times this, plus the coefficient with these products, in each lane. With parts of
    /// 44, 44 and 42 bits in `state`, those of the result have less than 47 bits, and those of the
    /// step after it less than 50: what is multiplied, also by four, has less than 52.
    #[inline(always)]
    fn step(self, state: [X8; 3], coefficient: Products) -> [X8; 3] {
        let zero = state[0].splat(0);
        let [k0, k1, k2] = self.parts;
        let [a, b, c] = state;
        let c4 = c.shift_left::<2>();
        // Of each part, which factors it is a sum of products of.
        let factors = [
            [(a, k0), (b, self.wrapped), (c4, k1)],
            [(a, k1), (b, k0), (c, self.wrapped)],
            [(a, k2), (b, k1), (c, k0)],
        ];
        let (mut low, mut high) = ([zero; 3], [zero; 3]);
        for part in 0..3 {
            // Converts bits of a product to bits of parts, shifted as in `parts`: of the 52 bits
            // from bit `52 * part` on, those below the next part stay, the others go into the next
            // one.
            let shift = zero.splat(1 << (9 * (part + 1)));
            low[part] = low[part].add_product_low(coefficient[part], shift);
            if part < 2 {
                high[part] = high[part].add_product_high(coefficient[part], shift);
            }
            for (x, y) in factors[part] {
                low[part] = low[part].add_product_low(x, y);
                high[part] = high[part].add_product_high(x, y);
            }
            low[part] = low[part].shift_right::<{ 52 - PART_BITS[0] }>();
        }
        [
            low[0].add(high[2].shift_left::<2>()),
            low[1].add(high[0]),
            low[2].add(high[1]),
        ]
    }
}

/// A number modulo 2¹²⁷ − 1 in parts.
fn parts(number: Sum) -> [u64; 3] {
    let number = fold(number);
    let mask = |bits: u32| (1_u64 << bits) - 1;
    [
        number as u64 & mask(PART_BITS[0]),
        (number >> PART_BITS[0]) as u64 & mask(PART_BITS[1]),
        (number >> (PART_BITS[0] + PART_BITS[1])) as u64,
    ]
}
