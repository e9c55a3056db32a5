//! GCM in the wrong order: what is refused, and the reason that is given, are those of the default
//! provider.

use std::ffi::c_int;
use std::fmt::Debug;

use tabane_provider::abi::{Param, param_type};

use tabane_testing::openssl::choices::{Choices, for_seeds};
use tabane_testing::openssl::ciphers::{
    Both, Ciphers, GET_TAG, IV_GEN, SET_IV_FIXED, SET_IV_INV, SET_IV_LEN, SET_TAG, TLS_AAD, offered,
};
use tabane_testing::openssl::libcrypto::{Libcrypto, Pointer, libcrypto};

/// Does the same in both, and expects the same result and the same first reason on the stack of
/// errors.
fn same<T: PartialEq + Debug>(
    libcrypto: &Libcrypto,
    context: &Both,
    what: &str,
    call: impl Fn(Pointer) -> T,
) {
    const REASON: u64 = 0x7f_ffff;
    context.same(what, |context| {
        // SAFETY: as in the manual.
        unsafe {
            (libcrypto.functions.ERR_clear_error)();
            let result = call(context);
            (result, (libcrypto.functions.ERR_peek_error)() & REASON)
        }
    });
}

/// Any calls in any order, but for these: without a vector, for which each provider takes a random
/// one; a new key for a message that has begun, which Tabane refuses and the default provider
/// encrypts under a vector of zeros; and data after a wrong tag.
fn misuse(libcrypto: &Libcrypto, ciphers: Ciphers, random: &mut Choices) {
    let functions = &libcrypto.functions;
    let context = Both::new(libcrypto, ciphers);
    let key = random.bytes(ciphers.key_len);
    let mut encrypt = random.one_in(2);
    assert!(context.init(false, Some(&key), None, c_int::from(encrypt)));
    let control = |what: c_int, number: c_int, data: &[u8]| {
        same(
            libcrypto,
            &context,
            &format!("control {what:#x}, {number}"),
            |context| {
                let mut data = data.to_vec();
                // SAFETY: as in the manual: data is as long as it must be.
                let result = unsafe {
                    (functions.EVP_CIPHER_CTX_ctrl)(context, what, number, data.as_mut_ptr().cast())
                };
                (result, data)
            },
        );
    };
    // Questions for which there is no vector yet.
    control(GET_TAG, 16, &[0; 16]);
    if encrypt {
        control(SET_TAG, 13, &[0; 13]);
    }
    control(IV_GEN, 8, &[0; 16]);
    control(SET_IV_INV, 8, &[0; 16]);
    let iv = random.bytes(12);
    assert!(context.init(true, None, Some(&iv), -1));
    for _ in 0..random.below(20) {
        match random.below(12) {
            0 => {
                let iv_len = [8, 12, 16, 20][random.below(4)];
                control(SET_IV_LEN, iv_len, &[]);
            }
            1 => {
                encrypt = random.one_in(2);
                context.init(true, None, None, c_int::from(encrypt));
            }
            // When encrypting it is refused, but the default provider has then overwritten the tag.
            2 if !encrypt => control(SET_TAG, 1 + random.below(16) as c_int, &random.bytes(32)),
            3 => control(GET_TAG, 1 + random.below(17) as c_int, &[0; 32]),
            4 => control(SET_IV_FIXED, -1, &random.bytes(32)),
            5 => {
                let len = [-1, 0, 4, 8, 12, 13, 16, 200][random.below(8)];
                control(IV_GEN, len, &[0; 256]);
            }
            6 => control(SET_IV_INV, 8, &random.bytes(8)),
            7 => {
                let mut aad = random.bytes(13);
                aad[11] = 0;
                control(TLS_AAD, 12 + random.below(2) as c_int, &aad);
            }
            8 | 9 => {
                let (data, raw) = (random.bytes(64), random.one_in(3));
                let len = random.below(64);
                let aad = !raw && random.one_in(4);
                same(libcrypto, &context, "data", |context| {
                    let mut data = data.clone();
                    let (from, mut written) = (data.as_ptr(), 0);
                    // SAFETY: as in the manual, in place.
                    let result = unsafe {
                        if raw {
                            (functions.EVP_Cipher)(context, data.as_mut_ptr(), from, len as u32)
                        } else {
                            let to = if aad {
                                std::ptr::null_mut()
                            } else {
                                data.as_mut_ptr()
                            };
                            let len = len as c_int;
                            (functions.EVP_CipherUpdate)(context, to, &mut written, from, len)
                        }
                    };
                    (result, data)
                });
            }
            10 => {
                let (ok, _) = context.finish();
                if ok == 0 && !encrypt {
                    // The default provider would go on with the message, behind its tag.
                    assert!(context.init(true, None, Some(&iv), -1));
                }
            }
            11 => {
                let size = [4, 12, 32][random.below(3)];
                let name = [c"iv", c"updated-iv"][random.below(2)];
                same(libcrypto, &context, "the vector", |context| {
                    let mut iv = [0_u8; 32];
                    let mut params = [
                        Param {
                            key: name.as_ptr(),
                            data_type: param_type::OCTET_STRING,
                            data: iv.as_mut_ptr().cast(),
                            data_size: size,
                            return_size: usize::MAX,
                        },
                        Param {
                            key: std::ptr::null(),
                            data_type: 0,
                            data: std::ptr::null_mut(),
                            data_size: 0,
                            return_size: 0,
                        },
                    ];
                    // SAFETY: as in the manual.
                    let result = unsafe {
                        (functions.EVP_CIPHER_CTX_get_params)(context, params.as_mut_ptr())
                    };
                    (result, iv)
                });
            }
            _ => {}
        }
    }
}

