//! Counts the operations that the kernels execute: the numerator of their instruction bound.
//!
//! The kernels are generic over a vector of lanes, so they are run once over a vector that counts
//! its operations instead of computing.

use core::cell::Cell;
use core::marker::PhantomData;

use crate::algorithm::Algorithm;
use crate::backend::Backend;
use crate::kernel::Kernel;
use crate::vector::{Next, STATE_WORDS_MAX, Vector, Word};

/// Operations on vector registers for one block in each lane of one kernel, by kind. Loads, stores
/// and copies are not counted, which leaves a bound that no order of instructions can pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operations {
    /// Bits in a register: 128, 256 or 512.
    pub register_bits: u32,
    /// Bytes of messages that this takes care of.
    pub bytes: u32,
    /// Additions.
    pub add: u32,
    /// Logic on two operands, or three where the instruction set has that.
    pub logic: u32,
    /// Rotations by a constant.
    pub rotate: u32,
    /// Shifts by a constant.
    pub shift: u32,
    /// Interleaving of two registers within their 128-bit parts.
    pub unpack: u32,
    /// Permutation of the bytes within each 128-bit part.
    pub byte_shuffle: u32,
    /// Moves of 128-bit parts.
    pub part_shuffle: u32,
}

impl Operations {
    const NONE: Self = Self {
        register_bits: 0,
        bytes: 0,
        add: 0,
        logic: 0,
        rotate: 0,
        shift: 0,
        unpack: 0,
        byte_shuffle: 0,
        part_shuffle: 0,
    };

    /// All of them.
    pub fn total(&self) -> u32 {
        self.add
            + self.logic
            + self.rotate
            + self.shift
            + self.unpack
            + self.byte_shuffle
            + self.part_shuffle
    }

    fn times(self, n: u32) -> Self {
        Self {
            register_bits: self.register_bits,
            bytes: n * self.bytes,
            add: n * self.add,
            logic: n * self.logic,
            rotate: n * self.rotate,
            shift: n * self.shift,
            unpack: n * self.unpack,
            byte_shuffle: n * self.byte_shuffle,
            part_shuffle: n * self.part_shuffle,
        }
    }
}

/// The operations that the kernel of `backend` with `lanes` lanes executes for a block in each
/// lane. `None` if no such kernel exists, or if it is not made of vectors (portable, SHA-NI, one
/// message).
pub fn operations(algorithm: Algorithm, backend: Backend, lanes: usize) -> Option<Operations> {
    let entry = algorithm.entry();
    (entry.lane_kernels)(backend)
        .iter()
        .find(|kernel| kernel.lanes == lanes)?;
    let word_bytes = entry.block_len / 16;
    let register_bits = match backend {
        // The kernel of one lane is not made of vectors.
        _ if lanes == 1 => return None,
        Backend::Sse41 => 128,
        Backend::Avx2 => 256,
        Backend::Avx512 => (8 * word_bytes * lanes).min(512),
        Backend::Portable | Backend::ShaNi => return None,
    };
    let registers = 8 * word_bytes * lanes / register_bits;
    let mut one = (entry.count)(backend == Backend::Avx512);
    // Operations of the transposing loads of `arch`, for 16 words of every lane of a register.
    (one.unpack, one.part_shuffle) = match (register_bits, word_bytes) {
        (128, 4) => (32, 0),
        (128, _) => (16, 0),
        (256, 4) => (32, 16),
        (256, _) => (16, 16),
        (_, 4) => (32, 32),
        (_, _) => (16, 32),
    };
    one.register_bits = register_bits as u32;
    one.bytes = (entry.block_len * lanes / registers) as u32;
    Some(one.times(registers as u32))
}

thread_local! {
    static COUNT: Cell<Operations> = const { Cell::new(Operations::NONE) };
}

/// Counts the steps of one block, with three-operand logic and rotation as one instruction each if
/// `ternary`.
pub(crate) fn count<K: Kernel>(ternary: bool) -> Operations {
    COUNT.set(Operations::NONE);
    if ternary {
        run::<K, true>();
    } else {
        run::<K, false>();
    }
    let mut count = COUNT.get();
    count.byte_shuffle = if K::BIG_ENDIAN { 16 } else { 0 };
    count
}

