//! The C interface of the lanes. `include/tabane.h` documents each function.

use core::ffi::{c_int, c_void};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tabane_lanes::{Algorithm, Backend, Hasher, finish_many, hash_many, update_many};

const OK: c_int = 0;
const INVALID: c_int = -1;
const NO_BACKEND: c_int = -2;
const FAULT: c_int = -3;

const DIGEST_MAX: usize = 64;

/// The numbers of the header. They never change.
const ALGORITHMS: [(c_int, Algorithm); 6] = [
    (1, Algorithm::Md5),
    (2, Algorithm::Sha1),
    (3, Algorithm::Sha224),
    (4, Algorithm::Sha256),
    (5, Algorithm::Sha384),
    (6, Algorithm::Sha512),
];

fn algorithm(number: c_int) -> Option<Algorithm> {
    let found = ALGORITHMS.iter().find(|&&(known, _)| known == number);
    found.map(|&(_, algorithm)| algorithm)
}

/// Runs `f` if the environment allows, and turns a panic, which must not reach C, into [`FAULT`].
fn guarded(f: impl FnOnce() -> c_int) -> c_int {
    if Backend::forced().is_err() {
        return NO_BACKEND;
    }
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(FAULT)
}

/// The `count` elements at `pointer`; `None` if `count` is not 0 and the pointer is null.
///
/// # Safety
///
/// As the header says: if not null, `pointer` is readable for `count` elements, for as long as the
/// call lasts.
unsafe fn elements<'a, T>(pointer: *const T, count: usize) -> Option<&'a [T]> {
    match (pointer.is_null(), count) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller's promise.
        (false, _) => Some(unsafe { core::slice::from_raw_parts(pointer, count) }),
    }
}

/// The byte strings at `pointers`.
///
/// # Safety
///
/// As [`elements`], and each pointer with its length.
unsafe fn strings<'a>(
    pointers: *const *const c_void,
    lengths: *const usize,
    count: usize,
) -> Option<Vec<&'a [u8]>> {
    // SAFETY: the caller's promise.
    unsafe {
        let (pointers, lengths) = (elements(pointers, count)?, elements(lengths, count)?);
        let pairs = pointers.iter().zip(lengths);
        pairs
            .map(|(&pointer, &length)| elements(pointer.cast(), length))
            .collect()
    }
}

/// `tabane_digest_length`.
#[unsafe(no_mangle)]
pub extern "C" fn tabane_digest_length(number: c_int) -> usize {
    algorithm(number).map_or(0, Algorithm::digest_len)
}

/// `tabane_hash_many`.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tabane_hash_many(
    number: c_int,
    messages: *const *const c_void,
    lengths: *const usize,
    count: usize,
    digests: *mut u8,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let messages = unsafe { strings(messages, lengths, count) };
        let (Some(algorithm), Some(messages)) = (algorithm(number), messages) else {
            return INVALID;
        };
        if digests.is_null() && count > 0 {
            return INVALID;
        }
        let length = algorithm.digest_len();
        for (i, digest) in hash_many(algorithm, &messages).iter().enumerate() {
            // SAFETY: the caller's promise: `digests` is writable for `count` digests.
            unsafe {
                let to = digests.add(i * length);
                digest
                    .as_bytes()
                    .as_ptr()
                    .copy_to_nonoverlapping(to, length);
            }
        }
        OK
    })
}

/// `tabane_hasher_new`.
#[unsafe(no_mangle)]
pub extern "C" fn tabane_hasher_new(number: c_int) -> *mut Hasher {
    let Some(algorithm) = algorithm(number) else {
        return core::ptr::null_mut();
    };
    if Backend::forced().is_err() {
        return core::ptr::null_mut();
    }
    Box::into_raw(Box::new(Hasher::new(algorithm)))
}

/// `tabane_hasher_clone`.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tabane_hasher_clone(hasher: *const Hasher) -> *mut Hasher {
    // SAFETY: the caller's promise: null or a hasher that no other call is changing.
    unsafe { hasher.as_ref() }.map_or(core::ptr::null_mut(), |hasher| {
        Box::into_raw(Box::new(hasher.clone()))
    })
}

/// `tabane_hasher_free`.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tabane_hasher_free(hasher: *mut Hasher) {
    if !hasher.is_null() {
        // SAFETY: the caller's promise: it came from here and is freed once.
        drop(unsafe { Box::from_raw(hasher) });
    }
}

/// `tabane_update_many`.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tabane_update_many(
    hashers: *const *mut Hasher,
    data: *const *const c_void,
    lengths: *const usize,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (hashers, data) = unsafe { (elements(hashers, count), strings(data, lengths, count)) };
        let (Some(hashers), Some(data)) = (hashers, data) else {
            return INVALID;
        };
        let mut seen = HashSet::with_capacity(count);
        if !hashers
            .iter()
            .all(|&hasher| !hasher.is_null() && seen.insert(hasher))
        {
            return INVALID;
        }
        let mut parts = Vec::with_capacity(count);
        for (&hasher, data) in hashers.iter().zip(data) {
            // SAFETY: the caller's promise, not null, and no other reference: each comes once.
            parts.push((unsafe { &mut *hasher }, data));
        }
        update_many(&mut parts);
        OK
    })
}

/// `tabane_finish_many`.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tabane_finish_many(
    hashers: *const *const Hasher,
    count: usize,
    digests: *mut [u8; DIGEST_MAX],
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let Some(hashers) = (unsafe { elements(hashers, count) }) else {
            return INVALID;
        };
        if digests.is_null() && count > 0 {
            return INVALID;
        }
        let mut references = Vec::with_capacity(count);
        for &hasher in hashers {
            // SAFETY: the caller's promise: null or a hasher that no other call is changing.
            match unsafe { hasher.as_ref() } {
                Some(hasher) => references.push(hasher),
                None => return INVALID,
            }
        }
        for (i, digest) in finish_many(&references).iter().enumerate() {
            let mut padded = [0; DIGEST_MAX];
            padded[..digest.as_bytes().len()].copy_from_slice(digest.as_bytes());
            // SAFETY: the caller's promise: `digests` is writable for `count` elements.
            unsafe { digests.add(i).write(padded) };
        }
        OK
    })
}
