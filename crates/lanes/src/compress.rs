//! Adding blocks to states: the kinds of kernels, and the body of kernels made of vectors.

use crate::backend::Backend;
use crate::kernel::Kernel;
use crate::vector::{LaneSet, Next, STATE_WORDS_MAX, State, Vector};

/// Adds `blocks` blocks of each lane to that lane's state. Does not move `data`.
///
/// # Safety
///
/// The processor has the kernel's instruction set, and the first [`LaneKernel::lanes`] pointers of
/// `data` are each readable for `blocks` blocks of the algorithm.
pub(crate) type Compress = unsafe fn(set: &mut LaneSet, blocks: usize);

/// Adds blocks of one message to its state. Separate from [`Compress`], whose set-up for many lanes
/// costs as much as a block.
///
/// # Safety
///
/// The processor has the instruction set, and `data` is readable for `blocks` blocks of the
/// algorithm.
pub(crate) type CompressOne = unsafe fn(state: &mut State, data: *const u8, blocks: usize);

/// A kernel that adds blocks to the states of several messages at once.
#[derive(Clone, Copy)]
pub(crate) struct LaneKernel {
    pub(crate) backend: Backend,
    pub(crate) lanes: usize,
    pub(crate) compress: Compress,
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
    // The compiler aligns the stack for variables but not for the registers that it saves there,
    // and a register that straddles two cache lines costs twice. So let there be a variable, and
    // let it not be optimised away.
    let mut aligned = Aligned([0; 64]);
    core::hint::black_box(&mut aligned);

    let words = K::INITIAL.len();
    // SAFETY: the caller vouches for the instruction set; every row has room for as many lanes as a
    // kernel has.
    let mut state = unsafe { [V::load(set.state[0].words().as_ptr()); STATE_WORDS_MAX] };
    for (state, row) in state.iter_mut().zip(&set.state).take(words) {
        // SAFETY: the caller vouches for the instruction set; every row has room for as many lanes
        // as a kernel has.
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
/// The processor has the instruction set, and `data` is readable for `V::LANES` pointers, each of
/// which is readable for `blocks` blocks.
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
    if V::AHEAD {
        // SAFETY: the caller vouches for the instruction set and for `blocks` blocks, at least one,
        // behind each pointer.
        unsafe { load_block::<K, V>(data, 0, this) };
    }
    for block in 0..blocks {
        if !V::AHEAD {
            // SAFETY: the caller vouches for the instruction set and for `blocks` blocks behind
            // each pointer.
            unsafe { load_block::<K, V>(data, K::BLOCK * block, this) };
        }
        // Memory behind the last block may be unreadable, so the last block is read again.
        let offset = K::BLOCK * (block + 1).min(blocks - 1);
        // SAFETY: the caller vouches for the instruction set, and for `blocks` blocks, one of which
        // is at the offset.
        K::compress(state, this, unsafe { Next::new(data, offset, next) });
        if V::AHEAD {
            core::mem::swap(&mut this, &mut next);
        }
    }
}

/// Loads the block at `offset` from each pointer.
///
/// # Safety
///
/// As [`Vector::load_block`], of every register.
#[inline(always)]
unsafe fn load_block<K: Kernel, V: Vector<Word = K::Word>>(
    data: *const *const u8,
    offset: usize,
    block: &mut [V; 16],
) {
    for register in 0..V::REGISTERS {
        // SAFETY: promised by the caller.
        unsafe {
            if K::BIG_ENDIAN {
                V::load_block::<true>(data, offset, register, block);
            } else {
                V::load_block::<false>(data, offset, register, block);
            }
        }
    }
}

/// Something as aligned as the widest register.
#[repr(align(64))]
struct Aligned(#[expect(dead_code, reason = "its place matters, not its contents")] [u8; 64]);
