//! VHASH, the universal hash of VMAC (draft-krovetz-vmac-01): the half of a MAC that goes through
//! the message.
//!
//! By itself it authenticates nothing; `tabane_engine::vmac` is the MAC. Three levels, each with a
//! key of its own:
//!
//! 1. *NH* sums products of pairs of 64-bit words of a block, the key added to each word: one
//!    product for 16 bytes. The second hash of a tag of 128 bits is the same with the key shifted
//!    by a pair.
//! 2. A *polynomial* modulo 2¹²⁷ − 1 has the sums of all blocks as its coefficients.
//! 3. The value of the polynomial is hashed to 64 bits, by an inner product of two words modulo 2⁶⁴
//!    − 257.
//!
//! Where there is AVX-512 IFMA (and `TABANE_SIMD` does not ask for another instruction set than
//! AVX-512), the first two levels take eight blocks at once. Nothing here looks up a table by a
//! secret or branches on one.

#[cfg(target_arch = "x86_64")]
mod avx512;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::aes;
#[cfg(target_arch = "x86_64")]
use crate::backend::{self, Backend};

/// Bytes in a block, for each of which the polynomial takes a step: the draft leaves it open, and
/// takes this itself.
pub const BLOCK: usize = 128;

/// 64-bit words in a block.
const WORDS: usize = BLOCK / 8;

/// The primes of the second and third level, the latter as its difference from 2⁶⁴.
const P127: u128 = (1 << 127) - 1;
const P64_GAP: u128 = 257;

/// The sum so far of one polynomial: at most 2¹²⁷.
pub type Sum = u128;

/// The sums before the first block.
pub const EMPTY: [Sum; 2] = [1; 2];

/// The keys of all levels of two hashes, of which a tag of 64 bits needs the first. Overwritten
/// with zeros when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Key {
    nh: [u64; WORDS + 2],
    points: [Point; 2],
    /// The eighth power of each point, for [`avx512`].
    eighth_powers: [Sum; 2],
    end: [[u64; 2]; 2],
    /// Whether [`avx512`] may run.
    wide: bool,
}

/// A point at which a polynomial is evaluated: high and low word, each below 2⁶¹.
#[derive(Clone, Copy, Zeroize)]
struct Point(u64, u64);

impl Key {
    /// The draft's key derivation: a cipher in counter mode, one first byte a level.
    ///
    /// # Panics
    ///
    /// If the environment variable `TABANE_SIMD` is wrong: see [`crate::Backend::forced`].
    pub fn derive(cipher: &aes::Key) -> Self {
        let words = |level: u8| {
            (0..=u8::MAX).map(move |count| {
                let mut block = [0; aes::BLOCK];
                (block[0], block[15]) = (level, count);
                aes::ecb_encrypt(cipher, &mut block).expect("one block");
                big_endian_words(block)
            })
        };
        let mut key = Self {
            nh: [0; _],
            points: [Point(0, 0); 2],
            eighth_powers: [1; 2],
            end: [[0; 2]; 2],
            wide: wide(),
        };
        for (pair, words) in key.nh.as_chunks_mut().0.iter_mut().zip(words(0x80)) {
            *pair = words;
        }
        for (point, [high, low]) in key.points.iter_mut().zip(words(0xc0)) {
            const SMALL: u64 = 0x1fff_ffff_1fff_ffff;
            *point = Point(high & SMALL, low & SMALL);
        }
        for (power, point) in key.eighth_powers.iter_mut().zip(&key.points) {
            *power = (0..8).fold(1, |power, _| point.step(power, 0));
        }
        let below_p64 = |pair: &[u64; 2]| {
            pair.iter()
                .all(|&word| u128::from(word) + P64_GAP < 1 << 64)
        };
        for (pair, words) in key.end.iter_mut().zip(words(0xe0).filter(below_p64)) {
            *pair = words;
        }
        key
    }

    /// Goes on with whole blocks, behind which the message goes on, in the first hash.
    pub fn absorb_one(&self, sum: &mut Sum, blocks: &[[u8; BLOCK]]) {
        self.absorb(core::array::from_mut(sum), blocks);
    }

