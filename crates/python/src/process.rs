//! What belongs to one process: its threads and announcements are not there in a fork of it.

use std::mem::ManuallyDrop;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A value with threads behind it, which a forked process neither uses nor drops.
pub struct OfProcess<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> OfProcess<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: std::process::id(),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// This is a fork of the process that made it.
    pub fn get(&self) -> PyResult<&T> {
        if self.is_here() {
            return Ok(&self.value);
        }
        Err(PyRuntimeError::new_err(format!(
            "the repository was opened by process {}, of which this one is a fork: open it again \
             here",
            self.process
        )))
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: the value is dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
