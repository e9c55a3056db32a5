//! SHA-1 as the paper builds it up, device by device: scalar; blocks in SIMD lanes with each
//! block's words in a row of their own (`W[lanes][80]`); and with the words of all blocks side by
//! side (`W[80][lanes]`).
//!
//! As in the paper a chunk of 64 bytes is split into words one by one (step 1), and its 80 words
//! are all written down (step 2) before they are used (step 4). The kernels of `tabane-lanes` do
//! neither: these are here to be compared.

use std::hint::black_box;

/// The state before the first chunk (FIPS 180-4, section 5.3.1).
const INITIAL: [u32; 5] = [
    0x6745_2301,
    0xefcd_ab89,
    0x98ba_dcfe,
    0x1032_5476,
    0xc3d2_e1f0,
];

/// The constant of each twenty steps.
const K: [u32; 4] = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6];

/// Bytes of a chunk.
const CHUNK_LEN: usize = 64;

/// A way to hash blocks of equal length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Device {
    /// One block at a time, one word at a time.
    Scalar,
    /// Four blocks in the lanes of SSE2.
    Sse2(Layout),
    /// Sixteen blocks in the lanes of AVX-512.
    Avx512(Layout),
}

/// Where the words of the blocks in the lanes lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// `W[lanes][80]`: the same word of two blocks is 80 words apart.
    Strided,
    /// `W[80][lanes]`.
    SideBySide,
}

impl Device {
    /// The ones that this processor has, in the paper's order.
    pub fn available() -> Vec<Device> {
        use Layout::{SideBySide, Strided};
        let mut devices = vec![
            Device::Scalar,
            Device::Sse2(Strided),
            Device::Sse2(SideBySide),
            Device::Avx512(Strided),
            Device::Avx512(SideBySide),
        ];
        devices.retain(|device| device.is_available());
        devices
    }

    fn is_available(self) -> bool {
        match self {
            Device::Scalar => true,
            Device::Sse2(_) => cfg!(target_arch = "x86_64"),
            #[cfg(target_arch = "x86_64")]
            Device::Avx512(_) => is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            Device::Avx512(_) => false,
        }
    }

    /// Hashes blocks whose lengths are all the same multiple of 64 bytes; blocks that do not fill
    /// the lanes at the end are hashed one by one.
    ///
    /// # Panics
    ///
    /// If the processor lacks the device.
    pub fn hash(self, blocks: &[&[u8]], digests: &mut Vec<[u32; 5]>) {
        match self {
            Device::Scalar => digests.extend(
                blocks
                    .iter()
                    .map(|block| scalar::hash::<false>(&[block])[0]),
            ),
            #[cfg(target_arch = "x86_64")]
            Device::Sse2(layout) => in_lanes(blocks, digests, |group| match layout {
                // SAFETY: every x86-64 processor has SSE2.
                Layout::Strided => unsafe { sse2::hash::<true>(group) },
                // SAFETY: every x86-64 processor has SSE2.
                Layout::SideBySide => unsafe { sse2::hash::<false>(group) },
            }),
            #[cfg(target_arch = "x86_64")]
            Device::Avx512(layout) => {
                assert!(self.is_available());
                in_lanes(blocks, digests, |group| match layout {
                    // SAFETY: the processor has AVX-512 F.
                    Layout::Strided => unsafe { avx512::hash::<true>(group) },
                    // SAFETY: the processor has AVX-512 F.
                    Layout::SideBySide => unsafe { avx512::hash::<false>(group) },
                })
            }
            #[cfg(not(target_arch = "x86_64"))]
            Device::Sse2(_) | Device::Avx512(_) => panic!("this processor has no {self:?}"),
        }
    }
}

/// Hashes as many groups of `LANES` as there are, and the rest one by one.
#[cfg(target_arch = "x86_64")]
fn in_lanes<const LANES: usize>(
    blocks: &[&[u8]],
    digests: &mut Vec<[u32; 5]>,
    hash: impl Fn(&[&[u8]; LANES]) -> [[u32; 5]; LANES],
) {
    let (groups, rest) = blocks.as_chunks();
    for group in groups {
        digests.extend(hash(group));
    }
    digests.extend(rest.iter().map(|block| scalar::hash::<false>(&[block])[0]));
}

