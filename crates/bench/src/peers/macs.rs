//! Crypto++'s MACs and xxHash in C, by a small C++ program that is compiled where the libraries'
//! headers are. It keeps running, since it has as much data as we have.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Compiled, compile};
use crate::tools::find_in_path;

const SOURCE: &str = include_str!("../../peers/macs.cpp");

/// A library that has some of the algorithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Library {
    /// Crypto++, in C++ and assembly.
    CryptoPp,
    /// xxHash, in C, with its choice of instructions at run time.
    XxHash,
}

impl Library {
    const ALL: [Library; 2] = [Library::CryptoPp, Library::XxHash];

    /// Which one is to be compared with at an algorithm of this name in the engine's table.
    pub fn with(algorithm: &str) -> Option<Library> {
        match algorithm {
            "hmac-md5" | "hmac-sha1" | "hmac-sha256" | "siphash-2-4" | "vmac-64" | "vmac-128" => {
                Some(Library::CryptoPp)
            }
            "xxh32" | "xxh64" | "xxh3" | "xxh128" => Some(Library::XxHash),
            _ => None,
        }
    }

    /// The name, with which its version begins.
    pub fn name(self) -> &'static str {
        match self {
            Library::CryptoPp => "Crypto++",
            Library::XxHash => "xxHash",
        }
    }

    /// The Debian package.
    pub fn package(self) -> &'static str {
        match self {
            Library::CryptoPp => "libcrypto++-dev",
            Library::XxHash => "libxxhash-dev",
        }
    }

    fn header(self) -> &'static str {
        match self {
            Library::CryptoPp => "cryptopp/vmac.h",
            Library::XxHash => "xxhash.h",
        }
    }

    /// What the compiler is to be told.
    fn arguments(self) -> [&'static str; 2] {
        match self {
            Library::CryptoPp => ["-DCRYPTOPP", "-lcryptopp"],
            Library::XxHash => ["-DXXHASH", "-lxxhash"],
        }
    }

    fn is_installed(self) -> bool {
        let folders = ["/usr/include", "/usr/local/include"];
        folders
            .map(Path::new)
            .iter()
            .any(|folder| folder.join(self.header()).exists())
    }
}

/// The program, running.
pub struct Macs {
    /// Each library's name and version.
    pub versions: Vec<String>,
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    _compiled: Compiled,
}

/// One answer of the program.
#[derive(Debug, PartialEq)]
pub struct Run {
    bytes: u64,
    cpu_seconds: f64,
    /// Of a message of zeros under a key of zeros, with zero as nonce.
    digest: String,
}

impl Run {
    /// Of CPU time.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.cpu_seconds
    }
}

