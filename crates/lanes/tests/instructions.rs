//! How many instructions the kernels of aarch64 execute for a byte, counted by qemu, beside what
//! [`peak::operations`] counts.
//!
//! `make test-arm` runs it, with the kernels compiled as in a release. The figures are those of
//! rustc 1.95.

#![cfg(all(target_arch = "aarch64", target_os = "linux"))]

mod child;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use tabane_lanes::aes::{self, CbcJob, cbc_encrypt_many};
use tabane_lanes::{Algorithm, Backend, hash_many, hash_many_on, peak};

/// What a child process is to do, in words: what, on which backend, with how many messages of how
/// many bytes. AES takes its fastest backend; for a hash, a word that names none leaves the choice.
const WORK: &str = "TABANE_INSTRUCTIONS_WORK";

const SHORT_BYTES: usize = 1 << 10;
const LONG_BYTES: usize = 9 << 10;

/// Instructions for a byte.
#[derive(Clone, Copy, Debug)]
struct Count {
    all: f64,
    /// Those that compute with vector registers, which is what the model counts.
    computing: f64,
}

fn work(words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    let [what, backend, messages, bytes] = words[..] else {
        panic!("{words:?}")
    };
    let [messages, bytes] = [messages, bytes].map(|number| number.parse().expect("a number"));
    let mut data = vec![vec![0x5a_u8; bytes]; messages];
    if let Ok(algorithm) = what.parse::<Algorithm>() {
        let inputs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        match backend.parse() {
            Ok(backend) => hash_many_on(backend, algorithm, &inputs).unwrap(),
            Err(_) => hash_many(algorithm, &inputs),
        };
    } else {
        let key = aes::Key::new(&[1; 16]).unwrap();
        let mut ivs = vec![[2; 16]; messages];
        let mut jobs: Vec<CbcJob> = (data.iter_mut().zip(&mut ivs))
            .map(|(data, iv)| CbcJob {
                key: &key,
                iv,
                data,
            })
            .collect();
        cbc_encrypt_many(&mut jobs).unwrap();
    }
}

/// An instruction: its place, its code and what qemu calls it.
struct Instruction {
    place: u64,
    code: u32,
    text: String,
}

/// Has a process do this and hands out each instruction when it is first met (`Ok`), and, if
/// `each`, its place whenever it is executed (`Err`).
fn traced(work: &str, each: bool, mut meet: impl FnMut(Result<Instruction, u64>)) {
    let log = std::env::temp_dir().join(format!("tabane-instructions-{}", std::process::id()));
    let mut runner = child::runner();
    let flags: &[_] = if each {
        &["-singlestep", "-d", "in_asm,exec,nochain", "-D"]
    } else {
        &["-d", "in_asm", "-D"]
    };
    runner.extend(flags.iter().map(|&flag| flag.to_owned()));
    runner.push(log.to_str().expect("UTF-8").to_owned());
    let done = child::test("instructions_for_a_byte", runner)
        .env(WORK, work)
        .output()
        .expect("the runner runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{work}: {errors}");
    let number = |digits: &str| u64::from_str_radix(digits, 16).expect("hexadecimal");
    for line in BufReader::new(File::open(&log).expect("the log")).lines() {
        let line = line.expect("the log is text");
        if let Some((place, rest)) = line
            .strip_prefix("0x")
            .and_then(|line| line.split_once(':'))
        {
            let (code, text) = rest.trim().split_once(' ').expect("code and text");
            meet(Ok(Instruction {
                place: number(place),
                code: number(code) as u32,
                text: text.trim().to_owned(),
            }));
        } else if line.starts_with("Trace") {
            // Trace 0: 0x... [flags/place/flags/flags]
            meet(Err(number(line.split('/').nth(1).expect("the place"))));
        }
    }
    std::fs::remove_file(&log).expect("remove the log");
}

impl Instruction {
    /// Whether it is one of AES, PMULL to 128 bits, SHA-1, SHA-2 or SHA-3, by the tables of the
    /// Arm Architecture Reference Manual (C4.1.96, "Data Processing - Scalar Floating-Point and
    /// Advanced SIMD"): qemu does not name all of them.
    fn is_cryptographic(&self) -> bool {
        let masked = |mask, value| self.code & mask == value;
        masked(0xff3e_0c00, 0x4e28_0800)
            || masked(0xff20_8c00, 0x5e00_0000)
            || masked(0xff3e_0c00, 0x5e28_0800)
            || masked(0xbfe0_fc00, 0x0ee0_e000)
            || masked(0xff00_0000, 0xce00_0000)
    }

