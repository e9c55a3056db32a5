//! Kernels: how they are loaded and started.

use std::ffi::{CString, c_uint, c_void};

use crate::context::Core;
use crate::driver::Handle;
use crate::error::Error;

impl Core {
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
    /// The arguments match the kernel's parameters in number, order and type, and the card's memory
    /// behind addresses stays allocated until the stream is done.
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

/// Types of arguments of kernels: addresses and numbers.
pub(crate) trait Argument {
    fn address(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}

impl Argument for u64 {}
impl Argument for u32 {}
