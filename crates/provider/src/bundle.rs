//! Work that waits for whoever comes first, and is done side by side.

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

/// Work that waits to be done by whoever comes first.
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

    /// What became of it, if it is done.
    pub(crate) fn result(&self) -> Option<Result<(), Reason>> {
        match self.state.load(Ordering::Acquire) {
            NOT_DONE => None,
            DONE => Some(Ok(())),
            _ => Some(Err(Reason::Fault)),
        }
    }

    /// Sleeps a little, unless it is done.
    pub(crate) fn sleep(&self) {
        let wait = libc::timespec {
            tv_sec: 0,
            tv_nsec: 50_000,
        };
        // Not as the standard library sleeps, for there a thread could be cancelled, and what waits
        // with it gone.
        // SAFETY: the place of a number, and a time.
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

/// Does the work of all that wait, side by side, and tells each that it is done.
///
/// # Safety
///
/// All are valid until they are done, and nobody else does them.
pub(crate) unsafe fn run(bundle: &[*mut Waiting<'_>]) {
    // SAFETY: the caller's promise.
    let works = bundle
        .iter()
        .filter_map(|&one| unsafe { (*one).work.take() });
    let works = works.collect();
    let done = guarded(Err(Reason::Fault), || all(works));
    let state = if done.is_ok() { DONE } else { FAILED };
    for &one in bundle {
        // SAFETY: the caller's promise. From here on it may be gone.
        unsafe { (*one).state.store(state, Ordering::Release) };
    }
}
