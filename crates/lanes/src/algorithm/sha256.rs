//! SHA-256 and SHA-224 (FIPS 180-4, sections 6.2 and 6.3), one message a lane.

use super::Kernel;
use crate::vector::{Next, Vector};

pub(crate) enum Sha256 {}
pub(crate) enum Sha224 {}

/// The round constants: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
#[rustfmt::skip]
pub(crate) const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

impl Kernel for Sha256 {
    type Word = u32;
    /// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
    #[rustfmt::skip]
    const INITIAL: &'static [u32] = &[
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    ];
    const DIGEST_LEN: usize = 32;
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress<V: Vector<Word = u32>>(s: &mut [V], w: &mut [V; 16], mut next: Next<'_, V>) {
        let mut w = *w;
        let mut v = [s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]];
        // A loop, so that the code is small enough to stay in the cache beside the data.
        for turn in 0..3 {
            repeat!(round_and_expand(&mut v, &mut w, &K[16 * turn..][..16]):
                0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        }
        next.load::<true>(0, 2);
        repeat!(round(&mut v, &w, &K[48..]): 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        next.load::<true>(1, 2);
        for i in 0..8 {
            s[i] = s[i].add(v[i]);
        }
    }
}

impl Kernel for Sha224 {
    type Word = u32;
    /// The second 32 bits of the fractional parts of the square roots of the 9th to the 16th prime.
    #[rustfmt::skip]
    const INITIAL: &'static [u32] = &[
        0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4,
    ];
    const DIGEST_LEN: usize = 28;
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress<V: Vector<Word = u32>>(s: &mut [V], w: &mut [V; 16], next: Next<'_, V>) {
        Sha256::compress(s, w, next);
    }
}

/// The word of the schedule that takes the place of word `T`: a ring of 16 words.
#[inline(always)]
fn expand<const T: usize, V: Vector<Word = u32>>(w: &mut [V; 16]) {
    let (x, y) = (w[(T + 1) % 16], w[(T + 14) % 16]);
    let x = x
        .rotate_left::<25, 7>()
        .xor3(x.rotate_left::<14, 18>(), x.shift_right::<3>());
    let y = y
        .rotate_left::<15, 17>()
        .xor3(y.rotate_left::<13, 19>(), y.shift_right::<10>());
    w[T] = w[T].add(w[(T + 9) % 16]).add(x).add(y);
}

/// Step `T` of 16, and the word for 16 steps later.
#[inline(always)]
fn round_and_expand<const T: usize, V: Vector<Word = u32>>(
    v: &mut [V; 8],
    w: &mut [V; 16],
    k: &[u32],
) {
    round::<T, V>(v, w, k);
    expand::<T, V>(w);
}

/// Step `T` of 16. The eight variables change their places, not their contents: `v[(I + 16 - T) % 8]` is variable `I`.
#[inline(always)]
fn round<const T: usize, V: Vector<Word = u32>>(v: &mut [V; 8], w: &[V; 16], k: &[u32]) {
    let at = const {
        [
            16 - T,
            17 - T,
            18 - T,
            19 - T,
            20 - T,
            21 - T,
            22 - T,
            23 - T,
        ]
    };
    let [a, b, c, d] = [v[at[0] % 8], v[at[1] % 8], v[at[2] % 8], v[at[3] % 8]];
    let [e, f, g, h] = [v[at[4] % 8], v[at[5] % 8], v[at[6] % 8], v[at[7] % 8]];

    let e_mixed = e
        .rotate_left::<26, 6>()
        .xor3(e.rotate_left::<21, 11>(), e.rotate_left::<7, 25>());
    let a_mixed = a
        .rotate_left::<30, 2>()
        .xor3(a.rotate_left::<19, 13>(), a.rotate_left::<10, 22>());
    let t = w[T]
        .add_word(k[T])
        .add(h)
        .pin()
        .add(e.choose(f, g))
        .pin()
        .add(e_mixed);
    v[at[3] % 8] = d.add(t);
    v[at[7] % 8] = t.add(a_mixed.add(a.majority(b, c)));
}
