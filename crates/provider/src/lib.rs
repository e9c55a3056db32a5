//! An OpenSSL 3 provider over the kernels of `tabane-lanes`: programs that use OpenSSL hash and
//! encrypt with these kernels, without a changed line.
//!
//! OpenSSL loads the shared library that this crate makes (`tabane.so` where it is installed),
//! calls `OSSL_provider_init`, and asks for tables of functions. The crate contains no cipher or
//! hash: it translates OpenSSL's calls to calls of the kernels.
//!
//! * `abi`: the types and numbers that both sides know. No header of OpenSSL is needed to build
//!   this.
//! * `guard`: no panic crosses into C. `params`: named values in and out. `error`: OpenSSL's stack
//!   of errors.
//! * `settings`: what the configuration says.
//! * `digest`: the hashes. `cipher`: AES, with `tls_cbc` for the records of TLS up to 1.2, and
//!   `pipeline` for several messages in one call.
//! * `together`: `work` of several callers, done in one `bundle`: of `jobs` of one thread, of
//!   `threads` of one program, or of several programs by a service (`offload`).
//!
//! Only contexts keep state between calls, so that `fork` and unloading need no care.

pub mod abi;
mod bundle;
mod cipher;
mod digest;
mod error;
mod guard;
mod jobs;
mod offload;
mod params;
mod settings;
mod threads;
mod together;
mod work;

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use abi::{CoreHandle, Dispatch, Item, Param, operation, provider_function as function};
use error::{Errors, REASONS, Reason};
use guard::{guarded, succeeds};
use settings::{Report, Settings};

/// The property for fetches: `provider=tabane`.
const PROPERTIES: &CStr = c"provider=tabane";

/// The provider's context, made by [`OSSL_provider_init`] and passed to every function of the
/// provider.
struct Provider {
    errors: Errors,
    report: Option<Report>,
    digests: Vec<abi::Algorithm>,
    ciphers: Vec<abi::Algorithm>,
}

static FUNCTIONS: [Dispatch; 6] = [
    Dispatch::new(function::TEARDOWN, teardown as *const c_void),
    Dispatch::new(function::GETTABLE_PARAMS, gettable_params as *const c_void),
    Dispatch::new(function::GET_PARAMS, get_params as *const c_void),
    Dispatch::new(function::QUERY_OPERATION, query_operation as *const c_void),
    Dispatch::new(
        function::GET_REASON_STRINGS,
        reason_strings as *const c_void,
    ),
    Dispatch::END,
];

static GETTABLE: [Param; 4] = [
    Param::text(c"name"),
    Param::text(c"version"),
    Param::uint(c"status"),
    Param::END,
];

/// The entry point for OpenSSL: fills in the table of functions and their context. Returns 1, or 0
/// if the provider cannot work here.
///
/// # Safety
///
/// As `provider-base(7)` says: `core` is OpenSSL's table of functions, which take `handle`;
/// `functions` and `context` are writable for a pointer each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const CoreHandle,
    core: *const Dispatch,
    functions: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    succeeds(|| {
        // SAFETY: the caller's promise.
        let errors = unsafe { Errors::new(handle, core) };
        if tabane_lanes::Backend::forced().is_err() {
            errors.raise(Reason::SimdSetting);
            return false;
        }
        // SAFETY: the caller's promise.
        let settings = unsafe { Settings::read(handle, core) };
        // SAFETY: the caller's promise.
        if let Some(function) = unsafe { Dispatch::find(core, abi::core_function::GET_PARAMS) } {
            jobs::find(function);
        }
        offload::find(settings.offload);
        let provider = Box::new(Provider {
            errors,
            report: settings.report,
            digests: digest::offered(settings.hashes),
            ciphers: cipher::offered(),
        });
        // SAFETY: the caller's promise.
        unsafe {
            functions.write(FUNCTIONS.as_ptr());
            context.write(Box::into_raw(provider).cast());
        }
        true
    })
}

/// # Safety
///
/// `provider` is of [`OSSL_provider_init`] and is not used afterwards.
unsafe extern "C" fn teardown(provider: *mut Provider) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(provider) });
}

extern "C" fn gettable_params(_provider: *const Provider) -> *const c_void {
    params::table(&GETTABLE)
}

extern "C" fn reason_strings(_provider: *const Provider) -> *const Item {
    REASONS.as_ptr()
}

/// # Safety
///
/// As [`params::each`].
unsafe extern "C" fn get_params(_provider: *const Provider, params: *mut Param) -> c_int {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => unreachable!(),
        };
    succeeds(|| {
        // SAFETY: the caller's promise.
        unsafe { params::each(params) }.all(|(key, param)| match key.to_bytes() {
            b"name" => param.set_text(c"Tabane"),
            b"version" => param.set_text(VERSION),
            b"status" => param.set_number(1),
            _ => true,
        })
    })
}

/// # Safety
///
/// `provider` is of [`OSSL_provider_init`]; `no_cache` is writable for a number.
unsafe extern "C" fn query_operation(
    provider: *const Provider,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const abi::Algorithm {
    guarded(ptr::null(), || {
        // SAFETY: the caller's promise.
        let provider = unsafe {
            no_cache.write(0);
            &*provider
        };
        match operation {
            operation::DIGEST => provider.digests.as_ptr(),
            operation::CIPHER => provider.ciphers.as_ptr(),
            _ => ptr::null(),
        }
    })
}
