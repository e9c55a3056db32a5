//! The hash of GCM (NIST SP 800-38D, 6.4), by itself and together with encryption.
//!
//! The sum of a message's blocks, each multiplied by a power of the hash key, in the field of 2¹²⁸
//! elements. With the powers at hand, products of as many blocks as there are powers are added up
//! before they are reduced, once.
//!
//! The standard writes the coefficient of x⁰ first. Taken as numbers, its polynomials are mirrored,
//! and so is their product, but for one bit by which it is off: the powers are held multiplied by
//! x, which puts that right (Gueron and Kounavis, "Intel Carry-Less Multiplication Instruction and
//! its Usage for Computing the GCM Mode", 2010).

use super::block::{Block, BlockVector, Polynomials};
use super::in_out::Blocks;
use super::key::Key;
use super::modes::{Counter, Mode, run};
use super::powers::{POWERS, Powers};

/// x¹²⁸ + x⁷ + x² + x + 1, mirrored, without its highest coefficient.
const FIELD: u128 = 0xc200_0000_0000_0000_0000_0000_0000_0001;

/// Fills in the powers of a hash key.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn powers<V: BlockVector>(powers: &mut Powers, hash_key: &Block) {
    let key = u128::from_be_bytes(*hash_key);
    // Times x. The highest coefficient is that of the lowest bit; a mask of it instead of a branch.
    let first = (key << 1) ^ ((key >> 127).wrapping_neg() & FIELD);
    powers.0[POWERS - 1] = first;
    // SAFETY: the caller's promise; within the powers.
    unsafe {
        let first = V::Polynomials::everywhere(first);
        let mut ready = 1;
        while ready < V::Polynomials::COUNT {
            let last = V::Polynomials::single(powers.0[POWERS - ready]);
            ready += 1;
            powers.0[POWERS - ready] = Product::of(last, first).reduced().number();
        }
        // Doubles the number of powers at a time, by products with the highest one, so that few
        // products wait for each other.
        while ready < POWERS {
            let highest = V::Polynomials::everywhere(powers.0[POWERS - ready]);
            for i in (POWERS - ready..POWERS).step_by(V::Polynomials::COUNT) {
                let more = V::Polynomials::read(&raw const powers.0[i]);
                let more = Product::of(more, highest).each_reduced();
                more.write(&raw mut powers.0[i - ready]);
            }
            ready *= 2;
        }
    }
}

/// Products before they are reduced: parts that begin at x⁰, at x⁶⁴, at x¹²⁸.
#[derive(Clone, Copy)]
struct Product<P> {
    low: P,
    middle: P,
    high: P,
}

impl<P: Polynomials> Product<P> {
    #[inline(always)]
    fn of(a: P, b: P) -> Self {
        Self {
            low: a.times::<false, false>(b),
            middle: a.times::<true, false>(b).plus(a.times::<false, true>(b)),
            high: a.times::<true, true>(b),
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            low: self.low.plus(other.low),
            middle: self.middle.plus(other.middle),
            high: self.high.plus(other.high),
        }
    }

    /// The reduced sum of all products, in the first place.
    #[inline(always)]
    fn reduced(self) -> P {
        let gathered = Self {
            low: self.low.gathered(),
            middle: self.middle.gathered(),
            high: self.high.gathered(),
        };
        gathered.each_reduced()
    }

    /// Each by itself, in the field.
    #[inline(always)]
    fn each_reduced(self) -> P {
        // SAFETY: a value of this type exists, so the processor has the instruction set.
        let field = unsafe { P::everywhere(FIELD) };
        // Each step takes the lowest half to the next two.
        let fold = |from: P, to: P| {
            let product = field.times::<true, false>(from);
            to.plus(product).plus(from.exchanged())
        };
        fold(fold(self.low, self.middle), self.high)
    }
}

/// The hash of what came so far.
struct Ghash<'p, P> {
    powers: &'p Powers,
    sum: P,
}

