//! Waiting work of several callers, which one of them does side by side.

use core::sync::atomic::{AtomicU32, Ordering};

use tabane_lanes::aes::{self, CbcJob};
use tabane_lanes::update_many;

use crate::error::Reason;
use crate::guard::guarded;
use crate::work::Work;

/// Encrypts and hashes messages side by side.
fn all(works: Vec<Work>) -> Result<(), Reason> {
    let (mut encrypt, mut hash) = (Vec::new(), Vec::new());
    for work in works {
        match work {
            Work::Encrypt { key, iv, data } => encrypt.push(CbcJob {
                key,
                iv,
                data: data.into_place(),
            }),
            Work::Hash { hasher, data } => hash.push((hasher, data)),
        }
    }
    aes::cbc_encrypt_many(&mut encrypt).map_err(|_| Reason::CipherOperationFailed)?;
    update_many(&mut hash);
    Ok(())
}

/// A caller's work, which any of the callers may do.
pub(crate) struct Waiting<'a> {
    work: Option<Work<'a>>,
    state: AtomicU32,
}

/// States of [`Waiting`].
const NOT_DONE: u32 = 0;
const DONE: u32 = 1;
const FAILED: u32 = 2;

impl<'a> Waiting<'a> {
    pub(crate) fn new(work: Work<'a>) -> Self {
        Self {
            work: Some(work),
            state: AtomicU32::new(NOT_DONE),
        }
    }

    /// The result, once the work is done.
    pub(crate) fn result(&self) -> Option<Result<(), Reason>> {
        match self.state.load(Ordering::Acquire) {
            NOT_DONE => None,
            DONE => Some(Ok(())),
            _ => Some(Err(Reason::Fault)),
        }
    }

    /// Sleeps for 50 µs at most, unless the work is done.
    pub(crate) fn sleep(&self) {
        let wait = libc::timespec {
            tv_sec: 0,
            tv_nsec: 50_000,
        };
        // A plain system call: the standard library's sleep is a point where a thread can be
        // cancelled, which would free the waiting work. SAFETY: the place of a number, and a time.
        unsafe {
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(
                libc::SYS_futex,
                self.state.as_ptr(),
                operation,
                NOT_DONE,
                &raw const wait,
            );
        }
    }

    /// See [`Work::belongs_to`].
    pub(crate) fn belongs_to(&self, context: *const u8, size: usize) -> bool {
        let work = self.work.as_ref();
        work.is_some_and(|work| work.belongs_to(context, size))
    }
}

/// Does all waiting work of a bundle side by side, and marks each piece as done.
///
/// # Safety
///
/// Each entry stays valid until it is marked done, and no other thread works on it.
pub(crate) unsafe fn run(bundle: &[*mut Waiting<'_>]) {
    // SAFETY: the caller's promise.
    let works = bundle
        .iter()
        .filter_map(|&one| unsafe { (*one).work.take() });
    let works = works.collect();
    let done = guarded(Err(Reason::Fault), || all(works));
    let state = if done.is_ok() { DONE } else { FAILED };
    for &one in bundle {
        // SAFETY: the caller's promise: the entry is valid up to this store, which may end it.
        unsafe { (*one).state.store(state, Ordering::Release) };
    }
}
