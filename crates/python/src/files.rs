//! Digests of many files.

use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tabane_sum::{Done, FileTask, Method, Sum, Upload, sum_all_with};

use crate::interrupt::SIGNAL_INTERVAL;
use crate::many::function;
use crate::path;

/// The digests of files, in their order, as bytes.
///
/// The first file that cannot be read ends it with its OSError; with `return_exceptions`, that is
/// the file's place in the list instead. `progress(files, bytes)` is called up to twenty times a
/// second, by the thread that called. There is a thread a processor unless `threads` says
/// otherwise.
#[pyfunction]
#[pyo3(signature = (
    paths, algorithm="sha256", *, key=None, threads=None, progress=None, return_exceptions=false
))]
pub fn hash_files<'py>(
    paths: &Bound<'py, PyAny>,
    algorithm: &str,
    key: Option<&Bound<'py, PyAny>>,
    threads: Option<usize>,
    progress: Option<&Bound<'py, PyAny>>,
    return_exceptions: bool,
) -> PyResult<Bound<'py, PyList>> {
    let py = paths.py();
    let method = Method::Digest(function(algorithm, key)?);
    let digests = PyList::empty(py);
    sums(
        py,
        path::paths(paths)?,
        method,
        threads,
        progress,
        |done| match done.outcome.expect("every FileTask has a file") {
            Ok(sum) => digests.append(PyBytes::new(py, sum.digest.as_ref())),
            Err(error) => {
                let error = os_error(&error, &done.task.path)?;
                if return_exceptions {
                    digests.append(error.into_value(py))
                } else {
                    Err(error)
                }
            }
        },
    )?;
    Ok(digests)
}

/// The ETag that S3 gives to this file when it is uploaded in parts of `part_size` bytes.
///
/// Files shorter than a part are uploaded whole, as the AWS tools do; with `always_in_parts`, they
/// are one part. All parts are hashed side by side.
#[pyfunction]
#[pyo3(signature = (path, part_size=8 << 20, *, always_in_parts=false, threads=None))]
pub fn etag(
    path: &Bound<'_, PyAny>,
    part_size: u64,
    always_in_parts: bool,
    threads: Option<usize>,
) -> PyResult<String> {
    let part_len = NonZeroU64::new(part_size)
        .ok_or_else(|| PyValueError::new_err("part_size is 0: give a number of bytes"))?;
    let upload = if always_in_parts {
        Upload::always_in_parts(part_len)
    } else {
        Upload::new(part_len)
    };
    let mut etag: Option<Sum> = None;
    let (py, files) = (path.py(), vec![path::path(path)?]);
    sums(py, files, Method::Etag(upload), threads, None, |done| {
        match done.outcome.expect("every FileTask has a file") {
            Ok(sum) => etag = Some(sum),
            Err(error) => return Err(os_error(&error, &done.task.path)?),
        }
        Ok(())
    })?;
    Ok(etag.expect("there was one file").to_string())
}

/// Hashes files, and gives each to `take` in their order.
fn sums(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    method: Method,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
    mut take: impl FnMut(Done<FileTask>) -> PyResult<()>,
) -> PyResult<()> {
    let threads = match threads {
        Some(threads) => NonZeroUsize::new(threads)
            .ok_or_else(|| PyValueError::new_err("threads is 0: give a number, or None"))?,
        None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
    };
    let bytes = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&bytes);
    let tasks = paths.into_iter().map(move |path| FileTask {
        path,
        method: method.clone(),
    });
    let mut sums = sum_all_with(threads, tasks, move |read| {
        count.fetch_add(read, Ordering::Relaxed);
    });
    let (mut files, mut told) = (0_u64, std::time::Instant::now());
    // Dropped in the end, and by any error, which stops the threads.
    while let Some(some) = {
        let waiting = &mut sums;
        py.detach(move || waiting.next_within(SIGNAL_INTERVAL))
    } {
        for done in some {
            files += 1;
            take(done)?;
        }
        py.check_signals()?;
        if let Some(progress) = progress
            && told.elapsed() >= SIGNAL_INTERVAL
        {
            progress.call1((files, bytes.load(Ordering::Relaxed)))?;
            told = std::time::Instant::now();
        }
    }
    if let Some(progress) = progress {
        progress.call1((files, bytes.load(Ordering::Relaxed)))?;
    }
    Ok(())
}

/// An OSError about a file, of the class that belongs to its number.
fn os_error(error: &io::Error, path: &Path) -> PyResult<PyErr> {
    Ok(match error.raw_os_error() {
        Some(number) => Python::attach(|py| -> PyResult<PyErr> {
            let text = py.import("os")?.call_method1("strerror", (number,))?;
            let args = (number, text.unbind(), path.as_os_str().to_owned());
            Ok(PyOSError::new_err(args))
        })?,
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    })
}