impl<P: Polynomials> Ghash<'_, P> {
    /// Adds the first `count` blocks of some registers.
    #[inline(always)]
    fn add<V: BlockVector<Polynomials = P>, const N: usize>(
        &mut self,
        registers: [V; N],
        count: usize,
    ) {
        const { assert!(N * V::BLOCKS <= POWERS && V::BLOCKS <= 4) };
        debug_assert!(count <= N * V::BLOCKS && N * V::BLOCKS < count + 4);
        let mut power = self.powers.0[POWERS - count..].as_ptr();
        let mut sum: Option<Product<P>> = None;
        for register in registers {
            for mut polynomials in register.polynomials() {
                // SAFETY: a value of this type exists, so the processor has the instruction set.
                // Reads end less than four places behind the first power.
                let powers = unsafe { P::read(power) };
                power = power.wrapping_add(P::COUNT);
                sum = Some(match sum {
                    None => {
                        polynomials = polynomials.plus(self.sum);
                        Product::of(polynomials, powers)
                    }
                    Some(sum) => sum.plus(Product::of(polynomials, powers)),
                });
            }
        }
        if let Some(sum) = sum {
            self.sum = sum.reduced();
        }
    }
}

/// Adds the blocks of `data`.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn hash<V: BlockVector, const N: usize>(
    powers: &Powers,
    sum: &mut u128,
    data: &[Block],
) {
    let mut hash = Ghash {
        powers,
        // SAFETY: the caller's promise.
        sum: unsafe { V::Polynomials::single(*sum) },
    };
    // SAFETY: the caller's promise of the instruction set; the slices have this many blocks.
    unsafe {
        let mut groups = data.chunks_exact(N * V::BLOCKS);
        for group in &mut groups {
            let mut registers = [V::load(group.as_ptr()); N];
            for (i, register) in registers.iter_mut().enumerate() {
                *register = V::load(group.as_ptr().add(i * V::BLOCKS));
            }
            hash.add(registers, group.len());
        }
        let mut registers = groups.remainder().chunks_exact(V::BLOCKS);
        for register in &mut registers {
            hash.add([V::load(register.as_ptr())], V::BLOCKS);
        }
        let part = registers.remainder();
        if !part.is_empty() {
            hash.add([V::load_part(part.as_ptr(), part.len())], part.len());
        }
    }
    *sum = hash.sum.number();
}

/// Counter mode, which adds the ciphertext to the hash.
struct Crypt<'k, V: BlockVector, const ENCRYPT: bool> {
    counter: Counter<'k, V>,
    hash: Ghash<'k, V::Polynomials>,
}

impl<V: BlockVector, const ENCRYPT: bool> Mode<V> for Crypt<'_, V, ENCRYPT> {
    #[inline(always)]
    fn next<const N: usize>(&mut self, blocks: [V; N]) -> [V; N] {
        let result = self.counter.next(blocks);
        self.hash
            .add(if ENCRYPT { result } else { blocks }, N * V::BLOCKS);
        result
    }

    #[inline(always)]
    fn last(&mut self, blocks: V, count: usize) -> V {
        let [result] = self.counter.next([blocks]);
        self.hash
            .add([if ENCRYPT { result } else { blocks }], count);
        result
    }
}

/// Encrypts or decrypts whole blocks, and adds the ciphertext to `sum`. The last 32 bits of the
/// counter must not overflow.
///
/// # Safety
///
/// The processor has the instruction set.
#[inline(always)]
pub(super) unsafe fn crypt<V: BlockVector, const N: usize, const ENCRYPT: bool>(
    key: &Key,
    powers: &Powers,
    first: u128,
    sum: &mut u128,
    data: Blocks,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut mode = Crypt::<V, ENCRYPT> {
            counter: Counter::new(key, first),
            hash: Ghash {
                powers,
                sum: V::Polynomials::single(*sum),
            },
        };
        run::<V, N>(&mut mode, data);
        *sum = mode.hash.sum.number();
    }
}
