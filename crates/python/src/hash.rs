//! One message that comes in pieces, with the interface of hashlib.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, ThreadId};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;
use tabane_engine::{Algorithm, Hasher};

use crate::buffer::View;
use crate::interrupt::in_steps;
use crate::many::{STEP_BYTES, function};

/// Below this, in bytes, hashing takes less than to let other threads run.
const DETACH_BYTES_MIN: usize = 2048;

/// A hash of one message that comes in pieces.
#[pyclass(frozen, module = "tabane")]
pub struct Hash {
    algorithm: Algorithm,
    hasher: Mutex<Hasher>,
    /// The thread that holds the lock while its signal handlers may run.
    user: Mutex<Option<ThreadId>>,
}

/// A hash of the algorithm of this name, and of `data` so far.
#[pyfunction]
#[pyo3(signature = (name, data=None, *, key=None, usedforsecurity=true))]
pub fn new(
    py: Python<'_>,
    name: &str,
    data: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    usedforsecurity: bool,
) -> PyResult<Hash> {
    // hashlib refuses some algorithms by it where FIPS is on.
    let _ = usedforsecurity;
    let function = function(name, key)?;
    let hash = Hash::of(function.algorithm(), function.hasher());
    if let Some(data) = data {
        hash.update(py, data)?;
    }
    Ok(hash)
}

#[pymethods]
impl Hash {
    /// Appends bytes to the message.
    fn update(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let view = View::read(data, || "data".to_owned())?;
        let bytes = view.bytes();
        let mut guard = self.lock(py)?;
        let hasher = &mut *guard;
        if bytes.len() < DETACH_BYTES_MIN {
            hasher.update(bytes);
            return Ok(());
        }
        if bytes.len() <= STEP_BYTES {
            py.detach(|| hasher.update(bytes));
            return Ok(());
        }
        // An interrupted update leaves the message as it was.
        let before = hasher.try_clone();
        let mut pieces = bytes.chunks(STEP_BYTES);
        self.set_user(Some(thread::current().id()));
        let done = in_steps(py, || {
            if let Some(piece) = pieces.next() {
                hasher.update(piece);
            }
            pieces.len() == 0
        });
        self.set_user(None);
        if done.is_err()
            && let Some(before) = before
        {
            *guard = before;
        }
        done
    }

    /// The digest of the message so far.
    fn digest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let digest = self.lock(py)?.finish();
        Ok(PyBytes::new(py, digest.as_ref()))
    }

    /// The digest of the message so far, in hexadecimal.
    fn hexdigest(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.lock(py)?.finish().to_string())
    }

    /// Another hash of the message so far.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        let hasher = self
            .lock(py)?
            .try_clone()
            .ok_or_else(|| PyValueError::new_err(format!("{} cannot be copied", self.algorithm)))?;
        Ok(Self::of(self.algorithm, hasher))
    }

    /// The name of the algorithm.
    #[getter]
    fn name(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Length of the digest in bytes.
    #[getter]
    fn digest_size(&self) -> usize {
        self.algorithm.digest_len()
    }

    /// Length in bytes of the blocks that the algorithm works in.
    #[getter]
    fn block_size(&self) -> usize {
        match self.algorithm {
            Algorithm::Sha384 | Algorithm::Sha512 => 128,
            Algorithm::Xxh32 | Algorithm::Murmur3 => 16,
            Algorithm::Xxh64 | Algorithm::HighwayHash256 => 32,
            Algorithm::SipHash24 => 8,
            Algorithm::Vmac64 | Algorithm::Vmac128 => 128,
            _ => 64,
        }
    }

    fn __repr__(&self) -> String {
        format!("<tabane {} hash>", self.algorithm)
    }
}

impl Hash {
    fn of(algorithm: Algorithm, hasher: Hasher) -> Self {
        Self {
            algorithm,
            hasher: Mutex::new(hasher),
            user: Mutex::new(None),
        }
    }

    /// The state, once no other thread uses it.
    ///
    /// # Errors
    /// This thread uses it: a signal handler has interrupted `update`.
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Hasher>> {
        match self.hasher.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        let user = *self.user.lock().unwrap_or_else(PoisonError::into_inner);
        if user == Some(thread::current().id()) {
            return Err(PyRuntimeError::new_err(
                "this hash is in use: a signal handler cannot use it during its update",
            ));
        }
        let locked = self.hasher.lock_py_attached(py);
        Ok(locked.unwrap_or_else(PoisonError::into_inner))
    }

    fn set_user(&self, user: Option<ThreadId>) {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = user;
    }
}
