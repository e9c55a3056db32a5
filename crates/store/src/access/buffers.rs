//! Buffers that threads share.

use std::sync::Mutex;

use tabane_storage::sync::lock;

/// Reused buffers: returning megabytes to the system and asking for them anew costs more time, in
/// page faults, than filling them.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty buffer, with its former capacity.
    pub fn take(&self) -> Vec<u8> {
        lock(&self.0).pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        lock(&self.0).push(buffer);
    }
}
