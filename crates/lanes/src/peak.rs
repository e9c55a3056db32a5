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
    /// Instructions that do steps of the hash, or of its schedule.
    pub hash: u32,
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
        hash: 0,
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
            + self.hash
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
            hash: n * self.hash,
        }
    }
}

/// The operations that the kernel of `backend` with `lanes` lanes executes for a block in each
/// lane. `None` if no such kernel exists, or if it is not counted (portable, SHA-NI, one message in
/// vectors).
pub fn operations(algorithm: Algorithm, backend: Backend, lanes: usize) -> Option<Operations> {
    let entry = algorithm.entry();
    (entry.lane_kernels)(backend)
        .iter()
        .find(|kernel| kernel.lanes == lanes)?;
    if let Backend::ArmCe | Backend::ArmSha512 = backend {
        return Some(hash_instructions(algorithm).times(lanes as u32));
    }
    let word_bytes = entry.block_len / 16;
    let register_bits = match backend {
        // The kernel of one lane is not made of vectors.
        _ if lanes == 1 => return None,
        Backend::Sse41 | Backend::Neon => 128,
        Backend::Avx2 => 256,
        Backend::Avx512 => (8 * word_bytes * lanes).min(512),
        Backend::Portable | Backend::ShaNi | Backend::ArmCe | Backend::ArmSha512 => return None,
    };
    let registers = 8 * word_bytes * lanes / register_bits;
    let mut one = (entry.count)(match backend {
        Backend::Avx512 => Logic::Ternary,
        Backend::Neon => Logic::Selection,
        _ => Logic::Binary,
    });
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

/// The instructions of aarch64 for a block of one message, by the standards' steps: two for four
/// steps, or for two of SHA-512, and two for as many words of the schedule.
fn hash_instructions(algorithm: Algorithm) -> Operations {
    let (steps, steps_at_once, words) = match algorithm {
        Algorithm::Sha1 => (80, 4, 16),
        Algorithm::Sha224 | Algorithm::Sha256 => (64, 4, 16),
        _ => (80, 2, 16),
    };
    let (groups, loaded) = (steps / steps_at_once, words / steps_at_once);
    let mut one = Operations {
        register_bits: 128,
        bytes: algorithm.block_len() as u32,
        byte_shuffle: loaded,
        hash: 2 * groups + 2 * (groups - loaded),
        ..Operations::NONE
    };
    match algorithm {
        // A word with its constant; at the end the state, of which SHA-1 has one word elsewhere.
        Algorithm::Sha1 => one.add = groups + 1,
        Algorithm::Sha224 | Algorithm::Sha256 => one.add = groups + 2,
        // Two sums more, and words that lie across registers: three for the steps, one for the
        // schedule.
        _ => {
            one.add = 3 * groups + 4;
            one.unpack = 3 * groups + (groups - loaded);
        }
    }
    one
}

thread_local! {
    static COUNT: Cell<Operations> = const { Cell::new(Operations::NONE) };
}

/// What an instruction set does in one instruction.
#[derive(Clone, Copy)]
pub(crate) enum Logic {
    /// Logic on two operands.
    Binary,
    /// Selection between two operands by a third, and a shift that leaves the other's bits, so that
    /// a rotation is two shifts.
    Selection,
    /// Logic on three operands, and rotations.
    Ternary,
}

/// Counts the steps of one block.
pub(crate) fn count<K: Kernel>(logic: Logic) -> Operations {
    COUNT.set(Operations::NONE);
    match logic {
        Logic::Binary => run::<K, false, false>(),
        Logic::Selection => run::<K, false, true>(),
        Logic::Ternary => run::<K, true, true>(),
    }
    let mut count = COUNT.get();
    count.byte_shuffle = if K::BIG_ENDIAN { 16 } else { 0 };
    count
}

fn run<K: Kernel, const TERNARY: bool, const SELECTION: bool>() {
    let value = Counter::<K::Word, TERNARY, SELECTION>(PhantomData);
    let (mut this, mut next) = ([value; 16], [value; 16]);
    // SAFETY: a counter reads nothing, and needs no instruction set.
    let next = unsafe { Next::new(core::ptr::null(), 0, &mut next) };
    K::compress(&mut [value; STATE_WORDS_MAX], &mut this, next);
}

/// A register without contents.
#[derive(Clone, Copy)]
struct Counter<W, const TERNARY: bool, const SELECTION: bool>(PhantomData<W>);

impl<W, const TERNARY: bool, const SELECTION: bool> Counter<W, TERNARY, SELECTION> {
    fn did(self, what: impl Fn(&mut Operations) -> &mut u32, times: u32) -> Self {
        let mut count = COUNT.get();
        *what(&mut count) += times;
        COUNT.set(count);
        self
    }

    /// Logic of so many instructions with three operands, selection or two operands.
    fn logic(self, [ternary, selection, binary]: [u32; 3]) -> Self {
        let times = match (TERNARY, SELECTION) {
            (true, _) => ternary,
            (false, true) => selection,
            (false, false) => binary,
        };
        self.did(|count| &mut count.logic, times)
    }
}

impl<W: Word, const TERNARY: bool, const SELECTION: bool> Vector
    for Counter<W, TERNARY, SELECTION>
{
    type Word = W;
    const LANES: usize = 1;
    const TERNARY: bool = TERNARY;
    const CHOICE: bool = SELECTION;

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
                .did(|count| &mut count.logic, u32::from(!SELECTION))
        }
    }
    fn shift_right<const BITS: i32>(self) -> Self {
        self.did(|count| &mut count.shift, 1)
    }
    fn xor3(self, _: Self, _: Self) -> Self {
        self.logic([1, 2, 2])
    }
    fn choose(self, _: Self, _: Self) -> Self {
        self.logic([1, 1, 3])
    }
    fn majority(self, _: Self, _: Self) -> Self {
        self.logic([1, 2, 4])
    }
    fn xor_or_not(self, _: Self, _: Self) -> Self {
        self.logic([1, 2, 3])
    }
}

