//! Instruction sets of aarch64. Every such processor has NEON.

use core::arch::aarch64::{uint32x4_t, uint64x2_t};

use crate::registers::Registers;

pin!(pin_words(uint32x4_t as vreg), "neon", "/* {0:q} */");
pin!(pin_double_words(uint64x2_t as vreg), "neon", "/* {0:q} */");

pub(crate) mod neon;
pub(crate) mod sha;
pub(crate) mod sha512;

impl Registers for u32 {
    type Neon = neon::X4;
}

impl Registers for u64 {
    type Neon = neon::Y2;
}
