//! Micro-kernels: loops of the same vector instructions again and again, for the port model to
//! time.
//!
//! The assembler writes the loops out: `.irp d,0,1,2` repeats a line with `\d` replaced by each
//! number, so that every register carries a chain of its own. Instructions of different classes
//! work on different registers.

use std::arch::asm;

use super::class::Class;
use super::width::Width;

/// What kernels load from and store to: as many bytes as all registers, and no register across two
/// cache lines.
#[repr(align(64))]
pub struct Memory([u8; 64 * 32]);

impl Memory {
    /// Zeros.
    pub fn new() -> Memory {
        Memory([0; 64 * 32])
    }
}

/// How often the body of a kernel's loop stands in it: long enough that the jump back does not
/// count.
const COPIES: u64 = 4;

/// What a kernel's loop is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mix {
    /// Independent operations of one class.
    Alone(Class),
    /// Operations of one class, each of which waits for the one before.
    Chain(Class),
    /// As many independent operations of one class as of another.
    Pair(Class, Class),
    /// As many independent operations of each class but loads and stores.
    Together,
}

/// One loop.
#[derive(Clone, Copy)]
pub struct Kernel {
    /// What is in it.
    pub mix: Mix,
    /// Operations each time round.
    pub operations: u64,
    run: unsafe fn(u64, *mut u8),
}

impl Kernel {
    /// Goes round `rounds` times, at least once.
    pub fn run(&self, rounds: u64, memory: &mut Memory) {
        // SAFETY: `kernels` hands out only what the processor has the instructions for; a kernel
        // touches no more of the memory than its registers' numbers times their width; zero would
        // be 2^64 rounds.
        unsafe { (self.run)(rounds.max(1), memory.0.as_mut_ptr()) }
    }
}

/// Goes round `rounds` times, at least once, adding numbers that each wait for the one before:
/// takes [`ADDITIONS`] cycles each time round.
pub fn count_cycles(rounds: u64) {
    // SAFETY: changes nothing but the two registers.
    unsafe {
        asm!(
            "2:", ".rept 32", "add {sum}, {sum}", ".endr", "dec {rounds}", "jnz 2b",
            rounds = inout(reg) rounds.max(1) => _,
            sum = inout(reg) 1_u64 => _,
            options(nomem, nostack),
        );
    }
}

/// Dependent additions each time round in [`count_cycles`].
pub const ADDITIONS: u64 = 32;

/// The instruction of a class on register `\d`. The last register of the width is the other
/// operand.
#[rustfmt::skip]
macro_rules! instruction {
    (W128 Add) => { "paddd xmm\\d, xmm15" };
    (W128 Logic) => { "pxor xmm\\d, xmm15" };
    (W128 Shift) => { "psrld xmm\\d, 5" };
    (W128 Unpack) => { "punpckldq xmm\\d, xmm15" };
    (W128 ByteShuffle) => { "pshufb xmm\\d, xmm15" };
    (W128 Aes) => { "aesenc xmm\\d, xmm15" };
    (W128 Load) => { "movdqu xmm\\d, [rsi + 16*\\d]" };
    (W128 Store) => { "movdqu [rsi + 16*\\d], xmm\\d" };
    (W256 Add) => { "vpaddd ymm\\d, ymm\\d, ymm15" };
    (W256 Logic) => { "vpxor ymm\\d, ymm\\d, ymm15" };
    (W256 Rotate) => { "vprold ymm\\d, ymm\\d, 5" };
    (W256 Shift) => { "vpsrld ymm\\d, ymm\\d, 5" };
    (W256 Unpack) => { "vpunpckldq ymm\\d, ymm\\d, ymm15" };
    (W256 ByteShuffle) => { "vpshufb ymm\\d, ymm\\d, ymm15" };
    (W256 CrossShuffle) => { "vperm2i128 ymm\\d, ymm\\d, ymm15, 0x21" };
    (W256 Aes) => { "vaesenc ymm\\d, ymm\\d, ymm15" };
    (W256 Load) => { "vmovdqu ymm\\d, [rsi + 32*\\d]" };
    (W256 Store) => { "vmovdqu [rsi + 32*\\d], ymm\\d" };
    (W512 Add) => { "vpaddd zmm\\d, zmm\\d, zmm31" };
    (W512 Logic) => { "vpternlogd zmm\\d, zmm30, zmm31, 0x96" };
    (W512 Rotate) => { "vprold zmm\\d, zmm\\d, 5" };
    (W512 Shift) => { "vpsrld zmm\\d, zmm\\d, 5" };
    (W512 Unpack) => { "vpunpckldq zmm\\d, zmm\\d, zmm31" };
    (W512 ByteShuffle) => { "vpshufb zmm\\d, zmm\\d, zmm31" };
    (W512 CrossShuffle) => { "vshufi32x4 zmm\\d, zmm\\d, zmm31, 0x88" };
    (W512 Aes) => { "vaesenc zmm\\d, zmm\\d, zmm31" };
    (W512 Load) => { "vmovdqu64 zmm\\d, [rsi + 64*\\d]" };
    (W512 Store) => { "vmovdqu64 [rsi + 64*\\d], zmm\\d" };
}

/// What cleans the upper halves of the registers, which would slow down narrower code afterwards.
macro_rules! clean {
    (W128) => {
        ""
    };
    ($wider:ident) => {
        "vzeroupper"
    };
}