impl Macs {
    /// Compiles the program and starts it with messages of `block` bytes in data of `data` bytes;
    /// nothing where none of the libraries or no compiler is installed.
    pub fn start(block: usize, data: usize) -> Result<Option<Macs>> {
        let libraries = Library::ALL
            .into_iter()
            .filter(|library| library.is_installed());
        let libraries: Vec<_> = libraries.collect();
        if find_in_path("c++").is_none() || libraries.is_empty() {
            return Ok(None);
        }
        let arguments = libraries.iter().flat_map(|library| library.arguments());
        let arguments: Vec<_> = ["-std=c++17"].into_iter().chain(arguments).collect();
        let compiled = compile("c++", "macs.cpp", SOURCE, &arguments)?;
        let mut process = Command::new(&compiled.program)
            .args([block, data].map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run the program for Crypto++ and xxHash")?;
        let (questions, answers) = (process.stdin.take(), process.stdout.take());
        let mut macs = Macs {
            versions: Vec::new(),
            process,
            questions: questions.context("the program has no input")?,
            answers: BufReader::new(answers.context("the program has no output")?),
            _compiled: compiled,
        };
        loop {
            match macs.answer()?.trim() {
                "" => return Ok(Some(macs)),
                version => macs.versions.push(version.to_owned()),
            }
        }
    }

    /// Whether the library is there.
    pub fn has(&self, library: Library) -> bool {
        let mut versions = self.versions.iter();
        versions.any(|version| version.starts_with(library.name()))
    }

    /// Times an algorithm over `seconds` of CPU time: on one message repeatedly, or on all data in
    /// turn.
    pub fn run(&mut self, algorithm: &str, through_memory: bool, seconds: f64) -> Result<Run> {
        let shape = if through_memory { "memory" } else { "warm" };
        writeln!(self.questions, "{algorithm} {shape} {seconds}")
            .context("the program for Crypto++ and xxHash ended")?;
        let answer = self.answer()?;
        parse(&answer).with_context(|| {
            format!("the program for Crypto++ and xxHash says {answer:?} to {algorithm}")
        })
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let bytes = self.answers.read_line(&mut line);
        if bytes.context("cannot read what the program for Crypto++ and xxHash says")? == 0 {
            bail!("the program for Crypto++ and xxHash ended: is there memory for its data?");
        }
        Ok(line)
    }
}

impl Drop for Macs {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the line that the program prints.
fn parse(text: &str) -> Option<Run> {
    let words: Vec<_> = text.split_whitespace().collect();
    let [bytes, cpu_seconds, digest] = words[..] else {
        return None;
    };
    let run = Run {
        bytes: bytes.parse().ok()?,
        cpu_seconds: cpu_seconds.parse().ok()?,
        digest: digest.to_owned(),
    };
    (run.cpu_seconds > 0.0).then_some(run)
}

#[cfg(test)]
mod tests {
    use tabane_engine::vmac::{Nonce, TagSize, VmacKey};
    use tabane_engine::{Algorithm, Function, Key, KeyRule};

    use super::*;

    const BLOCK_LEN: usize = 10_000;

    /// Of a message of zeros under a key of zeros, with zero as nonce.
    fn ours(algorithm: Algorithm) -> String {
        let message = [0; BLOCK_LEN];
        let vmac = |size| {
            let nonce = Nonce::from_bytes(&[0]).unwrap();
            let tag = VmacKey::new(size, &[0; 16]).authenticate_under_nonce(nonce, &message);
            tag.to_string()
        };
        let function = match (algorithm, algorithm.key_rule()) {
            (Algorithm::Vmac64, _) => return vmac(TagSize::Bits64),
            (Algorithm::Vmac128, _) => return vmac(TagSize::Bits128),
            (_, KeyRule::None) => Function::keyless(algorithm),
            (_, KeyRule::Exactly(len)) => {
                Function::new(algorithm, Some(&Key::new(vec![0; len]))).unwrap()
            }
            (_, KeyRule::AnyLength) => {
                Function::new(algorithm, Some(&Key::new(vec![0; 32]))).unwrap()
            }
        };
        function.digest(&message).to_string()
    }

    #[test]
    fn the_libraries_compute_the_same() {
        let mut macs = Macs::start(BLOCK_LEN, 10 * BLOCK_LEN).unwrap();
        for algorithm in Algorithm::all() {
            let Some(library) = Library::with(algorithm.name()) else {
                continue;
            };
            match &mut macs {
                Some(macs) if macs.has(library) => {
                    for through_memory in [false, true] {
                        let run = macs.run(algorithm.name(), through_memory, 1e-3).unwrap();
                        assert_eq!(run.digest, ours(algorithm), "{algorithm}");
                        assert!(run.bytes_per_s() > 1e6, "{run:?}");
                    }
                }
                _ => println!(
                    "NOT CHECKED: {algorithm} of {}: {} or a C++ compiler is not installed",
                    library.name(),
                    library.package()
                ),
            }
        }
        if let Some(macs) = &mut macs {
            assert!(macs.run("no-such-hash", false, 1e-3).is_err());
        }
    }

    #[test]
    fn reads_what_the_program_prints() {
        let run = parse("2000000 0.500000000 9767e097\n").unwrap();
        assert_eq!((run.bytes_per_s(), run.digest.as_str()), (4e6, "9767e097"));
        for bad in ["", "97 0.1", "97 0.0 f7", "x 0.1 f7", "1 2 3 4"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
