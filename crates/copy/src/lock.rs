//! Locks that no panic can poison.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex under which nothing panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under this lock")
}
