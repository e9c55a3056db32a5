//! Digests, compared with those of the default provider.

use std::ffi::c_int;

use tabane_testing::openssl::choices::for_seeds;
use tabane_testing::openssl::digests::{Both, NAMES, sequence};
use tabane_testing::openssl::libcrypto::{described, fetch_both, libcrypto, text};

#[test]
fn random_sequences_give_the_same() {
    let Some(libcrypto) = libcrypto() else { return };
    let offered: Vec<_> = (NAMES.iter())
        .filter_map(|name| fetch_both(libcrypto, libcrypto.functions.EVP_MD_fetch, name))
        .collect();
    assert_eq!(offered.len(), NAMES.len());
    for_seeds(500, |random| {
        for &digests in &offered {
            sequence(libcrypto, digests, random);
        }
    });
}

#[test]
fn descriptions_are_the_same() {
    let Some(libcrypto) = libcrypto() else { return };
    let functions = &libcrypto.functions;
    for name in NAMES {
        let Some(both) = fetch_both(libcrypto, functions.EVP_MD_fetch, name) else {
            continue;
        };
        // SAFETY: as in the manual.
        let [ours, theirs] = both.map(|digest| unsafe {
            (
                (functions.EVP_MD_get_size)(digest),
                (functions.EVP_MD_get_block_size)(digest),
                (functions.EVP_MD_get_flags)(digest),
                (functions.EVP_MD_get_type)(digest),
                text((functions.EVP_MD_get0_description)(digest)),
                described((functions.EVP_MD_settable_ctx_params)(digest)),
            )
        });
        assert_eq!(
            ours, theirs,
            "{name}: length, block, flags, number, description, parameters"
        );
    }
}

/// The hash of a handshake of SSL 3.0, which OpenSSL's own tests of DSA and RSA ask for too.
#[test]
fn a_master_secret_of_ssl3_is_taken() {
    const SSL3_MASTER_SECRET: c_int = 0x1d;
    let Some(libcrypto) = libcrypto() else { return };
    for_seeds(50, |random| {
        for name in NAMES {
            let Some(digests) = fetch_both(libcrypto, libcrypto.functions.EVP_MD_fetch, name)
            else {
                continue;
            };
            let message = Both::new(libcrypto, digests);
            message.init(false);
            let length = random.length();
            message.update(&random.bytes(length));
            let secret_len = if random.one_in(4) { 47 } else { 48 };
            let secret = random.bytes(secret_len);
            let taken = message.same("the master secret", |i| {
                let mut secret = secret.clone();
                // SAFETY: as in the manual: the secret is as long as the number says.
                unsafe {
                    (libcrypto.functions.EVP_MD_CTX_ctrl)(
                        message.contexts[i],
                        SSL3_MASTER_SECRET,
                        secret.len() as c_int,
                        secret.as_mut_ptr().cast(),
                    )
                }
            });
            assert_eq!(taken == 1, name == "SHA1" && secret.len() == 48, "{name}");
            message.finish();
        }
    });
}
