//! Eight blocks at once, on processors with AVX-512 IFMA: its instructions give the low or the high 52 bits of products
//! of numbers of 52 bits, and add them to 64 bits, which do not overflow for long.
//!
//! * NH: the eight products of a block are in the eight lanes of a register; a word is 52 bits and 12. What a block's
//!   lanes hold is summed for eight blocks together, each sum ending in a lane of its own.
//! * The polynomial: lane `i` takes every eighth coefficient from the `i`th on, and the eighth power of the point. So it
//!   waits for itself once in eight blocks. A number is 43, 43 and 41 bits. The lanes are joined at the end.

use core::arch::x86_64::*;

use super::{BLOCK, Key, Sum, WORDS, fold};

/// Blocks at once.
pub(super) const GROUP: usize = 8;

/// How far ahead of its use data is asked for, in bytes: the processor by itself does not look beyond a page of 4 KiB.
const AHEAD: usize = 6144;

/// Bits of a number modulo 2¹²⁷ − 1, low ones first. In a product of the second and third part the third is worth
/// 2¹²⁹, which is 4.
const PARTS: [u32; 3] = [43, 43, 41];

/// A power of a point in parts, each in all lanes, ready to be multiplied with.
struct Power {
    /// Shifted so that the low 52 bits of a product are what remains in the same part, and the high ones go to the next.
    parts: [__m512i; 3],
    /// The highest part times 4.
    wrapped: __m512i,
}

/// As [`Key::absorb`].
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn absorb<const N: usize>(
    key: &Key,
    sums: &mut [Sum; N],
    groups: &[[[u8; BLOCK]; GROUP]],
) {
    let zero = _mm512_setzero_si512();
    let mut nh = [[zero; 2]; N];
    let mut power = [const { None }; N];
    let mut state = [[zero; 3]; N];
    for hash in 0..N {
        let (words, _) = key.nh[2 * hash..].as_chunks::<8>();
        nh[hash] = words_by_turns(load(&words[0]), load(&words[1]));
        power[hash] = Some(Power::new(key.eighth_powers[hash]));
        // What was before goes on in the last lane, whose sum is multiplied no more in the end.
        for (part, number) in state[hash].iter_mut().zip(parts(sums[hash])) {
            *part = _mm512_maskz_set1_epi64(1 << (GROUP - 1), number as i64);
        }
    }

    for group in groups {
        for line in (0..GROUP * BLOCK).step_by(64) {
            let address = group.as_flattened().as_ptr().wrapping_add(AHEAD + line);
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
        let mut halves = [[[zero; 4]; 3]; N];
        for (pair, blocks) in group.as_chunks::<2>().0.iter().enumerate() {
            let first = products(&nh, &blocks[0]);
            let second = products(&nh, &blocks[1]);
            for hash in 0..N {
                for part in 0..3 {
                    halves[hash][part][pair] = add_pairs(first[hash][part], second[hash][part]);
                }
            }
        }
        for hash in 0..N {
            let mut nh_sums = [zero; 3];
            for part in 0..3 {
                nh_sums[part] = add_quarters(halves[hash][part]);
            }
            let power = power[hash].as_ref().expect("one for each");
            state[hash] = power.step(state[hash], coefficient(nh_sums));
        }
    }

    for hash in 0..N {
        let mut lanes = [[0_u64; GROUP]; 3];
        for (lanes, part) in lanes.iter_mut().zip(state[hash]) {
            // SAFETY: as long as a register; unaligned.
            unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), part) };
        }
        sums[hash] = (0..GROUP).fold(0, |sum, lane| {
            let [low, middle, high] = lanes.map(|part| u128::from(part[lane]));
            let lane = fold(low + (middle << PARTS[0]) + (high << (PARTS[0] + PARTS[1])));
            fold(key.points[hash].step(sum, 0) + fold(lane))
        });
    }
}

#[target_feature(enable = "avx512f")]
fn load(words: &[u64; 8]) -> __m512i {
    // SAFETY: as long as a register; unaligned.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The first words of all pairs of a block, and the second ones.
#[target_feature(enable = "avx512f")]
fn words_by_turns(low: __m512i, high: __m512i) -> [__m512i; 2] {
    [
        _mm512_unpacklo_epi64(low, high),
        _mm512_unpackhi_epi64(low, high),
    ]
}

/// The products of NH, one a lane, of which bits from 0, 52 and 104 on are apart; the last reach beyond bit 125.
#[target_feature(enable = "avx512f,avx512ifma")]
fn products<const N: usize>(nh: &[[__m512i; 2]; N], block: &[u8; BLOCK]) -> [[__m512i; 3]; N] {
    let zero = _mm512_setzero_si512();
    // SAFETY: a block is two registers; unaligned.
    let [first, second] = unsafe {
        let registers: *const __m512i = block.as_ptr().cast();
        words_by_turns(
            _mm512_loadu_si512(registers),
            _mm512_loadu_si512(registers.add(1)),
        )
    };
    let mut products = [[zero; 3]; N];
    for (key, products) in nh.iter().zip(&mut products) {
        let a = _mm512_add_epi64(first, key[0]);
        let b = _mm512_add_epi64(second, key[1]);
        let a_high = _mm512_srli_epi64::<52>(a);
        let b_high = _mm512_srli_epi64::<52>(b);
        let middle = _mm512_madd52hi_epu64(zero, a, b);
        let middle = _mm512_madd52lo_epu64(middle, a, b_high);
        let high = _mm512_madd52hi_epu64(zero, a, b_high);
        let high = _mm512_madd52hi_epu64(high, a_high, b);
        *products = [
            _mm512_madd52lo_epu64(zero, a, b),
            _mm512_madd52lo_epu64(middle, a_high, b),
            _mm512_madd52lo_epu64(high, a_high, b_high),
        ];
    }
    products
}

/// In even lanes sums of two lanes of `a`, in odd ones of `b`.
#[target_feature(enable = "avx512f")]
fn add_pairs(a: __m512i, b: __m512i) -> __m512i {
    let stay = _mm512_mask_blend_epi64(0b1010_1010, a, b);
    let cross = _mm512_castpd_si512(_mm512_shuffle_pd::<0b0101_0101>(
        _mm512_castsi512_pd(a),
        _mm512_castsi512_pd(b),
    ));
    _mm512_add_epi64(stay, cross)
}

/// Adds the four pairs of lanes of each, for lanes 0 and 1 those of the first, and so on.
#[target_feature(enable = "avx512f")]
fn add_quarters([a, b, c, d]: [__m512i; 4]) -> __m512i {
    let [ab, cd] = [add_distant(a, b), add_distant(c, d)];
    _mm512_add_epi64(
        _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd),
        _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd),
    )
}

