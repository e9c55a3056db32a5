//! The instruction sets: one file each. A file implements [`Vector`] for its registers and lists its engines.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use crate::algorithm::Kernel;
use crate::vector::{Ahead, LaneSet, MAX_LANES, MAX_WORDS, Vector};
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

    // SAFETY: the caller vouches for the instruction set; every row has MAX_LANES >= V::LANES words.
    let mut words = unsafe { [V::load(set.state[0].as_ptr()); MAX_WORDS] };
    for (words, row) in words.iter_mut().zip(&set.state).take(K::WORDS) {
        // SAFETY: as above.
        *words = unsafe { V::load(row.as_ptr()) };
    }
    for block in 0..blocks {
        let offset = 64 * block;
        // SAFETY: the caller vouches for the instruction set and for `blocks` blocks behind each pointer.
        let block = unsafe {
            if K::BIG_ENDIAN {
                V::load_blocks::<true>(set.data.as_ptr(), offset)
            } else {
                V::load_blocks::<false>(set.data.as_ptr(), offset)
            }
        };
        K::compress(&mut words, block, Ahead::new(&set.data, offset));
    }
    for (row, words) in set.state.iter_mut().zip(words).take(K::WORDS) {
        // SAFETY: every row has MAX_LANES >= V::LANES words.
        unsafe { words.store(row.as_mut_ptr()) };
    }
}

/// Something as aligned as the widest register.
#[repr(align(64))]
struct Aligned(#[expect(dead_code, reason = "its place matters, not its contents")] [u8; 64]);
