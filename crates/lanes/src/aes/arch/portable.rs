//! Plain Rust, for every processor, and the reference against which the other instruction sets are
//! tested.
//!
//! Bitsliced: every step is made of logic and shifts on whole words, with no table and no branch,
//! so that its time says nothing about keys or data.

use super::kernels;
use crate::aes::block::{BLOCK, Block, BlockVector, Polynomials};
use crate::aes::cipher::SameKey;
use crate::aes::round_keys::ROUND_KEYS_MAX;

/// Four blocks: word `k` holds bit `k` of each of their bytes. The byte in row `r` and column `c`
/// of block `b` is at bit `16 r + 4 c + b`, so that rows are quarters of a word and columns are
/// their digits.
#[derive(Clone, Copy)]
struct Planes([u64; 8]);

impl Planes {
    #[inline(always)]
    fn from_blocks(blocks: &[Block; 4]) -> Self {
        let mut words = [0; 8];
        for (b, block) in blocks.iter().enumerate() {
            let (columns, _) = block.as_chunks::<4>();
            let column = |c: usize| spread(u32::from_le_bytes(columns[c]));
            words[b] = column(0) | column(2) << 8;
            words[b + 4] = column(1) | column(3) << 8;
        }
        transpose(&mut words);
        Self(words)
    }

    #[inline(always)]
    fn to_blocks(self) -> [Block; 4] {
        let mut words = self.0;
        transpose(&mut words);
        let mut blocks = [[0; BLOCK]; 4];
        for (b, block) in blocks.iter_mut().enumerate() {
            let (even, odd) = (words[b], words[b + 4]);
            let columns = [even, odd, even >> 8, odd >> 8];
            for (bytes, column) in block.chunks_exact_mut(4).zip(columns) {
                bytes.copy_from_slice(&gather(column).to_le_bytes());
            }
        }
        blocks
    }

    /// The same operation on every word.
    #[inline(always)]
    fn map(self, f: impl Fn(u64) -> u64) -> Self {
        Self(self.0.map(f))
    }

    /// Moves every row up by `rows`, around the edge.
    #[inline(always)]
    fn rotate_rows(self, rows: u32) -> Self {
        self.map(|word| word.rotate_right(16 * rows))
    }

    #[inline(always)]
    fn shift_rows(self) -> Self {
        self.map(|word| {
            let row =
                |r: u32| u64::from(((word >> (16 * r)) as u16).rotate_right(4 * r)) << (16 * r);
            row(0) | row(1) | row(2) | row(3)
        })
    }

    #[inline(always)]
    fn inverse_shift_rows(self) -> Self {
        self.map(|word| {
            let row =
                |r: u32| u64::from(((word >> (16 * r)) as u16).rotate_left(4 * r)) << (16 * r);
            row(0) | row(1) | row(2) | row(3)
        })
    }

    /// Every byte times x, modulo x⁸ + x⁴ + x³ + x + 1.
    #[inline(always)]
    fn times_x(self) -> Self {
        let [a, b, c, d, e, f, g, h] = self.0;
        Self([h, a ^ h, b, c ^ h, d ^ h, e, f, g])
    }

    #[inline(always)]
    fn mix_columns(self) -> Self {
        // 2 a₀ + 3 a₁ + a₂ + a₃ = 2 (a₀ + a₁) + a₁ + (a₂ + a₃)
        let next = self.rotate_rows(1);
        let sum = self.xor(next);
        sum.times_x().xor(next).xor(sum.rotate_rows(2))
    }

    #[inline(always)]
    fn inverse_mix_columns(self) -> Self {
        // The polynomial of the inverse is the other times 4 x² + 5.
        let sum = self.xor(self.rotate_rows(2));
        self.xor(sum.times_x().times_x()).mix_columns()
    }

