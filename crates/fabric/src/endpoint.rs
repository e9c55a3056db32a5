//! The interface of a transport.

use std::io;

/// One end of a connection whose other end has a ring, or which has one itself.
pub trait Endpoint: Send + Sync {
    /// Writes `parts`, one behind the other, at `offset` of the peer's ring, and then gives it
    /// `immediate`. Who calls knows that the room is vacant. The parts may change once this
    /// returns.
    ///
    /// # Errors
    /// When the peer is gone, or takes nothing for as long as the connection allows.
    fn write(&self, offset: u64, parts: &[&[u8]], immediate: u32) -> io::Result<()>;

    /// Waits for the next immediate of the peer; the bytes that came with it are in the ring.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the peer has closed the connection;
    /// [`io::ErrorKind::InvalidData`] when it
    /// writes where it must not.
    fn wait(&self) -> io::Result<u32>;

    /// Ends the connection: who waits for it, on either side, gets an error.
    fn close(&self);
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