#[cfg(all(test, target_arch = "aarch64"))]
mod tests_of_aarch64 {
    use super::*;

    /// By hand, for NEON: as for AVX-512 below, but that a rotation is two shifts, three operands
    /// are added in two instructions, and a majority is two. The instructions of hashes: as OpenSSL
    /// has them, too.
    #[test]
    fn counts() {
        let sha1 = operations(Algorithm::Sha1, Backend::Neon, 4).unwrap();
        assert_eq!((sha1.add, sha1.logic, sha1.shift), (325, 332, 448));
        assert_eq!((sha1.total(), sha1.bytes), (1153, 256));
        let md5 = operations(Algorithm::Md5, Backend::Neon, 16).unwrap();
        assert_eq!((md5.total(), md5.bytes), (4 * 516, 1024));
        let total = |algorithm, backend| operations(algorithm, backend, 1).unwrap().total();
        assert_eq!(total(Algorithm::Sha1, Backend::ArmCe), 97);
        assert_eq!(total(Algorithm::Sha256, Backend::ArmCe), 78);
        assert_eq!(total(Algorithm::Sha512, Backend::ArmSha512), 428);
        assert_eq!(operations(Algorithm::Md5, Backend::ArmCe, 1), None);
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
        let pair = operations(Algorithm::Md5, Backend::Avx512, 32).unwrap();
        assert_eq!((pair.total(), pair.bytes), (2 * (64 * 6 + 4 + 64), 2048));
        assert_eq!(operations(Algorithm::Sha1, Backend::Avx512, 17), None);
        assert_eq!(operations(Algorithm::Sha1, Backend::ShaNi, 1), None);
        assert_eq!(operations(Algorithm::Sha512, Backend::Avx2, 1), None);
        let wide = operations(Algorithm::Sha512, Backend::Avx512, 16).unwrap();
        assert_eq!((wide.bytes, wide.register_bits), (16 * 128, 512));
        let half = operations(Algorithm::Md5, Backend::Avx512, 8).unwrap();
        assert_eq!((half.bytes, half.register_bits), (512, 256));
    }
}