    /// The circuit of 113 gates by Boyar and Peralta (*A depth-16 circuit for the AES S-box*,
    /// 2011).
    #[inline(always)]
    fn substitute(self) -> Self {
        let [x7, x6, x5, x4, x3, x2, x1, x0] = self.0;

        let y14 = x3 ^ x5;
        let y13 = x0 ^ x6;
        let y9 = x0 ^ x3;
        let y8 = x0 ^ x5;
        let t0 = x1 ^ x2;
        let y1 = t0 ^ x7;
        let y4 = y1 ^ x3;
        let y12 = y13 ^ y14;
        let y2 = y1 ^ x0;
        let y5 = y1 ^ x6;
        let y3 = y5 ^ y8;
        let t1 = x4 ^ y12;
        let y15 = t1 ^ x5;
        let y20 = t1 ^ x1;
        let y6 = y15 ^ x7;
        let y10 = y15 ^ t0;
        let y11 = y20 ^ y9;
        let y7 = x7 ^ y11;
        let y17 = y10 ^ y11;
        let y19 = y10 ^ y8;
        let y16 = t0 ^ y11;
        let y21 = y13 ^ y16;
        let y18 = x0 ^ y16;

        let t2 = y12 & y15;
        let t4 = (y3 & y6) ^ t2;
        let t6 = (y4 & x7) ^ t2;
        let t7 = y13 & y16;
        let t9 = (y5 & y1) ^ t7;
        let t11 = (y2 & y7) ^ t7;
        let t12 = y9 & y11;
        let t14 = (y14 & y17) ^ t12;
        let t16 = (y8 & y10) ^ t12;
        let t21 = t4 ^ t14 ^ y20;
        let t22 = t6 ^ t16 ^ y19;
        let t23 = t9 ^ t14 ^ y21;
        let t24 = t11 ^ t16 ^ y18;

        let t25 = t21 ^ t22;
        let t26 = t21 & t23;
        let t27 = t24 ^ t26;
        let t29 = (t25 & t27) ^ t22;
        let t30 = t23 ^ t24;
        let t31 = t22 ^ t26;
        let t33 = (t31 & t30) ^ t24;
        let t34 = t23 ^ t33;
        let t35 = t27 ^ t33;
        let t36 = t24 & t35;
        let t37 = t36 ^ t34;
        let t38 = t27 ^ t36;
        let t40 = t25 ^ (t29 & t38);

        let t41 = t40 ^ t37;
        let t42 = t29 ^ t33;
        let t43 = t29 ^ t40;
        let t44 = t33 ^ t37;
        let t45 = t42 ^ t41;
        let z0 = t44 & y15;
        let z1 = t37 & y6;
        let z2 = t33 & x7;
        let z3 = t43 & y16;
        let z4 = t40 & y1;
        let z5 = t29 & y7;
        let z6 = t42 & y11;
        let z7 = t45 & y17;
        let z8 = t41 & y10;
        let z9 = t44 & y12;
        let z10 = t37 & y3;
        let z11 = t33 & y4;
        let z12 = t43 & y13;
        let z13 = t40 & y5;
        let z14 = t29 & y2;
        let z15 = t42 & y9;
        let z16 = t45 & y14;
        let z17 = t41 & y8;

        let t46 = z15 ^ z16;
        let t47 = z10 ^ z11;
        let t48 = z5 ^ z13;
        let t49 = z9 ^ z10;
        let t50 = z2 ^ z12;
        let t51 = z2 ^ z5;
        let t52 = z7 ^ z8;
        let t53 = z0 ^ z3;
        let t54 = z6 ^ z7;
        let t55 = z16 ^ z17;
        let t56 = z12 ^ t48;
        let t57 = t50 ^ t53;
        let t58 = z4 ^ t46;
        let t59 = z3 ^ t54;
        let t60 = t46 ^ t57;
        let t61 = z14 ^ t57;
        let t62 = t52 ^ t58;
        let t63 = t49 ^ t58;
        let t64 = z4 ^ t59;
        let t65 = t61 ^ t62;
        let t66 = z1 ^ t63;
        let s0 = t59 ^ t63;
        let s6 = !(t56 ^ t62);
        let s7 = !(t48 ^ t60);
        let t67 = t64 ^ t65;
        let s3 = t53 ^ t66;
        let s4 = t51 ^ t66;
        let s5 = t47 ^ t65;
        let s1 = !(t64 ^ s3);
        let s2 = !(t55 ^ t67);
        Self([s7, s6, s5, s4, s3, s2, s1, s0])
    }

    /// SubBytes is an inversion, which undoes itself, and an affine map; so its inverse is that
    /// map's inverse, SubBytes, and that map's inverse again.
    #[inline(always)]
    fn inverse_substitute(self) -> Self {
        self.inverse_affine().substitute().inverse_affine()
    }

    #[inline(always)]
    fn inverse_affine(self) -> Self {
        let [a, b, c, d, e, f, g, h] = self.0;
        Self([
            !(c ^ f ^ h),
            d ^ g ^ a,
            !(e ^ h ^ b),
            f ^ a ^ c,
            g ^ b ^ d,
            h ^ c ^ e,
            a ^ d ^ f,
            b ^ e ^ g,
        ])
    }
}

/// Puts the four bytes of a word at the even places of a longer one.
#[inline(always)]
fn spread(bytes: u32) -> u64 {
    let word = u64::from(bytes);
    let word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    (word | word << 8) & 0x00ff_00ff_00ff_00ff
}

/// Undoes [`spread`], whatever is at the odd places.
#[inline(always)]
fn gather(word: u64) -> u32 {
    let word = word & 0x00ff_00ff_00ff_00ff;
    let word = (word | word >> 8) & 0x0000_ffff_0000_ffff;
    (word | word >> 16) as u32
}

/// Exchanges the number of a word and the number of a bit in its byte. Undoes itself.
#[inline(always)]
fn transpose(words: &mut [u64; 8]) {
    for (distance, mask) in [
        (1, 0x5555_5555_5555_5555),
        (2, 0x3333_3333_3333_3333),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
    ] {
        for i in (0..8).filter(|i| i & distance == 0) {
            let swap = ((words[i] >> distance) ^ words[i + distance]) & mask;
            words[i] ^= swap << distance;
            words[i + distance] ^= swap;
        }
    }
}

