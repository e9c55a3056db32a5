//! The peak model: how fast this processor could run a kernel at best, from what its ports were measured to do.
//!
//! Nothing is assumed about the processor. On start, loops of one class of vector instruction, of each pair of
//! classes and of all of them are timed (`kernels`), each beside a chain of additions of one cycle each, which
//! tells the clock. From that and a kernel's counts of operations follows the least number of cycles (`bound`).
//!
//! Loops are written for x86-64. On other processors there is no model.

use std::time::Instant;

use crate::measure::median;

mod bound;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "loops of chosen instructions are assembler")]
mod kernels;
pub mod work;

pub use bound::{Operations, Ports};

/// A width of vector registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 128 bits: SSE, AES-NI.
    W128,
    /// 256 bits: AVX2, VAES.
    W256,
    /// 512 bits: AVX-512, VAES.
    W512,
}

impl Width {
    /// Every width, narrow ones first.
    pub const ALL: [Width; 3] = [Width::W128, Width::W256, Width::W512];

    /// Bits in a register.
    pub fn bits(self) -> u32 {
        match self {
            Width::W128 => 128,
            Width::W256 => 256,
            Width::W512 => 512,
        }
    }
}

/// A class of vector instructions that use the same ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Additions of words, 32 or 64 bits.
    Add,
    /// Logic bit by bit: of three operands at 512 bits, else of two.
    Logic,
    /// Rotations of words; an instruction of AVX-512.
    Rotate,
    /// Shifts of words.
    Shift,
    /// Interleaving two registers' words, within 128 bits.
    Unpack,
    /// Shuffling of bytes, within 128 bits.
    ByteShuffle,
    /// Moving 128-bit parts across a register.
    CrossShuffle,
    /// A round of AES.
    Aes,
    /// Loads of registers from the level 1 cache.
    Load,
    /// Stores of registers.
    Store,
}

impl Class {
    /// Every class, in the order of their numbers.
    pub const ALL: [Class; 10] = [
        Class::Add,
        Class::Logic,
        Class::Rotate,
        Class::Shift,
        Class::Unpack,
        Class::ByteShuffle,
        Class::CrossShuffle,
        Class::Aes,
        Class::Load,
        Class::Store,
    ];

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::Add => "add",
            Class::Logic => "logic",
            Class::Rotate => "rotate",
            Class::Shift => "shift",
            Class::Unpack => "unpack",
            Class::ByteShuffle => "byte shuffle",
            Class::CrossShuffle => "cross shuffle",
            Class::Aes => "aes round",
            Class::Load => "load",
            Class::Store => "store",
        }
    }

    /// Whether it computes, rather than move between registers and memory.
    pub fn computes(self) -> bool {
        !matches!(self, Class::Load | Class::Store)
    }
}

/// Measured ports, by width.
pub struct Model {
    widths: Vec<(Width, Ports)>,
}

impl Model {
    /// What is known of registers of this width; nothing where the processor has none.
    pub fn ports(&self, width: Width) -> Option<&Ports> {
        let mut widths = self.widths.iter();
        widths.find(|(of, _)| *of == width).map(|(_, ports)| ports)
    }
}

/// Measures the ports of this processor: takes about a second. `None` where there are no kernels for it.
#[cfg(target_arch = "x86_64")]
pub fn measure() -> Option<Model> {
    use kernels::{Memory, Mix};

    /// Operations in one timing of a loop.
    const OPERATIONS: u64 = 200_000;
    const TIMINGS: usize = 15;

    let mut memory = Memory::new();
    let mut rate = |kernel: &kernels::Kernel| {
        let rounds = OPERATIONS / kernel.operations;
        kernel.run(rounds / 8, &mut memory);
        let rates = (0..TIMINGS).map(|_| {
            let start = Instant::now();
            kernel.run(rounds, &mut memory);
            let seconds = start.elapsed().as_secs_f64();
            (rounds * kernel.operations) as f64 / (seconds * clock_once(OPERATIONS / 4))
        });
        whole(median(rates).expect("there are timings"))
    };
    let mut widths = Vec::new();
    for width in Width::ALL {
        let mut ports = Ports::default();
        for kernel in kernels::kernels(width) {
            let rate = rate(&kernel);
            match kernel.mix {
                Mix::Alone(class) => ports.alone[class as usize] = Some(rate),
                Mix::Chain(class) => ports.latency[class as usize] = Some(whole(1.0 / rate)),
                Mix::Pair(a, b) => ports.pairs.push((a, b, rate)),
                Mix::Together => ports.together = Some(rate),
            }
        }
        if ports != Ports::default() {
            widths.push((width, ports));
        }
    }
    Some(Model { widths })
}

/// As there are no kernels for it, nothing is known of this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn measure() -> Option<Model> {
    None
}

/// Ports and latencies are whole numbers: what is as near to one as the measurement is exact is meant to be it.
#[cfg(target_arch = "x86_64")]
fn whole(rate: f64) -> f64 {
    if (rate / rate.round() - 1.0).abs() < 0.04 {
        rate.round()
    } else {
        rate
    }
}

/// Cycles a second of this core now: the median of a few timings, a tenth of a millisecond in all.
#[cfg(target_arch = "x86_64")]
pub fn clock_hz() -> Option<f64> {
    median((0..5).map(|_| clock_once(80_000)))
}

/// Nothing counts cycles here.
#[cfg(not(target_arch = "x86_64"))]
pub fn clock_hz() -> Option<f64> {
    None
}

#[cfg(target_arch = "x86_64")]
fn clock_once(cycles: u64) -> f64 {
    let start = Instant::now();
    kernels::count_cycles(cycles / kernels::ADDITIONS);
    (cycles / kernels::ADDITIONS * kernels::ADDITIONS) as f64 / start.elapsed().as_secs_f64()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn measures_this_processor() {
        let clock = clock_hz().unwrap();
        assert!((5e8..1e10).contains(&clock), "{clock}");
        let model = measure().unwrap();
        let ports = model
            .ports(Width::W128)
            .expect("every x86-64 processor has SSE2");
        for class in [Class::Add, Class::Logic, Class::Shift, Class::Unpack] {
            let rate = ports.alone[class as usize].unwrap();
            assert!((0.3..10.0).contains(&rate), "{class:?} {rate}");
            let latency = ports.latency[class as usize].unwrap();
            assert!((0.5..10.0).contains(&latency), "{class:?} {latency}");
        }
        assert_eq!(ports.alone[Class::Rotate as usize], None);
        // A chain cannot be faster than what does not wait.
        assert!(ports.total() * ports.latency[Class::Add as usize].unwrap() > 0.9);
    }

    #[test]
    fn whole_numbers() {
        assert_eq!([3.9, 2.05, 1.6, 0.5].map(whole), [4.0, 2.0, 1.6, 0.5]);
    }
}
