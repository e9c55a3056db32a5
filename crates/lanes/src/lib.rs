//! Hashes many independent messages at once, one message a SIMD lane.
//!
//! A hash such as SHA-1 is a chain: each step waits for the one before, so that one message cannot
//! fill a processor's vector units. Many messages can. [`hash_many`] takes any number of messages
//! of any lengths and returns their digests, in order:
//!
//! ```
//! use tabane_lanes::{Algorithm, hash_many};
//!
//! let digests = hash_many(Algorithm::Sha1, &[b"abc", b"", b"a rather longer message"]);
//! assert_eq!(digests[0].to_string(), "a9993e364706816aba3e25717850c26c9cd0d89d");
//! assert_eq!(digests.len(), 3);
//! ```
//!
//! Which instructions run is decided on each call by the processor, the algorithm and the number of
//! messages left: one goes to the SHA instructions, sixteen to AVX-512, and what remains of sixteen
//! when most have ended goes on with fewer lanes. The environment variable `TABANE_SIMD` forces one
//! [`Backend`]: `portable`, of x86-64 `sse41`, `avx2`, `avx512` or `shani`, of aarch64 `neon`,
//! `armce` or `armsha512`.
//!
//! Messages that come in pieces go through [`Hasher`]s, many at once with [`update_many`];
//! [`hmac_many`] authenticates,
//! [`aes`] encrypts, [`vhash`] is the inner half of VMAC, `xxh3` takes long messages where there
//! is AVX-512, [`gear`] finds
//! where content-defined chunking may cut, and [`xor_of`] adds many buffers up bit by bit.
//!
//! # How it is built
//!
//! * `algorithm`: one file an algorithm, each written once, generic over `Vector`, a register of
//!   lanes of words. *To add one*, write a file that implements `Kernel`, name it in [`Algorithm`],
//!   and add its line to `table`.
//! * `arch`: one file an instruction set, each implementing `Vector`. *To add one*, write the file
//!   and give it its lines in [`Backend`] and `arch/mod.rs`.
//! * `plan`: what each of these costs, and hence which one runs for how many messages.
//! * `schedule`: which message, or piece of one, is in which lane, padding, and what to do with
//!   unequal lengths.
//! * [`peak`]: how many operations the kernels execute, for a bound on their speed.
//!
//! A message is never copied, except for the part of it that shares a block with the padding.

// Other processors have the portable kernels only, which need less.
#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code)
)]
// The counters of `make coverage` would make kernels many times slower.
#![cfg_attr(coverage_nightly, feature(coverage_attribute), coverage(off))]

pub mod aes;
pub(crate) mod algorithm;
mod arch;
mod backend;
mod compress;
mod digest;
mod entry;
pub mod gear;
mod hasher;
mod hmac;
mod kernel;
pub mod peak;
mod plan;
mod prefetch;
mod registers;
mod schedule;
mod table;
mod vector;
pub mod vhash;
mod xor;
#[cfg(target_arch = "x86_64")]
pub mod xxh3;

pub use algorithm::Algorithm;
pub use backend::{Backend, BackendError};
pub use digest::Digest;
pub use hasher::{Hasher, finish_many, update_many};
pub use hmac::{HmacKey, hmac_many, hmac_outer_many};
pub use table::UnknownAlgorithm;
pub use xor::{Sum, xor_into, xor_into_on, xor_of, xor_of_both, xor_of_both_on, xor_of_on};

use plan::Plan;

/// Hashes each of `inputs`; the digests come in the same order.
///
/// Any number of messages of any lengths, on the calling thread. The more there are, and the more
/// alike in length, the better the lanes are filled; sixteen or more do it.
///
/// # Panics
///
/// If the environment variable `TABANE_SIMD` is wrong: see [`Backend::forced`].
pub fn hash_many(algorithm: Algorithm, inputs: &[&[u8]]) -> Vec<Digest> {
    let mut digests = vec![Digest::default(); inputs.len()];
    hash_many_into(algorithm, inputs, &mut digests);
    digests
}

/// Hashes each of `inputs` into the same place of `digests`.
///
/// # Panics
///
/// If the slices differ in length, and as [`hash_many`].
pub fn hash_many_into(algorithm: Algorithm, inputs: &[&[u8]], digests: &mut [Digest]) {
    (algorithm.entry().hash_many)(Plan::chosen(algorithm), inputs, digests);
}

/// Hashes one message.
///
/// # Panics
///
/// As [`hash_many`].
pub fn hash_one(algorithm: Algorithm, input: &[u8]) -> Digest {
    hash_one_with(Plan::chosen(algorithm), input)
}

/// As [`hash_many`], with the kernels of one backend only, whatever `TABANE_SIMD` says. For tests
/// and measurements.
///
/// # Errors
///
/// The processor lacks the backend, or the backend has no kernel for the algorithm.
pub fn hash_many_on(
    backend: Backend,
    algorithm: Algorithm,
    inputs: &[&[u8]],
) -> Result<Vec<Digest>, BackendError> {
    let mut digests = vec![Digest::default(); inputs.len()];
    (algorithm.entry().hash_many)(Plan::only(backend, algorithm)?, inputs, &mut digests);
    Ok(digests)
}

/// As [`hash_one`], with the kernels of one backend only, whatever `TABANE_SIMD` says. For tests
/// and measurements.
///
/// # Errors
///
/// As [`hash_many_on`].
pub fn hash_one_on(
    backend: Backend,
    algorithm: Algorithm,
    input: &[u8],
) -> Result<Digest, BackendError> {
    Ok(hash_one_with(Plan::only(backend, algorithm)?, input))
}

fn hash_one_with(plan: &'static Plan, input: &[u8]) -> Digest {
    let mut hasher = Hasher::with(plan);
    hasher.update(input);
    hasher.finish_last()
}