/// The chunk that pads a message of this many bytes, a multiple of 64.
fn padding(bytes: usize) -> [u8; CHUNK_LEN] {
    assert!(bytes.is_multiple_of(CHUNK_LEN));
    let mut chunk = [0; CHUNK_LEN];
    chunk[0] = 0x80;
    chunk[CHUNK_LEN - 8..].copy_from_slice(&(8 * bytes as u64).to_be_bytes());
    chunk
}

/// Word `k` of a chunk.
#[inline(always)]
fn word(chunk: &[u8; CHUNK_LEN], k: usize) -> u32 {
    let (words, _) = chunk.as_chunks();
    u32::from_be_bytes(words[k])
}

/// SHA-1 of as many blocks as a register has lanes, in a module of its own.
macro_rules! lanes {
    (
        $module:ident, $lanes:literal lanes of $register:ident, # $attribute:tt;
        $(fn $operation:ident($($argument:ident),*) = $result:expr;)*
    ) => {
        mod $module {
            use super::*;
            #[cfg(target_arch = "x86_64")]
            #[allow(unused_imports, reason = "one lane needs none of it")]
            use std::arch::x86_64::*;

            const LANES: usize = $lanes;

            $(
                # $attribute
                #[inline]
                fn $operation($($argument: $register),*) -> $register {
                    $result
                }
            )*

            # $attribute
            #[inline]
            fn register(words: [u32; LANES]) -> $register {
                // SAFETY: as many bytes; any bits are a register.
                unsafe { std::mem::transmute(words) }
            }

            # $attribute
            #[inline]
            fn words(register: $register) -> [u32; LANES] {
                // SAFETY: as many bytes; any bits are words.
                unsafe { std::mem::transmute(register) }
            }

            /// Word `k` of all lanes.
            # $attribute
            #[inline]
            fn load<const STRIDED: bool>(w: &[u32; 80 * LANES], k: usize) -> $register {
                register(std::array::from_fn(|lane| w[place::<LANES, STRIDED>(k, lane)]))
            }

            # $attribute
            pub fn hash<const STRIDED: bool>(blocks: &[&[u8]; LANES]) -> [[u32; 5]; LANES] {
                let mut w = Words([0; 80 * LANES]);
                let mut state = INITIAL.map(|word| register([word; LANES]));
                let padding = padding(blocks[0].len());
                let chunks = blocks.map(|block| block.as_chunks().0);
                for i in 0..=chunks[0].len() {
                    for lane in 0..LANES {
                        let chunk = chunks[lane].get(i).unwrap_or(&padding);
                        for k in 0..16 {
                            w.0[place::<LANES, STRIDED>(k, lane)] = word(chunk, k);
                        }
                    }
                    // As the paper says, the words go through memory.
                    let w = &mut black_box(&mut w).0;
                    // But none is waited for to come back from there.
                    let mut last = [13, 14, 15].map(|k| load::<STRIDED>(w, k));
                    for k in 16..80 {
                        let [a, b, c] = [k - 8, k - 14, k - 16].map(|k| load::<STRIDED>(w, k));
                        let new = rotate_1(xor(xor3(a, b, c), last[0]));
                        last = [last[1], last[2], new];
                        let new = words(new);
                        for lane in 0..LANES {
                            w[place::<LANES, STRIDED>(k, lane)] = new[lane];
                        }
                    }
                    let w = &*black_box(w);
                    let [mut a, mut b, mut c, mut d, mut e] = state;
                    macro_rules! step {
                        ($f:ident, $k:expr, $a:ident $b:ident $c:ident $d:ident $e:ident) => {
                            let word = add(load::<STRIDED>(w, $k), register([K[$k / 20]; LANES]));
                            $e = add(rotate_5($a), add($f($b, $c, $d), add($e, word)));
                            $b = rotate_30($b);
                        };
                    }
                    macro_rules! steps {
                        ($quarter:literal, $f:ident) => {
                            for k in (20 * $quarter..20 * ($quarter + 1)).step_by(5) {
                                step!($f, k, a b c d e);
                                step!($f, k + 1, e a b c d);
                                step!($f, k + 2, d e a b c);
                                step!($f, k + 3, c d e a b);
                                step!($f, k + 4, b c d e a);
                            }
                        };
                    }
                    steps!(0, choose);
                    steps!(1, xor3);
                    steps!(2, majority);
                    steps!(3, xor3);
                    for (state, new) in state.iter_mut().zip([a, b, c, d, e]) {
                        *state = add(*state, new);
                    }
                }
                let state = state.map(|register| words(register));
                std::array::from_fn(|lane| state.map(|words| words[lane]))
            }
        }
    };
}