/// In the low half sums of both halves of `a`, in the high half of `b`.
#[target_feature(enable = "avx512f")]
fn add_distant(a: __m512i, b: __m512i) -> __m512i {
    let stay = _mm512_mask_blend_epi64(0b1111_0000, a, b);
    _mm512_add_epi64(stay, _mm512_shuffle_i64x2::<0b01_00_11_10>(a, b))
}

/// Sums of products in the parts of the polynomial's numbers, modulo 2¹²⁶.
#[target_feature(enable = "avx512f")]
fn coefficient([low, middle, high]: [__m512i; 3]) -> [__m512i; 3] {
    let mask = |bits: u32| _mm512_set1_epi64((1 << bits) - 1);
    let middle = _mm512_add_epi64(middle, _mm512_srli_epi64::<52>(low));
    let high = _mm512_add_epi64(high, _mm512_srli_epi64::<52>(middle));
    let low = _mm512_and_si512(low, mask(52));
    let middle = _mm512_and_si512(middle, mask(52));
    let high = _mm512_and_si512(high, mask(126 - 104));
    // Bits 43 to 51 of `low` are nine, with which the middle part begins.
    let second = _mm512_or_si512(_mm512_srli_epi64::<43>(low), _mm512_slli_epi64::<9>(middle));
    [
        _mm512_and_si512(low, mask(PARTS[0])),
        _mm512_and_si512(second, mask(PARTS[1])),
        _mm512_or_si512(
            _mm512_srli_epi64::<34>(middle),
            _mm512_slli_epi64::<18>(high),
        ),
    ]
}

impl Power {
    #[target_feature(enable = "avx512f")]
    fn new(number: Sum) -> Self {
        let [low, middle, high] =
            parts(number).map(|part| _mm512_set1_epi64((part << (52 - PARTS[0])) as i64));
        Self {
            parts: [low, middle, high],
            wrapped: _mm512_slli_epi64::<2>(high),
        }
    }

    /// `state` times this, plus a coefficient, in each lane. Parts may be longer by a bit.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn step(&self, state: [__m512i; 3], coefficient: [__m512i; 3]) -> [__m512i; 3] {
        let zero = _mm512_setzero_si512();
        let [k0, k1, k2] = self.parts;
        let [a, b, c] = state;
        let c4 = _mm512_slli_epi64::<2>(c);
        // Of each part, which factors it is a sum of products of.
        let factors = [
            [(a, k0), (b, self.wrapped), (c4, k1)],
            [(a, k1), (b, k0), (c, self.wrapped)],
            [(a, k2), (b, k1), (c, k0)],
        ];
        let mut low = [zero; 3];
        let mut high = [zero; 3];
        for part in 0..3 {
            for (x, y) in factors[part] {
                low[part] = _mm512_madd52lo_epu64(low[part], x, y);
                high[part] = _mm512_madd52hi_epu64(high[part], x, y);
            }
            low[part] = _mm512_add_epi64(_mm512_srli_epi64::<9>(low[part]), coefficient[part]);
        }
        let first = _mm512_add_epi64(low[0], _mm512_slli_epi64::<2>(high[2]));
        let second = _mm512_add_epi64(low[1], high[0]);
        let third = _mm512_add_epi64(low[2], high[1]);
        let mask = |bits: u32| _mm512_set1_epi64((1 << bits) - 1);
        [
            _mm512_add_epi64(
                _mm512_and_si512(first, mask(PARTS[0])),
                _mm512_srli_epi64::<41>(third),
            ),
            _mm512_add_epi64(
                _mm512_and_si512(second, mask(PARTS[1])),
                _mm512_srli_epi64::<43>(first),
            ),
            _mm512_add_epi64(
                _mm512_and_si512(third, mask(PARTS[2])),
                _mm512_srli_epi64::<43>(second),
            ),
        ]
    }
}

/// A number modulo 2¹²⁷ − 1 in parts.
fn parts(number: Sum) -> [u64; 3] {
    let number = fold(number);
    let mask = |bits: u32| (1_u64 << bits) - 1;
    [
        number as u64 & mask(PARTS[0]),
        (number >> PARTS[0]) as u64 & mask(PARTS[1]),
        (number >> (PARTS[0] + PARTS[1])) as u64,
    ]
}

const _: () = assert!(WORDS == 16, "two registers");
