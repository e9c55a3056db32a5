//! Exclusive or of many buffers into one, in one pass: every source is read once, the result
//! written once.

use crate::backend::{Backend, BackendError, VARIABLE};
use crate::prefetch::prefetch;

/// Distance of prefetching in bytes when two sums are computed in turns.
const AHEAD_BYTES: usize = 1024;

/// Sets `into` to the exclusive or of all buffers in `from`; to zeros if `from` is empty.
///
/// # Panics
///
/// If a source is shorter than `into`, or if the environment variable `TABANE_SIMD` is wrong: see
/// [`Backend::forced`].
pub fn xor_of(into: &mut [u8], from: &[&[u8]]) {
    chosen().run(into, from, Keep::Nothing);
}

/// Combines `into` with all buffers in `from` by exclusive or.
///
/// # Panics
///
/// As [`xor_of`].
pub fn xor_into(into: &mut [u8], from: &[&[u8]]) {
    chosen().run(into, from, Keep::Before);
}

/// A buffer, and the buffers whose exclusive or it receives.
pub struct Sum<'a> {
    /// The buffer that receives the sum.
    pub into: &'a mut [u8],
    /// Buffers that are at least as long.
    pub from: &'a [&'a [u8]],
}

/// As [`xor_of`] for two sums, in alternating pieces: while the sources of `distant` arrive from
/// memory, those of `near`, which should be in the cache, are added up.
///
/// # Panics
///
/// As [`xor_of`].
pub fn xor_of_both(distant: Sum<'_>, near: Sum<'_>) {
    chosen().run_both(distant, near);
}

/// As [`xor_of_both`], as [`xor_of_on`].
///
/// # Errors
///
/// As [`xor_of_on`].
///
/// # Panics
///
/// As [`xor_of_on`].
pub fn xor_of_both_on(
    backend: Backend,
    distant: Sum<'_>,
    near: Sum<'_>,
) -> Result<(), BackendError> {
    if !backend.is_available() {
        return Err(BackendError::Unavailable(backend));
    }
    Width::of(backend).run_both(distant, near);
    Ok(())
}

/// As [`xor_of`], with the instructions of one backend, whatever `TABANE_SIMD` says. For tests and
/// measurements.
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

/// Part of `into` in the result.
#[derive(Clone, Copy)]
enum Keep {
    Nothing,
    Before,
}

/// The registers that are used. A value other than `Baseline` exists only where the processor has
/// them.
#[derive(Clone, Copy)]
enum Width {
    /// Registers that every processor of the architecture has.
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

    fn run_both(self, distant: Sum<'_>, near: Sum<'_>) {
        match self {
            Self::Baseline => both::<128>(distant, near),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value says that the processor has the instruction set.
            Self::Avx2 => unsafe { both_avx2(distant, near) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value says that the processor has the instruction set.
            Self::Avx512 => unsafe { both_avx512(distant, near) },
        }
    }
}

/// The width that `TABANE_SIMD` forces, else the widest.
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn both_avx2(distant: Sum<'_>, near: Sum<'_>) {
    both::<256>(distant, near);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn both_avx512(distant: Sum<'_>, near: Sum<'_>) {
    both::<512>(distant, near);
}

/// Inlined, so that the caller says which registers are used.
#[inline(always)]
fn sum<const CHUNK: usize>(into: &mut [u8], from: &[&[u8]], keep: Keep) {
    check_lengths(into, from);
    let (chunks, rest) = into.as_chunks_mut::<CHUNK>();
    let start_of_rest = chunks.len() * CHUNK;
    for (number, chunk) in chunks.iter_mut().enumerate() {
        sum_chunk(chunk, from, number, keep, |_| {});
    }
    sum_rest(rest, from, start_of_rest, keep);
}

#[inline(always)]
fn both<const CHUNK: usize>(distant: Sum<'_>, near: Sum<'_>) {
    check_lengths(distant.into, distant.from);
    check_lengths(near.into, near.from);
    let (distant_chunks, distant_rest) = distant.into.as_chunks_mut::<CHUNK>();
    let (near_chunks, near_rest) = near.into.as_chunks_mut::<CHUNK>();
    let starts_of_rests = [distant_chunks.len(), near_chunks.len()].map(|chunks| chunks * CHUNK);
    let ask = |chunk: &[u8; CHUNK]| {
        for line in (0..CHUNK).step_by(64) {
            prefetch(chunk.as_ptr().wrapping_add(AHEAD_BYTES + line));
        }
    };
    let (mut distant_chunks, mut near_chunks) = (distant_chunks.iter_mut(), near_chunks.iter_mut());
    for number in 0.. {
        let (distant_chunk, near_chunk) = (distant_chunks.next(), near_chunks.next());
        if distant_chunk.is_none() && near_chunk.is_none() {
            break;
        }
        if let Some(chunk) = distant_chunk {
            sum_chunk(chunk, distant.from, number, Keep::Nothing, ask);
        }
        if let Some(chunk) = near_chunk {
            sum_chunk(chunk, near.from, number, Keep::Nothing, |_| {});
        }
    }
    sum_rest(
        distant_rest,
        distant.from,
        starts_of_rests[0],
        Keep::Nothing,
    );
    sum_rest(near_rest, near.from, starts_of_rests[1], Keep::Nothing);
}

fn check_lengths(into: &[u8], from: &[&[u8]]) {
    for source in from {
        assert!(source.len() >= into.len(), "a source is too short");
    }
}

/// The sum of `CHUNK` bytes of every source stays in registers, eight of them: compilers make it
/// so, and as fast as intrinsics do. `meet` sees each of them.
#[inline(always)]
fn sum_chunk<const CHUNK: usize>(
    into: &mut [u8; CHUNK],
    from: &[&[u8]],
    number: usize,
    keep: Keep,
    meet: impl Fn(&[u8; CHUNK]),
) {
    let mut sum = match keep {
        Keep::Nothing => [0; CHUNK],
        Keep::Before => *into,
    };
    for source in from {
        let source: &[u8; CHUNK] = source[number * CHUNK..]
            .first_chunk()
            .expect("as long as `into`");
        meet(source);
        for (sum, byte) in sum.iter_mut().zip(source) {
            *sum ^= byte;
        }
    }
    *into = sum;
}

/// Sums the bytes behind the last whole chunk.
fn sum_rest(into: &mut [u8], from: &[&[u8]], start: usize, keep: Keep) {
    if let Keep::Nothing = keep {
        into.fill(0);
    }
    for source in from {
        for (sum, byte) in into.iter_mut().zip(&source[start..]) {
            *sum ^= byte;
        }
    }
}
