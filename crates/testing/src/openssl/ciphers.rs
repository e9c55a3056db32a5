//! Operations on ciphers, in any order, in the provider and in the default one.

use std::ffi::{c_int, c_void};
use std::fmt::Debug;
use std::ptr;

use super::choices::Choices;
use super::libcrypto::{Libcrypto, NONE, Pointer, fetch_both};

/// `EVP_CTRL`: Sets the length of the initialization vector.
pub const SET_IV_LEN: c_int = 0x9;
/// `EVP_CTRL`: Reads the tag of a message that has ended.
pub const GET_TAG: c_int = 0x10;
/// `EVP_CTRL`: Sets the tag that a message is to have.
pub const SET_TAG: c_int = 0x11;
/// `EVP_CTRL`: Sets the fixed part of the vectors of TLS, or all of one.
pub const SET_IV_FIXED: c_int = 0x12;
/// `EVP_CTRL`: Counts up the vector of TLS and reads it.
pub const IV_GEN: c_int = 0x13;
/// `EVP_CTRL`: Sets the additional data of a TLS record.
pub const TLS_AAD: c_int = 0x16;
/// `EVP_CTRL`: Sets the counted part of the vector of a TLS record to decrypt.
pub const SET_IV_INV: c_int = 0x18;

const MODES: [&str; 4] = ["ECB", "CBC", "CTR", "GCM"];

/// A cipher in both providers.
#[derive(Clone, Copy)]
pub struct Ciphers {
    /// `ECB`, `CBC`, `CTR` or `GCM`.
    pub mode: &'static str,
    /// Bytes of a key.
    pub key_len: usize,
    /// `EVP_CIPHER`s: ours, theirs.
    pub both: [Pointer; 2],
}

/// All that ours offers.
pub fn offered(libcrypto: &Libcrypto) -> Vec<Ciphers> {
    let all = MODES
        .iter()
        .flat_map(|&mode| [16, 24, 32].map(|key_len| (mode, key_len)));
    let found = all.filter_map(|(mode, key_len)| {
        let name = format!("AES-{}-{mode}", 8 * key_len);
        let both = fetch_both(libcrypto, libcrypto.functions.EVP_CIPHER_fetch, &name)?;
        Some(Ciphers {
            mode,
            key_len,
            both,
        })
    });
    found.collect()
}

/// A context in both providers.
pub struct Both<'l> {
    libcrypto: &'l Libcrypto,
    ciphers: Ciphers,
    /// `EVP_CIPHER_CTX`s: ours, theirs.
    pub contexts: [Pointer; 2],
}

/// A buffer of 9 bytes more than there are, to see that they stay.
fn padded(data: &[u8], room: usize) -> Vec<u8> {
    let mut buffer = data.to_vec();
    buffer.resize(data.len() + room, 0xa5);
    buffer
}

impl<'l> Both<'l> {
    /// One context of OpenSSL for each of the two ciphers.
    pub fn new(libcrypto: &'l Libcrypto, ciphers: Ciphers) -> Self {
        // SAFETY: as in the manual.
        let contexts = [(); 2].map(|()| unsafe { (libcrypto.functions.EVP_CIPHER_CTX_new)() });
        Self {
            libcrypto,
            ciphers,
            contexts,
        }
    }

    /// Makes a call with both contexts and expects equal results.
    pub fn same<T: PartialEq + Debug>(&self, what: &str, call: impl Fn(Pointer) -> T) -> T {
        let [ours, theirs] = self.contexts.map(call);
        assert_eq!(
            ours, theirs,
            "{what} in {}: ours, theirs",
            self.ciphers.mode
        );
        ours
    }

    /// `encrypt`: 1 or 0, or -1 for as before. What is not given stays.
    pub fn init(&self, known: bool, key: Option<&[u8]>, iv: Option<&[u8]>, encrypt: c_int) -> bool {
        let pointer = |bytes: Option<&[u8]>| bytes.map_or(ptr::null(), <[u8]>::as_ptr);
        let mut ciphers = self.ciphers.both.into_iter();
        let results = self.contexts.map(|context| {
            let cipher = ciphers.next().unwrap();
            let cipher = if known { NONE } else { cipher };
            // SAFETY: as in the manual; key and IV are as long as they must be.
            unsafe {
                (self.libcrypto.functions.EVP_CipherInit_ex2)(
                    context,
                    cipher,
                    pointer(key),
                    pointer(iv),
                    encrypt,
                    ptr::null(),
                )
            }
        });
        assert_eq!(results[0], results[1], "init in {}", self.ciphers.mode);
        results[0] == 1
    }

