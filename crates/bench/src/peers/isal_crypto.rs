//! Intel's Storage Acceleration Library for cryptography (ISA-L crypto), by a small C program that
//! is compiled where the library's headers are.

use std::path::Path;

use anyhow::Result;
use tabane_lanes::Algorithm;

use super::{Compiled, Run, compile};
use crate::tools::find_in_path;

const SOURCE: &str = include_str!("../../peers/isal_crypto.c");

/// Where the headers are. No distribution that we know has the library.
const HEADERS: [&str; 2] = [
    "/usr/include/isa-l_crypto/isal_crypto_api.h",
    "/usr/local/include/isa-l_crypto/isal_crypto_api.h",
];

/// The program, compiled.
#[derive(Debug)]
pub struct IsalCrypto {
    /// The library's version.
    pub version: String,
    compiled: Compiled,
}

impl IsalCrypto {
    /// Numbers of messages that are worth a line.
    pub const MESSAGES: [usize; 3] = [16, 32, 64];

    /// Compiles the program; nothing where the library or a compiler is not installed.
    pub fn find() -> Result<Option<IsalCrypto>> {
        if find_in_path("cc").is_none() || !HEADERS.iter().any(|file| Path::new(file).exists()) {
            return Ok(None);
        }
        let mut found = IsalCrypto {
            version: String::new(),
            compiled: compile("cc", "isal_crypto.c", SOURCE, &["-lisal_crypto"])?,
        };
        found.version = found.run(Algorithm::Sha1, 16, 16, 1e-3)?.version;
        Ok(Some(found))
    }

    /// Whether the library has the algorithm.
    pub fn has(algorithm: Algorithm) -> bool {
        !matches!(algorithm, Algorithm::Sha224 | Algorithm::Sha384)
    }

    /// Bytes a second of CPU time on one core over `seconds`, for so many messages of `bytes`.
    pub fn rate(
        &self,
        algorithm: Algorithm,
        bytes: usize,
        messages: usize,
        seconds: f64,
    ) -> Result<f64> {
        let run = self.run(algorithm, bytes, messages, seconds)?;
        Ok(run.bytes_per_s())
    }

    fn run(
        &self,
        algorithm: Algorithm,
        bytes: usize,
        messages: usize,
        seconds: f64,
    ) -> Result<Run> {
        self.compiled
            .run(algorithm.name(), bytes, messages, seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_computes_the_same() {
        let Some(library) = IsalCrypto::find().unwrap() else {
            println!("NOT CHECKED: ISA-L crypto or a C compiler is not installed");
            return;
        };
        for &algorithm in Algorithm::ALL {
            if IsalCrypto::has(algorithm) {
                let run = library.run(algorithm, 1000, 40, 1e-3).unwrap();
                let expected = tabane_lanes::hash_one(algorithm, &[0; 1000]);
                assert_eq!(run.first, expected.to_string(), "{algorithm}");
                assert!(run.bytes_per_s() > 1e6);
            }
        }
        assert!(library.run(Algorithm::Sha224, 64, 1, 1e-3).is_err());
    }
}
