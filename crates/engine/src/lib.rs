#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod algorithm;
mod bundle;
mod digest;
mod function;
pub mod gpu;
mod hasher;
mod pool;
#[cfg(test)]
mod pool_tests;
mod serial;
/// What `tests/orders` of the models puts others in the place of, to choose the order of threads.
mod sync {
    pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use std::thread;
}
pub mod vmac;

pub use algorithm::{Algorithm, KeyRule, UnknownAlgorithm, Withstands};
pub use bundle::Bundle;
pub use digest::{DIGEST_LEN_MAX, Digest};
pub use function::{Function, Key, KeyError};
pub use hasher::{Hasher, finish_many, update_many};
pub use pool::{Pool, Submitter};
