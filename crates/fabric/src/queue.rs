//! How much of what was written to a socket is still on its way.

use std::os::fd::BorrowedFd;

use crate::endpoint::Queued;

/// Bytes that were written to a socket of TCP and have not left, or have not arrived; zeros where
/// the system does not tell.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub fn of(socket: BorrowedFd<'_>) -> Queued {
    use std::ffi::c_int;

    use rustix::ioctl::{Getter, Opcode, ioctl};

    /// `SIOCOUTQ`: bytes that the peer has not acknowledged.
    const UNARRIVED: Opcode = 0x5411;
    /// `SIOCOUTQNSD`: bytes that have not been sent.
    const UNSENT: Opcode = 0x894b;

    // SAFETY: both requests write one `int`, whatever the descriptor is (tcp(7)); `Getter` has room
    // for it, and takes it for written only when the request succeeds.
    let (unarrived, unsent) = unsafe {
        (
            ioctl(socket, Getter::<UNARRIVED, c_int>::new()),
            ioctl(socket, Getter::<UNSENT, c_int>::new()),
        )
    };
    let bytes = |count: rustix::io::Result<c_int>| count.map_or(0, |count| count.max(0) as u64);
    Queued {
        unsent: bytes(unsent),
        unarrived: bytes(unarrived),
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub fn of(_: BorrowedFd<'_>) -> Queued {
    Queued::default()
}
