//! Sixteen stretches of the data at once, one in each lane of 32 bits.
//!
//! A permutation of two registers (VBMI) looks 64 bytes up in 128 others. So the table, cut into
//! four planes of bytes, stays in sixteen registers, and 64 look-ups take eight permutations. The
//! bytes that they take lie such that putting the four planes together again leaves those of one
//! step in one register.

use core::arch::x86_64::*;

use super::WINDOW;

/// Stretches side by side.
const LANES: usize = 16;

/// Bytes of each lane that are loaded at once.
const STEP_BYTES: usize = 16;

/// The longest stretch in bytes. Each hashes the window before it once more, so longer ones waste
/// less; shorter ones waste less behind a hit, and are all in the first cache together. 256 and 512
/// are about the same (Zen 5).
const STRETCH_BYTES: usize = 256;

/// Whether the processor has the instructions.
pub(super) fn is_available() -> bool {
    crate::Backend::Avx512.is_available() && is_x86_feature_detected!("avx512vbmi")
}

/// As [`super::Gear::rule_out`].
///
/// # Safety
///
/// The processor has the instructions, and there is a window before `from`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn rule_out(
    planes: &[[u8; 256]; 4],
    data: &[u8],
    mut from: usize,
    limit: u32,
) -> usize {
    let planes = planes.each_ref().map(|plane| load_plane(plane));
    let limit = _mm512_set1_epi32(limit as i32);
    loop {
        let stretch = STRETCH_BYTES.min((data.len() - from) / LANES / STEP_BYTES * STEP_BYTES);
        if stretch == 0 {
            return from;
        }
        let window = data.as_ptr().wrapping_add(from - WINDOW);
        let mut hashes = _mm512_setzero_si512();
        for at in (0..WINDOW).step_by(STEP_BYTES) {
            // SAFETY: a lane ends within the data, and its window begins within it.
            for numbers in unsafe { numbers(&planes, window.add(at), stretch) } {
                hashes = roll(hashes, numbers);
            }
        }
        let mut least = _mm512_set1_epi32(-1);
        for at in (WINDOW..WINDOW + stretch).step_by(STEP_BYTES) {
            if at % 64 == 0 {
                for lane in LANES..2 * LANES {
                    crate::prefetch::prefetch(window.wrapping_add(lane * stretch + at));
                }
            }
            // SAFETY: each lane's stretch and the window before it lie within the data.
            for numbers in unsafe { numbers(&planes, window.add(at), stretch) } {
                hashes = roll(hashes, numbers);
                least = _mm512_min_epu32(least, hashes);
            }
        }
        let below = _mm512_cmplt_epu32_mask(least, limit);
        if below != 0 {
            return from + below.trailing_zeros() as usize * stretch;
        }
        from += LANES * stretch;
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn roll(hashes: __m512i, numbers: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_add_epi32(hashes, hashes), numbers)
}

/// The table's numbers for the next [`STEP_BYTES`] bytes of each lane, a register a byte. Lanes are
/// `stretch` bytes apart.
///
/// # Safety
///
/// Those bytes are readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn numbers(
    planes: &[[__m512i; 4]; 4],
    bytes: *const u8,
    stretch: usize,
) -> [__m512i; STEP_BYTES] {
    // Lanes 0, 4, 8 and 12 in the four parts of a register, 1, 5, 9 and 13 in the next…
    let rows: [__m512i; 4] = core::array::from_fn(|row| {
        // SAFETY: the caller's.
        let lane =
            |part: usize| unsafe { _mm_loadu_si128(bytes.add((4 * part + row) * stretch).cast()) };
        let register = _mm512_castsi128_si512(lane(0));
        let register = _mm512_mask_broadcast_i32x4(register, 0x00f0, lane(1));
        let register = _mm512_mask_broadcast_i32x4(register, 0x0f00, lane(2));
        _mm512_mask_broadcast_i32x4(register, 0xf000, lane(3))
    });
    // …so that in each part the first bytes of its four lanes come first, then their second ones,
    // up to the fourth.
    let even = interleave_bytes(rows[0], rows[2]);
    let odd = interleave_bytes(rows[1], rows[3]);
    let [first, second] = interleave_bytes(even[0], odd[0]);
    let [third, fourth] = interleave_bytes(even[1], odd[1]);
    let mut all = [_mm512_setzero_si512(); STEP_BYTES];
    for (four, bytes) in all
        .as_chunks_mut::<4>()
        .0
        .iter_mut()
        .zip([first, second, third, fourth])
    {
        let high = _mm512_movepi8_mask(bytes);
        let looked_up = planes.map(|plane| {
            let below = _mm512_permutex2var_epi8(plane[0], bytes, plane[1]);
            let above = _mm512_permutex2var_epi8(plane[2], bytes, plane[3]);
            _mm512_mask_blend_epi8(high, below, above)
        });
        let low = interleave_bytes(looked_up[0], looked_up[1]);
        let high = interleave_bytes(looked_up[2], looked_up[3]);
        *four = [
            _mm512_unpacklo_epi16(low[0], high[0]),
            _mm512_unpackhi_epi16(low[0], high[0]),
            _mm512_unpacklo_epi16(low[1], high[1]),
            _mm512_unpackhi_epi16(low[1], high[1]),
        ];
    }
    all
}

/// Interleaves the bytes of `a` and `b` in each part of 16 bytes: the first eight, and the last
/// eight.
#[inline]
#[target_feature(enable = "avx512bw")]
fn interleave_bytes(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)]
}

#[target_feature(enable = "avx512f")]
fn load_plane(plane: &[u8; 256]) -> [__m512i; 4] {
    // SAFETY: four registers, unaligned.
    core::array::from_fn(|quarter| unsafe {
        _mm512_loadu_si512(plane.as_ptr().add(64 * quarter).cast())
    })
}
