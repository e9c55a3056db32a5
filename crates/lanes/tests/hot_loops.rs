//! What the compiler makes of the kernels, as `cargo build --release` builds them: their hot loops call nothing, keep
//! their numbers in registers and execute no more instructions than is written here.
//!
//! A kernel that is no longer inlined into the function that has its instruction set computes the same, at half the speed
//! or a tenth of it, and no other test would notice. The figures are those of rustc 1.95. Where another compiler exceeds
//! one, let `tabane-bench lanes` or `tabane-bench mac` say what it costs before a higher figure is written here.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use tabane_lanes::{Algorithm, Backend, peak};

/// A kernel of lanes: function, algorithm, backend, lanes, and how often the loop inside the hot one is gone through for a
/// block; then at most how many instructions a block takes, how many of them may compute beyond what
/// [`peak::operations`] counts, and how many may store a vector register on the stack.
///
/// SHA-224 and SHA-384 are the same code as SHA-256 and SHA-512, and the compiler may keep either.
type LaneKernel = (&'static str, Algorithm, Backend, usize, usize, [usize; 3]);

#[rustfmt::skip]
const LANE_KERNELS: &[LaneKernel] = &[
//LANES
];

/// CBC encryption of many messages, the widest kernel of a backend: for one register and a block in it, how many
/// instructions compute beside the rounds; how many registers there are; at most how many stores to the stack.
const CBC_KERNELS: &[(&str, usize, usize, usize)] = &[
    ("aes::arch::aesni::KERNELS", 2, 8, 7),
    ("aes::arch::vaes256::KERNELS", 4, 8, 2),
    ("aes::arch::vaes::KERNELS", 5, 12, 0),
];

/// Other kernels, and at most how many instructions their hot loop has, how many of them that compute, and how many
/// stores of a vector register to the stack.
#[rustfmt::skip]
const OTHER_KERNELS: &[(&str, [usize; 3])] = &[
//OTHER
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

/// The assembly of this crate in the release profile. Takes a minute, or nothing where cargo has it already.
fn assembly() -> String {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["rustc", "--release", "--package=tabane-lanes", "--lib"])
        .args(["--message-format=json", "--", "--emit=asm"])
        .arg("-Csymbol-mangling-version=v0")
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    // What these tests may have been built with, but not a release.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_INCREMENTAL"] {
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
    let path = PathBuf::from(library.replace("libtabane_lanes-", "tabane_lanes-")).with_extension("s");
    fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; the profile must have one codegen unit for this crate", path.display())
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
            functions.push(Function { name, lines: Vec::new() });
            inside = true;
            continue;
        }
        let line = line.trim();
        inside &= line != ".cfi_endproc";
        let Some(function) = functions.last_mut().filter(|_| inside) else { continue };
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
    ["%xmm", "%ymm", "%zmm"].iter().any(|register| instruction.contains(register))
}

/// Whether the instruction stores a vector register on the stack.
fn is_spill(instruction: &str) -> bool {
    let place = |(_, to): (&str, &str)| to.ends_with("(%rsp)") || to.ends_with("(%rbp)");
    is_move(instruction) && instruction.rsplit_once(' ').is_some_and(place)
}

/// Whether the instruction only moves or clears vector registers.
fn is_move(instruction: &str) -> bool {
    let (operation, operands) = instruction.split_once(['\t', ' ']).unwrap_or((instruction, ""));
    let mut registers = operands.split(", ");
    let first = registers.next();
    operation.trim_start_matches('v').starts_with("mov")
        || operation.contains("broadcast")
        || operation.contains("pxor") && registers.all(|register| Some(register) == first)
}

/// The loop of a function that has the most vector instructions.
struct HotLoop<'a> {
    instructions: usize,
    computing: usize,
    spills: usize,
    calls: Vec<&'a str>,
}