#[test]
fn what_is_refused_is_refused_for_the_same_reason() {
    let Some(libcrypto) = libcrypto() else { return };
    let offered = offered(libcrypto);
    for_seeds(400, |random| {
        for &ciphers in offered.iter().filter(|ciphers| ciphers.mode == "GCM") {
            misuse(libcrypto, ciphers, random);
        }
    });
}

/// With a length of 0 or -1 the whole vector is wanted, and with a longer one too.
#[test]
fn the_whole_vector_can_be_generated() {
    let Some(libcrypto) = libcrypto() else { return };
    let offered = offered(libcrypto);
    for &ciphers in offered.iter().filter(|ciphers| ciphers.mode == "GCM") {
        for len in [0, -1, 1, 8, 12, 13, 128, 129, 200] {
            let context = Both::new(libcrypto, ciphers);
            assert!(context.init(false, Some(&vec![7; ciphers.key_len]), None, 1));
            let iv: Vec<u8> = (1..=12).collect();
            assert_eq!(context.control(SET_IV_FIXED, -1, &iv).0, 1);
            let (ok, generated) = context.control(IV_GEN, len, &[0; 256]);
            assert_eq!(ok, 1, "a length of {len}");
            if len <= 0 {
                assert_eq!(generated[..12], iv);
            }
        }
    }
}

/// Without a vector each provider takes a random one. OpenSSL 4 tells it before the message begins,
/// OpenSSL 3 does not.
#[test]
fn a_random_vector_is_told_when_the_default_provider_tells_it() {
    let Some(libcrypto) = libcrypto() else { return };
    let functions = &libcrypto.functions;
    let offered = offered(libcrypto);
    for &ciphers in offered.iter().filter(|ciphers| ciphers.mode == "GCM") {
        for encrypt in [1, 0] {
            let context = Both::new(libcrypto, ciphers);
            assert!(context.init(false, Some(&vec![7; ciphers.key_len]), None, encrypt));
            let ask = |context| {
                let mut iv = [0_u8; 12];
                // SAFETY: as in the manual.
                let told = unsafe {
                    let place = iv.as_mut_ptr().cast();
                    (functions.EVP_CIPHER_CTX_get_original_iv)(context, place, iv.len())
                };
                (told, iv)
            };
            let before = context.contexts.map(ask);
            assert_eq!(before[0].0, before[1].0, "ours, theirs");
            for (context, (told, iv)) in context.contexts.into_iter().zip(before) {
                assert_eq!(told == 1, iv != [0; 12]);
                let (mut data, mut written) = ([1; 16], 0);
                let from = data.as_ptr();
                // SAFETY: as in the manual, in place.
                let ok = unsafe {
                    (functions.EVP_CipherUpdate)(context, data.as_mut_ptr(), &mut written, from, 16)
                };
                assert_eq!(ok, encrypt);
                if told == 1 {
                    assert_eq!(ask(context), (1, iv), "the message has the vector told");
                }
            }
        }
    }
}
