//! Counters of a node.

use std::sync::atomic::{AtomicU64, Ordering};

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
}

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