impl<'a> HotLoop<'a> {
    /// With the largest loop inside it gone through `inner_turns` times. A function without a loop is all of it.
    fn of(function: &Function<'a>, inner_turns: usize) -> Self {
        let lines = &function.lines[..];
        let loops = loops(lines);
        let size = |&(start, end): &(usize, usize)| vectors(&lines[start..=end]);
        let hot = loops.iter().copied().max_by_key(size).unwrap_or((0, lines.len() - 1));
        let inside = |&(start, end): &(usize, usize)| (start, end) != hot && hot.0 <= start && end <= hot.1;
        let inner = loops.iter().copied().filter(inside).max_by_key(size);
        let mut found = Self { instructions: 0, computing: 0, spills: 0, calls: Vec::new() };
        found.add(&lines[hot.0..=hot.1], 1);
        if let (Some((start, end)), 2..) = (inner, inner_turns) {
            found.add(&lines[start..=end], inner_turns - 1);
        }
        found
    }

    fn add(&mut self, lines: &[Line<'a>], turns: usize) {
        for line in lines {
            let &Line::Instruction(instruction) = line else { continue };
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
        let &Line::Instruction(instruction) = line else { return None };
        let (_, label) = instruction.strip_prefix('j')?.split_once(['\t', ' '])?;
        let start = lines[..end].iter().position(|&line| line == Line::Label(label.trim()))?;
        Some((start, end))
    };
    lines.iter().enumerate().filter_map(jump).collect()
}

fn vectors(lines: &[Line]) -> usize {
    let vector = |line: &&Line| matches!(line, Line::Instruction(instruction) if is_vector(instruction));
    lines.iter().filter(vector).count()
}

/// The figures of one kernel beside their limits: instructions, those that compute, spills.
struct Report(String);

impl Report {
    fn check(&mut self, name: &str, found: &HotLoop, limits: [usize; 3]) {
        let figures = [found.instructions, found.computing, found.spills];
        let exceeded = figures.iter().zip(limits).any(|(&figure, limit)| figure > limit);
        println!("{name}: {figures:?} of {limits:?}");
        if exceeded || !found.calls.is_empty() {
            let calls = &found.calls;
            writeln!(self.0, "{name}: {figures:?}, at most {limits:?}; calls: {calls:?}").unwrap();
        }
    }

    fn end(self) {
        let heading = "hot loops with calls or too many instructions, computing instructions, spills";
        assert!(self.0.is_empty(), "{heading}:\n{}", self.0);
    }
}

#[test]
fn every_kernel_computes_in_its_registers_what_the_model_counts() {
    let assembly = assembly();
    let functions = functions(&assembly);
    let mut report = Report(String::new());
    let named = |name: &str| functions.iter().find(|function| function.name == name);

    for &(function, algorithm, backend, lanes, inner_turns, [instructions, more, spills]) in LANE_KERNELS {
        let name = format!("arch::x86_64::{function}");
        let shorter = name.replace("Sha256", "Sha224").replace("Sha512", "Sha384");
        let found = named(&name).or_else(|| named(&shorter));
        let found = HotLoop::of(found.unwrap_or_else(|| panic!("no {name}")), inner_turns);
        let counted = peak::operations(algorithm, backend, lanes).expect("there is the kernel");
        let computing = counted.total() as usize + more;
        report.check(&name, &found, [instructions, computing, spills]);
    }

    for &(module, beside_rounds, registers, spills) in CBC_KERNELS {
        for (keys, rounds) in [("one_key", 10), ("one_key", 14), ("own_keys", 10), ("own_keys", 14)] {
            let name = format!("{module}::{keys}::<{rounds}>");
            let all = functions.iter().filter(|function| function.name == name);
            let widest = all.map(|function| HotLoop::of(function, 1)).max_by_key(|hot| hot.computing);
            let computing = registers * (rounds + beside_rounds);
            // A load or a store for each shuffle, and for each register the text, the result and, of as many messages
            // as blocks, address and prefetch.
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
