//! The instruction sets with kernels for AES.

use core::fmt;
#[cfg(target_arch = "aarch64")]
use std::arch::is_aarch64_feature_detected;
use std::sync::OnceLock;

/// An instruction set with kernels for AES. Of one processor's, later ones are faster.
///
/// All of them exist on every platform; [`is_available`](Backend::is_available) says which ones
/// this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// Plain Rust, bitsliced: available everywhere, and the reference for the others.
    Portable,
    /// The AES instructions, with PCLMULQDQ: one block a register.
    AesNi,
    /// VAES and VPCLMULQDQ with AVX2: two blocks a register.
    Vaes256,
    /// VAES and VPCLMULQDQ with AVX-512 F, BW and VL: four blocks a register.
    Vaes,
    /// The AES and PMULL instructions of aarch64, a part of Arm's Cryptographic Extension: one
    /// block a register.
    ArmCe,
}

impl Backend {
    /// Every backend, available or not.
    pub const ALL: &[Backend] = &[
        Self::Portable,
        Self::AesNi,
        Self::Vaes256,
        Self::Vaes,
        Self::ArmCe,
    ];

    /// `"portable"`, `"aesni"`, `"vaes256"`, `"vaes"`, `"armce"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::AesNi => "aesni",
            Self::Vaes256 => "vaes256",
            Self::Vaes => "vaes",
            Self::ArmCe => "armce",
        }
    }

    /// Whether processors of the architecture for which this is compiled may have it.
    pub fn is_of_this_architecture(self) -> bool {
        match self {
            Self::Portable => true,
            Self::AesNi | Self::Vaes256 | Self::Vaes => cfg!(target_arch = "x86_64"),
            Self::ArmCe => cfg!(target_arch = "aarch64"),
        }
    }

    /// Whether this processor, under this operating system, can run it.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Portable => true,
            Self::AesNi => {
                is_x86_feature_detected!("aes")
                    && is_x86_feature_detected!("pclmulqdq")
                    && is_x86_feature_detected!("sse4.1")
            }
            Self::Vaes256 => {
                Self::AesNi.is_available()
                    && is_x86_feature_detected!("vaes")
                    && is_x86_feature_detected!("vpclmulqdq")
                    && is_x86_feature_detected!("avx2")
            }
            Self::Vaes => {
                Self::Vaes256.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
            _ => false,
        };
        #[cfg(target_arch = "aarch64")]
        return match self {
            Self::Portable => true,
            Self::ArmCe => {
                is_aarch64_feature_detected!("aes") && is_aarch64_feature_detected!("pmull")
            }
            _ => false,
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return matches!(self, Self::Portable);
    }

    /// The backends that this processor can run, [`Portable`](Backend::Portable) first.
    pub fn available() -> impl Iterator<Item = Backend> {
        Self::ALL
            .iter()
            .copied()
            .filter(|backend| backend.is_available())
    }

    /// The fastest that the processor has and that `TABANE_SIMD` allows: `portable` forces this
    /// one, `sse41` and `shani` allow the AES instructions, `avx2` those with 256 bits, `avx512`
    /// and what there is for aarch64 all.
    ///
    /// # Panics
    ///
    /// If `TABANE_SIMD` is wrong: see [`crate::Backend::forced`].
    pub fn fastest() -> Backend {
        static FASTEST: OnceLock<Backend> = OnceLock::new();
        *FASTEST.get_or_init(Self::fastest_allowed)
    }

    fn fastest_allowed() -> Backend {
        let most = match crate::Backend::forced() {
            Ok(Some(crate::Backend::Sse41 | crate::Backend::ShaNi)) => Self::AesNi,
            Ok(Some(crate::Backend::Avx2)) => Self::Vaes256,
            Ok(Some(crate::Backend::Portable)) => Self::Portable,
            Ok(_) => Self::ArmCe,
            Err(error) => panic!("TABANE_SIMD: {error}"),
        };
        Self::available()
            .filter(|&backend| backend <= most)
            .max()
            .unwrap_or(Self::Portable)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
