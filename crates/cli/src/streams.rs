//! Standard input and output that were closed when the program was started.
//!
//! Before `main`, Rust's runtime opens /dev/null in the place of each standard stream that is
//! closed, and its `Stdin` and `Stdout` take "bad file descriptor" for success. So a closed input
//! would yield the checksum of no bytes, lines for a closed output would vanish, and both would end
//! with exit code 0.
//!
//! Nothing tells that /dev/null from one which the caller gave: the runtime opens it for reading
//! and writing, and so do Python's `subprocess.DEVNULL` and daemon(3). Hence the streams are looked
//! at before the runtime does it, by a function in `.init_array` (ELF gABI, "Initialization and
//! Termination Functions"). Then [`keep_closed`] makes closed streams fail again for code that
//! uses the descriptor itself, as [`Stdout`] and `tabane_sum` do.
#![allow(unsafe_code)]

use std::io::{self, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::stdio;

static STDIN_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Remembers which streams are closed.
extern "C" fn look() {
    let is_closed = |stream| rustix::io::fcntl_getfd(stream) == Err(Errno::BADF);
    STDIN_WAS_CLOSED.store(is_closed(stdio::stdin()), Ordering::Relaxed);
    STDOUT_WAS_CLOSED.store(is_closed(stdio::stdout()), Ordering::Relaxed);
}

// SAFETY: the C library calls what `.init_array` points to once, before `main`, with arguments that
// a function without any may ignore. `look` has no need of a runtime: it makes two system calls and
// writes two statics, neither allocates nor panics, and reads no memory that is not initialised
// yet.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Has reading from a standard input, and writing to a standard output, fail with "bad file
/// descriptor" if it was closed when the program was started.
pub fn keep_closed() {
    let null = |flags| rustix::fs::openat(CWD, "/dev/null", flags | OFlags::CLOEXEC, Mode::empty());
    // If this fails, the streams stay as the runtime made them.
    if STDIN_WAS_CLOSED.load(Ordering::Relaxed) {
        let _ = null(OFlags::WRONLY).and_then(stdio::dup2_stdin);
    }
    if STDOUT_WAS_CLOSED.load(Ordering::Relaxed) {
        let _ = null(OFlags::RDONLY).and_then(stdio::dup2_stdout);
    }
}

/// Standard output, locked for this thread. "Bad file descriptor" is an error here.
pub struct Stdout {
    /// Held, so that lines of other threads do not come in between.
    _lock: StdoutLock<'static>,
}

impl Stdout {
    /// Takes standard output for this thread.
    pub fn lock() -> Self {
        Self {
            _lock: io::stdout().lock(),
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(stdio::stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
