//! Any operations in any order, in the OpenSSL provider and in OpenSSL's own: the same answers. The
//! first byte chooses the algorithm, the others the operations. Needs `libcrypto.so.3`.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tabane_testing::openssl::choices::Choices;
use tabane_testing::openssl::libcrypto::{self, Libcrypto, Pointer, fetch_both};
use tabane_testing::openssl::{ciphers, digests};

/// The provider is a part of this program, so that the fuzzer sees into it.
const CONFIGURATION: &str = "openssl_conf = init\n[init]\nproviders = providers\n\
     [providers]\ntabane = tabane\ndefault = default_sect\n\
     [tabane]\nactivate = 1\nhashes = yes\noffload = no\n[default_sect]\nactivate = 1\n";

/// What is compared.
struct Offered {
    libcrypto: Libcrypto,
    digests: Vec<[Pointer; 2]>,
    ciphers: Vec<ciphers::Ciphers>,
}

// SAFETY: what OpenSSL has fetched may be used by all threads.
unsafe impl Send for Offered {}
// SAFETY: likewise.
unsafe impl Sync for Offered {}

fn offered() -> &'static Offered {
    static OFFERED: OnceLock<Offered> = OnceLock::new();
    OFFERED.get_or_init(|| {
        let file = std::env::temp_dir().join(format!("tabane-fuzz-{}.cnf", std::process::id()));
        std::fs::write(&file, CONFIGURATION).expect("a file for the configuration");
        let init = tabane_provider::OSSL_provider_init as *const () as Pointer;
        let libcrypto = libcrypto::open(&file, |functions, context| {
            // SAFETY: as in the manual.
            let added =
                unsafe { (functions.OSSL_PROVIDER_add_builtin)(context, c"tabane".as_ptr(), init) };
            assert_eq!(added, 1);
        });
        let _ = std::fs::remove_file(&file);
        let libcrypto = libcrypto.expect("libcrypto.so.3");
        let fetch = libcrypto.functions.EVP_MD_fetch;
        let digests = digests::NAMES
            .iter()
            .filter_map(|name| fetch_both(&libcrypto, fetch, name));
        let (digests, ciphers) = (digests.collect(), ciphers::offered(&libcrypto));
        Offered {
            libcrypto,
            digests,
            ciphers,
        }
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((&algorithm, bytes)) = data.split_first() else {
        return;
    };
    let Offered {
        libcrypto,
        digests,
        ciphers,
    } = offered();
    let algorithm = usize::from(algorithm) % (digests.len() + ciphers.len());
    let mut choices = Choices::of(bytes);
    match algorithm.checked_sub(digests.len()) {
        None => digests::sequence(libcrypto, digests[algorithm], &mut choices),
        Some(cipher) => ciphers::sequence(libcrypto, ciphers[cipher], &mut choices),
    }
});
