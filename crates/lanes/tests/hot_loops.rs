//! What the compiler makes of the kernels, as `cargo build --release` builds them: their hot loops
//! call nothing, keep their numbers in registers and execute no more instructions than is written
//! here.
//!
//! A kernel that is no longer inlined into the function that has its instruction set computes the
//! same, at half the speed or a tenth of it, and no other test would notice. The figures are those
//! of rustc 1.95. Where another compiler exceeds one, let `tabane-bench lanes` or `tabane-bench
//! mac` say what it costs before a higher figure is written here.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use tabane_lanes::{Algorithm, Backend, peak};

/// A kernel of lanes: function, algorithm, backend, lanes, and how often the loop inside the hot
/// one is gone through for a block; then at most how many instructions a block takes, how many of
/// them may compute beyond what [`peak::operations`] counts, and how many may store a vector
/// register on the stack.
///
/// SHA-224 and SHA-384 are the same code as SHA-256 and SHA-512, and the compiler may keep either.
type LaneKernel = (&'static str, Algorithm, Backend, usize, usize, [usize; 3]);

#[rustfmt::skip]
const LANE_KERNELS: &[LaneKernel] = &[
    ("sse41::compress::<algorithm::md5::Md5>", Algorithm::Md5, Backend::Sse41, 4, 1, [927, 0, 15]),
    ("avx2::several::<algorithm::md5::Md5, \
    1>", Algorithm::Md5, Backend::Avx2, 8, 1, [810, 0, 28]),
    ("avx2::several::<algorithm::md5::Md5, \
    2>", Algorithm::Md5, Backend::Avx2, 16, 1, [1650, 0, 60]),
    ("avx2::several::<algorithm::md5::Md5, \
    3>", Algorithm::Md5, Backend::Avx2, 24, 1, [2450, 2, 80]),
    ("avx512::half::<algorithm::md5::Md5>", Algorithm::Md5, Backend::Avx512, 8, 1, [570, 0, 0]),
    ("avx512::quarter::<algorithm::md5::Md5>", Algorithm::Md5, Backend::Avx512, 4, 1, [572, 43, 0]),
    ("avx512::several::<algorithm::md5::Md5, \
    1>", Algorithm::Md5, Backend::Avx512, 16, 1, [609, 0, 0]),
    ("avx512::several::<algorithm::md5::Md5, \
    2>", Algorithm::Md5, Backend::Avx512, 32, 1, [1290, 0, 20]),
    ("avx512::several::<algorithm::md5::Md5, \
    3>", Algorithm::Md5, Backend::Avx512, 48, 1, [1830, 0, 18]),
    ("avx512::several::<algorithm::md5::Md5, \
    4>", Algorithm::Md5, Backend::Avx512, 64, 1, [2500, 0, 36]),
    ("sse41::compress::<algorithm::sha1::Sha1>", Algorithm::Sha1, Backend::Sse41, 4, 1, [2254, 0,
        84]),
    ("avx2::several::<algorithm::sha1::Sha1, \
    1>", Algorithm::Sha1, Backend::Avx2, 8, 1, [1783, 16,
        93]),
    ("avx512::half::<algorithm::sha1::Sha1>", Algorithm::Sha1, Backend::Avx512, 8, 1, [970, 0, 18]),
    ("avx512::several::<algorithm::sha1::Sha1, \
    1>", Algorithm::Sha1, Backend::Avx512, 16, 1, [1020, 0, 15]),
    ("sse41::compress::<algorithm::sha2::Sha256>", Algorithm::Sha256, Backend::Sse41, 4, 3, [5577,
        48, 193]),
    ("avx2::several::<algorithm::sha2::Sha256, \
    1>", Algorithm::Sha256, Backend::Avx2, 8, 3, [3960, 16, 165]),
    ("avx512::half::<algorithm::sha2::Sha256>", Algorithm::Sha256, Backend::Avx512, 8, 3, [1961, 0,
        20]),
    ("avx512::several::<algorithm::sha2::Sha256, \
    1>", Algorithm::Sha256, Backend::Avx512, 16, 3, [2002, 0, 11]),
    ("sse41::compress::<algorithm::sha2::Sha512>", Algorithm::Sha512, Backend::Sse41, 2, 4, [6824,
        0, 216]),
    ("avx2::several::<algorithm::sha2::Sha512, \
    1>", Algorithm::Sha512, Backend::Avx2, 4, 4, [4776, 0,
        167]),
    ("avx512::half::<algorithm::sha2::Sha512>", Algorithm::Sha512, Backend::Avx512, 4, 4, [2479, 0,
        18]),
    ("avx512::several::<algorithm::sha2::Sha512, \
    1>", Algorithm::Sha512, Backend::Avx512, 8, 4, [2463, 0, 18]),
    ("avx512::several::<algorithm::sha2::Sha512, \
    2>", Algorithm::Sha512, Backend::Avx512, 16, 4, [5793, 0, 428]),
];

/// CBC encryption of many messages, the widest kernel of a backend: for one register and a block in
/// it, how many instructions compute beside the rounds; how many registers there are; at most how
/// many stores to the stack.
const CBC_KERNELS: &[(&str, usize, usize, usize)] = &[
    ("aes::arch::aesni::KERNELS", 2, 8, 7),
    ("aes::arch::vaes256::KERNELS", 4, 8, 2),
    ("aes::arch::vaes::KERNELS", 5, 12, 0),
];

/// Other kernels, and at most how many instructions their hot loop has, how many of them that
/// compute, and how many stores of a vector register to the stack.
#[rustfmt::skip]
const OTHER_KERNELS: &[(&str, [usize; 3])] = &[
    ("arch::portable::one::<algorithm::md5::Md5>", [680, 0, 0]),
    ("arch::portable::several::<algorithm::md5::Md5, 2>", [1440, 0, 0]),
    ("arch::portable::several::<algorithm::md5::Md5, 3>", [2275, 0, 0]),
    ("vhash::avx512::absorb::<1>", [232, 174, 0]),
    ("vhash::avx512::absorb::<2>", [424, 316, 8]),
    ("xxh3::avx512::absorb", [141, 103, 0]),
    ("gear::avx512::rule_out", [666, 258, 13]),
    ("xor::sum_avx512", [136, 28, 0]),
    ("xor::both_avx512", [151, 28, 0]),
    ("xor::both_avx2", [120, 40, 0]),
    ("arch::x86_64::sha512::avx2", [1111, 188, 18]),
    ("arch::x86_64::sha512::avx512", [1044, 124, 18]),
    ("arch::x86_64::shani::sha1_one", [126, 94, 0]),
    ("arch::x86_64::shani::sha256_one", [170, 118, 0]),
    ("arch::x86_64::shani::sha1::<1>", [126, 94, 0]),
    ("arch::x86_64::shani::sha1::<2>", [251, 188, 4]),
    ("arch::x86_64::shani::sha1::<3>", [442, 282, 31]),
    ("arch::x86_64::shani::sha1::<4>", [664, 376, 73]),
    ("arch::x86_64::shani::sha256::<1>", [169, 118, 0]),
    ("arch::x86_64::shani::sha256::<2>", [385, 236, 13]),
    ("arch::x86_64::shani::sha256::<3>", [664, 354, 70]),
    ("arch::x86_64::shani::sha256::<4>", [969, 472, 127]),
    ("aes::arch::aesni::KERNELS::ecb_encrypt", [81, 40, 0]),
    ("aes::arch::aesni::KERNELS::ecb_decrypt", [81, 40, 0]),
    ("aes::arch::aesni::KERNELS::cbc_decrypt", [113, 48, 8]),
    ("aes::arch::aesni::KERNELS::ctr", [122, 64, 0]),
    ("aes::arch::aesni::KERNELS::gcm_encrypt", [257, 142, 9]),
    ("aes::arch::aesni::KERNELS::gcm_decrypt", [252, 142, 10]),
    ("aes::arch::aesni::KERNELS::ghash", [122, 78, 0]),
    ("aes::arch::vaes256::KERNELS::ecb_encrypt", [446, 185, 0]),
    ("aes::arch::vaes256::KERNELS::ecb_decrypt", [449, 185, 0]),
    ("aes::arch::vaes256::KERNELS::cbc_decrypt", [103, 56, 6]),
    ("aes::arch::vaes256::KERNELS::ctr", [760, 245, 8]),
    ("aes::arch::vaes256::KERNELS::gcm_encrypt", [780, 245, 7]),
    ("aes::arch::vaes256::KERNELS::gcm_decrypt", [780, 245, 7]),
    ("aes::arch::vaes256::KERNELS::ghash", [100, 84, 0]),
    ("aes::arch::vaes::KERNELS::ecb_encrypt", [72, 40, 0]),
    ("aes::arch::vaes::KERNELS::ecb_decrypt", [72, 40, 0]),
    ("aes::arch::vaes::KERNELS::cbc_decrypt", [253, 78, 0]),
    ("aes::arch::vaes::KERNELS::ctr", [727, 192, 0]),
    ("aes::arch::vaes::KERNELS::gcm_encrypt", [887, 314, 3]),
    ("aes::arch::vaes::KERNELS::gcm_decrypt", [890, 314, 0]),
    ("aes::arch::vaes::KERNELS::ghash", [88, 75, 0]),
];

/// A function of the assembly: its labels, and its instructions.
struct Function<'a> {
    name: String,
    lines: Vec<Line<'a>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Line<'a> {
    Label(&'a str),
    Instruction(&'a str),
}

/// The assembly of this crate in the release profile. Takes a minute, or nothing where cargo has it
/// already.
fn assembly() -> String {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["rustc", "--release", "--package=tabane-lanes", "--lib"])
        .args(["--message-format=json", "--", "--emit=asm"])
        .arg("-Csymbol-mangling-version=v0")
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    // Settings of the test build that a release build would not have.
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_INCREMENTAL",
    ] {
        cargo.env_remove(variable);
    }
    let output = cargo.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let messages = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let library = messages
        .split('"')
        .find(|word| word.contains("libtabane_lanes-") && word.ends_with(".rmeta"))
        .expect("cargo names the library");
    let path =
        PathBuf::from(library.replace("libtabane_lanes-", "tabane_lanes-")).with_extension("s");
    fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; the profile must have one codegen unit for this crate",
            path.display()
        )
    })
}

