//! OpenSSL's libcrypto, opened at run time, with the provider of Tabane beside the default one: the
//! same operations in both, compared. For the provider's tests and its fuzz target.

pub mod choices;
pub mod ciphers;
pub mod digests;
pub mod libcrypto;

use choices::Choices;
use libcrypto::{Libcrypto, Pointer, fetch_both};

/// The algorithms that both providers have.
pub struct Offered {
    libcrypto: &'static Libcrypto,
    digests: Vec<[Pointer; 2]>,
    ciphers: Vec<ciphers::Ciphers>,
}

// SAFETY: what OpenSSL has fetched may be used by all threads.
unsafe impl Send for Offered {}
// SAFETY: likewise.
unsafe impl Sync for Offered {}

impl Offered {
    /// Those of this libcrypto.
    pub fn by(libcrypto: &'static Libcrypto) -> Self {
        let fetch = libcrypto.functions.EVP_MD_fetch;
        let digests = digests::NAMES.iter();
        Self {
            libcrypto,
            digests: digests
                .filter_map(|name| fetch_both(libcrypto, fetch, name))
                .collect(),
            ciphers: ciphers::offered(libcrypto),
        }
    }

    /// Does the same in both providers: the first byte chooses the algorithm, the others the
    /// operations.
    ///
    /// # Panics
    /// When the answers differ.
    pub fn sequence(&self, input: &[u8]) {
        let Some((&algorithm, bytes)) = input.split_first() else {
            return;
        };
        let algorithm = usize::from(algorithm) % (self.digests.len() + self.ciphers.len());
        let mut choices = Choices::of(bytes);
        match algorithm.checked_sub(self.digests.len()) {
            None => digests::sequence(self.libcrypto, self.digests[algorithm], &mut choices),
            Some(cipher) => {
                ciphers::sequence(self.libcrypto, self.ciphers[cipher], &mut choices);
            }
        }
    }
}