fn run<K: Kernel, const TERNARY: bool>() {
    let value = Counter::<K::Word, TERNARY>(PhantomData);
    let (mut this, mut next) = ([value; 16], [value; 16]);
    // SAFETY: a counter reads nothing, and needs no instruction set.
    let next = unsafe { Next::new(core::ptr::null(), 0, &mut next) };
    K::compress(&mut [value; STATE_WORDS_MAX], &mut this, next);
}

/// A register without contents.
#[derive(Clone, Copy)]
struct Counter<W, const TERNARY: bool>(PhantomData<W>);

impl<W, const TERNARY: bool> Counter<W, TERNARY> {
    fn did(self, what: impl Fn(&mut Operations) -> &mut u32, times: u32) -> Self {
        let mut count = COUNT.get();
        *what(&mut count) += times;
        COUNT.set(count);
        self
    }
}

impl<W: Word, const TERNARY: bool> Vector for Counter<W, TERNARY> {
    type Word = W;
    const LANES: usize = 1;
    const TERNARY: bool = TERNARY;

    unsafe fn load(_: *const W) -> Self {
        Self(PhantomData)
    }
    unsafe fn store(self, _: *mut W) {}
    unsafe fn load_block<const BIG_ENDIAN: bool>(
        _: *const *const u8,
        _: usize,
        _: usize,
        _: &mut [Self; 16],
    ) {
    }
    fn splat(self, _: W) -> Self {
        self
    }
    fn add(self, _: Self) -> Self {
        self.did(|count| &mut count.add, 1)
    }
    fn and(self, _: Self) -> Self {
        self.did(|count| &mut count.logic, 1)
    }
    fn and_not(self, _: Self) -> Self {
        self.did(|count| &mut count.logic, 1)
    }
    fn or(self, _: Self) -> Self {
        self.did(|count| &mut count.logic, 1)
    }
    fn xor(self, _: Self) -> Self {
        self.did(|count| &mut count.logic, 1)
    }
    fn rotate_left<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        if TERNARY {
            self.did(|count| &mut count.rotate, 1)
        } else {
            self.did(|count| &mut count.shift, 2)
                .did(|count| &mut count.logic, 1)
        }
    }
    fn shift_right<const BITS: i32>(self) -> Self {
        self.did(|count| &mut count.shift, 1)
    }
    fn xor3(self, _: Self, _: Self) -> Self {
        self.did(|count| &mut count.logic, if TERNARY { 1 } else { 2 })
    }
    fn choose(self, _: Self, _: Self) -> Self {
        self.did(|count| &mut count.logic, if TERNARY { 1 } else { 3 })
    }
    fn majority(self, _: Self, _: Self) -> Self {
        self.did(|count| &mut count.logic, if TERNARY { 1 } else { 4 })
    }
    fn xor_or_not(self, _: Self, _: Self) -> Self {
        self.did(|count| &mut count.logic, if TERNARY { 1 } else { 3 })
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// The sums that one gets by hand from the standards, for AVX-512: SHA-1 has 80 steps of 4
    /// additions, 1 logic and 2 rotations, 64 words of the schedule of 2 logic and 1 rotation, 5
    /// additions at the end, 16 byte shuffles and 64 others.
    #[test]
    fn counts() {
        let full = |algorithm| operations(algorithm, Backend::Avx512, 16).unwrap();
        let sha1 = full(Algorithm::Sha1);
        assert_eq!((sha1.add, sha1.logic, sha1.rotate), (325, 208, 224));
        assert_eq!((sha1.total(), sha1.bytes), (837, 1024));
        assert_eq!(full(Algorithm::Md5).total(), 64 * 6 + 4 + 64);
        assert_eq!(full(Algorithm::Sha256).total(), 1704);
        let pair = operations(Algorithm::Sha1, Backend::Avx512, 32).unwrap();
        assert_eq!((pair.total(), pair.bytes), (2 * 837, 2048));
        assert_eq!(operations(Algorithm::Sha1, Backend::Avx512, 17), None);
        assert_eq!(operations(Algorithm::Sha1, Backend::ShaNi, 1), None);
        assert_eq!(operations(Algorithm::Sha512, Backend::Avx2, 1), None);
        let wide = operations(Algorithm::Sha512, Backend::Avx512, 16).unwrap();
        assert_eq!((wide.bytes, wide.register_bits), (16 * 128, 512));
        let half = operations(Algorithm::Md5, Backend::Avx512, 8).unwrap();
        assert_eq!((half.bytes, half.register_bits), (512, 256));
    }
}
