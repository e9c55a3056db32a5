//! The peak model: how fast this processor could run a kernel at best, from what its ports were
//! measured to do.
//!
//! Nothing is assumed about the processor. On start, loops of one class of vector instruction, of
//! each pair of classes and of all of them are timed (`kernels`), each beside a chain of additions
//! of one cycle each, which tells the clock. From that and a kernel's counts of operations follows
//! the least number of cycles (`bound`).
//!
//! Loops are written for x86-64. On other processors there is no model.

mod bound;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "loops of chosen instructions are assembler")]
mod kernels;
#[cfg(target_arch = "x86_64")]
mod measure;
pub mod work;

pub use bound::{Operations, Ports};
#[cfg(target_arch = "x86_64")]
pub use measure::{clock_hz, measure};

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

/// There are no kernels for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn measure() -> Option<Model> {
    None
}

/// Nothing counts cycles here.
#[cfg(not(target_arch = "x86_64"))]
pub fn clock_hz() -> Option<f64> {
    None
}
