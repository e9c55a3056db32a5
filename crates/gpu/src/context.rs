//! A card's context, and how it is waited for.

use std::ffi::{CStr, c_int};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::driver::{Attribute, Driver, Handle, NOT_READY, STREAM_NON_BLOCKING};
use crate::error::Error;

/// Properties of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// As the driver calls it.
    pub name: String,
    /// Compute capability: 9.0 is Hopper.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Their highest clock, in Hz.
    pub clock_hz: u64,
    /// Theoretical bandwidth of the card's memory, in bytes a second.
    pub memory_bytes_per_s: u64,
    /// Memory in bytes.
    pub memory: usize,
    /// The driver's number: 12010 is CUDA 12.1.
    pub driver: u32,
}

/// An open card's context. All owners of memory on the card keep it alive.
pub(crate) struct Core {
    pub(crate) driver: Driver,
    device: c_int,
    context: Handle,
    /// Idle streams.
    streams: Mutex<Vec<Handle>>,
    pub(crate) failed: OnceLock<Error>,
    hang_bound: Duration,
    /// The process that opened it.
    process: u32,
}

impl Core {
    /// With what the card is, and how many bytes of its memory are free.
    pub(crate) fn open(
        driver: Driver,
        hang_bound: Duration,
    ) -> Result<(Self, Properties, usize), Error> {
        let mut count = 0;
        // SAFETY: asks for a number.
        driver.check("cuDeviceGetCount", unsafe {
            (driver.device_count)(&mut count)
        })?;
        if count == 0 {
            return Err(Error::NoCard);
        }
        let (mut device, mut context) = (0, Handle::NULL);
        // SAFETY: both write one value to where they are told; there is a card 0.
        unsafe {
            driver.check("cuDeviceGet", (driver.device)(&mut device, 0))?;
            driver.check(
                "cuDevicePrimaryCtxRetain",
                (driver.retain_context)(&mut context, device),
            )?;
        }
        let core = Self {
            driver,
            device,
            context,
            streams: Mutex::new(Vec::new()),
            failed: OnceLock::new(),
            hang_bound,
            process: std::process::id(),
        };
        core.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current.
        core.driver.check("cuMemGetInfo", unsafe {
            (core.driver.memory_info)(&mut free, &mut total)
        })?;
        let properties = core.properties(total)?;
        Ok((core, properties, free))
    }

    fn properties(&self, memory: usize) -> Result<Properties, Error> {
        let mut name = [0; 256];
        let mut driver = 0;
        // SAFETY: the functions write at most 255 bytes to `name` and one number to `driver`.
        unsafe {
            let code = (self.driver.device_name)(name.as_mut_ptr(), 255, self.device);
            self.driver.check("cuDeviceGetName", code)?;
            let code = (self.driver.driver_version)(&mut driver);
            self.driver.check("cuDriverGetVersion", code)?;
        }
        // SAFETY: the last byte is zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        let ask = |attribute: Attribute| {
            let mut value = 0;
            // SAFETY: writes one number.
            let code =
                unsafe { (self.driver.attribute)(&mut value, attribute as c_int, self.device) };
            self.driver.check("cuDeviceGetAttribute", code)?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let memory_clock = 1000 * u64::from(ask(Attribute::MemoryClockKilohertz)?);
        Ok(Properties {
            name: name.to_string_lossy().into_owned(),
            capability: (
                ask(Attribute::CapabilityMajor)?,
                ask(Attribute::CapabilityMinor)?,
            ),
            multiprocessors: ask(Attribute::Multiprocessors)?,
            clock_hz: 1000 * u64::from(ask(Attribute::ClockKilohertz)?),
            // Two transfers a clock.
            memory_bytes_per_s: 2 * memory_clock * u64::from(ask(Attribute::MemoryBusBits)?) / 8,
            memory,
            driver: driver as u32,
        })
    }

    /// Makes the card's context that of this thread. Before every call.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        if std::process::id() != self.process {
            return Err(Error::Forked);
        }
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        // SAFETY: the context is retained as long as this lives.
        self.driver.check("cuCtxSetCurrent", unsafe {
            (self.driver.set_context)(self.context)
        })
    }

    /// From now on every call fails with the first such error, and nothing is freed: the card may
    /// still use it.
    pub(crate) fn give_up(&self, error: &Error) {
        if error.is_final() {
            let _ = self.failed.set(error.clone());
        }
    }

    /// Puts what `enqueue` calls on a stream, and waits until the card has done it.
    pub(crate) fn on_stream(
        &self,
        enqueue: impl FnOnce(&Self, Handle) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.enter()?;
        let stream = self.take_stream()?;
        // Waits even if enqueueing failed half-way: the work on the stream must end before its
        // memory is freed.
        let enqueued = enqueue(self, stream);
        let done = self.wait(stream).and(enqueued);
        match &done {
            Err(error) if error.is_final() => self.give_up(error),
            _ => self.idle_streams().push(stream),
        }
        done
    }

    fn take_stream(&self) -> Result<Handle, Error> {
        if let Some(stream) = self.idle_streams().pop() {
            return Ok(stream);
        }
        let mut stream = Handle::NULL;
        // SAFETY: the context is current.
        let code = unsafe { (self.driver.create_stream)(&mut stream, STREAM_NON_BLOCKING) };
        self.driver.check("cuStreamCreate", code)?;
        Ok(stream)
    }

    fn idle_streams(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a stream for a limited time: the driver's own wait cannot be ended.
    fn wait(&self, stream: Handle) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            // SAFETY: the stream is ours.
            match unsafe { (self.driver.query_stream)(stream) } {
                NOT_READY => {}
                code => return self.driver.check("cuStreamQuery", code),
            }
            let waited = start.elapsed();
            if waited > self.hang_bound {
                return Err(Error::Hung(self.hang_bound));
            }
            // Sleeping costs some fifty microseconds: short waits spin.
            if waited < Duration::from_micros(50) {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        for &stream in self.idle_streams().iter() {
            // SAFETY: the stream is idle, and no other owner is left.
            unsafe { (self.driver.destroy_stream)(stream) };
        }
        // SAFETY: retained once, and everything in it is freed: all that is keeps the core.
        unsafe { (self.driver.release_context)(self.device) };
    }
}
