//! The receiving side of a connection, which holds the ring.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::{Endpoint, Immediate};
use crate::ring::Ring;

/// A ring and the endpoint whose peer writes into it.
pub struct Receiver {
    ring: Arc<Ring>,
    endpoint: Arc<dyn Endpoint>,
}

impl Receiver {
    /// A receiver for the peer of `endpoint`, which writes into `ring`.
    pub fn new(ring: Arc<Ring>, endpoint: Arc<dyn Endpoint>) -> Self {
        Self { ring, endpoint }
    }

    /// The consumers, one for each tail of the ring.
    pub fn tails(&self) -> Vec<Tail> {
        let tail = |index| Tail {
            ring: Arc::clone(&self.ring),
            endpoint: Arc::clone(&self.endpoint),
            index,
            released: 0,
        };
        (0..self.ring.tails()).map(tail).collect()
    }

    /// Takes frames until the peer closes the connection or breaks the protocol, and hands this
    /// error to the consumers. Blocks, so it needs a separate thread.
    pub fn run(&self) {
        self.run_and_tell(|_| {});
    }

    /// As [`Receiver::run`]; `arrived` is told the length of each frame.
    pub fn run_and_tell(&self, arrived: impl Fn(u64)) {
        let error = loop {
            match self.endpoint.wait().map(Immediate::parse) {
                Ok(Immediate::Frame(len)) => arrived(len.into()),
                Ok(Immediate::Credit(_)) => {
                    let text = "a peer gives credit for a ring that is not its own";
                    break io::Error::new(io::ErrorKind::InvalidData, text);
                }
                Err(error) => break error,
            }
        };
        self.ring.end(&error);
        self.endpoint.close();
    }
}

/// A consumer of a ring.
pub struct Tail {
    ring: Arc<Ring>,
    endpoint: Arc<dyn Endpoint>,
    index: usize,
    released: u64,
}

impl Tail {
    /// The bytes of the frame of this number, once it is there. Frames are numbered from 0 in the
    /// order in which they were sent.
    ///
    /// # Errors
    /// Why nothing comes any more; [`io::ErrorKind::TimedOut`] after `patience`.
    ///
    /// # Panics
    /// If the frame was released.
    pub fn frame(&self, number: u64, patience: Duration) -> io::Result<&[u8]> {
        self.ring.frame(self.index, number, patience)
    }

    /// The number of the first frame that was not released.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Releases all frames before frame `number`; the sender may reuse their room when every tail
    /// has released them. A consumer that waits for the next frame may keep at most a quarter of
    /// the ring: of the rest, a quarter may be owed as credit, and a frame and the gap that it
    /// leaves at the end of the ring take a quarter each.
    ///
    /// # Errors
    /// When the sender cannot be told.
    ///
    /// # Panics
    /// If one of these frames has not arrived yet.
    pub fn release(&mut self, number: u64) -> io::Result<()> {
        self.released = number;
        match self.ring.release(self.index, number) {
            0 => Ok(()),
            bytes => {
                let credit = Immediate::Credit(bytes as u32);
                self.endpoint.write(0, &[], credit.to_u32())
            }
        }
    }
}