    /// Feeds data of the message; the answer of OpenSSL, and what came out.
    pub fn update(&self, data: &[u8], in_place: bool) -> (c_int, Vec<u8>) {
        self.same("update", |context| {
            let mut buffer = padded(if in_place { data } else { &[] }, data.len() + 32);
            let from = if in_place {
                buffer.as_ptr()
            } else {
                data.as_ptr()
            };
            let mut len = 0;
            // SAFETY: as in the manual.
            let ok = unsafe {
                (self.libcrypto.functions.EVP_CipherUpdate)(
                    context,
                    buffer.as_mut_ptr(),
                    &mut len,
                    from,
                    data.len() as c_int,
                )
            };
            if ok == 1 {
                buffer.truncate(len as usize);
            } else {
                buffer.clear();
            }
            (ok, buffer)
        })
    }

    /// Feeds additional data.
    pub fn aad(&self, data: &[u8]) {
        self.same("additional data", |context| {
            let mut len = 0;
            // SAFETY: as in the manual.
            let ok = unsafe {
                (self.libcrypto.functions.EVP_CipherUpdate)(
                    context,
                    ptr::null_mut(),
                    &mut len,
                    data.as_ptr(),
                    data.len() as c_int,
                )
            };
            (ok, len)
        });
    }

    /// Ends the message; the answer of OpenSSL, and what came out.
    pub fn finish(&self) -> (c_int, Vec<u8>) {
        const REASON: u64 = 0x7f_ffff;
        let functions = &self.libcrypto.functions;
        let (ok, data, _) = self.same("final", |context| {
            let mut buffer = [0; 32];
            let mut len = 0;
            // SAFETY: as in the manual.
            let (ok, error) = unsafe {
                (functions.ERR_clear_error)();
                (
                    (functions.EVP_CipherFinal_ex)(context, buffer.as_mut_ptr(), &mut len),
                    (functions.ERR_peek_error)(),
                )
            };
            let data = if ok == 1 {
                &buffer[..len as usize]
            } else {
                &[]
            };
            (ok, data.to_vec(), error & REASON)
        });
        (ok, data)
    }

    /// `EVP_Cipher`.
    fn raw(&self, data: &[u8]) {
        self.same("cipher", |context| {
            let mut buffer = padded(&[], data.len() + 32);
            // SAFETY: as in the manual.
            let len = unsafe {
                (self.libcrypto.functions.EVP_Cipher)(
                    context,
                    buffer.as_mut_ptr(),
                    data.as_ptr(),
                    data.len() as u32,
                )
            };
            (len, buffer)
        });
    }

    /// `EVP_CIPHER_CTX_ctrl` with a copy of `data`; the answer, and what `data` is then.
    pub fn control(&self, what: c_int, number: c_int, data: &[u8]) -> (c_int, Vec<u8>) {
        self.same(&format!("control {what:#x}"), |context| {
            let mut data = data.to_vec();
            let place = if data.is_empty() {
                ptr::null_mut()
            } else {
                data.as_mut_ptr().cast()
            };
            // SAFETY: as in the manual: data is as long as the number says.
            let result = unsafe {
                (self.libcrypto.functions.EVP_CIPHER_CTX_ctrl)(context, what, number, place)
            };
            (result, data)
        })
    }

    /// Makes `to` a copy.
    pub fn copy_to(&self, to: &Self) {
        let mut to = to.contexts.into_iter();
        let results = self.contexts.map(|from| {
            // SAFETY: as in the manual.
            unsafe { (self.libcrypto.functions.EVP_CIPHER_CTX_copy)(to.next().unwrap(), from) }
        });
        assert_eq!(results, [1, 1], "copy");
    }

    /// Asks for padding, or for none.
    pub fn set_padding(&self, padding: bool) {
        // SAFETY: as in the manual.
        self.same("padding", |context| unsafe {
            (self.libcrypto.functions.EVP_CIPHER_CTX_set_padding)(context, c_int::from(padding))
        });
    }

    /// All that can be asked.
    fn questions(&self) {
        let functions = &self.libcrypto.functions;
        self.same("questions", |context| {
            let (mut original, mut updated) = ([0_u8; 128], [0_u8; 128]);
            // SAFETY: as in the manual.
            unsafe {
                let iv_len = (functions.EVP_CIPHER_CTX_get_iv_length)(context);
                let size = iv_len.max(0) as usize;
                let answers = (
                    (functions.EVP_CIPHER_CTX_get_num)(context),
                    iv_len,
                    (functions.EVP_CIPHER_CTX_get_original_iv)(
                        context,
                        original.as_mut_ptr().cast::<c_void>(),
                        size,
                    ),
                    (functions.EVP_CIPHER_CTX_get_updated_iv)(
                        context,
                        updated.as_mut_ptr().cast::<c_void>(),
                        size,
                    ),
                    original.to_vec(),
                    updated.to_vec(),
                );
                (functions.ERR_clear_error)();
                answers
            }
        });
    }

