//! Counters of a node.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::lock;

/// Counters of a node, from its start.
#[derive(Default)]
pub struct Counters {
    /// Sessions that are open.
    pub sessions: Counter,
    /// Stripes of which a part was made durable.
    pub stripes: Counter,
    /// Stripes that came to nothing.
    pub failed_stripes: Counter,
    /// Bytes that came from clients and other nodes.
    pub received_bytes: Counter,
    /// Bytes that were sent to other nodes.
    pub relayed_bytes: Counter,
    /// Bytes of parts of stripes that were made durable.
    pub stored_bytes: Counter,
    /// Times that parts were made durable, several at once.
    pub commits: Counter,
    /// Connections for data that were made over libfabric.
    pub fabric_connections: Counter,
    /// Connections that were refused.
    pub refused: Counter,
    /// When a client's stripe was begun last.
    last_write: Mutex<Option<Instant>>,
}

impl Counters {
    /// A client's stripe begins.
    pub fn client_writes(&self) {
        *lock(&self.last_write) = Some(Instant::now());
    }

    /// Whether clients write.
    pub fn do_clients_write(&self) -> bool {
        lock(&self.last_write).is_some_and(|at| at.elapsed() < WRITE_DURATION)
    }
}

/// Clients count as writing for so long after a stripe was begun.
const WRITE_DURATION: Duration = Duration::from_secs(1);

/// A number that only statistics are made of.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts one less.
    pub fn less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The counter's value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
