//! Operations on digests, in any order, in the provider and in the default one.

use std::ptr;

use super::choices::Choices;
use super::libcrypto::{Libcrypto, NONE, Pointer};

/// The algorithms that are compared.
pub const NAMES: [&str; 6] = ["MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"];

/// A message, in both providers.
pub struct Both<'l> {
    libcrypto: &'l Libcrypto,
    digests: [Pointer; 2],
    /// `EVP_MD_CTX`s: ours, theirs.
    pub contexts: [Pointer; 2],
}

impl<'l> Both<'l> {
    /// One context of OpenSSL for each of the two digests.
    pub fn new(libcrypto: &'l Libcrypto, digests: [Pointer; 2]) -> Self {
        // SAFETY: as in the manual.
        let contexts = [(); 2].map(|()| unsafe { (libcrypto.functions.EVP_MD_CTX_new)() });
        Self {
            libcrypto,
            digests,
            contexts,
        }
    }

    /// Makes a call with both contexts and expects equal results.
    pub fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, call: impl Fn(usize) -> T) -> T {
        let [ours, theirs] = [0, 1].map(call);
        assert_eq!(ours, theirs, "{what}: ours, theirs");
        ours
    }

    /// Begins a message; `again`: without saying of which algorithm.
    pub fn init(&self, again: bool) {
        self.same("init", |i| {
            let digest = if again { NONE } else { self.digests[i] };
            // SAFETY: as in the manual.
            unsafe {
                (self.libcrypto.functions.EVP_DigestInit_ex2)(self.contexts[i], digest, ptr::null())
            }
        });
    }

    /// Feeds data of the message.
    pub fn update(&self, data: &[u8]) {
        // SAFETY: as in the manual.
        self.same("update", |i| unsafe {
            (self.libcrypto.functions.EVP_DigestUpdate)(self.contexts[i], data.as_ptr(), data.len())
        });
    }

    /// Ends the message, and compares the digests.
    pub fn finish(&self) {
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
pub fn sequence(libcrypto: &Libcrypto, digests: [Pointer; 2], random: &mut Choices) {
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
