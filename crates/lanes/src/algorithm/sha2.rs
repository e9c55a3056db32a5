//! SHA-2 (FIPS 180-4, sections 6.2 to 6.5), one message a lane: SHA-256 with words of 32 bits,
//! SHA-512 with words of 64, and their shorter forms, which begin with another state and keep less
//! of the last one.

use crate::kernel::Kernel;
use crate::registers::Registers;
use crate::vector::{Next, Vector};

/// The round constants of SHA-256: the first 32 bits of the fractional parts of the cube roots of
/// the first 64 primes.
#[rustfmt::skip]
pub(crate) const K256: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// The round constants of SHA-512: the first 64 bits of the fractional parts of the cube roots of
/// the first 80 primes.
#[rustfmt::skip]
pub(crate) const K512: [u64; 80] = [
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

/// In what the two word sizes differ: the constants, and rotations in four sums of three, whose
/// names are the standard's.
pub(crate) trait Sha2Word: Registers {
    /// A constant for each step.
    const K: &'static [Self];

    /// Σ₀
    fn big_sigma_0<V: Vector<Word = Self>>(x: V) -> V;
    /// Σ₁
    fn big_sigma_1<V: Vector<Word = Self>>(x: V) -> V;
    /// σ₀
    fn small_sigma_0<V: Vector<Word = Self>>(x: V) -> V;
    /// σ₁
    fn small_sigma_1<V: Vector<Word = Self>>(x: V) -> V;
}

/// Implements [`Sha2Word`]: each sum is two rotations to the left, with what they are to the right,
/// and a rotation or a shift to the right.
macro_rules! sha2_word {
    (
        $word:ty, $k:ident;
        $(
            $name:ident = $left:literal $right:literal, $left2:literal $right2:literal,
                $third:ident $($bits:literal)+;
        )*
    ) => {
        impl Sha2Word for $word {
            const K: &'static [Self] = &$k;
            $(
                #[inline(always)]
                fn $name<V: Vector<Word = Self>>(x: V) -> V {
                    x.rotate_left::<$left, $right>()
                        .xor3(x.rotate_left::<$left2, $right2>(), x.$third::<$($bits),+>())
                }
            )*
        }
    };
}

sha2_word! {
    u32, K256;
    big_sigma_0 = 30 2, 19 13, rotate_left 10 22;
    big_sigma_1 = 26 6, 21 11, rotate_left 7 25;
    small_sigma_0 = 25 7, 14 18, shift_right 3;
    small_sigma_1 = 15 17, 13 19, shift_right 10;
}

sha2_word! {
    u64, K512;
    big_sigma_0 = 36 28, 30 34, rotate_left 25 39;
    big_sigma_1 = 50 14, 46 18, rotate_left 23 41;
    small_sigma_0 = 63 1, 56 8, shift_right 7;
    small_sigma_1 = 45 19, 3 61, shift_right 6;
}

/// Defines a [`Kernel`]: its word, the bytes of a digest, the state before the first block.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident = $word:ty, $digest_len:literal, $initial:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) enum $name {}

        impl Kernel for $name {
            type Word = $word;
            const INITIAL: &'static [$word] = &$initial;
            const DIGEST_LEN: usize = $digest_len;
            const BIG_ENDIAN: bool = true;
            const PAIRED: bool = <$word>::BITS == 64;

            #[inline(always)]
            fn compress<V: Vector<Word = $word>>(s: &mut [V], w: &mut [V; 16], next: Next<'_, V>) {
                compress(s, w, next);
            }
        }
    )*};
}

#[rustfmt::skip]
kernels! {
    /// Initial state: the first 32 bits of the fractional parts of the square roots of the first 8
    /// primes.
    Sha256 = u32, 32, [
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
            0x5be0cd19,
    ];
    /// Initial state: the second 32 bits of the fractional parts of the square roots of the 9th to
    /// the 16th prime.
    Sha224 = u32, 28, [
        0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7,
            0xbefa4fa4,
    ];
    /// Initial state: the first 64 bits of the fractional parts of the square roots of the first 8
    /// primes.
    Sha512 = u64, 64, [
        0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
        0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
    ];
    /// Initial state: the first 64 bits of the fractional parts of the square roots of the 9th to
    /// the 16th prime.
    Sha384 = u64, 48, [
        0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939,
        0x67332667ffc00b31, 0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4,
    ];
}

#[inline(always)]
fn compress<V: Vector<Word: Sha2Word>>(s: &mut [V], w: &mut [V; 16], mut next: Next<'_, V>) {
    let mut w = *w;
    let mut v = [s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]];
    let (last, before) = const {
        let (turns, _) = V::Word::K.as_chunks::<16>();
        turns.split_last().expect("there are steps")
    };
    // A loop, so that the code is small enough to stay in the cache beside the data.
    for k in before {
        repeat!(round_and_expand(&mut v, &mut w, k): 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    next.load::<true>(0, 2);
    repeat!(round(&mut v, &w, last): 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    next.load::<true>(1, 2);
    for i in 0..8 {
        s[i] = s[i].add(v[i]);
    }
}

/// Step `T` of 16, and the word for 16 steps later.
#[inline(always)]
fn round_and_expand<const T: usize, V: Vector<Word: Sha2Word>>(
    v: &mut [V; 8],
    w: &mut [V; 16],
    k: &[V::Word; 16],
) {
    round::<T, V>(v, w, k);
    expand::<T, V>(w);
}

/// The word of the schedule that takes the place of word `T`: a ring of 16 words.
#[inline(always)]
fn expand<const T: usize, V: Vector<Word: Sha2Word>>(w: &mut [V; 16]) {
    let x = V::Word::small_sigma_0(w[(T + 1) % 16]);
    let y = V::Word::small_sigma_1(w[(T + 14) % 16]);
    w[T] = w[T].add(w[(T + 9) % 16]).add(x).add(y);
}

/// Step `T` of 16. The eight variables change their places, not their contents: `v[(I + 16 - T) %
/// 8]` is variable `I`.
#[inline(always)]
pub(crate) fn round<const T: usize, V: Vector<Word: Sha2Word>>(
    v: &mut [V; 8],
    w: &[V; 16],
    k: &[V::Word; 16],
) {
    let place = const {
        let mut place = [0; 8];
        let mut i = 0;
        while i < 8 {
            place[i] = (i + 16 - T) % 8;
            i += 1;
        }
        place
    };
    let [a, b, c, d, e, f, g, h] = [
        v[place[0]],
        v[place[1]],
        v[place[2]],
        v[place[3]],
        v[place[4]],
        v[place[5]],
        v[place[6]],
        v[place[7]],
    ];

    let e_mixed = V::Word::big_sigma_1(e);
    let a_mixed = V::Word::big_sigma_0(a);
    let t = w[T]
        .add_word(k[T])
        .add(h)
        .pin()
        .add(e.choose(f, g))
        .pin()
        .add(e_mixed);
    v[place[3]] = d.add(t);
    v[place[7]] = t.add(a_mixed.add(a.majority(b, c)));
}
