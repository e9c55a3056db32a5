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

/// Overwrites with zeros, and is not optimised away: somebody might look at them. As quick as a
/// copy, which byte by byte it would not be.
#[inline]
pub(crate) fn erase(bytes: &mut [u8]) {
    bytes.fill(0);
    core::hint::black_box(bytes);
}

/// `length` bytes at `data`, none if there are none there.
///
/// # Safety
///
/// If `length` is not 0, `data` is readable for so many bytes during `'a`.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(data, length) }
}
