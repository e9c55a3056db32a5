//! The classes of vector instructions.

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
