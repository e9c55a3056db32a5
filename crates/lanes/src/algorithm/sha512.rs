//! SHA-512 and SHA-384 (FIPS 180-4, sections 6.4 and 6.5), one message a lane.

use super::Kernel;
use crate::vector::{Next, Vector};

pub(crate) enum Sha512 {}
pub(crate) enum Sha384 {}

/// The round constants: the first 64 bits of the fractional parts of the cube roots of the first 80 primes.
#[rustfmt::skip]
pub(crate) const K: [u64; 80] = [
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
];

impl Kernel for Sha512 {
    type Word = u64;
    /// The first 64 bits of the fractional parts of the square roots of the first 8 primes.
    #[rustfmt::skip]
    const INITIAL: &'static [u64] = &[
        0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
        0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
    ];
    const DIGEST_LEN: usize = 64;
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress<V: Vector<Word = u64>>(s: &mut [V], w: &mut [V; 16], mut next: Next<'_, V>) {
        let mut w = *w;
        let mut v = [s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]];
        // A loop, so that the code is small enough to stay in the cache beside the data.
        for turn in 0..4 {
            repeat!(round_and_expand(&mut v, &mut w, &K[16 * turn..][..16]):
                0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        }
        next.load::<true>(0, 2);
        repeat!(round(&mut v, &w, &K[64..]): 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        next.load::<true>(1, 2);
        for i in 0..8 {
            s[i] = s[i].add(v[i]);
        }
    }
}

impl Kernel for Sha384 {
    type Word = u64;
    /// The first 64 bits of the fractional parts of the square roots of the 9th to the 16th prime.
    #[rustfmt::skip]
    const INITIAL: &'static [u64] = &[
        0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
        0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4,
    ];
    const DIGEST_LEN: usize = 48;
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress<V: Vector<Word = u64>>(s: &mut [V], w: &mut [V; 16], next: Next<'_, V>) {
        Sha512::compress(s, w, next);
    }
}

/// The word of the schedule that takes the place of word `T`: a ring of 16 words.
#[inline(always)]
fn expand<const T: usize, V: Vector<Word = u64>>(w: &mut [V; 16]) {
    let (x, y) = (w[(T + 1) % 16], w[(T + 14) % 16]);
    let x = x
        .rotate_left::<63, 1>()
        .xor3(x.rotate_left::<56, 8>(), x.shift_right::<7>());
    let y = y
        .rotate_left::<45, 19>()
        .xor3(y.rotate_left::<3, 61>(), y.shift_right::<6>());
    w[T] = w[T].add(w[(T + 9) % 16]).add(x).add(y);
}

/// Step `T` of 16, and the word for 16 steps later.
#[inline(always)]
fn round_and_expand<const T: usize, V: Vector<Word = u64>>(
    v: &mut [V; 8],
    w: &mut [V; 16],
    k: &[u64],
) {
    round::<T, V>(v, w, k);
    expand::<T, V>(w);
}

/// Step `T` of 16. The eight variables change their places, not their contents: `v[(I + 16 - T) % 8]` is variable `I`.
#[inline(always)]
pub(crate) fn round<const T: usize, V: Vector<Word = u64>>(v: &mut [V; 8], w: &[V; 16], k: &[u64]) {
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
        .rotate_left::<50, 14>()
        .xor3(e.rotate_left::<46, 18>(), e.rotate_left::<23, 41>());
    let a_mixed = a
        .rotate_left::<36, 28>()
        .xor3(a.rotate_left::<30, 34>(), a.rotate_left::<25, 39>());
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
