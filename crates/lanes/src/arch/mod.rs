//! The instruction sets: one file each. A file implements [`Vector`] for its registers and lists its kernels.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use crate::algorithm::Kernel;
use crate::vector::{LANES_MAX, LaneSet, Next, STATE_WORDS_MAX, State, Vector, Word};
use crate::{Algorithm, Backend};

/// Adds `blocks` blocks of each lane to that lane's state. Does not move `data`.
///
/// # Safety
///
/// The processor has the kernel's instruction set, and the first [`LaneKernel::lanes`] pointers of `data` are each
/// readable for `blocks` blocks of the algorithm.
pub(crate) type Compress = unsafe fn(set: &mut LaneSet, blocks: usize);

/// Adds blocks of one message to its state. What a [`Compress`] takes with it for many lanes costs as much as a block.
///
/// # Safety
///
/// The processor has the instruction set, and `data` is readable for `blocks` blocks of the algorithm.
pub(crate) type CompressOne = unsafe fn(state: &mut State, data: *const u8, blocks: usize);

/// One way of adding blocks to the state of a number of messages at once.
#[derive(Clone, Copy)]
pub(crate) struct LaneKernel {
    pub(crate) backend: Backend,
    pub(crate) lanes: usize,
    pub(crate) compress: Compress,
}

/// The registers of each instruction set that hold lanes of this word. A word is a lane of its own.
pub(crate) trait Registers: Word + Vector<Word = Self> {
    /// 128 bits.
    #[cfg(target_arch = "x86_64")]
    type Sse41: Vector<Word = Self>;
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Word = Self>;
    /// 256 bits, with what AVX-512 can do.
    #[cfg(target_arch = "x86_64")]
    type Avx512Half: Vector<Word = Self>;
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Word = Self>;
}

#[cfg(not(target_arch = "x86_64"))]
impl Registers for u32 {}

#[cfg(not(target_arch = "x86_64"))]
impl Registers for u64 {}

/// The kernels of a backend for an algorithm. Empty if the backend cannot do it or was not compiled in.
///
/// Whether *this processor* can run them is [`Backend::is_available`]'s to say.
pub(crate) fn lane_kernels<K: Kernel>(backend: Backend, algorithm: Algorithm) -> Vec<LaneKernel> {
    let kernel = |(lanes, compress)| {
        assert!(lanes * K::Word::BYTES <= LANES_MAX * u32::BYTES);
        LaneKernel {
            backend,
            lanes,
            compress,
        }
    };
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut list: Vec<(usize, Compress)> = match backend {
        Backend::Portable => portable::lane_kernels::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::Sse41 => x86_64::sse41::lane_kernels::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => x86_64::avx2::lane_kernels::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::Avx512 => x86_64::avx512::lane_kernels::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::ShaNi => x86_64::shani::lane_kernels(algorithm),
        #[allow(unreachable_patterns)]
        _ => Vec::new(),
    };
    #[cfg(target_arch = "x86_64")]
    list.extend(x86_64::sha512::lane_kernels(backend, algorithm));
    #[cfg(not(target_arch = "x86_64"))]
    let _ = algorithm;
    list.into_iter().map(kernel).collect()
}

/// The way of a backend, if it has one, or else the portable way.
pub(crate) fn one<K: Kernel>(backend: Backend, algorithm: Algorithm) -> CompressOne {
    #[cfg(target_arch = "x86_64")]
    if let Some(one) =
        x86_64::shani::one(backend, algorithm).or_else(|| x86_64::sha512::one(backend, algorithm))
    {
        return one;
    }
    let _ = (backend, algorithm);
    portable::one::<K>
}

/// The body of every kernel that is made of a [`Vector`].
///
/// # Safety
///
/// As [`Compress`], with `V::LANES` lanes.
#[inline(always)]
pub(crate) unsafe fn compress_lanes<K: Kernel, V: Vector<Word = K::Word>>(
    set: &mut LaneSet,
    blocks: usize,
) {
    // The compiler aligns the stack for variables but not for the registers that it saves there, and a register that
    // straddles two cache lines costs twice. So let there be a variable, and let it not be optimised away.
    let mut aligned = Aligned([0; 64]);
    core::hint::black_box(&mut aligned);

    let words = K::INITIAL.len();
    // SAFETY: the caller vouches for the instruction set; every row has room for as many lanes as a kernel has.
    let mut state = unsafe { [V::load(set.state[0].words().as_ptr()); STATE_WORDS_MAX] };
    for (state, row) in state.iter_mut().zip(&set.state).take(words) {
        // SAFETY: the caller vouches for the instruction set; every row has room for as many lanes as a kernel has.
        *state = unsafe { V::load(row.words().as_ptr()) };
    }
    // SAFETY: the caller promises the instruction set, and blocks behind each lane's pointer.
    unsafe { compress_blocks::<K, V>(&mut state, set.data.as_ptr(), blocks) };
    for (row, state) in set.state.iter_mut().zip(state).take(words) {
        // SAFETY: every row has room for as many lanes as a kernel has.
        unsafe { state.store(row.words_mut().as_mut_ptr()) };
    }
}

/// Adds `blocks` blocks from each pointer of `data` to the state.
///
/// # Safety
///
/// The processor has the instruction set, and `data` is readable for `V::LANES` pointers, each of which is readable for
/// `blocks` blocks.
#[inline(always)]
pub(crate) unsafe fn compress_blocks<K: Kernel, V: Vector<Word = K::Word>>(
    state: &mut [V; STATE_WORDS_MAX],
    data: *const *const u8,
    blocks: usize,
) {
    if blocks == 0 {
        return;
    }
    let mut buffers = [[state[0]; 16]; 2];
    let [this, next] = &mut buffers;
    let (mut this, mut next) = (this, next);
    for register in 0..V::REGISTERS {
        // SAFETY: the caller vouches for the instruction set and for `blocks` blocks, at least one, behind each pointer.
        unsafe {
            if K::BIG_ENDIAN {
                V::load_block::<true>(data, 0, register, this);
            } else {
                V::load_block::<false>(data, 0, register, this);
            }
        }
    }
    for block in 1..=blocks {
        // Behind the last block there may be nothing to read, so it is read again.
        let offset = K::BLOCK * block.min(blocks - 1);
        // SAFETY: the caller vouches for the instruction set, and for `blocks` blocks, one of which is at the offset.
        K::compress(state, this, unsafe { Next::new(data, offset, next) });
        core::mem::swap(&mut this, &mut next);
    }
}

/// Something as aligned as the widest register.
#[repr(align(64))]
struct Aligned(#[expect(dead_code, reason = "its place matters, not its contents")] [u8; 64]);