/// The functions, by their names without `tabane_lanes::`.
fn functions(assembly: &str) -> Vec<Function<'_>> {
    let mut functions: Vec<Function> = Vec::new();
    let mut inside = false;
    for line in assembly.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| name.starts_with("_R")) {
            let name = format!("{:#}", rustc_demangle::demangle(name));
            let name = name.replace("tabane_lanes::", "");
            functions.push(Function {
                name,
                lines: Vec::new(),
            });
            inside = true;
            continue;
        }
        let line = line.trim();
        inside &= line != ".cfi_endproc";
        let Some(function) = functions.last_mut().filter(|_| inside) else {
            continue;
        };
        if let Some(label) = line.strip_suffix(':') {
            function.lines.push(Line::Label(label));
        // Neither directives nor the comments in which values are pinned.
        } else if !line.is_empty() && !line.starts_with(['.', '#', '/']) {
            function.lines.push(Line::Instruction(line));
        }
    }
    functions
}

/// Whether the instruction has a vector register.
fn is_vector(instruction: &str) -> bool {
    ["%xmm", "%ymm", "%zmm"]
        .iter()
        .any(|register| instruction.contains(register))
}

/// Whether the instruction stores a vector register on the stack.
fn is_spill(instruction: &str) -> bool {
    let place = |(_, to): (&str, &str)| to.ends_with("(%rsp)") || to.ends_with("(%rbp)");
    is_move(instruction) && instruction.rsplit_once(' ').is_some_and(place)
}

