//! The driver of the cards, `libcuda.so.1`, loaded at run time.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

use libloading::Library;

use crate::error::Error;

/// The oldest driver that takes our PTX, in its own numbering: CUDA 11.8, which came with version
/// 520.
const OLDEST_DRIVER: c_int = 11080;

/// `CU_CTX_MAP_HOST` and its kin are not needed: the primary context has the flags that others gave
/// it.
pub(crate) const HOST_ALLOC_PORTABLE: c_uint = 1;
/// A stream that does not wait for the default one.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
/// The answer to a query of a stream that still works.
pub(crate) const NOT_READY: c_int = 600;

/// Attributes of a card, as in `CUdevice_attribute`.
#[derive(Clone, Copy)]
pub(crate) enum Attribute {
    ClockKilohertz = 13,
    Multiprocessors = 16,
    MemoryClockKilohertz = 36,
    MemoryBusBits = 37,
    CapabilityMajor = 75,
    CapabilityMinor = 76,
}

/// An object of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) *mut c_void);

// SAFETY: a name for something of the driver's, which takes calls from any thread.
unsafe impl Send for Handle {}
// SAFETY: the driver lets several threads use one handle at a time.
unsafe impl Sync for Handle {}

impl Handle {
    pub(crate) const NULL: Handle = Handle(std::ptr::null_mut());
}

/// An address in a card's memory.
pub(crate) type Address = u64;

/// Declares the functions that are used: a field and a symbol for each.
macro_rules! functions {
    ($($name:ident $symbol:literal ($($argument:ty),*);)*) => {
        /// The functions of the driver. Each returns 0 or an error.
        pub(crate) struct Driver {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Driver {
            /// Looks everything up.
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    $(
                        // SAFETY: the types are those of cuda.h.
                        $name: unsafe { *library.get(concat!($symbol, "\0").as_bytes())? },
                    )*
                })
            }
        }
    };
}

functions! {
    init "cuInit" (c_uint);
    driver_version "cuDriverGetVersion" (*mut c_int);
    error_string "cuGetErrorString" (c_int, *mut *const c_char);
    device_count "cuDeviceGetCount" (*mut c_int);
    device "cuDeviceGet" (*mut c_int, c_int);
    device_name "cuDeviceGetName" (*mut c_char, c_int, c_int);
    attribute "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    retain_context "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    release_context "cuDevicePrimaryCtxRelease_v2" (c_int);
    set_context "cuCtxSetCurrent" (Handle);
    memory_info "cuMemGetInfo_v2" (*mut usize, *mut usize);
    load_module "cuModuleLoadDataEx" (*mut Handle, *const c_void, c_uint, *mut c_int,
        *mut *mut c_void);
    function "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    allocate "cuMemAlloc_v2" (*mut Address, usize);
    free "cuMemFree_v2" (Address);
    allocate_host "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    free_host "cuMemFreeHost" (*mut c_void);
    copy_in "cuMemcpyHtoDAsync_v2" (Address, *const c_void, usize, Handle);
    copy_out "cuMemcpyDtoHAsync_v2" (*mut c_void, Address, usize, Handle);
    fill "cuMemsetD8Async" (Address, u8, usize, Handle);
    create_stream "cuStreamCreate" (*mut Handle, c_uint);
    destroy_stream "cuStreamDestroy_v2" (Handle);
    query_stream "cuStreamQuery" (Handle);
    launch "cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
            *mut *mut c_void
    );
}

impl Driver {
    /// Loads the driver, and has it look for cards.
    pub(crate) fn load(library: &Path) -> Result<Self, Error> {
        // SAFETY: the driver is made to be loaded by any program.
        let library =
            unsafe { Library::new(library) }.map_err(|error| Error::NoDriver(error.to_string()))?;
        // A driver has threads and exit handlers of its own, so that it must stay.
        let library: &'static Library = Box::leak(Box::new(library));
        let driver = Self::of(library).map_err(|error| Error::NoDriver(error.to_string()))?;
        let mut version = 0;
        // SAFETY: asks for a number, before everything else.
        driver.check("cuDriverGetVersion", unsafe {
            (driver.driver_version)(&mut version)
        })?;
        if version < OLDEST_DRIVER {
            return Err(Error::DriverTooOld(version));
        }
        // SAFETY: takes flags, of which there are none.
        driver.check("cuInit", unsafe { (driver.init)(0) })?;
        Ok(driver)
    }

    /// Makes an error of what a function has returned.
    pub(crate) fn check(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        match code {
            0 => Ok(()),
            2 => Err(Error::OutOfMemory),
            100 | 999 if call == "cuInit" => Err(Error::NoCard),
            100 => Err(Error::NoCard),
            // A driver for another version of the kernel's module, as after an upgrade without a
            // restart.
            803 | 804 => Err(Error::NoDriver(self.describe(code))),
            209 | 218 | 222 => Err(Error::Ptx(self.describe(code))),
            214 => Err(Error::Ecc),
            _ => Err(Error::Driver(call, code, self.describe(code))),
        }
    }

    /// The driver's own words.
    fn describe(&self, code: c_int) -> String {
        let mut text = std::ptr::null();
        // SAFETY: gives a constant string, or leaves the pointer null for a code that it does not
        // know.
        unsafe {
            (self.error_string)(code, &mut text);
            if text.is_null() {
                format!("error {code}")
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        }
    }
}
