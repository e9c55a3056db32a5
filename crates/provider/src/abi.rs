//! The interface between OpenSSL and a provider: types, and numbers of functions, as documented in
//! `openssl-core.h(7)`, `openssl-core_dispatch.h(7)`, `provider-base(7)`, `provider-digest(7)`,
//! `provider-cipher(7)` and `OSSL_PARAM(3)`.
//!
//! Numbers never change their meaning: OpenSSL 3.0 and later skip those that they do not know, and
//! so do we.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;

/// `OSSL_CORE_HANDLE`: this provider, as OpenSSL knows it.
#[repr(C)]
pub struct CoreHandle {
    _opaque: [u8; 0],
}

/// `OSSL_DISPATCH`: a function and its number. Tables end with number 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Dispatch {
    /// Which function.
    pub id: c_int,
    /// Address of the function, whose type follows from the number.
    pub function: *const c_void,
}

// SAFETY: numbers and the addresses of functions.
unsafe impl Sync for Dispatch {}

impl Dispatch {
    /// A table's end.
    pub const END: Self = Self {
        id: 0,
        function: ptr::null(),
    };

    /// An element of a table. The function has the type that its number says.
    pub(crate) const fn new(id: c_int, function: *const c_void) -> Self {
        Self { id, function }
    }

    /// The function of a number in a table.
    ///
    /// # Safety
    ///
    /// `table` is a table with an end.
    pub(crate) unsafe fn find(table: *const Self, id: c_int) -> Option<*const c_void> {
        let mut next = table;
        // SAFETY: the caller's promise.
        unsafe {
            while (*next).id != 0 {
                if (*next).id == id {
                    return Some((*next).function);
                }
                next = next.add(1);
            }
        }
        None
    }
}

/// `OSSL_ALGORITHM`: an algorithm on offer. Tables end with null names.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// All names, with colons between them.
    pub names: *const c_char,
    /// Properties that a fetch can ask for.
    pub properties: *const c_char,
    /// The functions.
    pub implementation: *const Dispatch,
    /// For people; null for what OpenSSL calls the algorithm of this name.
    pub description: *const c_char,
}

impl Algorithm {
    /// A table's end.
    pub const END: Self = Self {
        names: ptr::null(),
        properties: ptr::null(),
        implementation: ptr::null(),
        description: ptr::null(),
    };
}

/// `OSSL_ITEM`: here the text for a reason of an error. Tables end with a null pointer.
#[repr(C)]
pub struct Item {
    /// The reason.
    pub id: c_uint,
    /// The text.
    pub text: *const c_char,
}

// SAFETY: numbers and the addresses of constants.
unsafe impl Sync for Item {}

/// `OSSL_PARAM`: a named value, given or asked for. Tables end with a null key.
#[repr(C)]
pub struct Param {
    /// The name.
    pub key: *const c_char,
    /// One of [`param_type`].
    pub data_type: c_uint,
    /// Address of the value, or of the room for it.
    pub data: *mut c_void,
    /// Bytes at `data`.
    pub data_size: usize,
    /// Bytes written to `data`, or the size it would need.
    pub return_size: usize,
}

// SAFETY: those that we make are constants without data.
unsafe impl Sync for Param {}

/// Kinds of [`Param`].
pub mod param_type {
    use core::ffi::c_uint;

    /// Signed, of any length, in the byte order of the machine.
    pub const INTEGER: c_uint = 1;
    /// Likewise, unsigned.
    pub const UNSIGNED_INTEGER: c_uint = 2;
    /// Bytes.
    pub const OCTET_STRING: c_uint = 5;
    /// The place of a text.
    pub const UTF8_PTR: c_uint = 6;
    /// The place of bytes.
    pub const OCTET_PTR: c_uint = 7;
}

/// Operations that are asked for with `OSSL_FUNC_provider_query_operation`.
pub mod operation {
    use core::ffi::c_int;

    /// Hashes.
    pub const DIGEST: c_int = 1;
    /// Symmetric ciphers.
    pub const CIPHER: c_int = 2;
}

