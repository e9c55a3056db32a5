//! Shared memory. The one file here with unsafe code, but for a few lines of `unit` and of
//! `hang_up`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags};

use crate::layout::{BOARD_LEN, Board, MESSAGE_MAX, PAGE, RING_LEN, Ring, SLOTS};

/// Memory with a descriptor, which has the length that it was made with for good.
pub(crate) fn sealed(name: &str, len: usize) -> io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&memory, len as u64)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(memory)
}

/// Seals memory against new writable mappings, and the seals against changes.
pub(crate) fn read_only(memory: BorrowedFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(
        memory,
        SealFlags::FUTURE_WRITE | SealFlags::SEAL,
    )?)
}

/// Seals the seals.
pub(crate) fn final_seal(memory: BorrowedFd) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(memory, SealFlags::SEAL)?)
}

/// Mapped memory.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping's memory is accessed through atomics, or by the one holder of a message's
// slot.
unsafe impl Send for Mapping {}
// SAFETY: shared accesses go through atomics, or through the one holder of a message's slot.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(memory: BorrowedFd, len: usize) -> io::Result<Self> {
        // SAFETY: a new place.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                memory.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping, and it is being dropped, so no reference is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The board, as the service has it.
pub(crate) struct ServerBoard {
    mapping: Mapping,
    /// For the clients.
    memory: OwnedFd,
}

impl ServerBoard {
    pub(crate) fn new() -> io::Result<Self> {
        let memory = sealed("tabane board", BOARD_LEN)?;
        let mapping = Mapping::new(memory.as_fd(), BOARD_LEN)?;
        read_only(memory.as_fd())?;
        Ok(Self { mapping, memory })
    }

    pub(crate) fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    pub(crate) fn get(&self) -> &Board {
        // SAFETY: the mapping is long enough and has the alignment of a page; any bytes are atomic
        // numbers.
        unsafe { self.mapping.start.cast().as_ref() }
    }
}

/// A client's ring, as the service has it.
pub(crate) struct ServerRing(Mapping);

impl ServerRing {
    /// A new one, and the descriptor for the client.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let memory = sealed("tabane ring", RING_LEN)?;
        final_seal(memory.as_fd())?;
        Ok((Self(Mapping::new(memory.as_fd(), RING_LEN)?), memory))
    }

    pub(crate) fn get(&self) -> &Ring {
        // SAFETY: as the board.
        unsafe { self.0.start.cast().as_ref() }
    }

    /// The first bytes of a message.
    ///
    /// The client can change them at any time, which is its loss: kernels take bytes for nothing
    /// but values, so whatever they read, they touch no other memory, and the result goes to this
    /// client alone.
    ///
    /// # Safety
    ///
    /// Nobody else in this process has them, and `len` is at most [`MESSAGE_MAX`].
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller promises that it is the only one"
    )]
    pub(crate) unsafe fn message(&self, slot: usize, len: usize) -> &mut [u8] {
        assert!(slot < SLOTS && len <= MESSAGE_MAX);
        // SAFETY: within the mapping; the caller's promise.
        unsafe {
            let start = self.0.start.add(PAGE + slot * MESSAGE_MAX);
            std::slice::from_raw_parts_mut(start.as_ptr(), len)
        }
    }
}

/// The address at which a client maps board and ring: the same for all connections of its process,
/// so that readers of the board need not know whether it is the newest.
#[derive(Clone, Copy)]
pub(crate) struct ClientPlace(NonNull<u8>);

impl ClientPlace {
    const LEN: usize = BOARD_LEN + RING_LEN;

    /// A place with zeros.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: a new place.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                Self::LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast())
            .map(Self)
            .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// From an address of [`ClientPlace::address`], none if it is null.
    ///
    /// # Safety
    ///
    /// It is of a place that has not been removed.
    pub(crate) unsafe fn at(address: *mut u8) -> Option<Self> {
        NonNull::new(address).map(Self)
    }

    pub(crate) fn address(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Puts a server's memory there.
    ///
    /// # Safety
    ///
    /// Nobody has a message of this place.
    pub(crate) unsafe fn put(self, board: BorrowedFd, ring: BorrowedFd) -> io::Result<()> {
        let long_enough = |memory: BorrowedFd, len: usize| -> io::Result<()> {
            let seals = rustix::fs::fcntl_get_seals(memory)?;
            let size = rustix::fs::fstat(memory)?.st_size;
            if size != len as i64 || !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            Ok(())
        };
        long_enough(board, BOARD_LEN)?;
        long_enough(ring, RING_LEN)?;
        let write = libc::PROT_READ | libc::PROT_WRITE;
        for (memory, at, len, rights) in [
            (board, 0, BOARD_LEN, libc::PROT_READ),
            (ring, BOARD_LEN, RING_LEN, write),
        ] {
            // SAFETY: the range is within the reserved place, which this process owns. Concurrent
            // readers of atomics see the old memory or the new one.
            let mapped = unsafe {
                libc::mmap(
                    self.0.add(at).as_ptr().cast(),
                    len,
                    rights,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    memory.as_raw_fd(),
                    0,
                )
            };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Unmaps board and ring.
    ///
    /// # Safety
    ///
    /// No other thread uses the place any more.
    pub(crate) unsafe fn remove(self) {
        // SAFETY: this process made the mapping, and the caller promises that it is unused.
        unsafe { libc::munmap(self.0.as_ptr().cast(), Self::LEN) };
    }

    pub(crate) fn board(&self) -> &Board {
        // SAFETY: as `ServerBoard::get`.
        unsafe { self.0.cast().as_ref() }
    }

    pub(crate) fn ring(&self) -> &Ring {
        // SAFETY: as `ServerRing::get`.
        unsafe { self.0.add(BOARD_LEN).cast().as_ref() }
    }

    /// Copies a message in.
    ///
    /// # Safety
    ///
    /// Nobody else in this process has this message.
    pub(crate) unsafe fn bring(&self, slot: usize, message: &[u8]) {
        assert!(slot < SLOTS && message.len() <= MESSAGE_MAX);
        // SAFETY: within the place, elsewhere than `message`; the caller's promise.
        unsafe {
            let to = self.0.add(BOARD_LEN + PAGE + slot * MESSAGE_MAX);
            to.as_ptr()
                .copy_from_nonoverlapping(message.as_ptr(), message.len());
        }
    }

    /// Copies a message out.
    ///
    /// # Safety
    ///
    /// As [`ClientPlace::bring`].
    pub(crate) unsafe fn fetch(&self, slot: usize, message: &mut [u8]) {
        assert!(slot < SLOTS && message.len() <= MESSAGE_MAX);
        // SAFETY: as there.
        unsafe {
            let from = self.0.add(BOARD_LEN + PAGE + slot * MESSAGE_MAX);
            from.as_ptr()
                .copy_to_nonoverlapping(message.as_mut_ptr(), message.len());
        }
    }
}
