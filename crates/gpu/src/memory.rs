//! Memory of a card, and memory of the machine that a card can read by itself.

use std::ffi::c_void;
use std::sync::Arc;

use crate::context::Core;
use crate::driver::{Address, HOST_ALLOC_PORTABLE};
use crate::error::Error;

/// Memory on a card, freed when it is dropped.
pub struct DeviceBuffer {
    core: Arc<Core>,
    address: Address,
    len: usize,
    owned: bool,
}

impl DeviceBuffer {
    /// Allocates `len` bytes of any content. They begin at a multiple of 256 bytes, and may be read
    /// up to the next multiple of 16.
    pub(crate) fn new(core: &Arc<Core>, len: usize) -> Result<Self, Error> {
        core.enter()?;
        let mut address = 0;
        // SAFETY: the context is current.
        let code =
            unsafe { (core.driver.allocate)(&mut address, len.next_multiple_of(16).max(16)) };
        core.driver.check("cuMemAlloc", code)?;
        Ok(Self {
            core: Arc::clone(core),
            address,
            len,
            owned: true,
        })
    }

    /// Memory that another library has allocated in the primary context of the same card; it is not
    /// freed.
    ///
    /// # Safety
    /// From `address`, a multiple of 16, on there are `len` bytes, rounded up to a multiple of 16,
    /// for as long as this value lives, and nobody else writes to them while it is used.
    pub(crate) unsafe fn borrowed(core: &Arc<Core>, address: Address, len: usize) -> Self {
        Self {
            core: Arc::clone(core),
            address,
            len,
            owned: false,
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the buffer, for other libraries.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Copies `bytes` to the beginning, and waits for that.
    ///
    /// # Errors
    /// They are longer than this, or the card fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > self.len {
            return Err(Error::Misuse("more bytes than the buffer on the card has"));
        }
        self.core.on_stream(|core, stream| {
            let from = bytes.as_ptr().cast();
            // SAFETY: `on_stream` waits for the stream, and until then both memories exist with at
            // least this length.
            let code = unsafe { (core.driver.copy_in)(self.address, from, bytes.len(), stream) };
            core.driver.check("cuMemcpyHtoDAsync", code)
        })
    }

    /// Copies its beginning to `bytes`.
    ///
    /// # Errors
    /// They are longer than this, or the card fails.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), Error> {
        if bytes.len() > self.len {
            return Err(Error::Misuse("more bytes than the buffer on the card has"));
        }
        self.core.on_stream(|core, stream| {
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: as in `write`.
            let code = unsafe { (core.driver.copy_out)(to, self.address, bytes.len(), stream) };
            core.driver.check("cuMemcpyDtoHAsync", code)
        })
    }

    /// Fills it with one byte: zero wipes it.
    ///
    /// # Errors
    /// The card fails.
    pub fn fill(&mut self, byte: u8) -> Result<(), Error> {
        self.core.on_stream(|core, stream| {
            // SAFETY: the memory is ours.
            let code = unsafe { (core.driver.fill)(self.address, byte, self.len, stream) };
            core.driver.check("cuMemsetD8Async", code)
        })
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.owned && self.core.enter().is_ok() {
            // SAFETY: no kernel or copy uses the memory: every call waits for its end. A call that
            // failed to has made the card unusable, so that `enter` fails.
            unsafe { (self.core.driver.free)(self.address) };
        }
    }
}

/// Memory of the machine, locked into its place.
pub(crate) struct HostBuffer {
    core: Arc<Core>,
    start: *mut u8,
    len: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for HostBuffer {}

impl HostBuffer {
    /// Allocates `len` zero bytes.
    pub(crate) fn new(core: &Arc<Core>, len: usize) -> Result<Self, Error> {
        core.enter()?;
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: the context is current.
        let code = unsafe { (core.driver.allocate_host)(&mut start, len, HOST_ALLOC_PORTABLE) };
        core.driver.check("cuMemHostAlloc", code)?;
        let start = start.cast::<u8>();
        // SAFETY: `len` bytes were allocated.
        unsafe { start.write_bytes(0, len) };
        Ok(Self {
            core: Arc::clone(core),
            start,
            len,
        })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: initialised, and the card is done with it whenever it is borrowed: see `Slot`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // A card that hangs may still write to it.
        if self.core.enter().is_ok() {
            // SAFETY: the counterpart function allocated it, and no reference is left.
            unsafe { (self.core.driver.free_host)(self.start.cast()) };
        }
    }
}
