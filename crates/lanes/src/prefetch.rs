//! Asking memory for what will be needed.

/// Has the cache line at an address, which need not be readable, brought into all levels of the
/// cache.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, which does nothing where it would fault.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 processor has the instruction, which does nothing where it would fault.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(readonly, nostack, preserves_flags)
        );
    }
    let _ = address;
}

/// As [`prefetch`], but only into level 2: lines of more streams than level 1 has room for.
#[inline(always)]
pub(crate) fn prefetch_to_level_2(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, which does nothing where it would fault.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 processor has the instruction, which does nothing where it would fault.
    unsafe {
        core::arch::asm!(
            "prfm pldl2keep, [{0}]",
            in(reg) address,
            options(readonly, nostack, preserves_flags)
        );
    }
    let _ = address;
}