    /// Goes on with whole blocks, behind which the message goes on, in both hashes.
    pub fn absorb_two(&self, sums: &mut [Sum; 2], blocks: &[[u8; BLOCK]]) {
        self.absorb(sums, blocks);
    }

    /// Not public: the compiler would make it in the crate that calls it, out of calls into this
    /// one.
    #[inline(always)]
    fn absorb<const N: usize>(&self, sums: &mut [Sum; N], blocks: &[[u8; BLOCK]]) {
        #[cfg(target_arch = "x86_64")]
        let mut blocks = blocks;
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            let (groups, rest) = blocks.as_chunks();
            // One group alone does not pay for what its vectors need before and after.
            if groups.len() > 1 {
                // SAFETY: `wide` says that the processor has AVX-512 F and IFMA.
                unsafe { avx512::absorb(self, sums, groups) };
                blocks = rest;
            }
        }
        for block in blocks {
            let coefficients: [_; N] = self.nh(block.as_chunks().0);
            for hash in 0..N {
                sums[hash] = self.points[hash].step(sums[hash], coefficients[hash]);
            }
        }
    }

    /// The first `N` hashes, one or two, of a message that ends with the bytes `last`: at most a
    /// block, and empty only for an empty message.
    ///
    /// # Panics
    ///
    /// If `last` is longer than a block.
    pub fn finish<const N: usize>(&self, sums: [Sum; N], last: &[u8]) -> [u64; N] {
        let mut padded = [0; BLOCK];
        padded[..last.len()].copy_from_slice(last);
        let pairs = last.len().div_ceil(16);
        let coefficients = self.nh::<N>(&padded.as_chunks().0[..pairs]);
        padded.zeroize();
        let bits = 8 * (last.len() % BLOCK) as u128;
        core::array::from_fn(|hash| {
            let sum = self.points[hash].step(sums[hash], coefficients[hash]);
            hash_sum(sum + (bits << 64), &self.end[hash])
        })
    }

    /// The first level, modulo 2¹²⁶: at most a block, in pairs of words.
    #[inline(always)]
    fn nh<const N: usize>(&self, pairs: &[[u8; 16]]) -> [u128; N] {
        let mut sums = [0_u128; N];
        for (i, pair) in pairs.iter().enumerate() {
            let both = u128::from_le_bytes(*pair);
            let (first, second) = (both as u64, (both >> 64) as u64);
            for (hash, sum) in sums.iter_mut().enumerate() {
                let key = 2 * (i + hash);
                let first = first.wrapping_add(self.nh[key]);
                let second = second.wrapping_add(self.nh[key + 1]);
                *sum = sum.wrapping_add(product(first, second));
            }
        }
        sums.map(|sum| sum & (u128::MAX >> 2))
    }
}

impl Point {
    /// `sum` times this, plus a coefficient below 2¹²⁶. Modulo 2¹²⁷ − 1, and at most 2¹²⁷.
    #[inline(always)]
    fn step(self, sum: Sum, coefficient: u128) -> Sum {
        let Point(high, low) = self;
        let (sum_high, sum_low) = ((sum >> 64) as u64, sum as u64);
        // Nothing overflows, as the words of the point are below 2⁶¹ - 2³¹. Times 2¹²⁸ is times 2.
        let outer = product(sum_low, low) + 2 * product(sum_high, high);
        let middle = product(sum_high, low) + product(sum_low, high);
        // Times 2⁶⁴: what is above bit 63 is above bit 127 then, and begins anew.
        let middle_low = (middle << 64) & P127;
        let middle_high = middle >> 63;
        let all = outer + coefficient + middle_high + middle_low;
        fold(all)
    }
}

/// The same modulo 2¹²⁷ − 1, and at most 2¹²⁷.
#[inline(always)]
fn fold(number: u128) -> u128 {
    (number & P127) + (number >> 127)
}

