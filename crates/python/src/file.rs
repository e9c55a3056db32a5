//! Files of snapshots; `python/tabane/_file.py` makes Python's kind of file of them.

use std::sync::Arc;

use pyo3::prelude::*;
use tabane_store::file_reader::FileReader;

use crate::buffer::View;
use crate::error::exception;
use crate::interrupt::in_thread;
use crate::process::OfProcess;
use crate::repository::{Handle, opened};

/// Bytes that are read at a time at most, so that Python's signals are looked at between.
const READ_BYTES_MAX: usize = 4 << 20;

/// The bytes of a file of a snapshot.
#[pyclass(frozen, module = "tabane")]
pub struct SnapshotFile {
    handle: Arc<Handle>,
    reader: Arc<OfProcess<FileReader>>,
}

impl SnapshotFile {
    /// A file of the repository behind `handle`.
    pub fn new(handle: Arc<Handle>, reader: FileReader) -> Self {
        Self {
            handle,
            reader: Arc::new(OfProcess::new(reader)),
        }
    }
}

#[pymethods]
impl SnapshotFile {
    /// Length in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.reader.get()?.size())
    }

    /// Reads bytes from `offset` on into `buffer`; returns how many: fewer than fit at the end of
    /// the file, and where the buffer is big.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        opened(&self.handle)?;
        let mut view = View::write(buffer, || "buffer".to_owned())?;
        let len = view.bytes().len().min(READ_BYTES_MAX);
        let bytes = &mut view.bytes_mut()[..len];
        let decoded = self.reader.get()?;
        let count = py.detach(|| decoded.read_decoded(offset, bytes));
        if count == len {
            return Ok(count);
        }
        // The rest may take long.
        let reader = Arc::clone(&self.reader);
        let read = move || {
            let reader = reader.get().expect("this thread is of the same process");
            reader.read_on(offset + count as u64, len - count)
        };
        let rest = in_thread(py, read, || Ok(()), || {})?.map_err(|error| exception(&error))?;
        bytes[count..count + rest.len()].copy_from_slice(&rest);
        Ok(count + rest.len())
    }
}