/// Whether the instruction only moves or clears vector registers.
fn is_move(instruction: &str) -> bool {
    let (operation, operands) = instruction
        .split_once(['\t', ' '])
        .unwrap_or((instruction, ""));
    let mut registers = operands.split(", ");
    let first = registers.next();
    operation.trim_start_matches('v').starts_with("mov")
        || operation.contains("broadcast")
        || operation.contains("pxor") && registers.all(|register| Some(register) == first)
}

/// The loop of a function that has the most vector instructions, or else the longest.
struct HotLoop<'a> {
    instructions: usize,
    computing: usize,
    spills: usize,
    calls: Vec<&'a str>,
}

impl<'a> HotLoop<'a> {
    /// The largest loop of a function, or the whole function if it has none; the largest loop
    /// inside runs `inner_turns` times.
    fn of(function: &Function<'a>, inner_turns: usize) -> Self {
        let lines = &function.lines[..];
        let loops = loops(lines);
        let size = |&(start, end): &(usize, usize)| (vectors(&lines[start..=end]), end - start);
        let hot = loops
            .iter()
            .copied()
            .max_by_key(size)
            .unwrap_or((0, lines.len() - 1));
        let inside =
            |&(start, end): &(usize, usize)| (start, end) != hot && hot.0 <= start && end <= hot.1;
        let inner = loops.iter().copied().filter(inside).max_by_key(size);
        let mut found = Self {
            instructions: 0,
            computing: 0,
            spills: 0,
            calls: Vec::new(),
        };
        found.add(&lines[hot.0..=hot.1], 1);
        if let (Some((start, end)), 2..) = (inner, inner_turns) {
            found.add(&lines[start..=end], inner_turns - 1);
        }
        found
    }

