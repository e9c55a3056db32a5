//! SHA-1 (FIPS 180-4, section 6.1), one message a lane.

use crate::kernel::Kernel;
use crate::vector::{Next, Vector};

pub(crate) enum Sha1 {}

impl Kernel for Sha1 {
    type Word = u32;
    const INITIAL: &'static [u32] = &[
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    const DIGEST_LEN: usize = 20;
    const BIG_ENDIAN: bool = true;

    #[inline(always)]
    fn compress<V: Vector<Word = u32>>(s: &mut [V], w: &mut [V; 16], mut next: Next<'_, V>) {
        let mut w = *w;
        let mut v = [s[0], s[1], s[2], s[3], s[4]];
        repeat!(round(&mut v, &mut w): 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        repeat!(round(&mut v, &mut w): 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
        next.load::<true>(0, 2);
        repeat!(round(&mut v, &mut w): 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
        repeat!(round(&mut v, &mut w): 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79);
        next.load::<true>(1, 2);
        for i in 0..5 {
            s[i] = s[i].add(v[i]);
        }
    }
}

/// Step `T`. The five variables change their places, not their contents: `v[(I + 80 - T) % 5]` is
/// variable `I`. The schedule is a ring of 16 words.
#[inline(always)]
fn round<const T: usize, V: Vector<Word = u32>>(v: &mut [V; 5], w: &mut [V; 16]) {
    let at = const { [80 - T, 81 - T, 82 - T, 83 - T, 84 - T] };
    let [a, b, c, d, e] = [
        v[at[0] % 5],
        v[at[1] % 5],
        v[at[2] % 5],
        v[at[3] % 5],
        v[at[4] % 5],
    ];

    if T >= 16 {
        w[T % 16] = w[(T + 2) % 16]
            .xor3(w[(T + 8) % 16], w[(T + 13) % 16])
            .xor(w[T % 16])
            .rotate_left::<1, 31>();
    }
    let (f, k) = match T / 20 {
        0 => (b.choose(c, d), 0x5a82_7999),
        1 => (b.xor3(c, d), 0x6ed9_eba1),
        2 => (b.majority(c, d), 0x8f1b_bcdc),
        _ => (b.xor3(c, d), 0xca62_c1d6),
    };
    let t = w[T % 16].add_word(k).add(e).pin().add(f).pin();
    v[at[4] % 5] = a.rotate_left::<5, 27>().add(t);
    v[at[1] % 5] = b.rotate_left::<30, 2>();
}
