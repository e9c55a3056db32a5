//! Memory through which data of the machine reach a card: a ring of slots, each filled while others
//! are on their way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::context::Core;
use crate::driver::Handle;
use crate::error::Error;
use crate::memory::{DeviceBuffer, HostBuffer};

/// Slots at most: as many threads fill them, since one does not keep a card's bus busy.
const SLOTS_MAX: usize = 8;

/// Fewer would not overlap: one is filled, one is copied, one is computed.
const SLOTS_MIN: usize = 3;

/// Less, in bytes, is not worth a launch.
const SLOT_MIN: usize = 1 << 20;

/// The free slots, and a condition for threads that wait for one.
pub(crate) struct Ring {
    slots: Mutex<Vec<Slot>>,
    returned: Condvar,
    count: usize,
    slot_len: usize,
}

/// Memory of one batch: as much on the card as in the machine.
pub(crate) struct Slot {
    pub(crate) host: HostBuffer,
    pub(crate) device: DeviceBuffer,
}

impl Ring {
    /// A ring of `bytes` bytes in all, or fewer if memory is short; `free` is for the error.
    pub(crate) fn new(core: &Arc<Core>, bytes: usize, free: usize) -> Result<Self, Error> {
        let mut count = SLOTS_MAX.min(bytes / SLOT_MIN);
        if count < SLOTS_MIN {
            return Err(Error::LittleMemory(free));
        }
        let slot_len = (bytes / count) & !0xff;
        let mut slots = Vec::new();
        while slots.len() < count {
            let slot = HostBuffer::new(core, slot_len)
                .and_then(|host| Ok((host, DeviceBuffer::new(core, slot_len)?)));
            match slot {
                Ok((host, device)) => slots.push(Slot { host, device }),
                // Somebody else was quicker.
                Err(Error::OutOfMemory) if slots.len() >= SLOTS_MIN => count = slots.len(),
                Err(Error::OutOfMemory) => return Err(Error::LittleMemory(free)),
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            slots: Mutex::new(slots),
            returned: Condvar::new(),
            count,
            slot_len,
        })
    }

    /// Length of a slot in bytes, a multiple of 256.
    pub(crate) fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// Waits for a slot, and has `work` use it.
    pub(crate) fn with_slot<T>(&self, work: impl FnOnce(&mut Slot) -> T) -> T {
        let mut slots = self.lock();
        let slot = loop {
            match slots.pop() {
                Some(slot) => break slot,
                None => {
                    slots = self
                        .returned
                        .wait(slots)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(slots);
        let mut borrowed = Borrowed {
            ring: self,
            slot: Some(slot),
        };
        work(borrowed.slot.as_mut().expect("until it is dropped"))
    }

    /// Runs every batch, several at a time, by as many threads as there are slots; ends early when
    /// one fails.
    pub(crate) fn run_all<T: Send>(
        &self,
        mut batches: Vec<T>,
        run: impl Fn(T) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        if batches.len() <= 1 {
            return batches.pop().map_or(Ok(()), run);
        }
        let threads = self.count.min(batches.len());
        let batches = Mutex::new(batches);
        let failed = AtomicBool::new(false);
        let work = || {
            let next = || batches.lock().unwrap_or_else(PoisonError::into_inner).pop();
            while !failed.load(Ordering::Relaxed)
                && let Some(batch) = next()
            {
                run(batch).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            // The scope waits for the others when one has failed.
            running.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a slot back, also after a panic.
struct Borrowed<'r> {
    ring: &'r Ring,
    slot: Option<Slot>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.ring.lock().extend(self.slot.take());
        self.ring.returned.notify_one();
    }
}

impl Slot {
    /// Copies the first bytes of the slot to the card, computes, and copies the `results` back to
    /// the same offsets; waits for all of it.
    pub(crate) fn run(
        &mut self,
        core: &Core,
        input: usize,
        results: std::ops::Range<usize>,
        compute: impl FnOnce(Handle, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (host, device) = (self.host.start(), self.device.address());
        assert!(input <= self.device.len() && results.end <= self.device.len());
        core.on_stream(|core, stream| {
            // SAFETY: both buffers have this length, and stay until the stream is done, for which
            // `on_stream` waits; if it gives up waiting, nothing is freed and the slot's bytes are
            // not used again, since `enter` fails.
            unsafe {
                let code = (core.driver.copy_in)(device, host.cast(), input, stream);
                core.driver.check("cuMemcpyHtoDAsync", code)?;
                compute(stream, device)?;
                let to = host.add(results.start).cast();
                let from = device + results.start as u64;
                let code = (core.driver.copy_out)(to, from, results.len(), stream);
                core.driver.check("cuMemcpyDtoHAsync", code)
            }
        })
    }
}
