//! Long work that Python can interrupt.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long Python's signals wait at most while something works.
pub const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// How long a cancelled thread may take to end before the call ends without it.
const CANCEL_PATIENCE: Duration = Duration::from_millis(100);

/// Calls `step`, detached from Python, until it returns `true`; one step should take less than
/// [`SIGNAL_INTERVAL`].
///
/// # Errors
/// What a signal handler raised: then the rest is left undone.
pub fn in_steps(py: Python<'_>, mut step: impl FnMut() -> bool + Send) -> PyResult<()> {
    loop {
        let step = &mut step;
        let ended = py.detach(move || {
            let start = Instant::now();
            loop {
                if step() {
                    return true;
                }
                if start.elapsed() > SIGNAL_INTERVAL {
                    return false;
                }
            }
        });
        if ended {
            return Ok(());
        }
        py.check_signals()?;
    }
}

/// Does `work` in a thread of its own, and calls `tell` every [`SIGNAL_INTERVAL`].
///
/// # Errors
/// What `tell` or a signal handler raised: then `cancel` was called, and the thread ends as soon
/// as it can.
pub fn in_thread<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> R + Send + 'static,
    mut tell: impl FnMut() -> PyResult<()>,
    cancel: impl FnOnce(),
) -> PyResult<R> {
    let (sender, mut results) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .name("tabane".to_owned())
        .spawn(move || {
            // Nobody hears it after an interruption.
            let _ = sender.send(work());
        })?;
    loop {
        let waiting = &mut results;
        match py.detach(move || waiting.recv_timeout(SIGNAL_INTERVAL)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                let panic = thread.join().expect_err("it ended without a result");
                std::panic::resume_unwind(panic);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = tell().and_then(|()| py.check_signals()) {
            cancel();
            let waiting = &mut results;
            let _ = py.detach(move || waiting.recv_timeout(CANCEL_PATIENCE));
            return Err(error);
        }
    }
}
