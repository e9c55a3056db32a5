//! The side that writes into the peer's ring.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::FRAME_SHARE;
use crate::endpoint::{Endpoint, Immediate};
use crate::ring::Cursor;

/// Writes frames into the ring of a peer.
pub struct Sender {
    endpoint: Arc<dyn Endpoint>,
    cursor: Cursor,
    /// Up to where the peer has released everything, as far as is known here.
    released: u64,
    waited: Duration,
}

impl Sender {
    /// A sender into the peer's ring of `capacity` bytes.
    pub fn new(endpoint: Arc<dyn Endpoint>, capacity: usize) -> Self {
        Self {
            endpoint,
            cursor: Cursor {
                capacity: capacity as u64,
                head: 0,
            },
            released: 0,
            waited: Duration::ZERO,
        }
    }

    /// Sends a frame: `parts`, one behind the other. Waits while the peer's consumers have no room
    /// for it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when it is longer than a [`FRAME_SHARE`]th of the ring;
    /// when the peer is gone, or gives no
    /// room for as long as the connection allows.
    pub fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let capacity = self.cursor.capacity;
        if len as u64 > capacity / FRAME_SHARE as u64 {
            let text = format!("a frame of {len} bytes is too long for a ring of {capacity}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let start = self.cursor.start(len);
        while start + len as u64 - self.released > capacity {
            self.take_credit()?;
        }
        let immediate = Immediate::Frame(len as u32).to_u32();
        self.endpoint.write(start % capacity, parts, immediate)?;
        self.cursor.head = start + len as u64;
        Ok(())
    }

    /// Total time that [`Sender::send`] has waited for the peer's consumers, without time of the
    /// network.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    fn take_credit(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let immediate = self.endpoint.wait();
        self.waited += begun.elapsed();
        let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        let Immediate::Credit(bytes) = Immediate::parse(immediate?) else {
            return wrong("a peer sends a frame to an end without a ring");
        };
        let released = self.released + u64::from(bytes);
        if released > self.cursor.head {
            return wrong("a peer gives credit for more than it was sent");
        }
        self.released = released;
        Ok(())
    }
}