    fn add(&mut self, lines: &[Line<'a>], turns: usize) {
        for line in lines {
            let &Line::Instruction(instruction) = line else {
                continue;
            };
            self.instructions += turns;
            if is_vector(instruction) {
                self.computing += turns * usize::from(!is_move(instruction));
                self.spills += turns * usize::from(is_spill(instruction));
            }
            if instruction.starts_with("call") && turns == 1 {
                self.calls.push(instruction);
            }
        }
    }
}

/// First and last line of each jump back.
fn loops(lines: &[Line]) -> Vec<(usize, usize)> {
    let jump = |(end, line): (usize, &Line)| {
        let &Line::Instruction(instruction) = line else {
            return None;
        };
        let (_, label) = instruction.strip_prefix('j')?.split_once(['\t', ' '])?;
        let start = lines[..end]
            .iter()
            .position(|&line| line == Line::Label(label.trim()))?;
        Some((start, end))
    };
    lines.iter().enumerate().filter_map(jump).collect()
}

fn vectors(lines: &[Line]) -> usize {
    let vector =
        |line: &&Line| matches!(line, Line::Instruction(instruction) if is_vector(instruction));
    lines.iter().filter(vector).count()
}

/// The figures of one kernel beside their limits: instructions, those that compute, spills.
struct Report(String);

impl Report {
    fn check(&mut self, name: &str, found: &HotLoop, limits: [usize; 3]) {
        let figures = [found.instructions, found.computing, found.spills];
        let exceeded = figures
            .iter()
            .zip(limits)
            .any(|(&figure, limit)| figure > limit);
        // Then what computes is in a loop of another function.
        let elsewhere = 2 * found.computing < limits[1];
        println!("{name}: {figures:?} of {limits:?}");
        if exceeded || elsewhere || !found.calls.is_empty() {
            let calls = &found.calls;
            writeln!(
                self.0,
                "{name}: {figures:?}, at most {limits:?}; calls: {calls:?}"
            )
            .unwrap();
        }
    }

    fn end(self) {
        let heading =
            "hot loops with calls or too many instructions, computing instructions, spills";
        assert!(self.0.is_empty(), "{heading}:\n{}", self.0);
    }
}

#[test]
fn every_kernel_computes_in_its_registers_what_the_model_counts() {
    let assembly = assembly();
    let functions = functions(&assembly);
    let mut report = Report(String::new());
    let named = |name: &str| functions.iter().find(|function| function.name == name);

    for &(function, algorithm, backend, lanes, inner_turns, [instructions, more, spills]) in
        LANE_KERNELS
    {
        let name = format!("arch::x86_64::{function}");
        let shorter = name.replace("Sha256", "Sha224").replace("Sha512", "Sha384");
        let found = named(&name).or_else(|| named(&shorter));
        let found = HotLoop::of(found.unwrap_or_else(|| panic!("no {name}")), inner_turns);
        let counted = peak::operations(algorithm, backend, lanes).expect("there is the kernel");
        let computing = counted.total() as usize + more;
        report.check(&name, &found, [instructions, computing, spills]);
    }

    for &(module, beside_rounds, registers, spills) in CBC_KERNELS {
        for (keys, rounds) in [
            ("one_key", 10),
            ("one_key", 14),
            ("own_keys", 10),
            ("own_keys", 14),
        ] {
            let name = format!("{module}::{keys}::<{rounds}>");
            let all = functions.iter().filter(|function| function.name == name);
            let widest = all
                .map(|function| HotLoop::of(function, 1))
                .max_by_key(|hot| hot.computing);
            let computing = registers * (rounds + beside_rounds);
            // A load or a store for each shuffle, and for each register the text, the result and,
            // of as many messages as blocks, address and prefetch.
            let instructions = 2 * computing + 16;
            let found = widest.unwrap_or_else(|| panic!("no {name}"));
            report.check(&name, &found, [instructions, computing, spills]);
        }
    }

    for &(name, limits) in OTHER_KERNELS {
        let found = HotLoop::of(named(name).unwrap_or_else(|| panic!("no {name}")), 1);
        report.check(name, &found, limits);
    }
    report.end();
}