    /// Forgets cipher, key and message.
    pub fn reset(&self) {
        // SAFETY: as in the manual.
        self.same("reset", |context| unsafe {
            (self.libcrypto.functions.EVP_CIPHER_CTX_reset)(context)
        });
    }
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        for context in self.contexts {
            // SAFETY: as in the manual.
            unsafe { (self.libcrypto.functions.EVP_CIPHER_CTX_free)(context) };
        }
    }
}

/// What the test knows of a context: what OpenSSL leaves undefined is not done.
#[derive(Clone, Default)]
struct State {
    /// It has a cipher and a key.
    ready: bool,
    /// A message has begun: a GCM that has ended must begin anew.
    open: bool,
    data_begun: bool,
    encrypt: bool,
}

/// Any operations in any order that the manual allows, on a few contexts, copies of each other.
pub fn sequence(libcrypto: &Libcrypto, ciphers: Ciphers, random: &mut Choices) {
    let gcm = ciphers.mode == "GCM";
    let contexts = [(); 3].map(|()| Both::new(libcrypto, ciphers));
    let mut states = [(); 3].map(|()| State::default());
    for _ in 0..random.below(40) {
        let at = random.below(3);
        let context = &contexts[at];
        let state = &mut states[at];
        match random.below(16) {
            0..=2 => {
                let encrypt = !random.one_in(3);
                let key = random.bytes(ciphers.key_len);
                let iv_len = match ciphers.mode {
                    "ECB" => 0,
                    "GCM" if random.one_in(3) => 1 + random.below(60),
                    "GCM" => 12,
                    _ => 16,
                };
                let iv = random.bytes(iv_len);
                // A key that is expanded for one direction does not serve for the other in the
                // default provider.
                let turned = encrypt != state.encrypt && !gcm && ciphers.mode != "CTR";
                let new_key = !state.ready || turned || random.one_in(2);
                context.init(state.ready, None, None, c_int::from(encrypt));
                if gcm {
                    context.control(SET_IV_LEN, iv_len as c_int, &[]);
                }
                match random.below(3) {
                    0 if new_key => {
                        context.init(true, Some(&key), None, -1);
                        context.init(true, None, Some(&iv), -1);
                    }
                    1 if new_key => {
                        context.init(true, None, Some(&iv), -1);
                        context.init(true, Some(&key), None, -1);
                    }
                    _ => {
                        context.init(true, new_key.then_some(&key[..]), Some(&iv), -1);
                    }
                }
                *state = State {
                    ready: true,
                    open: true,
                    encrypt,
                    ..State::default()
                };
                if gcm && !encrypt && random.one_in(2) {
                    let tag = random.bytes(16);
                    context.control(SET_TAG, 16, &tag);
                }
            }
            3..=7 if state.open => {
                let length = random.length();
                let data = random.bytes(length);
                // In place is undefined where a part of a block waits.
                let in_place = random.one_in(2) && (gcm || ciphers.mode == "CTR");
                context.update(&data, in_place);
                state.data_begun |= !data.is_empty();
            }
            8 if state.open && gcm && !state.data_begun => {
                let length = random.below(100);
                context.aad(&random.bytes(length));
            }
            9 | 10 if state.open => {
                let (ok, _) = context.finish();
                state.open = false;
                if gcm && state.encrypt && ok == 1 {
                    let len = 1 + random.below(16);
                    let (_, tag) = context.control(GET_TAG, len as c_int, &vec![0; len]);
                    assert_eq!(tag.len(), len);
                } else if !gcm {
                    // The same key and vector again.
                    state.open = random.one_in(2) && context.init(true, None, None, -1);
                }
            }
            11 if state.open => {
                let to = random.below(3);
                if to != at {
                    let copy = state.clone();
                    context.copy_to(&contexts[to]);
                    states[to] = copy;
                }
            }
            12 if state.open && !state.data_begun => context.set_padding(random.one_in(2)),
            13 if state.ready && state.open => context.questions(),
            14 if state.ready && state.open && !gcm && !state.data_begun => {
                let blocks = random.below(20);
                context.raw(&random.bytes(16 * blocks));
            }
            15 if random.one_in(3) => {
                context.reset();
                *state = State::default();
            }
            _ => {}
        }
    }
}
