//! A card that is open.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::aes::kernels::Kernels;
use crate::algorithm::{Algorithm, HashKernels};
use crate::context::{Core, Properties};
use crate::error::Error;
use crate::memory::DeviceBuffer;
use crate::staging::Ring;

/// A card that is open, and has computed known messages rightly. Any number of threads may use it
/// at a time.
pub struct Card {
    pub(crate) core: Arc<Core>,
    pub(crate) ring: Ring,
    pub(crate) hash_kernels: HashKernels,
    /// Loaded when a key is first made.
    pub(crate) aes: OnceLock<Result<Kernels, Error>>,
    pub(crate) properties: Properties,
}

impl Card {
    /// Properties of the card.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The error for which the card was given up, if any.
    pub fn failure(&self) -> Option<Error> {
        self.core.failed.get().cloned()
    }

    /// Gives the card up, since a digest of it was wrong; returns that as an error.
    pub fn distrust(&self, algorithm: Algorithm) -> Error {
        let error = Error::WrongAnswer(algorithm.name());
        self.core.give_up(&error);
        error
    }

    /// The speed of the card's bus, from and to locked memory of the machine, in bytes a second:
    /// the best of four times.
    ///
    /// # Errors
    /// The card fails.
    pub fn bus_bytes_per_s(&self) -> Result<(f64, f64), Error> {
        let len = self.ring.slot_len();
        self.ring.with_slot(|slot| {
            let mut seconds = [f64::INFINITY; 2];
            for _ in 0..4 {
                for (best, (input, output)) in seconds.iter_mut().zip([(len, 0), (0, len)]) {
                    let start = Instant::now();
                    slot.run(&self.core, input, 0..output, |_, _| Ok(()))?;
                    *best = best.min(start.elapsed().as_secs_f64());
                }
            }
            Ok((len as f64 / seconds[0], len as f64 / seconds[1]))
        })
    }

    /// Memory on the card for data that stay there.
    ///
    /// # Errors
    /// There is not so much, or the card was given up.
    pub fn allocate(&self, len: usize) -> Result<DeviceBuffer, Error> {
        DeviceBuffer::new(&self.core, len)
    }

    /// Memory on the card that another library has allocated in the primary context, to compute on
    /// without a copy. It is not freed.
    ///
    /// # Safety
    /// From `address`, a multiple of 16, on there are `len` bytes, rounded up to a multiple of 16,
    /// for as long as the result lives, and nobody else writes to them while it is used.
    pub unsafe fn borrow(&self, address: u64, len: usize) -> DeviceBuffer {
        // SAFETY: the caller's promise.
        unsafe { DeviceBuffer::borrowed(&self.core, address, len) }
    }
}
