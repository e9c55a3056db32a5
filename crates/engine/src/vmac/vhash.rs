//! VHASH, the universal hash of VMAC: three levels, each of a key of its own (section 4 of the draft).
//!
//! 1. *NH* sums products of pairs of 64-bit words of a block, the key added to each word: one product for 16 bytes. The
//!    second hash of a tag of 128 bits is the same with the key shifted by a pair.
//! 2. A *polynomial* modulo 2¹²⁷ − 1 has the sums of all blocks as its coefficients.
//! 3. The value of the polynomial is hashed to 64 bits, by an inner product of two words modulo 2⁶⁴ − 257.

use tabane_lanes::aes;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes in a block, for each of which the polynomial takes a step. The draft leaves it open, and takes this itself.
pub(super) const BLOCK: usize = 128;

/// 64-bit words in a block.
const WORDS: usize = BLOCK / 8;

/// The primes of the second and third level, the latter as what is missing to 2⁶⁴.
const P127: u128 = (1 << 127) - 1;
const P64_GAP: u128 = 257;

/// The sum so far of one polynomial: at most 2¹²⁷.
pub(super) type Sum = u128;

/// The sums before the first block.
pub(super) const EMPTY: [Sum; 2] = [1; 2];

/// The keys of all levels of two hashes.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct HashKey {
    nh: [u64; WORDS + 2],
    polynomial: [Point; 2],
    end: [[u64; 2]; 2],
}

/// Where a polynomial is evaluated: high and low word, each below 2⁶¹.
#[derive(Clone, Copy, Zeroize)]
struct Point(u64, u64);

impl HashKey {
    /// The draft's key derivation: a cipher in counter mode, one first byte a level.
    pub(super) fn derive(cipher: &aes::Key) -> Self {
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
            polynomial: [Point(0, 0); 2],
            end: [[0; 2]; 2],
        };
        for (pair, words) in key.nh.as_chunks_mut().0.iter_mut().zip(words(0x80)) {
            *pair = words;
        }
        for (point, [high, low]) in key.polynomial.iter_mut().zip(words(0xc0)) {
            const SMALL: u64 = 0x1fff_ffff_1fff_ffff;
            *point = Point(high & SMALL, low & SMALL);
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

    /// Goes on with whole blocks in `N` hashes.
    pub(super) fn absorb<const N: usize>(&self, sums: &mut [Sum; N], blocks: &[[u8; BLOCK]]) {
        for block in blocks {
            let coefficients: [_; N] = self.nh(block.as_chunks().0);
            for i in 0..N {
                sums[i] = self.polynomial[i].step(sums[i], coefficients[i]);
            }
        }
    }

    /// The `N` hashes of a message with this last block, or part of a block; none only if the message is empty.
    pub(super) fn finish<const N: usize>(&self, sums: [Sum; N], last: &[u8]) -> [u64; N] {
        let mut padded = [0; BLOCK];
        padded[..last.len()].copy_from_slice(last);
        let pairs = last.len().div_ceil(16);
        let coefficients = self.nh::<N>(&padded.as_chunks().0[..pairs]);
        padded.zeroize();
        let bits = 8 * (last.len() % BLOCK) as u128;
        let mut sums = sums
            .into_iter()
            .zip(coefficients)
            .zip(&self.polynomial)
            .zip(&self.end);
        std::array::from_fn(|_| {
            let (((sum, coefficient), point), end) = sums.next().expect("N of each");
            hash_sum(point.step(sum, coefficient) + (bits << 64), end)
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
        (all & P127) + (all >> 127)
    }
}

/// The third level, of a number below 2¹²⁸.
fn hash_sum(sum: u128, key: &[u64; 2]) -> u64 {
    let sum = (sum & P127) + (sum >> 127);
    // Only 2¹²⁷ - 1 and 2¹²⁷ are too large now.
    let sum = (sum + ((sum + 1) >> 127)) & P127;

    // Quotient and remainder of a division by 2⁶⁴ - 2³², where the digits to the base of 2³² are a, b, c, d:
    // a·2⁶⁴ + b·2³² + c is (a·(2³² + 1) + b)·(2³² - 1), plus a + b + c.
    let digit = |place: u32| (sum >> (32 * place)) as u64 & 0xffff_ffff;
    let rest = digit(3) + digit(2) + digit(1);
    let quotient = (digit(3) << 32) + digit(3) + digit(2) + rest / 0xffff_ffff;
    let remainder = ((rest % 0xffff_ffff) << 32) + digit(0);

    let first = modulo_p64(u128::from(quotient) + u128::from(key[0]));
    let second = modulo_p64(u128::from(remainder) + u128::from(key[1]));
    modulo_p64(product(first, second))
}

/// The remainder of a division by 2⁶⁴ − 257, without a division, whose time would tell about the number.
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

pub(super) fn big_endian_words(block: [u8; aes::BLOCK]) -> [u64; 2] {
    let both = u128::from_be_bytes(block);
    [(both >> 64) as u64, both as u64]
}
