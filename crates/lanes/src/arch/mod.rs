//! The instruction sets: one file each. A file implements [`Vector`](crate::vector::Vector) for its
//! registers and lists its kernels.

#[macro_use]
mod register;

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

use crate::algorithm::Algorithm;
use crate::backend::Backend;
use crate::compress::{Compress, CompressOne, LaneKernel};
use crate::kernel::Kernel;
use crate::vector::{LANES_MAX, Word};

/// The kernels of a backend for an algorithm. Empty if the backend cannot do it or was not compiled
/// in.
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
        #[cfg(target_arch = "aarch64")]
        Backend::Neon => aarch64::neon::lane_kernels::<K>(),
        #[cfg(target_arch = "aarch64")]
        Backend::ArmCe => aarch64::sha::lane_kernels(algorithm),
        #[cfg(target_arch = "aarch64")]
        Backend::ArmSha512 => aarch64::sha512::lane_kernels(algorithm),
        #[allow(unreachable_patterns)]
        _ => Vec::new(),
    };
    #[cfg(target_arch = "x86_64")]
    list.extend(x86_64::sha512::lane_kernels(backend, algorithm));
    #[cfg(not(target_arch = "x86_64"))]
    let _ = algorithm;
    list.into_iter().map(kernel).collect()
}

/// The function of a backend that compresses one message, or the portable one.
pub(crate) fn one<K: Kernel>(backend: Backend, algorithm: Algorithm) -> CompressOne {
    #[cfg(target_arch = "x86_64")]
    if let Some(one) =
        x86_64::shani::one(backend, algorithm).or_else(|| x86_64::sha512::one(backend, algorithm))
    {
        return one;
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(one) =
        aarch64::sha::one(backend, algorithm).or_else(|| aarch64::sha512::one(backend, algorithm))
    {
        return one;
    }
    let _ = (backend, algorithm);
    portable::one::<K>
}
