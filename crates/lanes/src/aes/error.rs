//! Errors of AES.

use core::fmt;

use super::backend::Backend;
use super::block::BLOCK;

/// Errors of AES.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The key has this number of bytes.
    KeyLength(usize),
    /// The message has this number of bytes, which are not whole blocks.
    DataLength(usize),
    /// The initialization vector has this number of bytes.
    IvLength(usize),
    /// More additional data or a longer message than GCM allows, or additional data behind the
    /// message.
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
