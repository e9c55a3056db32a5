//! What threads share: locks that no panic can leave half-changed, and buffers that are used again.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex under which nothing panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}

/// Deepest directory that is walked, counted from the root.
pub(crate) const DEPTH_MAX: usize = 20_000;

/// Runs `work` on a thread whose stack has room for [`DEPTH_MAX`] levels of recursion.
pub(crate) fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const STACK_LEN: usize = 512 << 20;
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("walk".to_owned())
            .stack_size(STACK_LEN)
            .spawn_scoped(scope, work)
            .expect("the system can start a thread")
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Buffers that are used again: to hand megabytes back to the system and ask for them anew costs more time, in page
/// faults, than to fill them.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty buffer, with the room that it had before.
    pub(crate) fn take(&self) -> Vec<u8> {
        lock(&self.0).pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        lock(&self.0).push(buffer);
    }
}
