//! The instruction sets that a program can ask for by name.

use core::fmt;
use core::str::FromStr;
#[cfg(target_arch = "aarch64")]
use std::arch::is_aarch64_feature_detected;
use std::sync::OnceLock;

use crate::algorithm::Algorithm;

/// The environment variable that forces a backend.
pub(crate) const VARIABLE: &str = "TABANE_SIMD";

/// An instruction set with kernels in this crate.
///
/// All of them exist on every platform; [`is_available`](Backend::is_available) says which ones
/// this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Plain Rust: available everywhere, and the reference for the others.
    Portable,
    /// SSE4.1: 4 messages at once.
    Sse41,
    /// AVX2: 8 messages at once.
    Avx2,
    /// AVX-512 F, BW and VL: 8, 16 or 32 messages at once.
    Avx512,
    /// The SHA instructions of x86-64: one message, or a few interleaved.
    ShaNi,
    /// NEON of aarch64: 4 messages at once, for MD5 up to 16.
    Neon,
    /// The SHA-1 and SHA-256 instructions of aarch64, a part of Arm's Cryptographic Extension: one
    /// message, or a few interleaved.
    ArmCe,
    /// The SHA-512 instructions of aarch64 (from Armv8.2 on): one message, or two interleaved.
    ArmSha512,
}

impl Backend {
    /// Every backend, available or not.
    pub const ALL: &[Backend] = &[
        Self::Portable,
        Self::Sse41,
        Self::Avx2,
        Self::Avx512,
        Self::ShaNi,
        Self::Neon,
        Self::ArmCe,
        Self::ArmSha512,
    ];

    /// The name as in `TABANE_SIMD`: `"portable"`, of x86-64 `"sse41"`, `"avx2"`, `"avx512"` and
    /// `"shani"`, of aarch64 `"neon"`, `"armce"` and `"armsha512"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Sse41 => "sse41",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::ShaNi => "shani",
            Self::Neon => "neon",
            Self::ArmCe => "armce",
            Self::ArmSha512 => "armsha512",
        }
    }

    /// Whether processors of the architecture for which this is compiled may have it.
    pub fn is_of_this_architecture(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Sse41 | Self::Avx2 | Self::Avx512 | Self::ShaNi => cfg!(target_arch = "x86_64"),
            Self::Neon | Self::ArmCe | Self::ArmSha512 => cfg!(target_arch = "aarch64"),
        }
    }

    /// Whether this processor, under this operating system, can run it.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Portable => true,
            Self::Sse41 => is_x86_feature_detected!("sse4.1"),
            Self::Avx2 => {
                // Every processor with AVX2 has BMI1 and BMI2, but a virtual machine may hide them.
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            }
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
            Self::ShaNi => is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1"),
            _ => false,
        };
        #[cfg(target_arch = "aarch64")]
        return match self {
            Self::Portable | Self::Neon => true,
            Self::ArmCe => is_aarch64_feature_detected!("sha2"),
            // Rust detects the instructions of SHA-512 and SHA-3 together.
            Self::ArmSha512 => is_aarch64_feature_detected!("sha3"),
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

    /// Whether the instruction set has kernels for the algorithm (it need not be available).
    pub fn supports(self, algorithm: Algorithm) -> bool {
        !(algorithm.entry().lane_kernels)(self).is_empty()
    }

    /// The backend that the environment variable `TABANE_SIMD` forces, if it is set and not empty.
    /// Read once.
    ///
    /// A program that can report errors calls this before it hashes:
    /// [`hash_many`](crate::hash_many) and
    /// [`hash_one`](crate::hash_one) panic with the same message.
    ///
    /// # Errors
    ///
    /// The variable names no backend, or one that this processor lacks. The message says which ones
    /// it has.
    pub fn forced() -> Result<Option<Backend>, BackendError> {
        static FORCED: OnceLock<Result<Option<Backend>, BackendError>> = OnceLock::new();
        FORCED
            .get_or_init(|| match std::env::var_os(VARIABLE) {
                Some(word) => Self::from_setting(&word.to_string_lossy()),
                None => Ok(None),
            })
            .clone()
    }

    /// The backend that a value of `TABANE_SIMD` selects on this processor; `None` if empty.
    ///
    /// # Errors
    ///
    /// As [`forced`](Backend::forced).
    pub fn from_setting(word: &str) -> Result<Option<Backend>, BackendError> {
        if word.is_empty() {
            return Ok(None);
        }
        let backend: Backend = word.parse()?;
        if backend.is_available() {
            Ok(Some(backend))
        } else {
            Err(BackendError::Unavailable(backend))
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    /// Reads a [`name`](Backend::name), whether or not the backend is available.
    fn from_str(word: &str) -> Result<Self, BackendError> {
        let found = Self::ALL.iter().find(|backend| backend.name() == word);
        found
            .copied()
            .ok_or_else(|| BackendError::Unknown(word.to_owned()))
    }
}

/// A backend that cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendError {
    /// No backend has this name.
    Unknown(String),
    /// The processor lacks the instruction set.
    Unavailable(Backend),
    /// The instruction set has no kernel for the algorithm.
    Unsupported(Backend, Algorithm),
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(word) => write!(f, "no SIMD backend is called {word:?}")?,
            Self::Unavailable(backend) => write!(f, "this processor lacks {backend}")?,
            Self::Unsupported(backend, algorithm) => {
                return write!(f, "{backend} has no kernel for {algorithm}");
            }
        }
        write!(f, "; it has:")?;
        Backend::available().try_for_each(|backend| write!(f, " {backend}"))?;
        write!(
            f,
            " (set {VARIABLE} to one of these, or unset it for the fastest)"
        )
    }
}

impl std::error::Error for BackendError {}
