//! MD5 (RFC 1321), one message a lane.

use crate::kernel::Kernel;
use crate::vector::{Next, Vector};

pub(crate) enum Md5 {}

/// The constants of the 64 steps: the first 32 bits of the fractional parts of |sin(step + 1)|.
#[rustfmt::skip]
const K: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

impl Kernel for Md5 {
    type Word = u32;
    const INITIAL: &'static [u32] = &[0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    const DIGEST_LEN: usize = 16;
    const BIG_ENDIAN: bool = false;
    const SHORT: bool = true;

    #[inline(always)]
    fn compress<V: Vector<Word = u32>>(s: &mut [V], w: &mut [V; 16], mut next: Next<'_, V>) {
        let mut v = [s[0], s[1], s[2], s[3]];
        repeat!(step(&mut v, w): 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        next.load::<false>(0, 4);
        repeat!(step(&mut v, w): 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        next.load::<false>(1, 4);
        repeat!(step(&mut v, w): 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
        next.load::<false>(2, 4);
        repeat!(step(&mut v, w): 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
        next.load::<false>(3, 4);
        for i in 0..4 {
            s[i] = s[i].add(v[i]);
        }
    }
}

/// Step `T` of 64. The four variables change their places, not their contents: `v[(I + 64 - T) %
/// 4]` is variable `I`.
#[inline(always)]
fn step<const T: usize, V: Vector<Word = u32>>(v: &mut [V; 4], w: &[V; 16]) {
    let at = const { [64 - T, 65 - T, 66 - T, 67 - T] };
    let [a, b, c, d] = [v[at[0] % 4], v[at[1] % 4], v[at[2] % 4], v[at[3] % 4]];
    let word = const { [T, 5 * T + 1, 3 * T + 5, 7 * T][T / 16] % 16 };
    let sum = a.add(w[word].add_word(K[T])).pin();
    // Every step waits for the `b` of the one before, so that `b` enters as late as can be.
    let sum = match T / 16 {
        0 => sum.add(b.choose(c, d)),
        // The two sides of the choice have no bit in common, so that adding them up is as good as
        // or.
        1 if !V::CHOICE => sum.add(c.and_not(d)).pin().add(b.and(d)),
        1 => sum.add(d.choose(b, c)),
        2 if !V::TERNARY => sum.add(c.xor(d).pin().xor(b)),
        2 => sum.add(c.xor3(d, b)),
        _ => sum.add(c.xor_or_not(b, d)),
    };
    let sum = match (T / 16, T % 4) {
        (0, 0) => sum.rotate_left::<7, 25>(),
        (0, 1) => sum.rotate_left::<12, 20>(),
        (0, 2) => sum.rotate_left::<17, 15>(),
        (0, _) => sum.rotate_left::<22, 10>(),
        (1, 0) => sum.rotate_left::<5, 27>(),
        (1, 1) => sum.rotate_left::<9, 23>(),
        (1, 2) => sum.rotate_left::<14, 18>(),
        (1, _) => sum.rotate_left::<20, 12>(),
        (2, 0) => sum.rotate_left::<4, 28>(),
        (2, 1) => sum.rotate_left::<11, 21>(),
        (2, 2) => sum.rotate_left::<16, 16>(),
        (2, _) => sum.rotate_left::<23, 9>(),
        (_, 0) => sum.rotate_left::<6, 26>(),
        (_, 1) => sum.rotate_left::<10, 22>(),
        (_, 2) => sum.rotate_left::<15, 17>(),
        (_, _) => sum.rotate_left::<21, 11>(),
    };
    // Or the compiler adds up what several steps have rotated, one behind the other.
    v[at[0] % 4] = sum.add(b).pin();
}
