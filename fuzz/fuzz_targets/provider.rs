//! Any operations in any order, in the OpenSSL provider and in OpenSSL's own: the same answers. The
//! first byte chooses the algorithm, the others the operations. Needs `libcrypto.so.3`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tabane_fuzz::begin;
use tabane_testing::openssl::Offered;
use tabane_testing::openssl::libcrypto::{self, Libcrypto, Pointer};

/// The provider is a part of this program, so that the fuzzer sees into it.
const CONFIGURATION: &str = "openssl_conf = init\n[init]\nproviders = providers\n\
     [providers]\ntabane = tabane\ndefault = default_sect\n\
     [tabane]\nactivate = 1\nhashes = yes\noffload = no\n[default_sect]\nactivate = 1\n";

static LIBCRYPTO: LazyLock<Libcrypto> = LazyLock::new(|| {
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
    libcrypto.expect("libcrypto.so.3")
});

static OFFERED: LazyLock<Offered> = LazyLock::new(|| Offered::by(&LIBCRYPTO));

fuzz_target!(
    init: begin("provider", Vec::new),
    |input: &[u8]| OFFERED.sequence(input)
);
