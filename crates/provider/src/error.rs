//! Reports errors on OpenSSL's stack of errors.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr;

use crate::abi::{CoreHandle, Dispatch, Item, core_function};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a call failed. The numbers are those of the default provider (`openssl/proverr.h`),
        /// where it has one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Reason {
            /// The call fails and nothing is put on the stack, where the default provider puts
            /// nothing.
            Unsaid = 0,
            $($name = $number,)*
        }

        /// For `OSSL_FUNC_provider_get_reason_strings`.
        pub(crate) static REASONS: &[Item] = &[
            $(Item { id: $number, text: $text.as_ptr() },)*
            Item { id: 0, text: ptr::null() },
        ];
    };
}

reasons! {
    BadDecrypt = 100, c"bad decrypt";
    CipherOperationFailed = 102, c"cipher operation failed";
    FailedToGetParameter = 103, c"failed to get parameter";
    FailedToSetParameter = 104, c"failed to set parameter";
    InvalidKeyLength = 105, c"invalid key length";
    OutputBufferTooSmall = 106, c"output buffer too small";
    WrongFinalBlockLength = 107, c"wrong final block length";
    InvalidAad = 108, c"invalid aad";
    InvalidIvLength = 109, c"invalid iv length";
    InvalidTag = 110, c"invalid tag";
    NoKeySet = 114, c"no key set";
    TagNotSet = 119, c"tag not set";
    TooManyRecords = 126, c"too many records";
    Fault = 1000, c"a fault in Tabane";
    SimdSetting = 1001, c"TABANE_SIMD names no instruction set that this processor has";
}

type NewError = unsafe extern "C" fn(*const CoreHandle);
type SetErrorDebug = unsafe extern "C" fn(*const CoreHandle, *const c_char, c_int, *const c_char);
/// The last argument is a `va_list`, which on all our platforms is passed as a pointer. Without a
/// format it is not read.
type VsetError = unsafe extern "C" fn(*const CoreHandle, u32, *const c_char, *const c_void);

/// OpenSSL's functions for errors.
pub(crate) struct Errors {
    handle: *const CoreHandle,
    new: Option<NewError>,
    set_debug: Option<SetErrorDebug>,
    set: Option<VsetError>,
}

impl Errors {
    /// Finds OpenSSL's functions in its table.
    ///
    /// # Safety
    ///
    /// `core` is OpenSSL's table, and `handle` the handle that it gave along.
    pub(crate) unsafe fn new(handle: *const CoreHandle, core: *const Dispatch) -> Self {
        // SAFETY: the caller's promise. The functions have the types that their numbers say.
        unsafe {
            let find = |id| Dispatch::find(core, id);
            Self {
                handle,
                new: find(core_function::NEW_ERROR)
                    .map(|new| transmute::<*const c_void, NewError>(new)),
                set_debug: find(core_function::SET_ERROR_DEBUG)
                    .map(|set| transmute::<*const c_void, SetErrorDebug>(set)),
                set: find(core_function::VSET_ERROR)
                    .map(|set| transmute::<*const c_void, VsetError>(set)),
            }
        }
    }

    /// Puts a reason on the stack.
    #[cold]
    pub(crate) fn raise(&self, reason: Reason) {
        const FILE: &CStr = c"tabane";
        if reason == Reason::Unsaid {
            return;
        }
        if let (Some(new), Some(set_debug), Some(set)) = (self.new, self.set_debug, self.set) {
            // SAFETY: OpenSSL's functions with its handle, and constant strings.
            unsafe {
                new(self.handle);
                set_debug(self.handle, FILE.as_ptr(), 0, c"".as_ptr());
                set(self.handle, reason as u32, ptr::null(), ptr::null());
            }
        }
    }
}
