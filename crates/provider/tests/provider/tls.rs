//! Records of TLS, as libssl gives them to a cipher, compared with the default provider.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use tabane_provider::abi::{Param, param_type};

use tabane_testing::openssl::choices::for_seeds;
use tabane_testing::openssl::ciphers::{
    Both, GET_TAG, IV_GEN, SET_IV_FIXED, SET_IV_INV, SET_TAG, TLS_AAD, offered,
};
use tabane_testing::openssl::libcrypto::{Functions, Pointer, libcrypto};

const VERSIONS: [u32; 7] = [0x0301, 0x0302, 0x0303, 0xfeff, 0xfefd, 0x0100, 0x0300];

fn param(key: &'static CStr, data_type: u32, data: *mut c_void, data_size: usize) -> Param {
    Param {
        key: key.as_ptr(),
        data_type,
        data,
        data_size,
        return_size: usize::MAX,
    }
}

fn end() -> Param {
    Param {
        key: ptr::null(),
        ..param(c"", 0, ptr::null_mut(), 0)
    }
}

/// As libssl does when a connection changes to this cipher.
fn records(functions: &Functions, context: Pointer, version: u32, mac_len: usize) -> c_int {
    let (mut version, mut mac_len) = (version, mac_len);
    let number = param_type::UNSIGNED_INTEGER;
    let params = [
        param(c"tls-version", number, (&raw mut version).cast(), 4),
        param(c"tls-mac-size", number, (&raw mut mac_len).cast(), 8),
        end(),
    ];
    // SAFETY: as in the manual.
    unsafe { (functions.EVP_CIPHER_CTX_set_params)(context, params.as_ptr()) }
}

/// The MAC of the last record.
fn mac(functions: &Functions, context: Pointer, mac_len: usize) -> Vec<u8> {
    let mut place: *const u8 = ptr::null();
    let mut params = [
        param(
            c"tls-mac",
            param_type::OCTET_PTR,
            (&raw mut place).cast(),
            mac_len,
        ),
        end(),
    ];
    // SAFETY: as in the manual; the place holds the MAC.
    unsafe {
        assert_eq!(
            (functions.EVP_CIPHER_CTX_get_params)(context, params.as_mut_ptr()),
            1
        );
        if mac_len == 0 {
            Vec::new()
        } else {
            std::slice::from_raw_parts(place, mac_len).to_vec()
        }
    }
}

/// Records of all versions there and back, some of them damaged: the same bytes, lengths and MACs.
/// The MAC of a record with wrong padding is random in both.
#[test]
fn cbc_records() {
    let Some(libcrypto) = libcrypto() else { return };
    let functions = &libcrypto.functions;
    let offered = offered(libcrypto);
    let (good, bad) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    for_seeds(300, |random| {
        for ciphers in offered.iter().filter(|ciphers| ciphers.mode == "CBC") {
            let version = VERSIONS[random.below(VERSIONS.len())];
            let mac_len = [0, 20, 32, 48][random.below(4)];
            let explicit = if matches!(version, 0x0300 | 0x0301) {
                0
            } else {
                16
            };
            let (key, iv) = (random.bytes(ciphers.key_len), random.bytes(16));
            let length = random.below(700);
            let plain = random.bytes(explicit + length + mac_len);

            // By hand, so that padding can be as long as any, and wrong.
            let raw = Both::new(libcrypto, *ciphers);
            assert!(raw.init(false, Some(&key), Some(&iv), 1));
            raw.set_padding(false);
            let mut padded = plain.clone();
            let least = 15 - plain.len() % 16;
            let padding = match random.below(3) {
                0 => least,
                _ => least + 16 * random.below((255 - least) / 16 + 1),
            };
            padded.extend(vec![padding as u8; padding + 1]);
            if random.one_in(3) {
                let at = padded.len() - 1 - random.below((padding + 1).min(padded.len()));
                padded[at] ^= 1 << random.below(8);
            }
            let (_, record) = raw.update(&padded, false);

            let opening = Both::new(libcrypto, *ciphers);
            assert!(opening.init(false, Some(&key), Some(&iv), 0));
            opening.same("TLS", |context| {
                records(functions, context, version, mac_len)
            });
            let (ok, data) = opening.update(&record, true);
            if ok == 1 && mac_len > 0 {
                let [ours, theirs] = opening
                    .contexts
                    .map(|context| mac(functions, context, mac_len));
                let start = data.len();
                let right = padded[explicit + start..][..mac_len] == theirs;
                if right {
                    assert_eq!(ours, theirs, "the MAC in version {version:#x}");
                    good.set(good.get() + 1);
                } else {
                    assert_ne!(
                        ours,
                        padded[explicit + start..][..mac_len],
                        "a wrong padding shows"
                    );
                    bad.set(bad.get() + 1);
                }
            }

            let sealing = Both::new(libcrypto, *ciphers);
            assert!(sealing.init(false, Some(&key), Some(&iv), 1));
            sealing.same("TLS", |context| {
                records(functions, context, version, mac_len)
            });
            sealing.update(&plain, true);
            sealing.update(&plain, true);
            sealing.finish();
        }
    });
    println!(
        "{} good records, {} with wrong padding",
        good.get(),
        bad.get()
    );
    assert!(offered.is_empty() || (good.get() > 100 && bad.get() > 20));
}