/// A kernel from instructions and the registers for each.
macro_rules! kernel {
    ($mix:expr, $width:ident, $($class:ident on $($register:literal)*),*) => {
        Kernel {
            mix: $mix,
            operations: COPIES * [$($($register),*),*].len() as u64,
            // SAFETY: of Kernel::run.
            run: |rounds, memory| unsafe {
                asm!(
                    "2:",
                    ".rept {copies}",
                    $(concat!(".irp d" $(, ",", $register)*), instruction!($width $class),
                    ".endr",)*
                    ".endr",
                    "dec rcx",
                    "jnz 2b",
                    clean!($width),
                    copies = const COPIES,
                    inout("rcx") rounds => _,
                    in("rsi") memory,
                    clobber_abi("sysv64"),
                    options(nostack),
                );
            },
        }
    };
}

/// One class on all registers, in two halves as in pairs.
macro_rules! alone {
    (W512 $class:ident) => {
        kernel!(Mix::Alone(Class::$class), W512,
            $class on 0 1 2 3 4 5 6 7 8 9 10 11, $class on 12 13 14 15 16 17 18 19 20 21 22 23)
    };
    ($width:ident $class:ident) => {
        kernel!(Mix::Alone(Class::$class), $width, $class on 0 1 2 3 4 5 6,
        $class on 7 8 9 10 11 12 13)
    };
}

macro_rules! pair {
    (W512 $a:ident $b:ident) => {
        kernel!(Mix::Pair(Class::$a, Class::$b), W512,
            $a on 0 1 2 3 4 5 6 7 8 9 10 11, $b on 12 13 14 15 16 17 18 19 20 21 22 23)
    };
    ($width:ident $a:ident $b:ident) => {
        kernel!(Mix::Pair(Class::$a, Class::$b), $width, $a on 0 1 2 3 4 5 6,
        $b on 7 8 9 10 11 12 13)
    };
}

/// Each pair of the classes.
macro_rules! pairs {
    ($width:ident:) => { Vec::new() };
    ($width:ident: $a:ident $($b:ident)*) => {{
        let mut list: Vec<Kernel> = pairs!($width: $($b)*);
        list.extend([$(pair!($width $a $b)),*] as [Kernel; _]);
        list
    }};
}

/// The kernels of the computing classes alone, in chains, in pairs, and of loads and stores alone
/// and in pairs.
macro_rules! kernels {
    ($width:ident: $($class:ident)*) => {{
        let mut list: Vec<Kernel> = pairs!($width: $($class)* Load Store);
        list.extend([$(
            alone!($width $class),
            kernel!(Mix::Chain(Class::$class), $width, $class on 0),
        )*]);
        list.extend([alone!($width Load), alone!($width Store)]);
        list
    }};
}

/// The kernels of a width that this processor can run.
pub fn kernels(width: Width) -> Vec<Kernel> {
    let mut list = match width {
        Width::W128 => kernels!(W128: Add Logic Shift Unpack ByteShuffle Aes),
        Width::W256 => kernels!(W256: Add Logic Rotate Shift Unpack ByteShuffle CrossShuffle Aes),
        Width::W512 => kernels!(W512: Add Logic Rotate Shift Unpack ByteShuffle CrossShuffle Aes),
    };
    list.push(match width {
        Width::W128 => kernel!(Mix::Together, W128,
            Add on 0 1, Logic on 2 3, Shift on 4 5, Unpack on 6 7, ByteShuffle on 8 9,
            Aes on 10 11),
        Width::W256 => kernel!(Mix::Together, W256,
            Add on 0, Logic on 1, Rotate on 2, Shift on 3, Unpack on 4, ByteShuffle on 5,
            CrossShuffle on 6, Aes on 7,
            Add on 8, Logic on 9, Unpack on 10, Rotate on 11, ByteShuffle on 12, Shift on 13),
        Width::W512 => kernel!(Mix::Together, W512,
            Add on 0 1 2, Logic on 3 4 5, Rotate on 6 7 8, Shift on 9 10 11,
            Unpack on 12 13 14, ByteShuffle on 15 16 17, CrossShuffle on 18 19 20, Aes on 21 22 23),
    });
    list.retain(|kernel| match kernel.mix {
        Mix::Alone(class) | Mix::Chain(class) => has(width, class),
        Mix::Pair(a, b) => has(width, a) && has(width, b),
        Mix::Together => Class::ALL.iter().all(|&class| has(width, class)),
    });
    list
}

/// Whether this processor has the instruction of the class.
fn has(width: Width, class: Class) -> bool {
    match (width, class) {
        // SSE has neither instruction, and the kernels of this width use none.
        (Width::W128, Class::Rotate | Class::CrossShuffle) => true,
        (Width::W128, Class::ByteShuffle) => is_x86_feature_detected!("ssse3"),
        (Width::W128, Class::Aes) => is_x86_feature_detected!("aes"),
        (Width::W128, _) => true,
        (Width::W256, Class::Rotate) => is_x86_feature_detected!("avx512vl"),
        (Width::W256, Class::Aes) => {
            is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx2")
        }
        (Width::W256, _) => is_x86_feature_detected!("avx2"),
        (Width::W512, Class::ByteShuffle) => is_x86_feature_detected!("avx512bw"),
        (Width::W512, Class::Aes) => {
            is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f")
        }
        (Width::W512, _) => is_x86_feature_detected!("avx512f"),
    }
}