impl BlockVector for Planes {
    const BLOCKS: usize = 4;
    const SHORT_ROUNDS: bool = false;

    #[inline(always)]
    unsafe fn load(from: *const Block) -> Self {
        // SAFETY: the caller's promise; bytes need no alignment.
        Self::from_blocks(unsafe { &*from.cast() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut Block) {
        // SAFETY: the caller's promise; bytes need no alignment.
        unsafe { to.cast::<[Block; 4]>().write(self.to_blocks()) }
    }

    #[inline(always)]
    unsafe fn broadcast(block: &Block) -> Self {
        Self::from_blocks(&[*block; 4])
    }

    type Keys<'k> = SameKey<Self>;

    #[inline(always)]
    unsafe fn keys(round_keys: &[Block; ROUND_KEYS_MAX]) -> SameKey<Self> {
        // SAFETY: the caller's promise.
        unsafe { SameKey::new(round_keys) }
    }

    type Numbers = u128;

    #[inline(always)]
    unsafe fn numbers(first: u128) -> u128 {
        first
    }

    #[inline(always)]
    fn count_on(first: u128, more: u64) -> u128 {
        first.wrapping_add(more.into())
    }

    #[inline(always)]
    fn counters(first: u128) -> Self {
        Self::from_blocks(&[0, 1, 2, 3].map(|i| first.wrapping_add(i).to_be_bytes()))
    }

    #[inline(always)]
    unsafe fn load_columns(
        from: *const *mut Block,
        offset: usize,
        half: usize,
        columns: &mut [Self; 4],
    ) {
        for i in [2 * half, 2 * half + 1] {
            // SAFETY: the caller's promise; bytes need no alignment.
            let block = |lane| unsafe { *(*from.add(lane)).byte_add(offset).add(i) };
            columns[i] = Self::from_blocks(&[0, 1, 2, 3].map(block));
        }
    }

    #[inline(always)]
    unsafe fn store_columns(
        columns: &[Self; 4],
        to: *const *mut Block,
        offset: usize,
        half: usize,
    ) {
        for i in [2 * half, 2 * half + 1] {
            for (lane, block) in columns[i].to_blocks().into_iter().enumerate() {
                // SAFETY: the caller's promise; bytes need no alignment.
                unsafe { *(*to.add(lane)).byte_add(offset).add(i) = block };
            }
        }
    }

    #[inline(always)]
    fn xor(mut self, other: Self) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word ^= other;
        }
        self
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        self.substitute().shift_rows().mix_columns().xor(key)
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        self.substitute().shift_rows().xor(key)
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        self.inverse_shift_rows()
            .inverse_substitute()
            .inverse_mix_columns()
            .xor(key)
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        self.inverse_shift_rows().inverse_substitute().xor(key)
    }

    #[inline(always)]
    fn delayed(mut self, before: Self) -> Self {
        const FIRST: u64 = 0x1111_1111_1111_1111;
        for (word, before) in self.0.iter_mut().zip(before.0) {
            *word = (*word << 1 & !FIRST) | (before >> 3 & FIRST);
        }
        self
    }

    type Polynomials = Scalar;

    #[inline(always)]
    fn polynomials(self) -> impl IntoIterator<Item = Scalar> {
        self.to_blocks()
            .map(|block| Scalar(u128::from_be_bytes(block)))
    }
}

/// A polynomial as the bits of a number.
#[derive(Clone, Copy)]
struct Scalar(u128);

impl Polynomials for Scalar {
    const COUNT: usize = 1;

    #[inline(always)]
    unsafe fn read(from: *const u128) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { from.read() })
    }

    #[inline(always)]
    unsafe fn single(polynomial: u128) -> Self {
        Self(polynomial)
    }

    #[inline(always)]
    unsafe fn everywhere(polynomial: u128) -> Self {
        Self(polynomial)
    }

    #[inline(always)]
    unsafe fn write(self, to: *mut u128) {
        // SAFETY: the caller's promise.
        unsafe { to.write(self.0) }
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self.0
    }

    #[inline(always)]
    fn gathered(self) -> Self {
        self
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    #[inline(always)]
    fn exchanged(self) -> Self {
        Self(self.0.rotate_left(64))
    }

    fn times<const HALF: bool, const OTHER: bool>(self, other: Self) -> Self {
        let half = |number: u128, high| u128::from((number >> (64 * u32::from(high))) as u64);
        Self(multiply(half(self.0, HALF), half(other.0, OTHER)))
    }
}

/// The product of two polynomials of degree less than 64.
fn multiply(a: u128, b: u128) -> u128 {
    let mut product = 0;
    for bit in 0..64 {
        // A mask of the coefficient instead of a branch.
        product ^= (a << bit) & ((b >> bit & 1).wrapping_neg());
    }
    product
}

kernels! {
    #[inline(never)]
    backend: Portable;
    single: Planes;
    one: Planes, 1;
    many: Planes, 1;
}
