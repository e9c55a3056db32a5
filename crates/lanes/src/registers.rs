//! Which registers there are for lanes of a word.

use crate::vector::{Vector, Word};

/// The registers of each instruction set that hold lanes of this word. A word alone is a vector of
/// one lane.
pub(crate) trait Registers: Word + Vector<Word = Self> {
    /// 128 bits.
    #[cfg(target_arch = "x86_64")]
    type Sse41: Vector<Word = Self>;
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Vector<Word = Self>;
    /// 256 bits, with what AVX-512 can do.
    #[cfg(target_arch = "x86_64")]
    type Avx512Half: Vector<Word = Self>;
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Vector<Word = Self>;
    /// 128 bits.
    #[cfg(target_arch = "aarch64")]
    type Neon: Vector<Word = Self>;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Registers for u32 {}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Registers for u64 {}
