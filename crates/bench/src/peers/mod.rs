//! Other programs and libraries that do what the lanes do, each run as a process of its own.

pub mod ipsec_mb;
pub mod isal_crypto;
pub mod macs;
pub mod openssl;
#[cfg(feature = "libfabric")]
pub mod rma_bw;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

/// A program that is compiled where it is wanted.
#[derive(Debug)]
struct Compiled {
    program: PathBuf,
    _folder: TempDir,
}

/// One run of a program that hashes or encrypts many messages at once.
#[derive(Debug, PartialEq)]
struct Run {
    version: String,
    bytes: u64,
    cpu_seconds: f64,
    /// The digest of the first message, or the beginning of its ciphertext.
    first: String,
}

impl Compiled {
    /// Runs it for `messages` of `bytes` each, for so much CPU time.
    fn run(&self, algorithm: &str, bytes: usize, messages: usize, seconds: f64) -> Result<Run> {
        let output = Command::new(&self.program)
            .arg(algorithm)
            .args([bytes.to_string(), messages.to_string(), seconds.to_string()])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        match Run::parse(&String::from_utf8_lossy(&output.stdout)) {
            Some(run) if output.status.success() => Ok(run),
            _ => bail!(
                "the program {} failed at {algorithm} ({}): {}",
                self.program.display(),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ),
        }
    }
}

impl Run {
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

    /// Bytes a second of CPU time.
    fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.cpu_seconds
    }
}

/// Compiles the text of the file `name`; `arguments` come after it.
fn compile(compiler: &str, name: &str, text: &str, arguments: &[&str]) -> Result<Compiled> {
    let folder = tempfile::tempdir().context("cannot make a folder to compile in")?;
    let (source, program) = (folder.path().join(name), folder.path().join("program"));
    std::fs::write(&source, text).context("cannot write the program to compile")?;
    let output = Command::new(compiler)
        .args(["-O2", "-o"])
        .args([&program, &source])
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {compiler}"))?;
    ensure!(
        output.status.success(),
        "cannot compile {name}:\n{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(Compiled {
        program,
        _folder: folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the programs print digests.
    pub fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn reads_what_the_programs_print() {
        let run = Run::parse("1.3.0 975270912 0.100068170 f7f4\n").unwrap();
        assert_eq!((run.version.as_str(), run.bytes), ("1.3.0", 975270912));
        assert_eq!((run.cpu_seconds, run.first.as_str()), (0.10006817, "f7f4"));
        for bad in [
            "",
            "1.3.0 97 0.1",
            "1.3.0 97 0.0 f7",
            "1.3.0 x 0.1 f7",
            "1 2 3 4 5",
        ] {
            assert_eq!(Run::parse(bad), None, "{bad}");
        }
    }
}
