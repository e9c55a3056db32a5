//! Intel's Multi-Buffer Crypto for IPsec, by a small C program that is compiled where the library's
//! header is.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Compiled, compile};
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

/// One run of the program.
#[derive(Debug, PartialEq)]
struct Run {
    version: String,
    bytes: u64,
    cpu_seconds: f64,
    /// The digest of the first message, or the beginning of its ciphertext.
    first: String,
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
        let run = self.run(algorithm, bytes, seconds)?;
        Ok(run.bytes as f64 / run.cpu_seconds)
    }

    fn run(&self, algorithm: &str, bytes: usize, seconds: f64) -> Result<Run> {
        let output = Command::new(&self.compiled.program)
            .arg(algorithm)
            .arg(bytes.min(MOST_BYTES).to_string())
            .arg(IpsecMb::MESSAGES.to_string())
            .arg(seconds.to_string())
            .stdin(Stdio::null())
            .output()
            .context("cannot run the program for libipsec-mb")?;
        match parse(&String::from_utf8_lossy(&output.stdout)) {
            Some(run) if output.status.success() => Ok(run),
            _ => bail!(
                "the program for libipsec-mb failed at {algorithm} ({}): {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        }
    }
}

/// Reads the line that the program prints.
fn parse(text: &str) -> Option<Run> {
    let words: Vec<_> = text.split_whitespace().collect();
    let [version, bytes, cpu_seconds, first] = words[..] else {
        return None;
    };
    let run = Run {
        version: version.to_owned(),
        bytes: bytes.parse().ok()?,
        cpu_seconds: cpu_seconds.parse().ok()?,
        first: first.to_owned(),
    };
    (run.cpu_seconds > 0.0).then_some(run)
}

#[cfg(test)]
mod tests {
    use sha1::Digest;

    use super::*;

    #[test]
    fn reads_what_the_program_prints() {
        let run = parse("1.3.0 975270912 0.100068170 f7f4\n").unwrap();
        assert_eq!((run.version.as_str(), run.bytes), ("1.3.0", 975270912));
        assert_eq!((run.cpu_seconds, run.first.as_str()), (0.10006817, "f7f4"));
        for bad in [
            "",
            "1.3.0 97 0.1",
            "1.3.0 97 0.0 f7",
            "1.3.0 x 0.1 f7",
            "1 2 3 4 5",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

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