    /// Whether it does more with vector registers than to move them.
    fn computes(&self) -> bool {
        let (name, operands) = self.text.split_once(' ').unwrap_or((&self.text, ""));
        let moves = ["ld", "st", "mov", "fmov", "umov", "dup", "ins"];
        self.is_cryptographic()
            || operands.trim_start().starts_with(['v', 'q'])
                && !moves.iter().any(|start| name.starts_with(start))
    }
}

/// Instructions of a process that does this: all, and those that compute.
fn executed(work: &str) -> [usize; 2] {
    let mut computing = HashMap::new();
    let mut counts = [0; 2];
    traced(work, true, |met| match met {
        Ok(instruction) => {
            computing.insert(instruction.place, instruction.computes());
        }
        Err(place) => {
            counts[0] += 1;
            counts[1] += usize::from(computing[&place]);
        }
    });
    counts
}

/// Instructions for a byte of messages that are long enough: starts and ends cancel out.
fn count(what: &str, backend: &str, messages: usize) -> Count {
    let [short, long] = [SHORT_BYTES, LONG_BYTES]
        .map(|bytes| executed(&format!("{what} {backend} {messages} {bytes}")));
    let bytes = (messages * (LONG_BYTES - SHORT_BYTES)) as f64;
    let [all, computing] = [0, 1].map(|i| (long[i] - short[i]) as f64 / bytes);
    Count { all, computing }
}

/// Algorithm, backend, messages, the lanes of the kernel that takes them, and at most how many
/// instructions a byte takes, with loads, stores, moves and what leads from call to kernel.
const HASHES: &[(Algorithm, Backend, usize, usize, f64)] = &[
    (Algorithm::Md5, Backend::Neon, 16, 16, 3.0),
    (Algorithm::Sha1, Backend::Neon, 16, 4, 5.2),
    (Algorithm::Sha256, Backend::Neon, 16, 4, 12.4),
    (Algorithm::Sha512, Backend::Neon, 16, 2, 15.6),
    (Algorithm::Sha1, Backend::ArmCe, 1, 1, 1.7),
    (Algorithm::Sha1, Backend::ArmCe, 16, 2, 1.8),
    (Algorithm::Sha256, Backend::ArmCe, 1, 1, 1.7),
    (Algorithm::Sha256, Backend::ArmCe, 16, 2, 1.8),
    (Algorithm::Sha512, Backend::ArmSha512, 1, 1, 4.0),
    (Algorithm::Sha512, Backend::ArmSha512, 16, 2, 4.0),
];

/// Messages, and at most how many instructions a byte of AES-128-CBC takes.
const CBC: &[(usize, f64)] = &[(1, 4.0), (8, 2.2), (16, 2.2)];

#[test]
fn instructions_for_a_byte() {
    if let Ok(words) = std::env::var(WORK) {
        return work(&words);
    }
    if !child::runner().iter().any(|word| word.contains("qemu")) {
        println!("NOT CHECKED: instructions of aarch64: TABANE_TEST_RUNNER has no qemu");
        return;
    }
    // Where the processor seems to have none of them, none may be met, even where none is forced.
    let mut met = 0;
    for what in ["md5", "sha1", "sha256", "sha512", "aes-128-cbc"] {
        traced(&format!("{what} automatic 9 1008"), false, |instruction| {
            met += usize::from(instruction.is_ok_and(|one| one.is_cryptographic()));
        });
    }
    let expected = Backend::ArmCe.is_available() || aes::Backend::ArmCe.is_available();
    assert_eq!(
        met > 0,
        expected,
        "{met} instructions of AES and SHA were met"
    );

    let mut wrong = Vec::new();
    for &(algorithm, backend, messages, lanes, most) in HASHES {
        let name = format!("{algorithm} on {backend}, {messages} messages");
        if !backend.is_available() {
            println!("NOT CHECKED: instructions of {name}: this processor lacks it");
            continue;
        }
        let model = peak::operations(algorithm, backend, lanes).expect("it is counted");
        let model = f64::from(model.total()) / f64::from(model.bytes);
        let found = count(algorithm.name(), backend.name(), messages);
        let line = format!("{name}: {found:.3?} a byte, of {most}; by the model {model:.3}");
        println!("{line}");
        if found.all > most || (found.computing / model - 1.0).abs() > 0.1 {
            wrong.push(line);
        }
    }
    for &(messages, most) in CBC {
        if !aes::Backend::ArmCe.is_available() {
            println!("NOT CHECKED: instructions of AES-CBC: this processor lacks armce");
            break;
        }
        let found = count("aes-128-cbc", "automatic", messages);
        let line = format!("aes-128-cbc, {messages} messages: {found:.3?} a byte, of {most}");
        println!("{line}");
        if found.all > most {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
