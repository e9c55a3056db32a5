//! OpenSSL's EVP, by `openssl speed`.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tools::find_in_path;

/// An installed `openssl`.
#[derive(Clone, Debug)]
pub struct OpenSsl {
    /// What `openssl version` says.
    pub version: String,
}

/// Which of the processor's instructions OpenSSL may use on x86-64: see its manual page
/// OPENSSL_ia32cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instructions {
    /// Whatever it finds.
    All,
    /// Not the SHA instructions: SHA-1 then has its message schedule, and only that, in vector
    /// registers.
    NoSha,
    /// Nor any vector instructions.
    Scalar,
}

impl Instructions {
    /// The value of OPENSSL_ia32cap. Its first half are EDX and ECX of CPUID leaf 1, where bit 41
    /// is SSSE3, which the wider ones are looked for after; its second half EBX of leaf 7, where
    /// bit 29 are the SHA instructions and bit 5 is AVX2.
    fn mask(self) -> Option<&'static str> {
        match self {
            Instructions::All => None,
            Instructions::NoSha => Some(":~0x20000000"),
            Instructions::Scalar => Some("~0x1000020000000000:~0x20000020"),
        }
    }
}

impl OpenSsl {
    /// The one in `PATH`.
    pub fn find() -> Option<OpenSsl> {
        find_in_path("openssl")?;
        let output = Command::new("openssl").arg("version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        // OpenSSL 3.0.19 27 Jan 2026 (Library: ...)
        let words: Vec<_> = text.split_whitespace().take(2).collect();
        Some(OpenSsl {
            version: words.join(" "),
        })
    }

    /// Bytes a second of CPU time on one core, as `openssl speed` counts it over one second, for
    /// messages of `bytes`. `arguments` name the algorithm, as in `-evp sha1`.
    pub fn rate(
        &self,
        arguments: &[impl AsRef<OsStr>],
        bytes: usize,
        instructions: Instructions,
    ) -> Result<f64> {
        let mut command = Command::new("openssl");
        command
            .args(["speed", "-mr", "-seconds", "1", "-bytes"])
            .arg(bytes.to_string())
            .args(arguments)
            .stdin(Stdio::null());
        match instructions.mask() {
            Some(mask) => command.env("OPENSSL_ia32cap", mask),
            None => command.env_remove("OPENSSL_ia32cap"),
        };
        let output = command.output().context("cannot run openssl speed")?;
        let text = String::from_utf8_lossy(&output.stdout);
        match parse(&text) {
            Some(rate) => Ok(rate),
            None => bail!(
                "{command:?} printed no rate: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        }
    }
}

/// The rate of the last column in what `openssl speed -mr` prints.
fn parse(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("+F"))?;
    let rate: f64 = line.rsplit(':').next()?.trim().parse().ok()?;
    (rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use tabane_lanes::Backend;

    use super::*;

    #[test]
    fn reads_what_speed_prints() {
        let evp = "+DT:sha1:1:65536\n+R:31289:sha1:1.000000\n+H:65536\n+F:25:sha1:2050555904.00\n";
        assert_eq!(parse(evp), Some(2050555904.0));
        assert_eq!(
            parse("+H:65536\n+F:6:hmac(sha1):1899222016.00\n"),
            Some(1899222016.0)
        );
        assert_eq!(parse("+DT:sha1:1:65536\n"), None);
        assert_eq!(parse("+F:25:sha1:nan\n"), None);
        assert_eq!(parse("+F:25:sha1:0.00\n"), None);
    }

    #[test]
    fn masks_make_it_slower() {
        let Some(openssl) = OpenSsl::find() else {
            println!("NOT CHECKED: openssl is not installed");
            return;
        };
        assert!(
            openssl.version.starts_with("OpenSSL "),
            "{}",
            openssl.version
        );
        let rate = |instructions| {
            openssl
                .rate(&["-evp", "sha1"], 16384, instructions)
                .unwrap()
        };
        let (all, scalar) = (rate(Instructions::All), rate(Instructions::Scalar));
        if Backend::ShaNi.is_available() {
            assert!(all > scalar, "{all} {scalar}");
        }
        let error = openssl.rate(&["-evp", "no-such-hash"], 16384, Instructions::All);
        assert!(error.is_err());
    }
}
