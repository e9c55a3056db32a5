//! Ciphers (`provider-cipher(7)`).

mod block;
mod gcm;
mod pipeline;
mod tls_cbc;

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use tabane_lanes::aes::{Backend, InOut};

use crate::abi::{self, Dispatch, Param, cipher_function as function};
use crate::error::Reason;
use crate::guard::{bytes, guarded, succeeds};
use crate::{Provider, jobs, params};
use block::BlockCipher;
use gcm::GcmCipher;

/// Modes, by OpenSSL's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Ecb = 1,
    Cbc = 2,
    Ctr = 5,
    Gcm = 6,
}

/// Description of a cipher for OpenSSL.
struct Offer {
    mode: Mode,
    /// Bytes in a key.
    key_len: usize,
    /// Names of the default provider.
    names: &'static CStr,
}

impl Offer {
    const fn new(mode: Mode, key_len: usize, names: &'static CStr) -> Self {
        Self {
            mode,
            key_len,
            names,
        }
    }

    /// As callers see it: 1 where a message may have any length.
    fn block_len(&self) -> usize {
        match self.mode {
            Mode::Ecb | Mode::Cbc => 16,
            Mode::Ctr | Mode::Gcm => 1,
        }
    }

    fn iv_len(&self) -> usize {
        match self.mode {
            Mode::Ecb => 0,
            Mode::Cbc | Mode::Ctr => 16,
            Mode::Gcm => 12,
        }
    }
}

#[rustfmt::skip]
static OFFERS: [Offer; 12] = [
    Offer::new(Mode::Ecb, 16, c"AES-128-ECB:2.16.840.1.101.3.4.1.1"),
    Offer::new(Mode::Ecb, 24, c"AES-192-ECB:2.16.840.1.101.3.4.1.21"),
    Offer::new(Mode::Ecb, 32, c"AES-256-ECB:2.16.840.1.101.3.4.1.41"),
    Offer::new(Mode::Cbc, 16, c"AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2"),
    Offer::new(Mode::Cbc, 24, c"AES-192-CBC:AES192:2.16.840.1.101.3.4.1.22"),
    Offer::new(Mode::Cbc, 32, c"AES-256-CBC:AES256:2.16.840.1.101.3.4.1.42"),
    Offer::new(Mode::Ctr, 16, c"AES-128-CTR"),
    Offer::new(Mode::Ctr, 24, c"AES-192-CTR"),
    Offer::new(Mode::Ctr, 32, c"AES-256-CTR"),
    Offer::new(Mode::Gcm, 16, c"AES-128-GCM:id-aes128-GCM:2.16.840.1.101.3.4.1.6"),
    Offer::new(Mode::Gcm, 24, c"AES-192-GCM:id-aes192-GCM:2.16.840.1.101.3.4.1.26"),
    Offer::new(Mode::Gcm, 32, c"AES-256-GCM:id-aes256-GCM:2.16.840.1.101.3.4.1.46"),
];

type Table = [Dispatch; 19];

static TABLES: [Table; OFFERS.len()] = [
    dispatch::<BlockCipher, 0>(),
    dispatch::<BlockCipher, 1>(),
    dispatch::<BlockCipher, 2>(),
    dispatch::<BlockCipher, 3>(),
    dispatch::<BlockCipher, 4>(),
    dispatch::<BlockCipher, 5>(),
    dispatch::<BlockCipher, 6>(),
    dispatch::<BlockCipher, 7>(),
    dispatch::<BlockCipher, 8>(),
    dispatch::<GcmCipher, 9>(),
    dispatch::<GcmCipher, 10>(),
    dispatch::<GcmCipher, 11>(),
];

static GETTABLE: [Param; 10] = [
    Param::uint(c"mode"),
    Param::size(c"keylen"),
    Param::size(c"ivlen"),
    Param::size(c"blocksize"),
    Param::int(c"aead"),
    Param::int(c"custom-iv"),
    Param::int(c"cts"),
    Param::int(c"tls-multi"),
    Param::int(c"has-randkey"),
    Param::END,
];

/// The ciphers for `OSSL_FUNC_provider_query_operation`: none without AES instructions, where
/// OpenSSL's own assembly is faster than portable code.
pub(crate) fn offered() -> Vec<abi::Algorithm> {
    let fast = Backend::fastest() > Backend::Portable;
    let offers = OFFERS.iter().zip(&TABLES).filter(|_| fast);
    let offers = offers.map(|(offer, table)| abi::Algorithm {
        names: offer.names.as_ptr(),
        properties: crate::PROPERTIES.as_ptr(),
        implementation: table.as_ptr(),
        // OpenSSL then describes it by its name, as it does with the default provider's.
        description: ptr::null(),
    });
    offers.chain([abi::Algorithm::END]).collect()
}

