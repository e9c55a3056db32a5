//! Programs that load and unload, in several threads.

use std::ffi::CString;

use tabane_testing::openssl::libcrypto::{libcrypto, modules};

#[test]
fn loads_and_unloads_in_threads() {
    let Some(libcrypto) = libcrypto() else { return };
    let functions = &libcrypto.functions;
    let folder = CString::new(modules().to_str().unwrap()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..20 {
                    // SAFETY: as in the manual.
                    unsafe {
                        let context = (functions.OSSL_LIB_CTX_new)();
                        (functions.OSSL_PROVIDER_set_default_search_path)(context, folder.as_ptr());
                        let provider = (functions.OSSL_PROVIDER_load)(context, c"tabane".as_ptr());
                        assert!(!provider.is_null());
                        let cipher = (functions.EVP_CIPHER_fetch)(
                            context,
                            c"AES-128-GCM".as_ptr(),
                            std::ptr::null(),
                        );
                        if !cipher.is_null() {
                            let message = (functions.EVP_CIPHER_CTX_new)();
                            let (key, iv) = ([round; 16], [round; 12]);
                            let ok = (functions.EVP_CipherInit_ex2)(
                                message,
                                cipher,
                                key.as_ptr(),
                                iv.as_ptr(),
                                1,
                                std::ptr::null(),
                            );
                            assert_eq!(ok, 1);
                            (functions.EVP_CIPHER_CTX_free)(message);
                            (functions.EVP_CIPHER_free)(cipher);
                        }
                        assert_eq!((functions.OSSL_PROVIDER_unload)(provider), 1);
                        (functions.OSSL_LIB_CTX_free)(context);
                    }
                }
            });
        }
    });
}
