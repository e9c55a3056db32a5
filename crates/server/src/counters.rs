//! Counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that other threads read.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the number.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Takes away from the number.
    pub fn sub(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    /// Sets the number.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a server counts since its start.
#[derive(Default)]
pub struct Counters {
    /// Open connections.
    pub connections: Counter,
    /// Requests that were answered as asked.
    pub requests: Counter,
    /// Requests that were refused or failed, for any reason.
    pub failed_requests: Counter,
    /// Requests without a token or certificate that is known.
    pub unknown_clients: Counter,
    /// Connections that were closed for want of a client.
    pub dropped_connections: Counter,
    /// Bytes of objects that were stored.
    pub received_bytes: Counter,
    /// Bytes of objects that were sent.
    pub sent_bytes: Counter,
    /// Objects that a scrub has read.
    pub scrubbed_objects: Counter,
    /// Damaged objects that the last scrub of each repository found, all together.
    pub damaged_objects: Counter,
    /// When the last scrub of all repositories ended, in seconds since 1970; 0 if never.
    pub scrubbed_at: Counter,
}
