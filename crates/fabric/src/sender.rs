//! The side that writes into the peer's ring.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    flow: Flow,
}

/// What goes through a sender, for other threads to look at.
#[derive(Clone)]
pub struct Flow {
    endpoint: Arc<dyn Endpoint>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    behind: AtomicU64,
}

impl Flow {
    /// Bytes of frames that were written.
    pub fn sent(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    /// Those of them that were written when earlier ones had not left yet: so the network is what
    /// they wait for.
    pub fn behind(&self) -> u64 {
        self.counters.behind.load(Ordering::Relaxed)
    }

    /// Those of them that have arrived.
    pub fn arrived(&self) -> u64 {
        self.arrived_and_unsent().0
    }

    /// Those of them that have arrived, and those that have not left this machine.
    pub fn arrived_and_unsent(&self) -> (u64, u64) {
        let queued = self.endpoint.queued();
        (self.sent().saturating_sub(queued.unarrived), queued.unsent)
    }
}

impl Sender {
    /// A sender into the peer's ring of `capacity` bytes.
    pub fn new(endpoint: Arc<dyn Endpoint>, capacity: usize) -> Self {
        let flow = Flow {
            endpoint: Arc::clone(&endpoint),
            counters: Arc::default(),
        };
        Self {
            flow,
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
        let counters = &self.flow.counters;
        if self.endpoint.queued().unsent > 0 {
            counters.behind.fetch_add(len as u64, Ordering::Relaxed);
        }
        let immediate = Immediate::Frame(len as u32).to_u32();
        self.endpoint.write(start % capacity, parts, immediate)?;
        counters.sent.fetch_add(len as u64, Ordering::Relaxed);
        self.cursor.head = start + len as u64;
        Ok(())
    }

    /// What goes through the sender.
    pub fn flow(&self) -> Flow {
        self.flow.clone()
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
