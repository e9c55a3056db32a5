//! Bundles independent pieces of work and runs them on pinned workers.
//!
//! Two things wait for company here: messages that are hashed together, one a SIMD lane
//! ([`Bundle`], [`Algorithm::digest_many`], [`update_many`]), and tasks that share the cores ([`Pool`]).
//! A graphics card, if there is one, takes the bundles that it finishes first ([`gpu`]). Nothing here knows of files or networks.

#![forbid(unsafe_code)]

mod algorithm;
mod bundle;
mod digest;
mod function;
pub mod gpu;
mod hasher;
mod pool;
mod serial;
pub mod vmac;

pub use algorithm::{Algorithm, KeyRule, UnknownAlgorithm, Withstands};
pub use bundle::Bundle;
pub use digest::{DIGEST_LEN_MAX, Digest};
pub use function::{Function, Key, KeyError};
pub use hasher::{Hasher, finish_many, update_many};
pub use pool::{Pool, Submitter};
