//! The bytes of Python objects, without a copy.

use core::ffi::{c_char, c_int, c_void};
use core::marker::PhantomData;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// `Py_buffer`. The stable ABI has it from Python 3.11 on; Python 3.10 has the same.
#[repr(C)]
struct RawView {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

/// `PyBUF_SIMPLE`: contiguous bytes.
const SIMPLE: c_int = 0;
/// `PyBUF_WRITABLE`.
const WRITABLE: c_int = 1;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut RawView, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawView);
}

/// The contiguous bytes of an object, which cannot move or change their number meanwhile.
pub struct View<'py> {
    // A view may move: one that is asked for with `SIMPLE` has no pointers into itself.
    raw: RawView,
    attached: PhantomData<Python<'py>>,
}

impl<'py> View<'py> {
    /// The bytes of `object`; `what` it is stands in the message of an error.
    pub fn read(object: &Bound<'py, PyAny>, what: impl Fn() -> String) -> PyResult<Self> {
        Self::get(object, SIMPLE, what)
    }

    /// As [`View::read`], to write to.
    pub fn write(object: &Bound<'py, PyAny>, what: impl Fn() -> String) -> PyResult<Self> {
        Self::get(object, WRITABLE, what)
    }

    fn get(object: &Bound<'py, PyAny>, flags: c_int, what: impl Fn() -> String) -> PyResult<Self> {
        let mut raw = core::mem::MaybeUninit::<RawView>::zeroed();
        // SAFETY: this thread is attached, since there is a `Bound`; `raw` has the layout of a
        // `Py_buffer`, and is filled if the call returns 0.
        let status = unsafe { PyObject_GetBuffer(object.as_ptr(), raw.as_mut_ptr(), flags) };
        if status == 0 {
            return Ok(Self {
                // SAFETY: the call has filled it.
                raw: unsafe { raw.assume_init() },
                attached: PhantomData,
            });
        }
        let py = object.py();
        let cause = PyErr::fetch(py);
        let error = if object.is_instance_of::<PyString>() {
            PyTypeError::new_err(format!(
                "{} is a str: encode it, as in text.encode()",
                what()
            ))
        } else if cause.is_instance_of::<PyTypeError>(py) {
            PyTypeError::new_err(format!(
                "{} has no buffer: give bytes, bytearray, memoryview, array or NumPy array",
                what()
            ))
        } else {
            let reason = cause.value(py).to_string();
            PyBufferError::new_err(format!(
                "{} cannot be used as it is ({reason}): give contiguous{} bytes",
                what(),
                if flags == WRITABLE { " writable" } else { "" }
            ))
        };
        error.set_cause(py, Some(cause));
        Err(error)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.raw.len == 0 {
            return &[];
        }
        // SAFETY: the view keeps `len` bytes at `buf` where they are until it is released. Another
        // thread of Python may write to them at the same time; then some of both is hashed, as in
        // Python's own hashlib.
        unsafe { core::slice::from_raw_parts(self.raw.buf.cast(), self.raw.len as usize) }
    }

    /// The bytes of a view that was made by [`View::write`].
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert_eq!(self.raw.readonly, 0, "the view was asked for to write to");
        if self.raw.len == 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes`; the exporter has allowed to write.
        unsafe { core::slice::from_raw_parts_mut(self.raw.buf.cast(), self.raw.len as usize) }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was filled by `PyObject_GetBuffer`, is released once, and the thread is
        // attached: `attached` keeps it from other threads and from `Python::detach`.
        unsafe { PyBuffer_Release(&mut self.raw) };
    }
}