/// The words of the blocks in all lanes; no register of them across two cache lines.
#[repr(align(64))]
struct Words<const WORDS: usize>([u32; WORDS]);

/// Where word `k` of a lane is.
#[inline(always)]
fn place<const LANES: usize, const STRIDED: bool>(k: usize, lane: usize) -> usize {
    if STRIDED {
        80 * lane + k
    } else {
        LANES * k + lane
    }
}

lanes! {
    scalar, 1 lanes of u32, #[cfg(true)];
    fn add(a, b) = a.wrapping_add(b);
    fn xor(a, b) = a ^ b;
    fn xor3(a, b, c) = a ^ b ^ c;
    fn choose(b, c, d) = d ^ (b & (c ^ d));
    fn majority(b, c, d) = (b & c) | (d & (b | c));
    fn rotate_1(a) = a.rotate_left(1);
    fn rotate_5(a) = a.rotate_left(5);
    fn rotate_30(a) = a.rotate_left(30);
}

#[cfg(target_arch = "x86_64")]
lanes! {
    sse2, 4 lanes of __m128i, #[target_feature(enable = "sse2")];
    fn add(a, b) = _mm_add_epi32(a, b);
    fn xor(a, b) = _mm_xor_si128(a, b);
    fn xor3(a, b, c) = xor(xor(a, b), c);
    fn choose(b, c, d) = xor(d, _mm_and_si128(b, xor(c, d)));
    fn majority(b, c, d) = _mm_or_si128(_mm_and_si128(b, c), _mm_and_si128(d, _mm_or_si128(b, c)));
    fn rotate_1(a) = _mm_or_si128(_mm_slli_epi32::<1>(a), _mm_srli_epi32::<31>(a));
    fn rotate_5(a) = _mm_or_si128(_mm_slli_epi32::<5>(a), _mm_srli_epi32::<27>(a));
    fn rotate_30(a) = _mm_or_si128(_mm_slli_epi32::<30>(a), _mm_srli_epi32::<2>(a));
}

#[cfg(target_arch = "x86_64")]
lanes! {
    avx512, 16 lanes of __m512i, #[target_feature(enable = "avx512f")];
    fn add(a, b) = _mm512_add_epi32(a, b);
    fn xor(a, b) = _mm512_xor_si512(a, b);
    fn xor3(a, b, c) = _mm512_ternarylogic_epi32::<0x96>(a, b, c);
    fn choose(b, c, d) = _mm512_ternarylogic_epi32::<0xca>(b, c, d);
    fn majority(b, c, d) = _mm512_ternarylogic_epi32::<0xe8>(b, c, d);
    fn rotate_1(a) = _mm512_rol_epi32::<1>(a);
    fn rotate_5(a) = _mm512_rol_epi32::<5>(a);
    fn rotate_30(a) = _mm512_rol_epi32::<30>(a);
}

#[cfg(test)]
mod tests {
    use sha1::Digest;

    use super::*;

    #[test]
    fn every_device_is_sha_1() {
        for len in [0, 64, 128, 1024, 4096] {
            for count in [1, 3, 4, 16, 23] {
                let data = tabane_bench::data::noise(len * count + 1);
                let blocks: Vec<_> = (0..count).map(|i| &data[i * len..][..len]).collect();
                let right: Vec<_> = blocks.iter().map(sha1::Sha1::digest).collect();
                for device in Device::available() {
                    let mut digests = Vec::new();
                    device.hash(&blocks, &mut digests);
                    let bytes = |digest: &[u32; 5]| digest.map(u32::to_be_bytes).concat();
                    let found: Vec<_> = digests.iter().map(bytes).collect();
                    assert!(
                        found
                            .iter()
                            .zip(&right)
                            .all(|(found, right)| found[..] == right[..]),
                        "{device:?} {len} {count}"
                    );
                    assert_eq!(found.len(), count);
                }
            }
        }
    }
}
