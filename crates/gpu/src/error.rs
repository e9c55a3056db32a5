//! Errors of opening and using a card.

use std::fmt;
use std::time::Duration;

/// Failures of a card. The caller then does the work on the processor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The driver cannot be loaded: the normal state of a machine without a card.
    NoDriver(String),
    /// The driver, with its number (12010 is CUDA 12.1), is older than our PTX.
    DriverTooOld(i32),
    /// There is a driver, and no card.
    NoCard,
    /// The driver cannot make code for the card of our PTX; its own words.
    Ptx(String),
    /// The card's memory, or memory that it can read, is used up.
    OutOfMemory,
    /// Too little of the card's memory is free: this many bytes.
    LittleMemory(usize),
    /// Memory of the card has failed: an error that its code (ECC) could not correct.
    Ecc,
    /// The card has not answered for this long.
    Hung(Duration),
    /// The card computed wrong results for known messages.
    WrongAnswer(&'static str),
    /// This process is a child of the one that opened the card, and cards do not go through `fork`.
    Forked,
    /// A message of this many bytes is longer than [`MESSAGE_MAX`](crate::MESSAGE_MAX) or than the
    /// staging memory.
    TooLong(usize),
    /// The arguments contradict each other; a programming error of the caller.
    Misuse(&'static str),
    /// Another error: the driver's function, its code, its words.
    Driver(&'static str, i32, String),
}

impl Error {
    /// Whether the card is of no use from now on.
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::TooLong(_) | Self::Misuse(_) | Self::OutOfMemory | Self::Forked
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver(why) => write!(f, "no NVIDIA driver: {why}"),
            Self::DriverTooOld(version) => write!(
                f,
                "the NVIDIA driver is too old: it is of CUDA {}.{}, and 11.8 (version 520) is \
                 needed",
                version / 1000,
                version % 1000 / 10
            ),
            Self::NoCard => f.write_str("there is an NVIDIA driver, but no card that it can use"),
            Self::Ptx(why) => write!(
                f,
                "the NVIDIA driver cannot compile the kernels for this card ({why}): a newer \
                 driver may help"
            ),
            Self::OutOfMemory => f.write_str("the card has too little memory free"),
            Self::LittleMemory(free) => {
                write!(f, "the card has too little memory free: {} MiB", free >> 20)
            }
            Self::Ecc => f.write_str("the card's memory has failed (an uncorrectable ECC error)"),
            Self::Hung(bound) => {
                write!(f, "the card has not answered for {} s", bound.as_secs_f64())
            }
            Self::WrongAnswer(what) => {
                write!(
                    f,
                    "the card computes wrongly: {what} of a message that was checked"
                )
            }
            Self::Forked => {
                f.write_str("the card belongs to the process that this one was forked from")
            }
            Self::TooLong(len) => write!(f, "a message of {len} bytes is too long for a card"),
            Self::Misuse(what) => f.write_str(what),
            Self::Driver(call, code, why) => write!(f, "{call}: {why} (error {code})"),
        }
    }
}

impl std::error::Error for Error {}
