//! Hashes (`provider-digest(7)`).
//!
//! A context is a [`Hasher`], which begins anew with each `init`.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use tabane_lanes::{Algorithm, Backend, Hasher, hash_one};

use crate::abi::{self, Dispatch, Param, digest_function as function, param_type};
use crate::guard::{bytes, guarded, succeeds};
use crate::{Provider, jobs, params, together};

/// Description of a hash for OpenSSL.
struct Offer {
    algorithm: Algorithm,
    /// Names of the default provider: a name of two algorithms would confuse OpenSSL.
    names: &'static CStr,
    /// Whether the parameters of its `AlgorithmIdentifier` are left out. For MD5 they are a null.
    algid_absent: bool,
}

static OFFERS: [Offer; 6] = [
    Offer {
        algorithm: Algorithm::Md5,
        names: c"MD5:SSL3-MD5:1.2.840.113549.2.5",
        algid_absent: false,
    },
    Offer {
        algorithm: Algorithm::Sha1,
        names: c"SHA1:SHA-1:SSL3-SHA1:1.3.14.3.2.26",
        algid_absent: true,
    },
    Offer {
        algorithm: Algorithm::Sha224,
        names: c"SHA2-224:SHA-224:SHA224:2.16.840.1.101.3.4.2.4",
        algid_absent: true,
    },
    Offer {
        algorithm: Algorithm::Sha256,
        names: c"SHA2-256:SHA-256:SHA256:2.16.840.1.101.3.4.2.1",
        algid_absent: true,
    },
    Offer {
        algorithm: Algorithm::Sha384,
        names: c"SHA2-384:SHA-384:SHA384:2.16.840.1.101.3.4.2.2",
        algid_absent: true,
    },
    Offer {
        algorithm: Algorithm::Sha512,
        names: c"SHA2-512:SHA-512:SHA512:2.16.840.1.101.3.4.2.3",
        algid_absent: true,
    },
];

/// Which of [`OFFERS`] takes the master secret of SSL 3.0.
const SHA1: usize = 1;

type Table = [Dispatch; 12];

static TABLES: [Table; OFFERS.len()] = [
    dispatch::<0>(),
    dispatch::<1>(),
    dispatch::<2>(),
    dispatch::<3>(),
    dispatch::<4>(),
    dispatch::<5>(),
];

static GETTABLE: [Param; 5] = [
    Param::size(c"blocksize"),
    Param::size(c"size"),
    Param::int(c"xof"),
    Param::int(c"algid-absent"),
    Param::END,
];

/// The hashes for `OSSL_FUNC_provider_query_operation`: all of them if they are wanted, else those
/// of which one message takes no longer than with the default provider.
///
/// A hash of one message is a chain of steps, in which all implementations wait for the same
/// instructions. OpenSSL's assembly for SHA-512 waits a tenth less than our code does, and so does
/// that for SHA-1 and SHA-256 where there are no instructions for these.
pub(crate) fn offered(all: bool) -> Vec<abi::Algorithm> {
    let has_instructions = |algorithm| {
        [Backend::ShaNi, Backend::ArmCe, Backend::ArmSha512]
            .into_iter()
            .filter(|&backend| match Backend::forced() {
                Ok(forced) => forced.is_none_or(|forced| forced == backend),
                Err(_) => false,
            })
            .any(|backend| backend.is_available() && backend.supports(algorithm))
    };
    let offers = OFFERS
        .iter()
        .zip(&TABLES)
        .filter(|(offer, _)| match offer.algorithm {
            _ if all => true,
            Algorithm::Md5 => true,
            algorithm => has_instructions(algorithm),
        })
        .map(|(offer, table)| abi::Algorithm {
            names: offer.names.as_ptr(),
            properties: crate::PROPERTIES.as_ptr(),
            implementation: table.as_ptr(),
            // OpenSSL then describes it by its name, as it does with the default provider's.
            description: ptr::null(),
        });
    offers.chain([abi::Algorithm::END]).collect()
}

static SETTABLE: [Param; 2] = [Param::octet_string(c"ssl3-ms"), Param::END];

const fn dispatch<const OFFER: usize>() -> Table {
    let (set_params, settable_params) = if OFFER == SHA1 {
        let (set, settable) = (
            set_params as *const c_void,
            settable_params as *const c_void,
        );
        (
            Dispatch::new(function::SET_CTX_PARAMS, set),
            Dispatch::new(function::SETTABLE_CTX_PARAMS, settable),
        )
    } else {
        (Dispatch::END, Dispatch::END)
    };
    [
        Dispatch::new(function::NEWCTX, newctx::<OFFER> as *const c_void),
        Dispatch::new(function::INIT, init::<OFFER> as *const c_void),
        Dispatch::new(function::UPDATE, update as *const c_void),
        Dispatch::new(function::FINAL, finish as *const c_void),
        Dispatch::new(function::DIGEST, digest::<OFFER> as *const c_void),
        Dispatch::new(function::FREECTX, freectx as *const c_void),
        Dispatch::new(function::DUPCTX, dupctx as *const c_void),
        Dispatch::new(function::GET_PARAMS, get_params::<OFFER> as *const c_void),
        Dispatch::new(function::GETTABLE_PARAMS, gettable_params as *const c_void),
        set_params,
        settable_params,
        Dispatch::END,
    ]
}

/// # Safety
///
/// `provider` is of [`crate::OSSL_provider_init`].
unsafe extern "C" fn newctx<const OFFER: usize>(provider: *const Provider) -> *mut Hasher {
    guarded(ptr::null_mut(), || {
        let offer = &OFFERS[OFFER];
        // SAFETY: the caller's promise.
        if let Some(report) = unsafe { &(*provider).report } {
            // Ciphers have the numbers below.
            report.used(16 + OFFER, offer.names);
        }
        // Written in its final place: a copy would take longer than hashing a short message.
        let place = Box::new_uninit();
        Box::into_raw(Box::write(place, Hasher::new(offer.algorithm)))
    })
}

