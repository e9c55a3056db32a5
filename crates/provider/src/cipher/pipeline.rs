//! Pipelines (`EVP_CIPHER_can_pipeline(3)`, OpenSSL 3.5): several messages under one key in one
//! call. CBC encrypts all of them side by side; the other modes need no company to be fast, and do
//! one message after the other.

use core::ffi::c_int;

use super::{Call, Cipher, Context, OFFERS, with_context};
use crate::abi::{Param, param_type};
use crate::error::Reason;
use crate::guard::bytes;
use crate::params;

/// Messages of a pipeline at most: `EVP_MAX_PIPES`.
const PIPES_MAX: usize = 32;

/// # Safety
///
/// As [`with_context`]; `key` is null or readable for its length, `ivs` null or the places of as
/// many vectors as there are pipes, each null or readable for its length; `params` as for
/// [`params::each`].
pub(super) unsafe extern "C" fn init<C: Cipher, const OFFER: usize, const ENCRYPT: bool>(
    context: *mut Context<C>,
    key: *const u8,
    key_len: usize,
    pipes: usize,
    ivs: *const *const u8,
    iv_len: usize,
    params: *mut Param,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_context(context, |context| {
            if !(1..=PIPES_MAX).contains(&pipes) {
                return Err(Reason::CipherOperationFailed);
            }
            let key = (!key.is_null()).then(|| bytes(key, key_len));
            // Without a key, that of the messages before goes on.
            context.pipes.resize_with(pipes, || C::new(&OFFERS[OFFER]));
            for (number, pipe) in context.pipes.iter_mut().enumerate() {
                let iv = ivs.as_ref().map(|_| ivs.add(number).read());
                let iv = iv.filter(|iv| !iv.is_null());
                pipe.init(ENCRYPT, key, iv.map(|iv| bytes(iv, iv_len)))?;
                params::each(params)
                    .try_for_each(|(key, param)| pipe.set(key.to_bytes(), param))?;
            }
            Ok(())
        })
    }
}

/// # Safety
///
/// As [`with_context`]; `from`, `lens`, `rooms` and `written` have as many elements as there are
/// pipes, as has `to`, unless it is null: then the bytes are additional data. Each element of
/// `from`, `lens`, `to` and `rooms` is as in [`Call`], and no place of a pipe overlaps one of
/// another.
pub(super) unsafe extern "C" fn update<C: Cipher>(
    context: *mut Context<C>,
    pipes: usize,
    to: *const *mut u8,
    written: *mut usize,
    rooms: *const usize,
    from: *const *const u8,
    lens: *const usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_context(context, |context| {
            if pipes == 0 || pipes != context.pipes.len() {
                return Err(Reason::CipherOperationFailed);
            }
            let call = |number| {
                let len = lens.add(number).read();
                let from = from.add(number).read();
                if to.is_null() {
                    let (to, room) = (core::ptr::null_mut(), len);
                    return Call {
                        from,
                        len,
                        to,
                        room,
                    };
                }
                let (to, room) = (to.add(number).read(), rooms.add(number).read());
                Call {
                    from,
                    len,
                    to,
                    room,
                }
            };
            let calls: Vec<Call> = (0..pipes).map(call).collect();
            let written = core::slice::from_raw_parts_mut(written, pipes);
            C::update_all(&mut context.pipes, &calls, written)
        })
    }
}

/// # Safety
///
/// As [`with_context`]; `to`, `written` and `rooms` have as many elements as there are pipes, and
/// each element of `to` is writable for that of `rooms`.
pub(super) unsafe extern "C" fn finish<C: Cipher>(
    context: *mut Context<C>,
    pipes: usize,
    to: *const *mut u8,
    written: *mut usize,
    rooms: *const usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_context(context, |context| {
            if pipes == 0 || pipes != context.pipes.len() {
                return Err(Reason::CipherOperationFailed);
            }
            for (number, pipe) in context.pipes.iter_mut().enumerate() {
                let (to, room) = (to.add(number).read(), rooms.add(number).read());
                written.add(number).write(pipe.finish(to, room)?);
            }
            Ok(())
        })
    }
}

/// Does something with the tag of each pipe: `tags` has the place of as many places as there are
/// pipes, each of as many bytes as it says.
///
/// # Safety
///
/// These places are readable, and writable if the tags are asked for.
pub(super) unsafe fn each_tag<C: Cipher>(
    pipes: &mut [C],
    tags: &Param,
    mut tag: impl FnMut(&mut C, &mut Param) -> Result<(), Reason>,
) -> Result<(), Reason> {
    const FAILED: Reason = Reason::FailedToGetParameter;
    if tags.data_type != param_type::OCTET_PTR || tags.data.is_null() {
        return Err(FAILED);
    }
    // SAFETY: the caller's promise.
    let places = unsafe { tags.data.cast::<*const *mut u8>().read() };
    if places.is_null() {
        return Err(FAILED);
    }
    for (number, pipe) in pipes.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let place = unsafe { places.add(number).read() };
        let mut param = Param {
            data: place.cast(),
            data_size: tags.data_size,
            ..Param::octet_string(c"tag")
        };
        tag(pipe, &mut param)?;
    }
    Ok(())
}