/// A cipher with what has come so far. Copies go on by themselves.
trait Cipher: Clone {
    /// Parameters that a context can report.
    const GETTABLE: &'static [Param];
    /// Parameters that can be set.
    const SETTABLE: &'static [Param];

    /// Without a key.
    fn new(offer: &'static Offer) -> Self;

    /// Begins a message. Omitted arguments keep their values.
    fn init(&mut self, encrypt: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Reason>;

    /// The next bytes. Returns how many were written.
    ///
    /// # Safety
    ///
    /// As [`Call`] says.
    unsafe fn update(&mut self, call: Call) -> Result<usize, Reason>;

    /// The next bytes of several messages, and for each how many were written.
    ///
    /// # Safety
    ///
    /// As [`Call`] says, and no place of a call overlaps one of another.
    unsafe fn update_all(
        pipes: &mut [Self],
        calls: &[Call],
        written: &mut [usize],
    ) -> Result<(), Reason> {
        // SAFETY: the caller's promise.
        unsafe { update_each(pipes, calls, written) }
    }

    /// The message ends. Returns how many bytes were written.
    ///
    /// # Safety
    ///
    /// `to` is writable for `room` bytes.
    unsafe fn finish(&mut self, to: *mut u8, room: usize) -> Result<usize, Reason>;

    /// The cipher without buffering and padding; null as the input ends the message.
    ///
    /// # Safety
    ///
    /// As [`Call`] says.
    unsafe fn raw(&mut self, call: Call) -> Result<usize, Reason>;

    /// Answers a question. Unknown ones are left alone.
    fn get(&mut self, key: &[u8], param: &mut Param) -> Result<(), Reason>;

    /// Sets a parameter. Unknown ones are left alone.
    fn set(&mut self, key: &[u8], param: &Param) -> Result<(), Reason>;
}

/// The next bytes of several messages, one message after the other.
///
/// # Safety
///
/// As [`Cipher::update_all`].
unsafe fn update_each<C: Cipher>(
    pipes: &mut [C],
    calls: &[Call],
    written: &mut [usize],
) -> Result<(), Reason> {
    for ((pipe, &call), written) in pipes.iter_mut().zip(calls).zip(written) {
        // SAFETY: the caller's promise.
        *written = unsafe { pipe.update(call)? };
    }
    Ok(())
}

/// Data of a call: `from` is readable for `len` bytes, or null; `to` is writable for `room` bytes,
/// or null. They may be the same place.
#[derive(Clone, Copy)]
struct Call {
    from: *const u8,
    len: usize,
    to: *mut u8,
    room: usize,
}

impl Call {
    /// The next `len` bytes, which are taken away from the call.
    ///
    /// # Safety
    ///
    /// As [`Call`] says, and no other reference to the bytes exists during `'a`.
    unsafe fn take<'a>(&mut self, len: usize) -> Result<InOut<'a>, Reason> {
        if self.room < len {
            return Err(Reason::OutputBufferTooSmall);
        }
        assert!(len <= self.len);
        let (from, to) = (self.from, self.to);
        self.from = from.wrapping_add(len);
        self.to = to.wrapping_add(len);
        self.len -= len;
        self.room -= len;
        if len == 0 {
            return Ok((&mut []).into());
        }
        // SAFETY: the caller's promise; a copy to the place itself is one that overlaps.
        unsafe {
            if (from as usize).abs_diff(to as usize) < len {
                if from != to {
                    to.copy_from(from, len);
                }
                return Ok(core::slice::from_raw_parts_mut(to, len).into());
            }
            Ok(InOut::apart(
                core::slice::from_raw_parts(from, len),
                core::slice::from_raw_parts_mut(to, len),
            ))
        }
    }
}

/// The context behind OpenSSL's pointer.
struct Context<C> {
    /// Lives longer than its contexts.
    provider: *const Provider,
    cipher: C,
    /// The messages of a pipeline; empty without one.
    pipes: Vec<C>,
}

const fn dispatch<C: Cipher, const OFFER: usize>() -> Table {
    [
        Dispatch::new(function::NEWCTX, newctx::<C, OFFER> as *const c_void),
        Dispatch::new(function::ENCRYPT_INIT, init::<C, true> as *const c_void),
        Dispatch::new(function::DECRYPT_INIT, init::<C, false> as *const c_void),
        Dispatch::new(function::UPDATE, update::<C> as *const c_void),
        Dispatch::new(function::FINAL, finish::<C> as *const c_void),
        Dispatch::new(function::CIPHER, raw::<C> as *const c_void),
        Dispatch::new(function::FREECTX, freectx::<C> as *const c_void),
        Dispatch::new(function::DUPCTX, dupctx::<C> as *const c_void),
        Dispatch::new(function::GET_PARAMS, get_params::<OFFER> as *const c_void),
        Dispatch::new(
            function::GET_CTX_PARAMS,
            get_ctx_params::<C> as *const c_void,
        ),
        Dispatch::new(
            function::SET_CTX_PARAMS,
            set_ctx_params::<C> as *const c_void,
        ),
        Dispatch::new(function::GETTABLE_PARAMS, gettable_params as *const c_void),
        Dispatch::new(
            function::GETTABLE_CTX_PARAMS,
            gettable_ctx_params::<C> as *const c_void,
        ),
        Dispatch::new(
            function::SETTABLE_CTX_PARAMS,
            settable_ctx_params::<C> as *const c_void,
        ),
        Dispatch::new(
            function::PIPELINE_ENCRYPT_INIT,
            pipeline::init::<C, OFFER, true> as *const c_void,
        ),
        Dispatch::new(
            function::PIPELINE_DECRYPT_INIT,
            pipeline::init::<C, OFFER, false> as *const c_void,
        ),
        Dispatch::new(
            function::PIPELINE_UPDATE,
            pipeline::update::<C> as *const c_void,
        ),
        Dispatch::new(
            function::PIPELINE_FINAL,
            pipeline::finish::<C> as *const c_void,
        ),
        Dispatch::END,
    ]
}

/// Runs `f` on a context. Failures and panics go to OpenSSL's stack of errors.
///
/// # Safety
///
/// `context` is null or of [`newctx`] or [`dupctx`], and no other call uses it now.
unsafe fn with<C>(context: *mut Context<C>, f: impl FnOnce(&mut C) -> Result<(), Reason>) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_context(context, |context| f(&mut context.cipher)) }
}

