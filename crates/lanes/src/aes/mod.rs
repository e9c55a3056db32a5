//! AES-128, AES-192 and AES-256 (FIPS 197): CBC encryption of many messages at once, and ECB, CBC, CTR (NIST SP
//! 800-38A) and GCM (SP 800-38D) of one.
//!
//! CBC encryption is a chain: each block waits for the one before, so that one message leaves an AES unit idle most
//! of the time. [`cbc_encrypt_many`] takes any number of messages of any lengths and works on up to 48 of them at
//! once. In the other modes, blocks do not wait for each other: there one message fills the unit.
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
//! Which instructions run is decided by the processor when a [`Key`] is made, or by `TABANE_SIMD`. Nothing here looks
//! up a table by a secret or branches on one: the time depends on lengths alone. None of these modes but GCM tells a
//! changed ciphertext from a good one; that takes a MAC.
//!
//! # How it is built
//!
//! * `block`: what an instruction set must do, `BlockVector`: a register of one, two or four blocks.
//! * `arch`: one file an instruction set, each implementing `BlockVector`.
//! * `cipher`: the rounds. `key`: key expansion. `modes`: one message in all of a register. `lanes`: one message a
//!   part of a register. `ghash`: the hash of GCM. Each written once, generic over `BlockVector`.
//! * `ctr`, `gcm`: messages in pieces of any length.
//! * `schedule`: which message is in which lane, and what to do with unequal lengths.

mod arch;
mod backend;
mod block;
mod cipher;
mod ctr;
mod gcm;
mod ghash;
mod in_out;
mod key;
mod lanes;
mod modes;
mod schedule;

use core::fmt;

pub use backend::Backend;
pub use ctr::Ctr;
pub use gcm::{Gcm, GcmKey};
pub use in_out::InOut;
pub use key::Key;

/// Bytes in a block of AES.
pub const BLOCK: usize = 16;

type Block = [u8; BLOCK];

/// One message for [`cbc_encrypt_many`].
pub struct CbcJob<'a> {
    /// The message's key; others may use the same.
    pub key: &'a Key,
    /// The initialization vector: before, what is added to the first block; after, the last block of ciphertext, with
    /// which a next call goes on with the same message.
    pub iv: &'a mut [u8; BLOCK],
    /// Plaintext before, ciphertext after. A multiple of 16 bytes; may be empty.
    pub data: &'a mut [u8],
}

/// Encrypts each job's message in CBC mode, in place.
///
/// Any number of messages of any lengths, on the calling thread. 48 or more of like lengths fill the AES units. It is
/// fastest where all jobs borrow one key.
///
/// # Errors
///
/// [`Error::DataLength`] if a message is not a multiple of 16 bytes long. Then nothing is encrypted.
pub fn cbc_encrypt_many(jobs: &mut [CbcJob]) -> Result<(), Error> {
    for job in jobs.iter_mut() {
        whole_blocks(&mut (&mut *job.data).into())?;
    }
    schedule::cbc_encrypt_many(jobs);
    Ok(())
}

/// Encrypts one message in CBC mode. `iv` becomes the last block of ciphertext, with which a next call goes on with the
/// same message. Where there are several messages, [`cbc_encrypt_many`] is much faster.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is encrypted.
#[inline]
pub fn cbc_encrypt<'a>(
    key: &Key,
    iv: &mut [u8; BLOCK],
    data: impl Into<InOut<'a>>,
) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = whole_blocks(&mut data)?;
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().cbc_encrypt)(key, iv, blocks) };
    Ok(())
}

/// Decrypts one message in CBC mode. `iv` becomes the last block of ciphertext, with which a next call goes on with the
/// same message.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is decrypted.
#[inline]
pub fn cbc_decrypt<'a>(
    key: &Key,
    iv: &mut [u8; BLOCK],
    data: impl Into<InOut<'a>>,
) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = whole_blocks(&mut data)?;
    if let Some(last) = data.last_block() {
        // SAFETY: a key's backend is available.
        unsafe { (key.kernels().cbc_decrypt)(key, iv, blocks) };
        *iv = last;
    }
    Ok(())
}

/// Encrypts or decrypts one message in CTR mode, starting at the counter block `counter`, which becomes the one behind
/// the last. [`Ctr`] takes pieces of any length.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is done.
#[inline]
pub fn ctr<'a>(
    key: &Key,
    counter: &mut [u8; BLOCK],
    data: impl Into<InOut<'a>>,
) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = whole_blocks(&mut data)?;
    let first = u128::from_be_bytes(*counter);
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().ctr)(key, first, blocks) };
    *counter = first.wrapping_add(blocks.count as u128).to_be_bytes();
    Ok(())
}

/// Encrypts each block of `data` by itself. Equal blocks stay equal: a building block, not a way to encrypt messages.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is encrypted.
#[inline]
pub fn ecb_encrypt<'a>(key: &Key, data: impl Into<InOut<'a>>) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = whole_blocks(&mut data)?;
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().ecb_encrypt)(key, blocks) };
    Ok(())
}

/// Decrypts each block of `data` by itself.
///
/// # Errors
///
/// [`Error::DataLength`] if `data` is not a multiple of 16 bytes long. Then nothing is decrypted.
#[inline]
pub fn ecb_decrypt<'a>(key: &Key, data: impl Into<InOut<'a>>) -> Result<(), Error> {
    let mut data = data.into();
    let blocks = whole_blocks(&mut data)?;
    // SAFETY: a key's backend is available.
    unsafe { (key.kernels().ecb_decrypt)(key, blocks) };
    Ok(())
}

#[inline]
fn whole_blocks(data: &mut InOut) -> Result<in_out::Blocks, Error> {
    if data.len().is_multiple_of(BLOCK) {
        Ok(data.blocks())
    } else {
        Err(Error::DataLength(data.len()))
    }
}

/// What cannot be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A key of so many bytes.
    KeyLength(usize),
    /// A message of so many bytes, which are not whole blocks.
    DataLength(usize),
    /// An initialization vector of so many bytes.
    IvLength(usize),
    /// More additional data or a longer message than GCM allows, or additional data behind the message.
    TooLong,
    /// The processor lacks the instruction set.
    Unavailable(Backend),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength(len) => write!(f, "an AES key has 16, 24 or 32 bytes, not {len}"),
            Self::DataLength(len) => {
                write!(
                    f,
                    "{len} bytes are not a multiple of the AES block of {BLOCK}; pad the message"
                )
            }
            Self::IvLength(len) => {
                write!(f, "an initialization vector of {len} bytes cannot be used")
            }
            Self::TooLong => f.write_str(
                "GCM takes 2^61 - 1 bytes of additional data, then 2^36 - 32 bytes of message",
            ),
            Self::Unavailable(backend) => {
                write!(f, "this processor lacks {backend}; it has:")?;
                Backend::available().try_for_each(|backend| write!(f, " {backend}"))
            }
        }
    }
}

impl std::error::Error for Error {}
