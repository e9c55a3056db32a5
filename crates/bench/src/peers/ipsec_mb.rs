//! Intel's Multi-Buffer Crypto for IPsec, by a small C program that is compiled where the library's
//! header is.

use std::path::Path;

use anyhow::Result;

use super::{Compiled, Run, compile};
use crate::tools::find_in_path;

const SOURCE: &str = include_str!("../../peers/ipsec_mb.c");

/// Where the header is on Debian and elsewhere.
const HEADERS: [&str; 2] = [
    "/usr/include/intel-ipsec-mb.h",
    "/usr/local/include/intel-ipsec-mb.h",
];

/// The longest messages that the library takes, in whole blocks of any algorithm.
const MOST_BYTES: usize = 65535 / 128 * 128;

/// The program, compiled.
#[derive(Debug)]
pub struct IpsecMb {
    /// The library's version.
    pub version: String,
    compiled: Compiled,
}

impl IpsecMb {
    /// Messages in turn: as many as its widest lanes, so that they are all in the level 2 cache.
    pub const MESSAGES: usize = 16;

    /// Compiles the program; nothing where the library or a compiler is not installed.
    pub fn find() -> Result<Option<IpsecMb>> {
        if find_in_path("cc").is_none() || !HEADERS.iter().any(|file| Path::new(file).exists()) {
            return Ok(None);
        }
        let mut found = IpsecMb {
            version: String::new(),
            compiled: compile("cc", "ipsec_mb.c", SOURCE, &["-lIPSec_MB"])?,
        };
        found.version = found.run("sha1", 16, 1e-3)?.version;
        Ok(Some(found))
    }

    /// Bytes a second of CPU time on one core over `seconds`, for many messages of `bytes`, or of
    /// as many as the library takes at most.
    pub fn rate(&self, algorithm: &str, bytes: usize, seconds: f64) -> Result<f64> {
        Ok(self.run(algorithm, bytes, seconds)?.bytes_per_s())
    }

    fn run(&self, algorithm: &str, bytes: usize, seconds: f64) -> Result<Run> {
        let bytes = bytes.min(MOST_BYTES);
        self.compiled
            .run(algorithm, bytes, IpsecMb::MESSAGES, seconds)
    }
}

#[cfg(test)]
mod tests {
    use sha1::Digest;

    use super::super::tests::hex;
    use super::*;

    #[test]
    fn the_library_computes_the_same() {
        let Some(library) = IpsecMb::find().unwrap() else {
            println!("NOT CHECKED: libipsec-mb or a C compiler is not installed");
            return;
        };
        let first = |algorithm: &str| library.run(algorithm, 1 << 20, 1e-3).unwrap().first;
        let zeros = vec![0; MOST_BYTES];
        assert_eq!(first("sha1"), hex(&sha1::Sha1::digest(&zeros)));
        assert_eq!(first("sha256"), hex(&sha2::Sha256::digest(&zeros)));
        assert_eq!(first("sha512"), hex(&sha2::Sha512::digest(&zeros)));
        // AES-128 of zeros under a key of zeros.
        let block = "66e94bd4ef8a2c3b884cfa59ca342b2e";
        for mode in ["cbc-encrypt", "ctr", "ecb"] {
            assert_eq!(first(&format!("aes-128-{mode}")), block, "{mode}");
        }
        assert!(library.rate("sha1", 65536, 1e-2).unwrap() > 1e6);
        assert!(library.run("no-such-hash", 64, 1e-3).is_err());
    }
}