/// Records of TLS 1.2 in GCM, there and back, some of them damaged.
#[test]
fn gcm_records() {
    let Some(libcrypto) = libcrypto() else { return };
    let offered = offered(libcrypto);
    for_seeds(200, |random| {
        for ciphers in offered.iter().filter(|ciphers| ciphers.mode == "GCM") {
            let (key, iv) = (random.bytes(ciphers.key_len), random.bytes(12));
            let sealing = Both::new(libcrypto, *ciphers);
            let opening = Both::new(libcrypto, *ciphers);
            assert!(sealing.init(false, Some(&key), None, 1));
            assert!(opening.init(false, Some(&key), None, 0));
            // Fixes the whole vector (−1), so that both sides have the same.
            assert_eq!(sealing.control(SET_IV_FIXED, -1, &iv).0, 1);
            assert_eq!(opening.control(SET_IV_FIXED, 4, &iv[..4]).0, 1);
            for _ in 0..3 {
                let length = random.below(600);
                let mut record = vec![0; 8];
                record.extend(random.bytes(length));
                record.extend([0; 16]);
                let mut aad = random.bytes(13);
                let header = |len: usize, aad: &mut [u8]| {
                    aad[11..].copy_from_slice(&(len as u16).to_be_bytes());
                };
                header(length + 8, &mut aad);
                assert_eq!(sealing.control(TLS_AAD, 13, &aad).0, 16);
                let (ok, mut sealed) = sealing.update(&record, true);
                assert_eq!(ok, 1);
                assert_ne!(sealed, record);

                let damaged = random.one_in(4);
                if damaged {
                    let at = random.below(sealed.len());
                    sealed[at] ^= 1;
                }
                header(sealed.len(), &mut aad);
                assert_eq!(opening.control(TLS_AAD, 13, &aad).0, 16);
                let (ok, _) = opening.update(&sealed, true);
                assert_eq!(ok == 1, !damaged);
            }
        }
    });
}

/// Vectors that are counted by the cipher: the sender asks for the end of each, and the receiver
/// gives it.
#[test]
fn counted_vectors() {
    let Some(libcrypto) = libcrypto() else { return };
    for_seeds(50, |random| {
        for ciphers in offered(libcrypto)
            .iter()
            .filter(|ciphers| ciphers.mode == "GCM")
        {
            let (key, iv) = (random.bytes(ciphers.key_len), random.bytes(12));
            let sender = Both::new(libcrypto, *ciphers);
            let receiver = Both::new(libcrypto, *ciphers);
            assert!(sender.init(false, Some(&key), None, 1));
            assert!(receiver.init(false, Some(&key), None, 0));
            assert_eq!(sender.control(SET_IV_FIXED, -1, &iv).0, 1);
            assert_eq!(receiver.control(SET_IV_FIXED, 4, &iv[..4]).0, 1);
            for _ in 0..3 {
                let plain = random.bytes(100);
                let (ok, end) = sender.control(IV_GEN, 8, &[0; 8]);
                assert_eq!(ok, 1);
                let (_, cipher) = sender.update(&plain, true);
                assert_eq!(sender.finish().0, 1);
                let (_, tag) = sender.control(GET_TAG, 16, &[0; 16]);

                assert_eq!(receiver.control(SET_IV_INV, 8, &end).0, 1);
                receiver.control(SET_TAG, 16, &tag);
                assert_eq!(receiver.update(&cipher, true).1, plain);
                assert_eq!(receiver.finish().0, 1);
            }
        }
    });
}
