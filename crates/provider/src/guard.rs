//! The border to C.

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` and turns a panic, which must not reach C, into `otherwise`.
#[inline]
pub(crate) fn guarded<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise)
}

/// As [`guarded`], for functions that return 1 for success and 0 for failure.
#[inline]
pub(crate) fn succeeds(f: impl FnOnce() -> bool) -> c_int {
    c_int::from(guarded(false, f))
}

/// Overwrites secrets with zeros in a way that the compiler cannot remove. As fast as a copy,
/// unlike volatile writes of single bytes.
#[inline]
pub(crate) fn erase(bytes: &mut [u8]) {
    bytes.fill(0);
    core::hint::black_box(bytes);
}

/// The `length` bytes at `data`; empty if `length` is 0.
///
/// # Safety
///
/// If `length` is not 0, `data` is readable for `length` bytes during `'a`.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(data, length) }
}