/// As [`with`], with the messages of a pipeline.
///
/// # Safety
///
/// As [`with`].
#[inline(always)]
unsafe fn with_context<C>(
    context: *mut Context<C>,
    f: impl FnOnce(&mut Context<C>) -> Result<(), Reason>,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(context) = (unsafe { context.as_mut() }) else {
        return 0;
    };
    let provider = context.provider;
    match guarded(Err(Reason::Fault), || f(context)) {
        Ok(()) => 1,
        Err(reason) => {
            // SAFETY: the provider lives longer than its contexts.
            unsafe { &*provider }.errors.raise(reason);
            0
        }
    }
}

/// # Safety
///
/// `provider` is of [`crate::OSSL_provider_init`].
unsafe extern "C" fn newctx<C: Cipher, const OFFER: usize>(
    provider: *const Provider,
) -> *mut Context<C> {
    guarded(ptr::null_mut(), || {
        let offer = &OFFERS[OFFER];
        // SAFETY: the caller's promise.
        if let Some(report) = unsafe { &(*provider).report } {
            report.used(OFFER, offer.names);
        }
        let cipher = C::new(offer);
        Box::into_raw(Box::new(Context {
            provider,
            cipher,
            pipes: Vec::new(),
        }))
    })
}

/// # Safety
///
/// `context` is of [`newctx`] or [`dupctx`], and is not used afterwards.
unsafe extern "C" fn freectx<C>(context: *mut Context<C>) {
    if !context.is_null() {
        // SAFETY: the caller's promise.
        let context = unsafe { Box::from_raw(context) };
        jobs::forget((&raw const *context).cast(), size_of::<Context<C>>());
        jobs::forget(
            context.pipes.as_ptr().cast(),
            size_of_val(&context.pipes[..]),
        );
    }
}

/// # Safety
///
/// `context` is null or of [`newctx`] or [`dupctx`].
unsafe extern "C" fn dupctx<C: Cipher>(context: *const Context<C>) -> *mut Context<C> {
    guarded(ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let Some(context) = (unsafe { context.as_ref() }) else {
            return ptr::null_mut();
        };
        Box::into_raw(Box::new(Context {
            provider: context.provider,
            cipher: context.cipher.clone(),
            pipes: context.pipes.clone(),
        }))
    })
}

