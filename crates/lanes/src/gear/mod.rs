//! The gear hash, which content-defined chunking looks at at every byte (Xia et al., *Ddelta*,
//! 2014; *FastCDC*, 2016).
//!
//! Over the [`WINDOW`] bytes `b` that end at a position it is `Σ table[b[31-k]] << k (mod 2³²)`, so
//! that it rolls: twice the hash before, plus the number of the new byte. Rolling is a chain, as a
//! hash of a message is; but since a hash depends on 32 bytes only, the chain can be entered
//! anywhere, and stretches of the same data go side by side:
//!
//! * `avx512`: sixteen stretches, where there is AVX-512 with VBMI, whose permutations hold the
//!   table in registers.
//! * Elsewhere four stretches in plain registers, by turns. Gathers from the table, eight at once,
//!   are no faster than one stretch by itself (Zen 5).

#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::backend::{Backend, BackendError, VARIABLE};

/// Bytes that a hash covers.
pub const WINDOW: usize = 32;

/// Stretches that are hashed in turns without vectors…
const STREAMS: usize = 4;

/// …and bytes in each stretch. Each stretch begins by hashing the window before it once more.
const STRETCH_BYTES: usize = 512;

/// A gear hash with its table.
#[derive(Clone)]
pub struct Gear {
    table: [u32; 256],
    /// The table's lowest bytes, the next ones, and so on, for [`avx512`], if that may run.
    #[cfg(target_arch = "x86_64")]
    planes: Option<[[u8; 256]; 4]>,
}

impl Gear {
    /// The hash of a table, which has a number for each byte.
    ///
    /// # Panics
    ///
    /// If the environment variable `TABANE_SIMD` is wrong: see [`Backend::forced`].
    pub fn new(table: [u32; 256]) -> Self {
        match Backend::forced() {
            Ok(forced) => Self::with(table, forced.unwrap_or(Backend::Avx512)),
            Err(error) => panic!("{VARIABLE}: {error}"),
        }
    }

    /// As [`Gear::new`], with the instructions of one backend, whatever `TABANE_SIMD` says. For
    /// tests and measurements.
    ///
    /// # Errors
    ///
    /// The processor lacks the backend.
    pub fn new_on(backend: Backend, table: [u32; 256]) -> Result<Self, BackendError> {
        if backend.is_available() {
            Ok(Self::with(table, backend))
        } else {
            Err(BackendError::Unavailable(backend))
        }
    }

    /// With the instructions of this backend as far as the processor has them.
    fn with(table: [u32; 256], backend: Backend) -> Self {
        #[cfg(not(target_arch = "x86_64"))]
        let _ = backend;
        Self {
            table,
            #[cfg(target_arch = "x86_64")]
            planes: (backend == Backend::Avx512 && avx512::is_available()).then(|| {
                core::array::from_fn(|plane| table.map(|number| number.to_le_bytes()[plane]))
            }),
        }
    }

    /// The number of each byte.
    pub fn table(&self) -> &[u32; 256] {
        &self.table
    }

    /// The first position of `data`, not before `from`, at which the hash is below `limit`.
    ///
    /// # Panics
    ///
    /// If `from` is less than [`WINDOW`] or beyond the end.
    pub fn first_below(&self, data: &[u8], from: usize, limit: u32) -> Option<usize> {
        assert!((WINDOW..=data.len()).contains(&from), "no window before it");
        let near = self.rule_out(data, from, limit);
        let mut hash = self.warm(data, near);
        let below = |&byte: &u8| {
            hash = self.roll(hash, byte);
            hash < limit
        };
        Some(near + data[near..].iter().position(below)?)
    }

    /// A position before which the hash is nowhere below `limit`, and behind which either it soon
    /// is, or not much is left.
    fn rule_out(&self, data: &[u8], mut from: usize, limit: u32) -> usize {
        #[cfg(target_arch = "x86_64")]
        if let Some(planes) = &self.planes {
            // SAFETY: there are planes only where the processor has the instructions; there is a
            // window before `from`.
            return unsafe { avx512::rule_out(planes, data, from, limit) };
        }
        while let Some((stretches, _)) =
            data[from..].split_first_chunk::<{ STREAMS * STRETCH_BYTES }>()
        {
            let (stretches, _) = stretches.as_chunks::<STRETCH_BYTES>();
            let mut hashes: [u32; STREAMS] =
                core::array::from_fn(|stream| self.warm(data, from + stream * STRETCH_BYTES));
            for at in 0..STRETCH_BYTES {
                let mut below = false;
                for (hash, stretch) in hashes.iter_mut().zip(stretches) {
                    *hash = in_plain_register(self.roll(*hash, stretch[at]));
                    below |= *hash < limit;
                }
                if below {
                    return from;
                }
            }
            from += STREAMS * STRETCH_BYTES;
        }
        from
    }

    /// The hash of the window before a position.
    #[inline(always)]
    fn warm(&self, data: &[u8], at: usize) -> u32 {
        let window = &data[at - WINDOW..at];
        window.iter().fold(0, |hash, &byte| self.roll(hash, byte))
    }

    #[inline(always)]
    fn roll(&self, hash: u32, byte: u8) -> u32 {
        (hash << 1).wrapping_add(self.table[usize::from(byte)])
    }
}

/// The value itself. Compilers for aarch64 would else gather the streams into a vector register,
/// which takes 1.5 times as many cycles on Neoverse V1 and V2, and 1.8 times on N1 (llvm-mca).
#[inline(always)]
fn in_plain_register(value: u32) -> u32 {
    #[cfg(target_arch = "aarch64")]
    {
        let mut value = value;
        // SAFETY: no instruction at all; the value stays what it is.
        unsafe {
            core::arch::asm!("/* {0:w} */", inout(reg) value,
                options(pure, nomem, nostack, preserves_flags));
        }
        value
    }
    #[cfg(not(target_arch = "aarch64"))]
    value
}

impl core::fmt::Debug for Gear {
    /// Omits the table, which may be secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gear").finish_non_exhaustive()
    }
}
