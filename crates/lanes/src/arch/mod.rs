//! The instruction sets: one file each. A file implements [`Vector`] for its registers and lists its engines.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use crate::algorithm::Kernel;
use crate::vector::{LaneSet, MAX_LANES, MAX_WORDS, Vector};
use crate::{Algorithm, Backend};

/// Adds `blocks` blocks of 64 bytes of each lane to that lane's state. Does not move `data`.
///
/// # Safety
///
/// The processor has the engine's instruction set, and the first [`Engine::lanes`] pointers of `data` are each
/// readable for `64 * blocks` bytes.
pub(crate) type Compress = unsafe fn(set: &mut LaneSet, blocks: usize);

/// One way of adding blocks to the state of a number of messages at once.
#[derive(Clone, Copy)]
pub(crate) struct Engine {
    pub(crate) backend: Backend,
    pub(crate) lanes: usize,
    pub(crate) compress: Compress,
}

/// The engines of a backend for an algorithm. Empty if the backend cannot do it or was not compiled in.
///
/// Whether *this processor* can run them is [`Backend::is_available`]'s to say.
pub(crate) fn engines<K: Kernel>(backend: Backend, algorithm: Algorithm) -> Vec<Engine> {
    let engine = |(lanes, compress)| {
        assert!(lanes <= MAX_LANES);
        Engine {
            backend,
            lanes,
            compress,
        }
    };
    let list: Vec<(usize, Compress)> = match backend {
        Backend::Portable => portable::engines::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::Sse41 => x86_64::sse41::engines::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => x86_64::avx2::engines::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::Avx512 => x86_64::avx512::engines::<K>(),
        #[cfg(target_arch = "x86_64")]
        Backend::ShaNi => x86_64::shani::engines(algorithm),
        #[allow(unreachable_patterns)]
        _ => Vec::new(),
    };
    let _ = algorithm;
    list.into_iter().map(engine).collect()
}

/// The body of every engine that is made of a [`Vector`].
///
/// # Safety
///
/// As [`Compress`], with `V::LANES` lanes.
#[inline(always)]
pub(crate) unsafe fn compress_lanes<K: Kernel, V: Vector>(set: &mut LaneSet, blocks: usize) {
    // The compiler aligns the stack for variables but not for the registers that it saves there, and a register that
    // straddles two cache lines costs twice. So let there be a variable, and let it not be optimised away.
    let mut aligned = Aligned([0; 64]);
    core::hint::black_box(&mut aligned);

    let LaneSet { state, data } = set;
    // SAFETY: the caller vouches for the instruction set; every row has MAX_LANES >= V::LANES words.
    let mut words = unsafe { [V::load(state[0].as_ptr()); MAX_WORDS] };
    for (words, row) in words.iter_mut().zip(&*state).take(K::WORDS) {
        // SAFETY: as above.
        *words = unsafe { V::load(row.as_ptr()) };
    }
    for block in 0..blocks {
        // SAFETY: the caller vouches for the instruction set and for `blocks` blocks behind each pointer.
        let block = unsafe { load_blocks::<K, V>(data, 64 * block) };
        K::compress(&mut words, block);
    }
    for (row, words) in state.iter_mut().zip(words).take(K::WORDS) {
        // SAFETY: every row has MAX_LANES >= V::LANES words.
        unsafe { words.store(row.as_mut_ptr()) };
    }
}

/// Something as aligned as the widest register.
#[repr(align(64))]
struct Aligned(#[expect(dead_code, reason = "its place matters, not its contents")] [u8; 64]);

/// Loads the block at `offset` of every lane, and asks for those that follow.
///
/// # Safety
///
/// As [`Vector::load_blocks`].
#[inline(always)]
unsafe fn load_blocks<K: Kernel, V: Vector>(
    data: &[*const u8; MAX_LANES],
    offset: usize,
) -> [V; 16] {
    #[cfg(target_arch = "x86_64")]
    if PREFETCH_BYTES > 0 {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for pointer in data.iter().take(V::LANES) {
            // SAFETY: a prefetch faults nowhere, also past the end of a message.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(pointer.wrapping_add(offset + PREFETCH_BYTES).cast())
            };
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        if K::BIG_ENDIAN {
            V::load_blocks::<true>(data.as_ptr(), offset)
        } else {
            V::load_blocks::<false>(data.as_ptr(), offset)
        }
    }
}

/// How far ahead of its use a lane's data is asked for: as many streams as lanes are more than the hardware follows.
const PREFETCH_BYTES: usize = 256;