/// # Safety
///
/// As [`with`]; `key` and `iv` are null or readable for their lengths; `params` as for
/// [`params::each`].
unsafe extern "C" fn init<C: Cipher, const ENCRYPT: bool>(
    context: *mut Context<C>,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    params: *mut Param,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(context, |cipher| {
            let key = (!key.is_null()).then(|| bytes(key, key_len));
            let iv = (!iv.is_null()).then(|| bytes(iv, iv_len));
            cipher.init(ENCRYPT, key, iv)?;
            params::each(params).try_for_each(|(key, param)| cipher.set(key.to_bytes(), param))
        })
    }
}

/// # Safety
///
/// As [`with`]; `written` is writable for a number, the rest as in [`Call`].
unsafe extern "C" fn update<C: Cipher>(
    context: *mut Context<C>,
    to: *mut u8,
    written: *mut usize,
    room: usize,
    from: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(context, |cipher| {
            written.write(0);
            written.write(cipher.update(Call {
                from,
                len,
                to,
                room,
            })?);
            Ok(())
        })
    }
}

/// # Safety
///
/// As [`with`]; `to` is writable for `room` bytes and `written` for a number.
unsafe extern "C" fn finish<C: Cipher>(
    context: *mut Context<C>,
    to: *mut u8,
    written: *mut usize,
    room: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(context, |cipher| {
            written.write(0);
            written.write(cipher.finish(to, room)?);
            Ok(())
        })
    }
}

/// # Safety
///
/// As [`update`].
unsafe extern "C" fn raw<C: Cipher>(
    context: *mut Context<C>,
    to: *mut u8,
    written: *mut usize,
    room: usize,
    from: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(context, |cipher| {
            written.write(0);
            written.write(cipher.raw(Call {
                from,
                len,
                to,
                room,
            })?);
            Ok(())
        })
    }
}

/// # Safety
///
/// As [`params::each`].
unsafe extern "C" fn get_params<const OFFER: usize>(params: *mut Param) -> c_int {
    succeeds(|| {
        let offer = &OFFERS[OFFER];
        let aead = u64::from(offer.mode == Mode::Gcm);
        // SAFETY: the caller's promise.
        unsafe { params::each(params) }.all(|(key, param)| match key.to_bytes() {
            b"mode" => param.set_number(offer.mode as u64),
            b"keylen" => param.set_number(offer.key_len as u64),
            b"ivlen" => param.set_number(offer.iv_len() as u64),
            b"blocksize" => param.set_number(offer.block_len() as u64),
            b"aead" | b"custom-iv" => param.set_number(aead),
            b"cts" | b"tls-multi" | b"has-randkey" => param.set_number(0),
            _ => true,
        })
    })
}

/// # Safety
///
/// As [`with`] and [`params::each`].
unsafe extern "C" fn get_ctx_params<C: Cipher>(
    context: *mut Context<C>,
    params: *mut Param,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_context(context, |context| {
            params::each(params).try_for_each(|(key, param)| match key.to_bytes() {
                b"pipeline-tag" => {
                    pipeline::each_tag(&mut context.pipes, param, |pipe, tag| pipe.get(b"tag", tag))
                }
                key => context.cipher.get(key, param),
            })
        })
    }
}

/// # Safety
///
/// As [`with`] and [`params::each`].
unsafe extern "C" fn set_ctx_params<C: Cipher>(
    context: *mut Context<C>,
    params: *mut Param,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_context(context, |context| {
            params::each(params).try_for_each(|(key, param)| match key.to_bytes() {
                b"pipeline-tag" => {
                    pipeline::each_tag(&mut context.pipes, param, |pipe, tag| pipe.set(b"tag", tag))
                }
                key => context.cipher.set(key, param),
            })
        })
    }
}

extern "C" fn gettable_params(_provider: *const Provider) -> *const c_void {
    params::table(&GETTABLE)
}

extern "C" fn gettable_ctx_params<C: Cipher>(
    _context: *const Context<C>,
    _provider: *const Provider,
) -> *const c_void {
    params::table(C::GETTABLE)
}

extern "C" fn settable_ctx_params<C: Cipher>(
    _context: *const Context<C>,
    _provider: *const Provider,
) -> *const c_void {
    params::table(C::SETTABLE)
}
