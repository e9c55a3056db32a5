//! The interface of a transport.

use std::io;

/// One end of a connection; at least one end has a ring.
pub trait Endpoint: Send + Sync {
    /// Writes the concatenated `parts` at `offset` of the peer's ring, and then sends `immediate`.
    /// The caller ensures that the room is vacant. The parts may change once this returns.
    ///
    /// # Errors
    /// When the peer is gone, or accepts no bytes for the connection's time limit.
    fn write(&self, offset: u64, parts: &[&[u8]], immediate: u32) -> io::Result<()>;

    /// Waits for the next immediate of the peer; the bytes that came with it are in the ring.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the peer has closed the connection;
    /// [`io::ErrorKind::InvalidData`] when it
    /// writes where it must not.
    fn wait(&self) -> io::Result<u32>;

    /// How much of what was written is still on its way, as far as is known.
    fn queued(&self) -> Queued {
        Queued::default()
    }

    /// Ends the connection: waiting calls on both sides return an error.
    fn close(&self);
}

/// Bytes that were written and are still on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Those that have not left this machine.
    pub unsent: u64,
    /// Those that have not arrived, the former among them.
    pub unarrived: u64,
}

/// Marks an immediate that gives credit; the other bits are how many bytes were released.
const CREDIT: u32 = 1 << 31;

/// The message in the 32 bits of an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Immediate {
    /// A frame of this many bytes has arrived.
    Frame(u32),
    /// This many more bytes may be written.
    Credit(u32),
}

impl Immediate {
    pub(crate) fn parse(immediate: u32) -> Self {
        match immediate & CREDIT {
            0 => Self::Frame(immediate),
            _ => Self::Credit(immediate & !CREDIT),
        }
    }

    pub(crate) fn to_u32(self) -> u32 {
        match self {
            Self::Frame(len) => len,
            Self::Credit(len) => CREDIT | len,
        }
    }
}