/// The third level, of a number below 2¹²⁸.
fn hash_sum(sum: u128, key: &[u64; 2]) -> u64 {
    let sum = fold(sum);
    // Only 2¹²⁷ - 1 and 2¹²⁷ are too large now.
    let sum = (sum + ((sum + 1) >> 127)) & P127;

    // Quotient and remainder of a division by 2⁶⁴ - 2³², where the digits to the base of 2³² are a,
    // b, c, d: a·2⁶⁴ + b·2³² + c is (a·(2³² + 1) + b)·(2³² - 1), plus a + b + c.
    let digit = |place: u32| (sum >> (32 * place)) as u64 & 0xffff_ffff;
    let rest = digit(3) + digit(2) + digit(1);
    let quotient = (digit(3) << 32) + digit(3) + digit(2) + rest / 0xffff_ffff;
    let remainder = ((rest % 0xffff_ffff) << 32) + digit(0);

    let first = modulo_p64(u128::from(quotient) + u128::from(key[0]));
    let second = modulo_p64(u128::from(remainder) + u128::from(key[1]));
    modulo_p64(product(first, second))
}

/// The remainder of a division by 2⁶⁴ − 257, without a division, whose time would tell about the
/// number.
fn modulo_p64(number: u128) -> u64 {
    let fold = |number: u128| (number >> 64) * P64_GAP + u128::from(number as u64);
    let number = fold(fold(number));
    let too_large = (number + P64_GAP) >> 64;
    (number + too_large * P64_GAP) as u64
}

#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

fn big_endian_words(block: [u8; aes::BLOCK]) -> [u64; 2] {
    let both = u128::from_be_bytes(block);
    [(both >> 64) as u64, both as u64]
}

/// Whether the processor can run [`avx512`], and may.
fn wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return match Backend::forced() {
        Ok(None | Some(Backend::Avx512)) => {
            Backend::Avx512.is_available() && is_x86_feature_detected!("avx512ifma")
        }
        Ok(Some(_)) => false,
        Err(error) => panic!("{}: {error}", backend::VARIABLE),
    };
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn absorb<const N: usize>(key: &Key, blocks: &[[u8; BLOCK]]) -> [[u64; N]; 2] {
        // From sums that are as large as they get.
        let mut sums = [P127 + 1; N];
        key.absorb(&mut sums, blocks);
        // The end takes sums that differ by the modulus for the same.
        let ended = key.finish(sums, &[]);
        sums = [1; N];
        key.absorb(&mut sums, blocks);
        [ended, key.finish(sums, &[7])]
    }

    /// Keys and blocks of extreme and of arbitrary bits, where the tests of the MAC hardly get.
    #[test]
    fn wide_is_as_narrow() {
        let cipher = aes::Key::new(&[1; 16]).unwrap();
        let mut wide = Key::derive(&cipher);
        if !wide.wide {
            println!(
                "NOT CHECKED: VHASH with AVX-512 IFMA: this processor lacks it, or TABANE_SIMD \
                 forbids it"
            );
            return;
        }
        let mut random = [0; 64 * BLOCK];
        aes::Ctr::new(&cipher, &[0; 16]).apply(&mut random);
        let mut sparse = random;
        for (byte, mask) in sparse.iter_mut().zip(&random[1..]) {
            *byte = if mask & 3 == 0 { *byte } else { 0 };
        }
        let messages = [random, sparse, [0; 64 * BLOCK], [0xff; 64 * BLOCK]];
        let largest = Point(0x1fff_ffff_1fff_ffff, 0x1fff_ffff_1fff_ffff);
        for words in [wide.nh, [0; _], [u64::MAX; _], [1 << 52; _]] {
            for point in [wide.points[0], largest, Point(0, 0), Point(0, 1)] {
                wide.nh = words;
                wide.points[1] = point;
                wide.eighth_powers[1] = (0..8).fold(1, |power, _| point.step(power, 0));
                let mut narrow = Key {
                    wide: false,
                    ..Key::derive(&cipher)
                };
                (narrow.nh, narrow.points) = (wide.nh, wide.points);
                for message in &messages {
                    for count in 0..=64 {
                        let blocks = &message.as_chunks().0[..count];
                        assert_eq!(
                            absorb::<1>(&wide, blocks),
                            absorb(&narrow, blocks),
                            "{count}"
                        );
                        assert_eq!(
                            absorb::<2>(&wide, blocks),
                            absorb(&narrow, blocks),
                            "{count}"
                        );
                    }
                }
            }
        }
    }
}
