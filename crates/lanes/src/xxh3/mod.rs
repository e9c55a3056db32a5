//! XXH3 of long messages with AVX-512, where crates stop at AVX2.
//!
//! All eight accumulators of XXH3 are the lanes of one register; a *stripe* of 64 bytes goes
//! through it in a few instructions, and after each *block* of 16 stripes the register is
//! scrambled. Messages of up to [`SHORT`] bytes are hashed in other ways, which are left to the
//! caller.
//!
//! The names are those of the specification of xxHash,
//! <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>.

mod avx512;

use crate::backend::{self, Backend};

/// Messages of up to this many bytes are hashed elsewhere.
pub const SHORT: usize = 240;

const STRIPE_BYTES: usize = 64;

/// Stripes between two scrambles.
const BLOCK_STRIPES: usize = 16;

const BLOCK_BYTES: usize = BLOCK_STRIPES * STRIPE_BYTES;

const PRIME32: [u64; 3] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d];
const PRIME64: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// Offsets in the secret: for the last stripe, and for the two halves of the digest.
const OF_LAST: usize = SECRET.len() - STRIPE_BYTES - 7;
const OF_LOW: usize = 11;
const OF_HIGH: usize = SECRET.len() - STRIPE_BYTES - 11;

/// The default secret.
#[rustfmt::skip]
static SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// Hashes a message that comes in parts; the digest does not depend on where the parts end.
#[derive(Clone)]
pub struct Xxh3 {
    /// Accumulators over all blocks before the bytes in `last`.
    sums: [u64; 8],
    /// The stripe before the bytes not yet summed, then these bytes; the message's last bytes are
    /// always here.
    last: [u8; STRIPE_BYTES + BLOCK_BYTES],
    /// Bytes in `last` after that stripe.
    len: usize,
    total: u64,
}

impl Xxh3 {
    /// The empty message; `None` if the processor lacks AVX-512 or `TABANE_SIMD` excludes it.
    ///
    /// # Panics
    ///
    /// If the environment variable `TABANE_SIMD` is wrong: see [`Backend::forced`].
    pub fn new() -> Option<Self> {
        let allowed = match Backend::forced() {
            Ok(None) => Backend::Avx512.is_available(),
            Ok(Some(backend)) => backend == Backend::Avx512,
            Err(error) => panic!("{}: {error}", backend::VARIABLE),
        };
        allowed.then_some(Self {
            sums: [
                PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4],
                PRIME32[0],
            ],
            last: [0; _],
            len: 0,
            total: 0,
        })
    }

    /// Appends to the message.
    pub fn update(&mut self, mut part: &[u8]) {
        self.total += part.len() as u64;
        // A full block waits for the byte behind it, since the end of a message is hashed in
        // another way.
        let room = BLOCK_BYTES - self.len;
        if part.len() <= room {
            self.keep(part);
            return;
        }
        if self.len > 0 {
            let (begin, rest) = part.split_at(room);
            self.keep(begin);
            let (_, block) = self.last.split_at(STRIPE_BYTES);
            // SAFETY: `new` makes a value only if the processor has AVX-512.
            unsafe { avx512::absorb(&mut self.sums, block.as_chunks().0.as_chunks().0) };
            self.last.copy_within(BLOCK_BYTES.., 0);
            self.len = 0;
            part = rest;
        }
        let whole = (part.len() - 1) / BLOCK_BYTES * BLOCK_BYTES;
        let (blocks, rest) = part.split_at(whole);
        if let Some(stripe) = blocks.last_chunk::<STRIPE_BYTES>() {
            // SAFETY: `new` makes a value only if the processor has AVX-512.
            unsafe { avx512::absorb(&mut self.sums, blocks.as_chunks().0.as_chunks().0) };
            self.last[..STRIPE_BYTES].copy_from_slice(stripe);
        }
        self.keep(rest);
    }

    /// The digest of 128 bits of the message so far, whose low half is that of 64 bits.
    ///
    /// # Errors
    ///
    /// The message, if it has no more bytes than [`SHORT`].
    pub fn finish(&self) -> Result<u128, &[u8]> {
        let end = STRIPE_BYTES + self.len;
        if self.total <= SHORT as u64 {
            return Err(&self.last[STRIPE_BYTES..end]);
        }
        let (stripes, _) = self.last[STRIPE_BYTES..end - 1].as_chunks();
        let last = self.last[..end]
            .last_chunk()
            .expect("a stripe is before what has come");
        let mut sums = self.sums;
        // SAFETY: as in `update`.
        unsafe { avx512::finish(&mut sums, stripes, last) };
        let low = merge(&sums, OF_LOW, self.total.wrapping_mul(PRIME64[0]));
        let high = merge(&sums, OF_HIGH, !self.total.wrapping_mul(PRIME64[1]));
        Ok(u128::from(high) << 64 | u128::from(low))
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.last[STRIPE_BYTES + self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Half of a digest.
fn merge(sums: &[u64; 8], secret: usize, start: u64) -> u64 {
    let words = SECRET[secret..].as_chunks().0.iter().copied();
    let keyed: [u64; 8] = {
        let mut keys = words.map(u64::from_le_bytes);
        sums.map(|sum| sum ^ keys.next().expect("there is a stripe of it"))
    };
    let products = keyed.as_chunks().0.iter().map(|&[a, b]| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    });
    let sum = products.fold(start, u64::wrapping_add);
    let sum = (sum ^ sum >> 37).wrapping_mul(0x1656_6791_9e37_79f9);
    sum ^ sum >> 32
}

impl core::fmt::Debug for Xxh3 {
    /// Omits the message's state, which may be secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Xxh3")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
