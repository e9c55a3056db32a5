//! Independent pieces of work, done side by side in SIMD lanes.
//!
//! CBC encryption and hashes are chains, in which one message leaves most of a processor idle. A program that has several at
//! once shows it in one of two ways, both of which are synchronous to it: by jobs of OpenSSL (`jobs`) or by threads
//! (`threads`). Whoever runs a bundle runs it for all who wait in it. Several processes need a service (`offload`).

use core::sync::atomic::{AtomicU32, Ordering};

use tabane_lanes::aes::{self, BLOCK, CbcJob, InOut, Key};
use tabane_lanes::{Hasher, update_many};

use crate::error::Reason;
use crate::guard::guarded;
use crate::{jobs, offload, threads};

/// Bytes from which on it is worth to leave a job and come back, and to let another thread or process run.
struct Worth {
    job: usize,
    thread: usize,
}

const ENCRYPT: Worth = Worth {
    job: 1 << 10,
    thread: 4 << 10,
};
const HASH: Worth = Worth {
    job: 2 << 10,
    thread: 16 << 10,
};

/// Encrypts whole blocks in CBC mode, alone or with others.
#[inline(always)]
pub(crate) fn cbc_encrypt(key: &Key, iv: &mut [u8; BLOCK], data: InOut) -> Result<(), Reason> {
    if data.len() >= ENCRYPT.job && data.len().is_multiple_of(BLOCK) {
        let len = data.len();
        return together(Work::Encrypt { key, iv, data }, len, &ENCRYPT);
    }
    aes::cbc_encrypt(key, iv, data).map_err(|_| Reason::CipherOperationFailed)
}

/// Appends to a hash, alone or with others.
#[inline(always)]
pub(crate) fn update(hasher: &mut Hasher, data: &[u8]) -> Result<(), Reason> {
    if data.len() >= HASH.job {
        return together(Work::Hash { hasher, data }, data.len(), &HASH);
    }
    hasher.update(data);
    Ok(())
}

/// Apart, so that calls with short messages have nothing of it.
#[inline(never)]
fn together(work: Work, len: usize, worth: &Worth) -> Result<(), Reason> {
    match jobs::current() {
        Some(job) => job.within(work),
        None if len >= worth.thread => threads::within(work, offload::within),
        None => work.alone(),
    }
}

/// What is to be done.
pub(crate) enum Work<'a> {
    Encrypt {
        key: &'a Key,
        iv: &'a mut [u8; BLOCK],
        data: InOut<'a>,
    },
    Hash {
        hasher: &'a mut Hasher,
        data: &'a [u8],
    },
}

impl Work<'_> {
    /// What it is, and its length but for a factor of two.
    pub(crate) fn kind(&self) -> u32 {
        let what = match self {
            Self::Encrypt { .. } => 0,
            Self::Hash { hasher, .. } => 1 + hasher.algorithm() as u32,
        };
        what << 8 | self.len().max(1).ilog2()
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Encrypt { data, .. } => data.len(),
            Self::Hash { data, .. } => data.len(),
        }
    }

    /// Encrypts or hashes this message by itself.
    pub(crate) fn alone(self) -> Result<(), Reason> {
        match self {
            Self::Encrypt { key, iv, data } => {
                aes::cbc_encrypt(key, iv, data).map_err(|_| Reason::CipherOperationFailed)
            }
            Self::Hash { hasher, data } => {
                hasher.update(data);
                Ok(())
            }
        }
    }

    /// Whether it is of the context at this place.
    pub(crate) fn belongs_to(&self, context: *const u8, size: usize) -> bool {
        let part: *const u8 = match self {
            Self::Encrypt { iv, .. } => iv.as_ptr(),
            Self::Hash { hasher, .. } => core::ptr::from_ref::<Hasher>(hasher).cast(),
        };
        part.addr().wrapping_sub(context.addr()) < size
    }
}

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
        // Not as the standard library sleeps, for there a thread could be cancelled, and what waits with it gone.
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
