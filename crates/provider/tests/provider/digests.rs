//! Hashes, compared with those of the default provider.

use std::ffi::c_int;
use std::ptr;

use crate::libcrypto::{Libcrypto, NONE, Pointer, described, fetch_both, libcrypto, text};
use crate::random::{Random, for_seeds};

pub const NAMES: [&str; 6] = ["MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"];

/// A message, in both providers.
struct Both<'l> {
    libcrypto: &'l Libcrypto,
    digests: [Pointer; 2],
    contexts: [Pointer; 2],
}

impl<'l> Both<'l> {
    fn new(libcrypto: &'l Libcrypto, digests: [Pointer; 2]) -> Self {
        // SAFETY: as in the manual.
        let contexts = [(); 2].map(|()| unsafe { (libcrypto.functions.EVP_MD_CTX_new)() });
        Self {
            libcrypto,
            digests,
            contexts,
        }
    }

    /// Does the same in both, and expects the same result.
    fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, call: impl Fn(usize) -> T) -> T {
        let [ours, theirs] = [0, 1].map(call);
        assert_eq!(ours, theirs, "{what}: ours, theirs");
        ours
    }

    /// `again`: without saying of which algorithm.
    fn init(&self, again: bool) {
        self.same("init", |i| {
            let digest = if again { NONE } else { self.digests[i] };
            // SAFETY: as in the manual.
            unsafe {
                (self.libcrypto.functions.EVP_DigestInit_ex2)(self.contexts[i], digest, ptr::null())
            }
        });
    }

    fn update(&self, data: &[u8]) {
        // SAFETY: as in the manual.
        self.same("update", |i| unsafe {
            (self.libcrypto.functions.EVP_DigestUpdate)(self.contexts[i], data.as_ptr(), data.len())
        });
    }

    fn finish(&self) {
        self.same("final", |i| {
            let (mut digest, mut length) = ([0; 64], 0);
            // SAFETY: as in the manual.
            let ok = unsafe {
                (self.libcrypto.functions.EVP_DigestFinal_ex)(
                    self.contexts[i],
                    digest.as_mut_ptr(),
                    &mut length,
                )
            };
            (ok, digest, length)
        });
    }

    fn copy_to(&self, to: &Self) {
        // SAFETY: as in the manual.
        self.same("copy", |i| unsafe {
            (self.libcrypto.functions.EVP_MD_CTX_copy_ex)(to.contexts[i], self.contexts[i])
        });
    }

    fn reset(&self) {
        // SAFETY: as in the manual.
        self.same("reset", |i| unsafe {
            (self.libcrypto.functions.EVP_MD_CTX_reset)(self.contexts[i])
        });
    }

    fn one_shot(&self, data: &[u8]) {
        self.same("one shot", |i| {
            let (mut digest, mut length) = ([0; 64], 0);
            // SAFETY: as in the manual.
            let ok = unsafe {
                (self.libcrypto.functions.EVP_Digest)(
                    data.as_ptr(),
                    data.len(),
                    digest.as_mut_ptr(),
                    &mut length,
                    self.digests[i],
                    NONE,
                )
            };
            (ok, digest, length)
        });
    }
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        for context in self.contexts {
            // SAFETY: as in the manual.
            unsafe { (self.libcrypto.functions.EVP_MD_CTX_free)(context) };
        }
    }
}

/// Any operations in any order that the manual allows, on a few messages, copies of each other.
pub fn sequence(libcrypto: &Libcrypto, digests: [Pointer; 2], random: &mut Random) {
    let messages = [(); 3].map(|()| Both::new(libcrypto, digests));
    // What has begun and not ended. OpenSSL leaves undefined what an update does otherwise.
    let mut begun = [false; 3];
    let mut known = [false; 3];
    for _ in 0..random.below(30) {
        let at = random.below(3);
        match random.below(12) {
            0 | 1 => {
                messages[at].init(known[at] && random.one_in(2));
                (begun[at], known[at]) = (true, true);
            }
            2..=6 if begun[at] => {
                let length = random.length();
                messages[at].update(&random.bytes(length));
            }
            7 | 8 if begun[at] => {
                messages[at].finish();
                begun[at] = false;
            }
            9 if begun[at] => {
                let to = random.below(3);
                if to != at {
                    messages[at].copy_to(&messages[to]);
                    (begun[to], known[to]) = (true, true);
                }
            }
            10 => {
                messages[at].reset();
                (begun[at], known[at]) = (false, false);
            }
            11 => {
                let length = random.length();
                messages[at].one_shot(&random.bytes(length));
            }
            _ => {}
        }
    }
    for (message, begun) in messages.iter().zip(begun) {
        if begun {
            message.finish();
        }
    }
}

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