/// Functions that OpenSSL offers to a provider.
pub mod core_function {
    use core::ffi::c_int;

    /// Reads the provider's section of the configuration, among other things.
    pub const GET_PARAMS: c_int = 2;
    /// Begins a record of an error.
    pub const NEW_ERROR: c_int = 5;
    /// Says where in the source it is.
    pub const SET_ERROR_DEBUG: c_int = 6;
    /// Says which it is.
    pub const VSET_ERROR: c_int = 7;
}

/// Functions that a provider offers to OpenSSL.
pub mod provider_function {
    use core::ffi::c_int;

    /// Frees the provider.
    pub const TEARDOWN: c_int = 1024;
    /// Which parameters `GET_PARAMS` knows.
    pub const GETTABLE_PARAMS: c_int = 1025;
    /// Name, version and status.
    pub const GET_PARAMS: c_int = 1026;
    /// Which algorithms there are.
    pub const QUERY_OPERATION: c_int = 1027;
    /// Texts for reasons of errors.
    pub const GET_REASON_STRINGS: c_int = 1029;
}

/// Functions of a hash.
pub mod digest_function {
    use core::ffi::c_int;

    /// Makes a context.
    pub const NEWCTX: c_int = 1;
    /// Begins a message.
    pub const INIT: c_int = 2;
    /// Appends to it.
    pub const UPDATE: c_int = 3;
    /// Ends it.
    pub const FINAL: c_int = 4;
    /// All in one, without a context.
    pub const DIGEST: c_int = 5;
    /// Frees a context.
    pub const FREECTX: c_int = 6;
    /// Copies a context.
    pub const DUPCTX: c_int = 7;
    /// Lengths and flags.
    pub const GET_PARAMS: c_int = 8;
    /// Sets parameters of a context.
    pub const SET_CTX_PARAMS: c_int = 9;
    /// Which parameters `GET_PARAMS` knows.
    pub const GETTABLE_PARAMS: c_int = 11;
    /// Which parameters `SET_CTX_PARAMS` knows.
    pub const SETTABLE_CTX_PARAMS: c_int = 12;
}

/// Functions of a cipher.
pub mod cipher_function {
    use core::ffi::c_int;

    /// Makes a context.
    pub const NEWCTX: c_int = 1;
    /// Begins a message to encrypt.
    pub const ENCRYPT_INIT: c_int = 2;
    /// Begins a message to decrypt.
    pub const DECRYPT_INIT: c_int = 3;
    /// Appends to it.
    pub const UPDATE: c_int = 4;
    /// Ends it.
    pub const FINAL: c_int = 5;
    /// The cipher alone, without buffering and padding.
    pub const CIPHER: c_int = 6;
    /// Frees a context.
    pub const FREECTX: c_int = 7;
    /// Copies a context.
    pub const DUPCTX: c_int = 8;
    /// Lengths, mode and flags.
    pub const GET_PARAMS: c_int = 9;
    /// Asks a context.
    pub const GET_CTX_PARAMS: c_int = 10;
    /// Sets parameters of a context.
    pub const SET_CTX_PARAMS: c_int = 11;
    /// Which parameters `GET_PARAMS` knows.
    pub const GETTABLE_PARAMS: c_int = 12;
    /// Which parameters `GET_CTX_PARAMS` knows.
    pub const GETTABLE_CTX_PARAMS: c_int = 13;
    /// Which parameters `SET_CTX_PARAMS` knows.
    pub const SETTABLE_CTX_PARAMS: c_int = 14;
    /// Begins several messages to encrypt under one key (OpenSSL 3.5).
    pub const PIPELINE_ENCRYPT_INIT: c_int = 15;
    /// Begins several messages to decrypt under one key.
    pub const PIPELINE_DECRYPT_INIT: c_int = 16;
    /// Appends to each of several messages.
    pub const PIPELINE_UPDATE: c_int = 17;
    /// Ends each of several messages.
    pub const PIPELINE_FINAL: c_int = 18;
}
