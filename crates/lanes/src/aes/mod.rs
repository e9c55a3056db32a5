//! AES-128, AES-192 and AES-256 (FIPS 197): CBC encryption of many messages at once, and ECB, CBC,
//! CTR (NIST SP 800-38A) and GCM (SP 800-38D) of one.
//!
//! CBC encryption is a chain: each block waits for the one before, so that one message leaves an
//! AES unit idle most of the time. [`cbc_encrypt_many`] takes any number of messages of any lengths
//! and works on up to 48 of them at once. In the other modes, blocks do not wait for each other:
//! there one message fills the unit.
//!
//! ```
//! use tabane_lanes::aes::{CbcJob, Key, cbc_decrypt, cbc_encrypt_many};
//!
//! let key = Key::new(&[7; 16])?;
//! let mut messages = [[1; 64], [2; 64], [3; 64]];
//! let mut ivs = [[4; 16], [5; 16], [6; 16]];
//! let mut jobs: Vec<CbcJob> = (messages.iter_mut().zip(&mut ivs))
//!     .map(|(data, iv)| CbcJob { key: &key, iv, data })
//!     .collect();
//! cbc_encrypt_many(&mut jobs)?;
//!
//! cbc_decrypt(&key, &mut [5; 16], &mut messages[1])?;
//! assert_eq!(messages[1], [2; 64]);
//! # Ok::<(), tabane_lanes::aes::Error>(())
//! ```
//!
//! Which instructions run is decided by the processor when a [`Key`] is made, or by `TABANE_SIMD`.
//! Nothing here looks up a table by a secret or branches on one: the time depends on lengths alone.
//! None of these modes but GCM tells a changed ciphertext from a good one; that takes a MAC.
//!
//! # How it is built
//!
//! * `block`: what an instruction set must do, `BlockVector`: a register of one, two or four
//!   blocks.
//! * `arch`: one file an instruction set, each implementing `BlockVector`, and listing its
//!   `kernels`.
//! * `cipher`: the rounds. `key`: key expansion. `modes`: one message in all of a register.
//!   `lanes`: one message a part of a register. `ghash`: the hash of GCM. Each written once,
//!   generic over `BlockVector`.
//! * `messages`: one message in one call. `ctr`, `gcm`: messages in pieces of any length.
//!   `linear`: the hash of GCM by itself.
//! * `schedule`: which message is in which lane, and what to do with unequal lengths.

mod arch;
mod backend;
mod block;
mod cipher;
mod ctr;
mod error;
mod gcm;
mod ghash;
mod in_out;
mod kernels;
mod key;
mod lane_keys;
mod lanes;
mod linear;
mod messages;
mod modes;
mod powers;
mod round_keys;
mod schedule;

pub use backend::Backend;
pub use block::BLOCK;
pub use ctr::Ctr;
pub use error::Error;
pub use gcm::{Gcm, GcmKey};
pub use in_out::InOut;
pub use key::Key;
pub use linear::LinearMac;
pub use messages::{cbc_decrypt, cbc_encrypt, ctr, ecb_decrypt, ecb_encrypt};
pub use schedule::{CbcJob, cbc_encrypt_many};
