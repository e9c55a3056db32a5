//! The widths of vector registers.

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
