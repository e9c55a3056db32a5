//! Independent pieces of work, done side by side in SIMD lanes.
//!
//! CBC encryption and hashes are chains, in which one message leaves most of a processor idle. A
//! program shows that it has several messages at once in one of two ways, both with synchronous
//! calls: by jobs of OpenSSL (`jobs`) or by threads (`threads`). One of the callers runs a bundle
//! for all of them. Several processes need a service (`offload`).

use tabane_lanes::Hasher;
use tabane_lanes::aes::{self, BLOCK, InOut, Key};

use crate::error::Reason;
use crate::work::Work;
use crate::{jobs, offload, threads};

/// Bytes from which on it is worth to leave a job and come back, and to let another thread or
/// process run.
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
