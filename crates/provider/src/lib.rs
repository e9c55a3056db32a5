//! An OpenSSL 3 provider over the kernels of `tabane-lanes`: programs that use OpenSSL hash and encrypt with them, with
//! no line changed.
//!
//! OpenSSL loads the shared library that this crate makes (`tabane.so` where it is installed), calls
//! `OSSL_provider_init`, and asks for tables of functions. Nothing here is a cipher or a hash of its own: this crate
//! translates OpenSSL's calls to those of the kernels.
//!
//! * `abi`: the types and numbers that both sides know. No header of OpenSSL is needed to build this.
//! * `guard`: no panic crosses into C. `params`: named values in and out. `digest`: the hashes.
//!
//! Nothing is kept between calls but what is in contexts, so that threads, `fork` and unloading need no care.

pub mod abi;
mod digest;
mod guard;
mod params;

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use abi::{CoreHandle, Dispatch, Param, operation, provider_function as function};
use guard::{guarded, succeeds};

/// What a fetch can ask for: `provider=tabane`.
const PROPERTIES: &CStr = c"provider=tabane";

/// What [`OSSL_provider_init`] makes, and every function of the provider gets.
struct Provider {
    digests: Vec<abi::Algorithm>,
}

static FUNCTIONS: [Dispatch; 5] = {
    const fn entry(id: c_int, function: *const c_void) -> Dispatch {
        Dispatch { id, function }
    }
    [
        entry(function::TEARDOWN, teardown as *const c_void),
        entry(function::GETTABLE_PARAMS, gettable_params as *const c_void),
        entry(function::GET_PARAMS, get_params as *const c_void),
        entry(function::QUERY_OPERATION, query_operation as *const c_void),
        Dispatch::END,
    ]
};

static GETTABLE: [Param; 4] = [
    Param::text(c"name"),
    Param::text(c"version"),
    Param::uint(c"status"),
    Param::END,
];

/// Where OpenSSL begins: fills in the table of functions and the context that they get. Returns 1, or 0 if the provider
/// cannot work here.
///
/// # Safety
///
/// As `provider-base(7)` says: `functions` and `context` are writable for a pointer each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OSSL_provider_init(
    _handle: *const CoreHandle,
    _core: *const Dispatch,
    functions: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    succeeds(|| {
        if tabane_lanes::Backend::forced().is_err() {
            return false;
        }
        let provider = Box::new(Provider {
            digests: digest::offered(),
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
            _ => ptr::null(),
        }
    })
}
