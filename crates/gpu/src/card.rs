//! One card: its context, its kernels, and how it is waited for.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::driver::{Attribute, Driver, Handle, NOT_READY, STREAM_NON_BLOCKING};
use crate::error::Error;
use crate::hash::{Algorithm, HashKernels};
use crate::known_answers;
use crate::memory::DeviceBuffer;
use crate::staging::Ring;

/// How to open a card.
#[derive(Clone, Debug)]
pub struct Options {
    /// A card that has not answered for so long is given up.
    pub hang_bound: Duration,
    /// Staging memory, in bytes, on the card and as much of the machine's. There may be less if others have taken most of the card's.
    pub staging: usize,
}

impl Default for Options {
    /// Ten seconds; 128 MiB.
    fn default() -> Self {
        Self {
            hang_bound: Duration::from_secs(10),
            staging: 128 << 20,
        }
    }
}

/// What a card is.
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
    /// What its memory could give at most, in bytes a second.
    pub memory_bytes_per_s: u64,
    /// Memory in bytes.
    pub memory: usize,
    /// The driver's number: 12010 is CUDA 12.1.
    pub driver: u32,
}

/// A card that is open, and has computed known messages rightly. Any number of threads may use it at a time.
pub struct Card {
    pub(crate) core: Arc<Core>,
    pub(crate) ring: Ring,
    pub(crate) hash_kernels: HashKernels,
    /// Loaded when a key is first made.
    pub(crate) aes: OnceLock<Result<crate::aes::Kernels, Error>>,
    properties: Properties,
}

impl Card {
    /// Opens the first card of the machine.
    ///
    /// The driver compiles the kernels for it, which takes seconds the first time, and is kept by the driver for the next.
    ///
    /// # Errors
    /// There is no driver or card, or it is of no use: the error says why.
    pub fn open(options: &Options) -> Result<Self, Error> {
        Self::open_with(Path::new("libcuda.so.1"), options)
    }

    /// The same with a driver that is elsewhere.
    ///
    /// # Errors
    /// As [`Card::open`].
    pub fn open_with(driver: &Path, options: &Options) -> Result<Self, Error> {
        let (core, properties, free) = Core::open(Driver::load(driver)?, options.hang_bound)?;
        let core = Arc::new(core);
        let hash_kernels = HashKernels::load(&core)?;
        let ring = Ring::new(&core, options.staging.min(free / 4), free)?;
        let card = Self {
            core,
            ring,
            hash_kernels,
            aes: OnceLock::new(),
            properties,
        };
        known_answers::hashes(&card).inspect_err(|error| card.core.give_up(error))?;
        Ok(card)
    }

    /// What the card is.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Why the card was given up, if it was.
    pub fn failure(&self) -> Option<Error> {
        self.core.failed.get().cloned()
    }

    /// Gives the card up, since a digest of it was wrong; returns that as an error.
    pub fn distrust(&self, algorithm: Algorithm) -> Error {
        let error = Error::WrongAnswer(algorithm.name());
        self.core.give_up(&error);
        error
    }

    /// The speed of the card's bus, from and to locked memory of the machine, in bytes a second: the best of four times.
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

    /// Memory on the card that another library has allocated in the primary context, to compute on without a copy. It is not freed.
    ///
    /// # Safety
    /// From `address`, a multiple of 16, on there are `len` bytes, rounded up to a multiple of 16, for as long as the result lives,
    /// and nobody else writes to them while it is used.
    pub unsafe fn borrow(&self, address: u64, len: usize) -> DeviceBuffer {
        // SAFETY: the caller's promise.
        unsafe { DeviceBuffer::borrowed(&self.core, address, len) }
    }
}

/// What everything on a card needs. Kept by all that has memory there.
pub(crate) struct Core {
    pub(crate) driver: Driver,
    device: c_int,
    context: Handle,
    /// Streams that nobody uses now.
    streams: Mutex<Vec<Handle>>,
    failed: OnceLock<Error>,
    hang_bound: Duration,
    /// The process that opened it.
    process: u32,
}

impl Core {
    /// With what the card is, and how many bytes of its memory are free.
    fn open(driver: Driver, hang_bound: Duration) -> Result<(Self, Properties, usize), Error> {
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
        // SAFETY: they write no more than they are told there is room for.
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

    /// From now on every call fails with the first such error, and nothing is freed: the card may still use it.
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
        // What is on a stream has to end before its memory goes, also when not all of it could be put there.
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

    /// Waits for a stream, but not for ever: the driver's own waiting cannot be ended.
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
            // Sleeping costs some fifty microseconds: what is done soon is waited for awake.
            if waited < Duration::from_micros(50) {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
    }

    /// Has the driver compile PTX for this card.
    pub(crate) fn load_module(&self, ptx: &str) -> Result<Module<'_>, Error> {
        self.enter()?;
        let text = CString::new(ptx).expect("PTX has no zero bytes");
        let mut module = Handle::NULL;
        // SAFETY: a text that ends with zero, no options. Modules go with the context.
        let code = unsafe {
            let none = std::ptr::null_mut();
            (self.driver.load_module)(&mut module, text.as_ptr().cast(), 0, none, none.cast())
        };
        self.driver.check("cuModuleLoadDataEx", code)?;
        Ok(Module { core: self, module })
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        for &stream in self.idle_streams().iter() {
            // SAFETY: nobody uses it.
            unsafe { (self.driver.destroy_stream)(stream) };
        }
        // SAFETY: retained once, and everything in it is freed: all that is keeps the core.
        unsafe { (self.driver.release_context)(self.device) };
    }
}

/// Kernels that are loaded.
pub(crate) struct Module<'c> {
    core: &'c Core,
    module: Handle,
}

impl Module<'_> {
    pub(crate) fn kernel(&self, name: &str, threads: u32) -> Result<Kernel, Error> {
        let text = CString::new(name).expect("names have no zero bytes");
        let mut function = Handle::NULL;
        // SAFETY: the module is loaded, the name ends with zero.
        let code =
            unsafe { (self.core.driver.function)(&mut function, self.module, text.as_ptr()) };
        self.core.driver.check("cuModuleGetFunction", code)?;
        Ok(Kernel { function, threads })
    }
}

/// A kernel, and with how many threads a block it is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    function: Handle,
    pub(crate) threads: u32,
}

impl Kernel {
    /// Starts `blocks` blocks on a stream.
    ///
    /// # Safety
    /// The arguments are those of the kernel, in its order, and what they point to on the card is there until the stream is done.
    pub(crate) unsafe fn launch<const N: usize>(
        self,
        core: &Core,
        stream: Handle,
        blocks: u32,
        arguments: [&dyn Argument; N],
    ) -> Result<(), Error> {
        let mut pointers = arguments.map(|argument| argument.address().cast_mut());
        let (threads, none) = (self.threads as c_uint, std::ptr::null_mut());
        // SAFETY: the caller's promise; arguments are copied by the call.
        let code = unsafe {
            (core.driver.launch)(
                self.function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream,
                pointers.as_mut_ptr(),
                none,
            )
        };
        core.driver.check("cuLaunchKernel", code)
    }
}

/// What can be an argument of a kernel: addresses and numbers.
pub(crate) trait Argument {
    fn address(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}

impl Argument for u64 {}
impl Argument for u32 {}