/// # Safety
///
/// `context` is of [`newctx`] or [`dupctx`], and is not used afterwards.
unsafe extern "C" fn freectx(context: *mut Hasher) {
    if !context.is_null() {
        jobs::forget(context.cast(), size_of::<Hasher>());
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(context) });
    }
}

/// # Safety
///
/// `context` is null or of [`newctx`] or [`dupctx`].
unsafe extern "C" fn dupctx(context: *const Hasher) -> *mut Hasher {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        unsafe { context.as_ref() }.map_or(ptr::null_mut(), |context| {
            Box::into_raw(Box::new(context.clone()))
        })
    })
}

/// # Safety
///
/// As [`dupctx`], and no other call uses `context` now; `params` as for [`params::each`].
unsafe extern "C" fn init<const OFFER: usize>(context: *mut Hasher, params: *mut Param) -> c_int {
    succeeds(|| {
        // SAFETY: the caller's promise.
        let Some(context) = (unsafe { context.as_mut() }) else {
            return false;
        };
        context.reset();
        // SAFETY: the caller's promise.
        OFFER != SHA1 || params.is_null() || unsafe { set_params(context, params) } == 1
    })
}

/// # Safety
///
/// As [`init`].
unsafe extern "C" fn set_params(context: *mut Hasher, params: *mut Param) -> c_int {
    succeeds(|| {
        // SAFETY: the caller's promise.
        let (context, mut params) = unsafe { (context.as_mut(), params::each(params)) };
        let Some(context) = context else {
            return false;
        };
        params.all(|(key, param)| {
            key != c"ssl3-ms"
                || param.data_type != param_type::OCTET_STRING
                || param
                    .octets()
                    .is_some_and(|secret| finish_handshake(context, secret))
        })
    })
}

extern "C" fn settable_params(_context: *const Hasher, _provider: *mut c_void) -> *const c_void {
    params::table(&SETTABLE)
}

/// Makes the messages of a handshake of SSL 3.0 that were hashed so far, and its master secret, the
/// hash that RFC 6101 (5.6.8) asks for: `SHA1(secret, pad_2, SHA1(messages, secret, pad_1))`. False
/// if it is no such secret.
fn finish_handshake(messages: &mut Hasher, secret: &[u8]) -> bool {
    const SECRET_BYTES: usize = 48;
    const PAD_BYTES: usize = 40;
    if secret.len() != SECRET_BYTES {
        return false;
    }
    messages.update(secret);
    messages.update(&[0x36; PAD_BYTES]);
    let inner = messages.finish_last();
    messages.reset();
    messages.update(secret);
    messages.update(&[0x5c; PAD_BYTES]);
    messages.update(inner.as_bytes());
    true
}

/// # Safety
///
/// As [`init`], and `data` is readable for `length` bytes.
unsafe extern "C" fn update(context: *mut Hasher, data: *const u8, length: usize) -> c_int {
    succeeds(|| {
        // SAFETY: the caller's promise.
        let (context, data) = unsafe { (context.as_mut(), bytes(data, length)) };
        let Some(context) = context else {
            return false;
        };
        together::update(context, data).is_ok()
    })
}

/// # Safety
///
/// As [`init`]; `to` is writable for `size` bytes, and `length` for a number.
unsafe extern "C" fn finish(
    context: *mut Hasher,
    to: *mut u8,
    length: *mut usize,
    size: usize,
) -> c_int {
    succeeds(|| {
        // SAFETY: the caller's promise.
        let Some(context) = (unsafe { context.as_mut() }) else {
            return false;
        };
        if size < context.algorithm().digest_len() {
            return false;
        }
        // SAFETY: the caller's promise, and it fits.
        unsafe { write(context.finish_last().as_bytes(), to, length) };
        true
    })
}

/// # Safety
///
/// `data` is readable for `data_length` bytes, `to` is writable for `size` bytes, and `length` for
/// a number.
unsafe extern "C" fn digest<const OFFER: usize>(
    _provider: *mut c_void,
    data: *const u8,
    data_length: usize,
    to: *mut u8,
    length: *mut usize,
    size: usize,
) -> c_int {
    succeeds(|| {
        let algorithm = OFFERS[OFFER].algorithm;
        if size < algorithm.digest_len() {
            return false;
        }
        // SAFETY: the caller's promise, and it fits.
        unsafe {
            write(
                hash_one(algorithm, bytes(data, data_length)).as_bytes(),
                to,
                length,
            )
        };
        true
    })
}

/// # Safety
///
/// `to` is writable for the digest, and `length` for a number.
unsafe fn write(digest: &[u8], to: *mut u8, length: *mut usize) {
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(digest.as_ptr(), digest.len());
        length.write(digest.len());
    }
}

/// # Safety
///
/// As [`params::each`].
unsafe extern "C" fn get_params<const OFFER: usize>(params: *mut Param) -> c_int {
    succeeds(|| {
        let offer = &OFFERS[OFFER];
        // SAFETY: the caller's promise.
        unsafe { params::each(params) }.all(|(key, param)| match key.to_bytes() {
            b"blocksize" => param.set_number(offer.algorithm.block_len() as u64),
            b"size" => param.set_number(offer.algorithm.digest_len() as u64),
            b"xof" => param.set_number(0),
            b"algid-absent" => param.set_number(u64::from(offer.algid_absent)),
            _ => true,
        })
    })
}

extern "C" fn gettable_params(_provider: *mut c_void) -> *const c_void {
    params::table(&GETTABLE)
}
