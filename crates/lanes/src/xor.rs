//! Exclusive or of many buffers into one, in one pass: every source is read once, the result written once.

use crate::backend::{Backend, BackendError, VARIABLE};

/// Sets `into` to the exclusive or of all of `from`; to zeros where there are none.
///
/// # Panics
///
/// If a source is shorter than `into`, or if the environment variable `TABANE_SIMD` is wrong: see
/// [`Backend::forced`].
pub fn xor_of(into: &mut [u8], from: &[&[u8]]) {
    chosen().run(into, from, Keep::Nothing);
}

/// Changes `into` by the exclusive or with all of `from`.
///
/// # Panics
///
/// As [`xor_of`].
pub fn xor_into(into: &mut [u8], from: &[&[u8]]) {
    chosen().run(into, from, Keep::Before);
}

/// As [`xor_of`], with the instructions of one backend, whatever `TABANE_SIMD` says. For tests and measurements.
///
/// # Errors
///
/// The processor lacks the backend.
///
/// # Panics
///
/// If a source is shorter than `into`.
pub fn xor_of_on(backend: Backend, into: &mut [u8], from: &[&[u8]]) -> Result<(), BackendError> {
    if !backend.is_available() {
        return Err(BackendError::Unavailable(backend));
    }
    Width::of(backend).run(into, from, Keep::Nothing);
    Ok(())
}

/// As [`xor_into`], as [`xor_of_on`].
///
/// # Errors
///
/// As [`xor_of_on`].
///
/// # Panics
///
/// As [`xor_of_on`].
pub fn xor_into_on(backend: Backend, into: &mut [u8], from: &[&[u8]]) -> Result<(), BackendError> {
    if !backend.is_available() {
        return Err(BackendError::Unavailable(backend));
    }
    Width::of(backend).run(into, from, Keep::Before);
    Ok(())
}

/// What of `into` goes into the result.
#[derive(Clone, Copy)]
enum Keep {
    Nothing,
    Before,
}

/// The registers that are used. A value other than `Baseline` exists only where the processor has them.
#[derive(Clone, Copy)]
enum Width {
    /// Those that every processor of the architecture has.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Width {
    /// For a backend that is available.
    fn of(backend: Backend) -> Self {
        match backend {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => Self::Avx2,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => Self::Avx512,
            _ => Self::Baseline,
        }
    }

    fn run(self, into: &mut [u8], from: &[&[u8]], keep: Keep) {
        match self {
            Self::Baseline => sum::<128>(into, from, keep),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value says that the processor has the instruction set.
            Self::Avx2 => unsafe { sum_avx2(into, from, keep) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value says that the processor has the instruction set.
            Self::Avx512 => unsafe { sum_avx512(into, from, keep) },
        }
    }
}

/// What `TABANE_SIMD` forces, else the widest.
fn chosen() -> Width {
    match Backend::forced() {
        Ok(Some(backend)) => Width::of(backend),
        Ok(None) => {
            let wide = [Backend::Avx512, Backend::Avx2];
            let wide = wide.into_iter().find(|backend| backend.is_available());
            wide.map_or(Width::Baseline, Width::of)
        }
        Err(error) => panic!("{VARIABLE}: {error}"),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(into: &mut [u8], from: &[&[u8]], keep: Keep) {
    sum::<256>(into, from, keep);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn sum_avx512(into: &mut [u8], from: &[&[u8]], keep: Keep) {
    sum::<512>(into, from, keep);
}

/// The sum of `CHUNK` bytes of every source stays in registers, eight of them: compilers make it so, and as fast as
/// intrinsics do. Inlined, so that the caller says which registers these are.
#[inline(always)]
fn sum<const CHUNK: usize>(into: &mut [u8], from: &[&[u8]], keep: Keep) {
    for source in from {
        assert!(source.len() >= into.len(), "a source is too short");
    }
    let (chunks, rest) = into.as_chunks_mut::<CHUNK>();
    let start_of_rest = chunks.len() * CHUNK;
    for (number, chunk) in chunks.iter_mut().enumerate() {
        let mut sum = match keep {
            Keep::Nothing => [0; CHUNK],
            Keep::Before => *chunk,
        };
        for source in from {
            let source: &[u8; CHUNK] = source[number * CHUNK..]
                .first_chunk()
                .expect("as long as `into`");
            for (sum, byte) in sum.iter_mut().zip(source) {
                *sum ^= byte;
            }
        }
        *chunk = sum;
    }
    if let Keep::Nothing = keep {
        rest.fill(0);
    }
    for source in from {
        for (sum, byte) in rest.iter_mut().zip(&source[start_of_rest..]) {
            *sum ^= byte;
        }
    }
}
