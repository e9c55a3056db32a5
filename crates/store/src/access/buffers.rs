//! Buffers that threads share.

use std::sync::Mutex;

use tabane_storage::sync::lock;

/// Buffers that are used again: to hand megabytes back to the system and ask for them anew costs
/// more time, in page faults, than to fill them.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty buffer, with the room that it had before.
    pub fn take(&self) -> Vec<u8> {
        lock(&self.0).pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        lock(&self.0).push(buffer);
    }
}
